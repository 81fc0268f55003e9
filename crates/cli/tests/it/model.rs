//! A model that misbehaves: one clear error or result each, one outcome for each turn, and the session goes on.

use baton_testkit::chat::{Chat, Turn};
use baton_testkit::model_server::{Action, End, ModelServer, Reply};
use baton_testkit::program::Program;
use serde_json::{Value, json};

use crate::scripted;

/// The outcomes of all prompts of a session, from an export: what the history says, whatever clients were shown.
async fn outcomes(program: &Program, session: &str) -> Vec<String> {
    let exported = program.run(&["sessions", "export", session]).await;
    assert_eq!(exported.code(), Some(0), "{}", exported.stderr);
    let events = exported.json_lines();
    let accepted = events.iter().filter(|e| e["type"] == "baton.prompt_accepted");
    let settled: Vec<&Value> = events.iter().filter(|e| e["type"] == "baton.turn_settled").collect();
    let ends = accepted.map(|event| {
        let id = &event["data"]["promptId"];
        let of_it = |e: &&&Value| e["data"]["promptIds"].as_array().unwrap().contains(id);
        let ends: Vec<&&Value> = settled.iter().filter(of_it).collect();
        assert_eq!(ends.len(), 1, "the prompt {id} has {} outcomes", ends.len());
        assert!(ends[0]["data"]["reason"].as_str().is_some_and(|reason| reason.len() > 5), "{}", ends[0]);
        ends[0]["data"]["outcome"].as_str().unwrap().to_owned()
    });
    ends.collect()
}

/// One error with these words, and no answer.
fn check_failed(turn: &Turn, expected: &str) {
    let errors = turn.errors();
    assert_eq!(errors.len(), 1, "one error, not {errors:?} in {:?}", turn.kinds());
    assert!(errors[0].to_lowercase().contains(&expected.to_lowercase()), "{expected:?} is not in {errors:?}");
    assert!(turn.of("assistant.message").is_empty(), "{turn:?}");
    assert_eq!(turn.of("session.idle").len(), 1);
}

#[tokio::test]
async fn a_model_that_cannot_be_used_fails_the_turn_with_one_clear_error() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    for streaming in [false, true] {
        let chat = Chat::create(&client, json!({"streaming": streaming})).await;
        let mut prompts = 0;
        if !streaming {
            check_failed(&chat.turn("[[truncate]]").await, "sent something else than");
            prompts += 1;
        }
        for (script, expected) in [
            ("[[garbage]]", "sent something else than"),
            ("[[html]]", "web page"),
            ("[[error:401]]", "401"),
            ("[[error:403]]", "403"),
            ("[[error:404]]", "404"),
            ("[[error:400]]", "400"),
            ("[[error:429:retry=600]]", "429"),
            ("[[error:500:retry=600]]", "500"),
        ] {
            check_failed(&chat.turn(script).await, expected);
            prompts += 1;
        }
        chat.assert_usable().await;
        chat.ok("session.destroy", json!({})).await;
        let mut expected = vec!["failed"; prompts];
        expected.push("completed");
        assert_eq!(outcomes(&program, &chat.id).await, expected);
    }
}

#[tokio::test]
async fn a_model_that_fails_for_a_moment_is_asked_again() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let failures = ["error:500*1", "error:429*1:retry=0", "drop*1", "reset*1"];
    let try_one = async |failure: &str, streaming: bool| {
        let chat = Chat::create(&client, json!({"streaming": streaming})).await;
        // The model counts its failures by prompt: no two conversations may share one.
        let turn = chat.turn(&format!("[[{failure}]][[text:at last]] streaming: {streaming}")).await;
        assert_eq!((turn.text(), turn.errors().len()), ("at last", 0), "{failure}: {:?}", turn.kinds());
        // A connection that is reset before the answer begins may be tried again below us, without a word.
        let told = turn.of("model.call_failure").len();
        assert!(told == 1 || (told == 0 && failure.starts_with("reset")), "{failure}: clients are told");
        assert_eq!(turn.of("assistant.message").len(), 1, "{failure}");
        chat.assert_usable().await;
    };
    // They all wait for a second before they try again: let them wait together.
    let both = failures.iter().flat_map(|failure| [try_one(failure, false), try_one(failure, true)]);
    // What is half and does not come in pieces is no answer, and not tried again: see above.
    let all = both.chain([try_one("truncate*1", true)]);
    futures_util::future::join_all(all).await;
}

