//! Recovery after `kill -9`: acknowledged prompts and answers are stored, pending requests are pending or finished, and every
//! prompt has one outcome.

use std::collections::{BTreeMap, BTreeSet};

use baton_testkit::chat::Chat;
use baton_testkit::client::{Client, event_of};
use baton_testkit::program::{Program, Running};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scripted;

const SESSION: &str = "survivor";
const ROUNDS: u64 = 25;

const PROMPTS: [&str; 5] = [
    "[[text:just words]]",
    r#"[[tool:bash {"command":"true"}]]"#,
    r#"[[tool:lookup {"n":1}]]"#,
    r#"[[tools:lookup {"n":2};;bash {"command":"true"};;lookup {"n":3}]][[text:all done]]"#,
    "[[sleep:20]][[text:slow words]]",
];

fn with_tool(mut params: Value) -> Value {
    params["tools"] =
        json!([{"name": "lookup", "description": "looks up", "parameters": {"type": "object"}}]);
    params
}

/// Prompts and answers that the server has acknowledged.
#[derive(Default)]
struct Acknowledged {
    prompts: BTreeSet<String>,
    answers: BTreeSet<String>,
}

/// A client that sends prompts and answers every request, until the connection ends.
struct Driver<'a> {
    client: &'a Client,
    /// Ids of open calls: prompts, and answers with the request that they answer.
    prompts: BTreeSet<u64>,
    answers: BTreeMap<u64, String>,
    next: usize,
}

impl<'a> Driver<'a> {
    fn new(client: &'a Client, round: u64) -> Self {
        Self { client, prompts: BTreeSet::new(), answers: BTreeMap::new(), next: round as usize }
    }

    async fn prompt(&mut self) {
        let params = json!({"sessionId": SESSION, "prompt": PROMPTS[self.next % PROMPTS.len()]});
        self.next += 1;
        self.prompts.insert(self.client.start("session.send", params).await);
    }

    async fn answer(&mut self, event: &Value) {
        let request = event["data"]["requestId"].as_str().unwrap().to_owned();
        let (method, result) = if event["type"] == "permission.requested" {
            ("session.permissions.handlePendingPermissionRequest", json!({"kind": "approve-once"}))
        } else {
            ("session.tools.handlePendingToolCall", json!("found"))
        };
        let params = json!({"sessionId": SESSION, "requestId": request, "result": result});
        self.answers.insert(self.client.start(method, params).await, request);
    }