#[tokio::test]
async fn a_model_that_is_not_there_can_be_cancelled_while_it_is_tried_again() {
    let model = ModelServer::start().await;
    let program = crate::baton().with_model(&model);
    drop(model);
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let from = client.count();
    chat.send("anybody there?").await;
    let (_, failure) = chat.event("model.call_failure", from).await;
    assert!(
        failure["data"]["errorMessage"].as_str().is_some_and(|text| text.contains("127.0.0.1")),
        "{failure}"
    );
    chat.ok("session.abort", json!({})).await;
    let turn = chat.until_idle(from).await;
    assert_eq!((turn.errors().len(), turn.of("abort").len()), (0, 1));
    chat.ok("session.destroy", json!({})).await;
    assert_eq!(outcomes(&program, &chat.id).await, ["cancelled"]);
}

#[tokio::test]
async fn what_a_model_had_said_before_it_failed_for_good_is_in_the_history() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"streaming": true})).await;
    // Half an answer, and then an error that will not pass.
    let half = r#"{"choices":[{"index":0,"delta":{"content":"half an "}}]}"#;
    let error = r#"{"error":{"message":"No more","code":"insufficient_quota"}}"#;
    let broken = Reply::raw("text/event-stream", [half, error].map(|data| format!("data: {data}\n\n")));
    model.push(broken);
    let turn = chat.turn("say something").await;
    assert_eq!((turn.text(), turn.errors().len()), ("half an ", 1), "{turn:?}");
    let piece = turn.of("assistant.message_delta")[0]["data"]["messageId"].clone();
    assert_eq!(turn.of("assistant.message")[0]["data"]["messageId"], piece, "it has the name of its pieces");
    assert!(chat.history().await.iter().any(|event| event["data"]["content"] == "half an "));
    chat.assert_usable().await;
    let told = model.requests().pop().unwrap().body["messages"].to_string();
    assert!(told.contains("half an "), "the model knows what it has said: {told}");
}

#[tokio::test]
async fn a_model_of_the_same_endpoint_is_offered_when_one_wants_to_be_asked_less_often() {
    let (program, model) = scripted().await;
    let program = program.env("OPENAI_MODEL", "busy");
    model.set_models(json!({"data": [{"id": "busy"}, {"id": "idle"}]}));
    let server = program.serve().await;
    let client = server.connect().await;
    let watcher = server.connect().await;
    let chat = Chat::create(&client, json!({"requestAutoModeSwitch": true})).await;
    Chat::resume(&watcher, &chat.id, json!({})).await;
    let from = client.count();
    chat.send("[[error:429*1:retry=600]][[text:at last]]").await;
    let (_, offer) = chat.event("auto_mode_switch.requested", from).await;
    let (_, asked) = client.asked("autoModeSwitch.request", from).await;
    assert_eq!(asked["retryAfterSeconds"], 600, "{asked}");
    // Whoever answers first has answered, asked or not.
    let method = "session.ui.handlePendingAutoModeSwitch";
    let answer = json!({"sessionId": chat.id, "requestId": offer["data"]["requestId"], "response": "yes"});
    assert_eq!(watcher.ok(method, answer.clone()).await["success"], true);
    assert_eq!(client.ok(method, answer).await["success"], false);
    let turn = chat.until_idle(from).await;
    assert_eq!((turn.text(), turn.errors().len()), ("at last", 0), "{turn:?}");
    let models: Vec<Value> = model.requests().iter().map(|request| request.body["model"].clone()).collect();
    let models: Vec<&str> = models.iter().filter_map(Value::as_str).collect();
    assert_eq!(models, ["busy", "idle"]);
}