    /// Keeps two prompts running or queued until the connection ends.
    async fn drive(&mut self) {
        self.prompt().await;
        self.prompt().await;
        let mut at = 0;
        while self.client.more_than(at).await {
            for frame in &self.client.frames()[at..] {
                at += 1;
                let Some(event) = event_of(frame, SESSION) else { continue };
                match event["type"].as_str().unwrap() {
                    "permission.requested" | "external_tool.requested" => self.answer(event).await,
                    "session.idle" => {
                        self.prompt().await;
                        self.prompt().await;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Collects the acknowledgements that arrived.
    fn acknowledged(&self, into: &mut Acknowledged) {
        for frame in self.client.frames() {
            let Some(id) = frame["id"].as_u64().filter(|_| frame.get("method").is_none()) else { continue };
            if self.prompts.contains(&id) {
                let message = frame["result"]["messageId"].as_str();
                into.prompts.extend(message.map(str::to_owned));
            }
            if frame["result"]["success"] == true {
                into.answers.extend(self.answers.get(&id).cloned());
            }
        }
    }
}

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[tokio::test]
async fn acknowledged_prompts_and_answers_survive_kill_at_any_moment() {
    let (program, _model) = scripted().await;
    let (mut dice, mut acknowledged) = (Dice(7), Acknowledged::default());
    for round in 0..ROUNDS {
        let mut server = program.serve().await;
        let client = server.connect().await;
        if round == 0 {
            Chat::create(&client, with_tool(json!({"sessionId": SESSION}))).await;
        } else {
            let continue_pending = dice.roll(2) == 0;
            let chat =
                Chat::resume(&client, SESSION, with_tool(json!({"continuePendingWork": continue_pending})))
                    .await;
            check_survived(&chat, &mut acknowledged, continue_pending).await;
        }
        let mut driver = Driver::new(&client, round);
        // Counted in frames, not in milliseconds: a busy machine gets as far as an idle one.
        let last_frame = client.count() + dice.roll(60) as usize;
        let die = async {
            client.more_than(last_frame).await;
            server.signal(Signal::KILL);
        };
        tokio::join!(driver.drive(), die);
        driver.acknowledged(&mut acknowledged);
        server.ended().await;
    }
    let prompts = acknowledged.prompts.len();
    assert!(
        prompts > ROUNDS as usize && acknowledged.answers.len() > 10,
        "too little was acknowledged: {prompts}"
    );
    println!("{ROUNDS} crashes, {prompts} prompts and {} answers acknowledged", acknowledged.answers.len());
    settle_and_check(&program, &acknowledged).await;
}

/// Checks the session right after a crash.
async fn check_survived(chat: &Chat<'_>, acknowledged: &mut Acknowledged, continue_pending: bool) {
    // The queue first: prompts move from there to the history, never back.
    let queue = chat.ok("session.queue.pendingItems", json!({})).await;
    let history = chat.history().await;
    check_chain(&history);
    let queued = queue["items"].as_array().unwrap().iter().filter_map(|item| item["id"].as_str());
    let recorded = history.iter().filter_map(|event| event["data"]["messageId"].as_str());
    let known: BTreeSet<&str> = queued.chain(recorded).collect();
    for prompt in &acknowledged.prompts {
        assert!(known.contains(prompt.as_str()), "acknowledged prompt {prompt} is lost");
    }
    let (mut open, mut closed) = (BTreeMap::new(), BTreeSet::new());
    for event in &history {
        let request = event["data"]["requestId"].as_str().unwrap_or_default();
        match event["type"].as_str().unwrap() {
            "permission.requested" | "external_tool.requested" => drop(open.insert(request, event)),
            "permission.completed" | "external_tool.completed" => drop(closed.insert(request)),
            _ => {}
        }
    }
    for answer in &acknowledged.answers {
        assert!(closed.contains(answer.as_str()), "acknowledged answer to {answer} is lost");
    }
    open.retain(|request, _| !closed.contains(request));
    assert!(
        continue_pending || open.is_empty(),
        "requests are pending although work was not continued: {open:?}"
    );
    for (request, event) in open {
        let mut answering = Driver::new(chat.client, 0);
        answering.answer(event).await;
        let (call, _) = answering.answers.iter().next().unwrap();
        let counted = chat.client.answer(*call).await.unwrap();
        assert_eq!(counted["success"], true, "pending request {request} cannot be answered");
        acknowledged.answers.insert(request.to_owned());
    }
}

fn check_chain(history: &[Value]) {
    let mut parent = &Value::Null;
    let mut ids = BTreeSet::new();
    for event in history {
        assert_eq!(&event["parentId"], parent, "the parent of {event}");
        parent = &event["id"];
        assert!(ids.insert(parent.as_str().unwrap()), "{parent} is there twice");
    }
    assert_eq!(history[0]["type"], "session.start");
}

/// Ends all work, and checks the whole history.
async fn settle_and_check(program: &Program, acknowledged: &Acknowledged) {
    let mut server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::resume(&client, SESSION, with_tool(json!({"continuePendingWork": false}))).await;
    chat.assert_usable().await;
    assert!(server.stop().await.success());
    let exported = program.run(&["sessions", "export", SESSION]).await;
    let events = exported.json_lines();
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    let accepted = events.iter().filter(|event| event["type"] == "baton.prompt_accepted");
    outcomes.extend(accepted.map(|event| (event["data"]["promptId"].as_str().unwrap(), 0)));
    for event in events.iter().filter(|event| event["type"] == "baton.turn_settled") {
        for prompt in event["data"]["promptIds"].as_array().unwrap() {
            *outcomes.get_mut(prompt.as_str().unwrap()).expect("an accepted prompt") += 1;
        }
    }
    assert!(outcomes.values().all(|count| *count == 1), "every prompt has one outcome: {outcomes:?}");
    for prompt in &acknowledged.prompts {
        assert!(outcomes.contains_key(prompt.as_str()), "acknowledged prompt {prompt} is lost");
    }
    for (begin, end, name) in [
        ("tool.execution_start", "tool.execution_complete", "toolCallId"),
        ("permission.requested", "permission.completed", "requestId"),
        ("external_tool.requested", "external_tool.completed", "requestId"),
    ] {
        let of = |kind: &str| -> Vec<&str> {
            let names =
                events.iter().filter(|e| e["type"] == kind).map(|e| e["data"][name].as_str().unwrap());
            let mut names: Vec<&str> = names.collect();
            names.sort_unstable();
            names
        };
        assert_eq!(of(begin), of(end), "every {begin} has one {end}");
    }
}

/// Leaves a session with a pending request, in a server that is then ended by a signal.
async fn leave_pending(program: &Program, prompt: &str, kind: &str, end: Signal) -> Value {
    let mut server = program.serve().await;
    let client = server.connect().await;
    let params = json!({"sessionId": SESSION, "requestUserInput": true, "requestExitPlanMode": true});
    let chat = Chat::create(&client, with_tool(params)).await;
    chat.ok("session.mode.set", json!({"mode": "plan"})).await;
    chat.send(prompt).await;
    let (_, event) = chat.event(kind, 0).await;
    server.signal(end);
    server.ended().await;
    event["data"].clone()
}

async fn resume(program: &Program, continue_pending: bool) -> (Running, Client) {
    let server = program.serve().await;
    let client = server.connect().await;
    let params = json!({"continuePendingWork": continue_pending, "requestUserInput": true, "requestExitPlanMode": true});
    Chat::resume(&client, SESSION, with_tool(params)).await;
    (server, client)
}

const PENDING: [(&str, &str, &str); 4] = [
    (r#"[[tool:bash {"command":"echo ran"}]]"#, "permission.requested", "ran"),
    (r#"[[tool:lookup {"n":1}]]"#, "permission.requested", "found"),
    (r#"[[tool:ask_user {"question":"which?"}]]"#, "user_input.requested", "User responded: this"),
    (r#"[[tool:exit_plan_mode {"summary":"do it"}]]"#, "exit_plan_mode.requested", "Plan approved!"),
];

#[tokio::test]
async fn pending_request_keeps_its_id_and_is_answered_after_a_crash() {
    for end in [Signal::KILL, Signal::TERM] {
        for (prompt, kind, expected) in PENDING {
            let (program, model) = scripted().await;
            let pending = leave_pending(&program, prompt, kind, end).await;
            let (_server, client) = resume(&program, true).await;
            let chat = Chat { client: &client, id: SESSION.into() };
            let request = &pending["requestId"];
            let (method, field, answer) = match kind {
                "permission.requested" => {
                    let items = chat.ok("session.permissions.pendingRequests", json!({})).await;
                    assert_eq!(&items["items"][0]["requestId"], request, "{prompt}: {items}");
                    let answer = json!({"kind": "approve-once"});
                    ("session.permissions.handlePendingPermissionRequest", "result", answer)
                }
                "exit_plan_mode.requested" => {
                    ("session.ui.handlePendingExitPlanMode", "response", json!({"approved": true}))
                }
                _ => {
                    let answer = json!({"answer": "this", "wasFreeform": true});
                    ("session.ui.handlePendingUserInput", "response", answer)
                }
            };
            let answered = chat.ok(method, json!({"requestId": request, field: answer})).await;
            assert_eq!(answered["success"], true, "{prompt}");
            if expected == "found" {
                let (_, call) = chat.event("external_tool.requested", 0).await;
                let answer = json!({"requestId": call["data"]["requestId"], "result": "found"});
                chat.ok("session.tools.handlePendingToolCall", answer).await;
            }
            let turn = chat.until_idle(0).await;
            assert!(turn.text().contains(expected), "{prompt} after {end:?}: {:?}", turn.text());
            let rounds = model.requests().iter().filter(|r| r.path.ends_with("completions")).count();
            assert_eq!(rounds, 2, "one model request before the crash, and one after it");
        }
    }
}

#[tokio::test]
async fn pending_request_is_closed_when_work_is_not_continued() {
    for (prompt, kind, _) in PENDING {
        let (program, model) = scripted().await;
        let pending = leave_pending(&program, prompt, kind, Signal::KILL).await;
        let (_server, client) = resume(&program, false).await;
        let chat = Chat { client: &client, id: SESSION.into() };
        assert_eq!(chat.ok("session.permissions.pendingRequests", json!({})).await["items"], json!([]));
        let answer = json!({"requestId": pending["requestId"], "result": {"kind": "approve-once"}});
        let late = chat.ok("session.permissions.handlePendingPermissionRequest", answer).await;
        assert_eq!(late["success"], false, "{prompt}");
        assert_eq!(
            model.requests().iter().filter(|r| r.path.ends_with("completions")).count(),
            1,
            "no work continues"
        );
        chat.assert_usable().await;
        let asked = model.requests().pop().unwrap().body["messages"].to_string();
        assert!(asked.contains("interrupted"), "the result of the call is reported to the model: {asked}");
    }
}