#[tokio::test]
async fn a_model_that_is_new_at_the_endpoint_is_offered_before_a_turn_fails() {
    let (program, model) = scripted().await;
    let program = program.env("OPENAI_MODEL", "busy");
    model.set_models(json!({"data": [{"id": "busy"}]}));
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"requestAutoModeSwitch": true})).await;
    assert_eq!(chat.turn("[[text:the list is known]]").await.text(), "the list is known");
    model.set_models(json!({"data": [{"id": "busy"}, {"id": "new"}]}));
    let from = client.count();
    chat.send("[[error:429*1:retry=600]][[text:at last]]").await;
    let (asked, _) = client.asked("autoModeSwitch.request", from).await;
    client.send(&json!({"jsonrpc": "2.0", "id": asked, "result": {"response": "yes"}})).await;
    assert_eq!(chat.until_idle(from).await.text(), "at last");
    assert_eq!(model.requests().last().unwrap().body["model"], "new");
}

#[tokio::test]
async fn a_client_that_listens_for_offers_is_not_gone_around() {
    let (program, model) = scripted().await;
    let program = program.env("OPENAI_MODEL", "busy");
    model.set_models(json!({"data": [{"id": "busy"}, {"id": "idle"}]}));
    let server = program.serve().await;
    let (client, other) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&client, json!({})).await;
    Chat::resume(&other, &chat.id, json!({"requestAutoModeSwitch": true})).await;
    let listening = chat.ok("session.ui.registerDirectAutoModeSwitchHandler", json!({})).await;
    let from = client.count();
    chat.send("[[error:429*1:retry=600]][[text:at last]]").await;
    let (_, offer) = chat.event("auto_mode_switch.requested", from).await;
    let answer = json!({"requestId": offer["data"]["requestId"], "response": "yes"});
    assert_eq!(chat.ok("session.ui.handlePendingAutoModeSwitch", answer).await["success"], true);
    assert_eq!(chat.until_idle(from).await.text(), "at last");
    let (_, _) = other.event(&chat.id, "session.idle", 0).await;
    assert!(
        !other.frames().iter().any(|frame| frame["method"] == "autoModeSwitch.request"),
        "nobody was asked"
    );
    for listened in [true, false] {
        let handle = json!({"handle": listening["handle"]});
        let stopped = chat.ok("session.ui.unregisterDirectAutoModeSwitchHandler", handle).await;
        assert_eq!(stopped["unregistered"], listened);
    }
}

#[tokio::test]
async fn a_model_that_hangs_can_be_cancelled() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    for (round, streaming) in [false, true].into_iter().enumerate() {
        let chat = Chat::create(&client, json!({"streaming": streaming})).await;
        let from = client.count();
        let before = model.requests().len();
        chat.send("[[hang]]").await;
        chat.send("waits behind it").await;
        let hanging = model.wait_for_requests(before + if round == 0 { 2 } else { 1 }).await.len() - 1;
        chat.ok("session.abort", json!({})).await;
        assert_eq!(
            model.wait_for_end(hanging).await,
            End::ClientLeft,
            "the connection to the model is closed"
        );
        let turn = chat.until_idle(from).await;
        assert_eq!(turn.of("user.message").len(), 2, "the prompt that waited is in the history as well");
        assert!(turn.errors().is_empty());
        chat.assert_usable().await;
        chat.ok("session.destroy", json!({})).await;
        assert_eq!(outcomes(&program, &chat.id).await, ["cancelled", "cancelled", "completed"]);
    }
}

#[tokio::test]
async fn calls_that_make_no_sense_are_told_to_the_model_and_the_turn_goes_on() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::trusting(&client, json!({})).await;
    for (script, expected) in [
        ("[[tool:no_such_tool {}]]", "Tool 'no_such_tool' does not exist."),
        ("[[tool:bash {oops]]", "Invalid arguments"),
        ("[[tool:bash {}]]", "command"),
        ("[[tool:bash [] ]]", "Invalid arguments"),
        ("[[tool:bash \"text\"]]", "Invalid arguments"),
        (r#"[[tool:bash {"command":7}]]"#, "command"),
        (r#"[[tool:view {"path":"/no/such/file"}]]"#, "does not exist"),
        (r#"[[tool:ask_user {"question":"nobody can answer"}]]"#, "does not exist"),
        ("[[tool: {}]]", "does not exist"),
    ] {
        let turn = chat.turn(script).await;
        let done = turn.of("tool.execution_complete");
        assert_eq!(done.len(), 1, "{script}: {:?}", turn.kinds());
        assert_eq!(done[0]["data"]["success"], false, "{script}: {done:?}");
        assert!(done[0].to_string().contains(expected), "{script}: {done:?}");
        assert!(turn.text().starts_with("echo"), "{script}: the model has the last word: {:?}", turn.text());
        assert!(turn.errors().is_empty(), "{script}");
    }
    chat.assert_usable().await;
}

#[tokio::test]
async fn calls_with_the_same_id_are_kept_apart() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    for streaming in [false, true] {
        let chat = Chat::trusting(&client, json!({"streaming": streaming})).await;
        let call = |index: usize, word: &str| {
            let function =
                json!({"name": "bash", "arguments": json!({"command": format!("echo {word}")}).to_string()});
            json!({"index": index, "id": "same", "type": "function", "function": function})
        };
        let calls = json!([call(0, "one"), call(1, "two"), call(2, "three")]);
        let answer = if streaming {
            let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]});
            Reply::raw("text/event-stream", [format!("data: {chunk}\n\ndata: [DONE]\n\n")])
        } else {
            let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
            Reply::raw(
                "application/json",
                [json!({"choices": [{"index": 0, "message": message}]}).to_string()],
            )
        };
        model.push(answer);
        model.push(Reply::text("all three"));
        let turn = chat.turn("call them").await;
        assert_eq!(turn.text(), "all three");
        let done = turn.of("tool.execution_complete");
        let mut said: Vec<&str> =
            done.iter().map(|e| e["data"]["result"]["content"].as_str().unwrap()).collect();
        said.sort_unstable();
        let wanted = ["one", "three", "two"].map(|word| format!("{word}\n<exited with exit code 0>"));
        assert_eq!(said, wanted);
        chat.assert_usable().await;
    }
}

#[tokio::test]
async fn fifty_calls_at_once_all_come_back() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let tool = json!({"name": "twice", "parameters": {"type": "object"}, "skipPermission": true});
    let chat = Chat::create(&client, json!({"tools": [tool]})).await;
    let call = |n: usize| Action::Call { name: "twice".into(), arguments: json!({"n": n}).to_string() };
    model.push(Reply::new((0..50).map(call)));
    let from = client.count();
    chat.send("all at once").await;
    let mut place = from;
    for _ in 0..50 {
        let (at, event) = chat.event("external_tool.requested", place).await;
        place = at + 1;
        let n = event["data"]["arguments"]["n"].as_u64().unwrap();
        let answer = json!({"requestId": event["data"]["requestId"], "result": (2 * n).to_string()});
        assert_eq!(chat.ok("session.tools.handlePendingToolCall", answer.clone()).await["success"], true);
        let again = chat.ok("session.tools.handlePendingToolCall", answer).await;
        assert_eq!(again["success"], false, "the first answer counts");
    }
    let turn = chat.until_idle(from).await;
    assert_eq!(turn.of("tool.execution_complete").len(), 50);
    let asked = model.requests().pop().unwrap().body;
    let results = asked["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool");
    let said: Vec<&str> = results.map(|message| message["content"].as_str().unwrap()).collect();
    let wanted: Vec<String> = (0..50).map(|n| (2 * n).to_string()).collect();
    assert_eq!(said, wanted, "the model gets the results in the order of its calls");
}

#[tokio::test]
async fn an_answer_may_be_empty_or_enormous() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    for streaming in [false, true] {
        let chat = Chat::create(&client, json!({"streaming": streaming})).await;
        model.push(Reply::new([Action::Text(String::new())]));
        let turn = chat.turn("say nothing").await;
        let outcome = (turn.of("assistant.message").len(), turn.errors().len());
        assert!(
            outcome == (1, 0) || outcome == (0, 1),
            "an empty answer is an answer, or an error: {turn:?}"
        );
        let word = "x".repeat(1 << 20) + " ";
        model.push(Reply::new([Action::Text(word.repeat(10))]));
        let turn = chat.turn("say a lot").await;
        assert_eq!((turn.text().len(), turn.errors().len()), (10 * word.len(), 0));
        chat.assert_usable().await;
    }
}
