//! What crush's client is shown of a session's events.

mod story;

use baton_protocol::Json;
use baton_protocol::event::{
    Abort, AbortReason, Outcome, PermissionCompleted, PermissionRequested, ReasoningDelta, RequestClosed,
    RequestOpened, SessionError, SessionStart, ToolCallDelta, ToolStart,
};
use baton_protocol::permission::{PermissionOutcome, PermissionRequest as Wants};
use serde_json::{Value, json};

use super::*;
use story::*;

#[test]
fn a_plain_answer() {
    let story = story().accepted(1, None).user(1, "hi").asks().says("hello", &[]).round_ends();
    let story = story.settles(&[1], Outcome::Completed);
    assert_eq!(shorts(&story), ["user text=hi finish=stop", "assistant text=hello finish=end_turn"]);
    let answer = &story.messages()[1];
    assert_eq!((&answer["model"], &answer["provider"]), (&json!("gpt"), &json!("baton")));
    assert_eq!((&answer["created_at"], &answer["updated_at"]), (&json!(3), &json!(6)));
    assert_eq!(
        runs(&story),
        [json!({"session_id": "s", "message_id": answer["id"], "text": "hello"})],
        "one completion, also for a turn that nobody gave a run id"
    );
    assert_eq!(story.told().last(), Some(&Change::Finished));
}

#[test]
fn each_round_is_a_message_and_each_result_another() {
    let story = story()
        .user(1, "look")
        .asks()
        .says("let me see", &[("a", "view", r#"{"path":"/x"}"#), ("b", "bash", r#"{"command":"ls"}"#)])
        .result("b", "listing")
        .result("a", "1. text")
        .round_ends()
        .asks()
        .says("done", &[])
        .round_ends()
        .settles(&[1], Outcome::Completed);
    assert_eq!(
        shorts(&story),
        [
            "user text=look finish=stop",
            "assistant text=let me see tool_call=view tool_call=bash finish=tool_use",
            "tool tool_result=listing finish=stop",
            "tool tool_result=1. text finish=stop",
            "assistant text=done finish=end_turn",
        ]
    );
    assert_eq!(runs(&story)[0]["text"], "done");
}

#[test]
fn a_streamed_answer_grows_under_one_name() {
    let story = story().user(1, "hi").asks();
    let story = story.then(ReasoningDelta { reasoning_id: "r".into(), delta_content: "hm".into() });
    let story = story.piece("m", "he").piece("m", "llo").says("hello", &[]).round_ends();
    let answers: Vec<(What, Value)> = story
        .told()
        .into_iter()
        .filter_map(|change| match change {
            Change::Message(what, message) if message.role == Role::Assistant => {
                Some((what, serde_json::to_value(message).unwrap()))
            }
            _ => None,
        })
        .collect();
    let seen: Vec<String> = answers.iter().map(|(_, message)| short(message)).collect();
    assert_eq!(
        seen,
        [
            "assistant",
            "assistant reasoning=hm",
            "assistant reasoning=hm text=he",
            "assistant reasoning=hm text=hello",
            "assistant text=hello",
            "assistant text=hello finish=end_turn",
        ]
    );
    assert!(answers.iter().all(|(_, message)| message["id"] == answers[0].1["id"]));
    assert_eq!(answers[0].0, What::Created);
    assert!(answers[1..].iter().all(|(what, _)| *what == What::Updated));
}

#[test]
fn an_answer_that_begins_anew_forgets_its_first_half() {
    let story =
        story().user(1, "hi").asks().piece("first", "half an ").piece("second", "who").piece("second", "le");
    assert_eq!(shorts(&story)[1], "assistant text=whole");
}

#[test]
fn a_call_is_announced_while_its_arguments_come() {
    let delta = |name: Option<&str>| ToolCallDelta {
        tool_call_id: "c".into(),
        tool_name: name.map(str::to_owned),
        tool_type: None,
        input_delta: "{\"pa".into(),
    };
    let begun = story().user(1, "x").asks().then(delta(Some("create"))).then(delta(Some("create")));
    let call = &begun.messages()[1]["parts"][0]["data"];
    assert_eq!(*call, json!({"id": "c", "name": "write", "input": "", "finished": false}));
    let cut = begun.settles(&[1], Outcome::Cancelled);
    assert_eq!(shorts(&cut)[1], "assistant finish=canceled", "a call that never came whole was never made");
}

/// Wherever a cancel comes, the prompt is there, and an answer that says that it was cancelled.
#[test]
fn a_cancelled_prompt_has_a_message_and_an_answer() {
    let abort = || Abort { reason: AbortReason::UserInitiated };
    let check = |story: Story, expected: &[&str]| {
        let story = story.settles(&[1], Outcome::Cancelled);
        assert_eq!(shorts(&story), expected);
        let runs = runs(&story);
        assert_eq!((runs.len(), &runs[0]["cancelled"], &runs[0]["run_id"]), (1, &json!(true), &json!("r")));
        assert!(runs[0].get("error").is_none());
        assert!(!story.told().iter().any(|change| matches!(change, Change::Finished | Change::Trouble(_))));
    };
    let accepted = || story().accepted(1, Some("r"));
    let (user, canceled) = ("user text=hi finish=stop", "assistant finish=canceled");
    check(accepted().then(abort()).user(1, "hi"), &[user, canceled]);
    check(accepted().user(1, "hi").asks().then(abort()).round_ends(), &[user, canceled]);
    check(
        accepted().user(1, "hi").asks().piece("m", "half").then(abort()).round_ends(),
        &[user, "assistant text=half finish=canceled"],
    );
    check(
        accepted()
            .user(1, "hi")
            .asks()
            .says("", &[("c", "bash", "{}")])
            .then(abort())
            .result("c", "no")
            .round_ends(),
        &[user, "assistant tool_call=bash finish=canceled", "tool tool_result=no finish=stop"],
    );
}

#[test]
fn prompts_have_their_own_run_ids_and_outcomes() {
    let story = story()
        .accepted(1, Some("one"))
        .user(1, "a")
        .accepted(2, Some("two"))
        .accepted(3, None)
        .accepted(4, Some("four"))
        .settles(&[4], Outcome::Cancelled)
        .asks()
        .says("A", &[])
        .round_ends()
        .settles(&[1], Outcome::Completed)
        .user(2, "b")
        .settles(&[2], Outcome::Failed)
        .settles(&[3], Outcome::Cancelled);
    let told: Vec<(Value, Value, Value)> = runs(&story)
        .iter()
        .map(|run| (run["run_id"].clone(), run["cancelled"].clone(), run["error"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            (json!("four"), json!(true), Value::Null),
            (json!("one"), Value::Null, Value::Null),
            (json!("two"), Value::Null, json!("because")),
        ],
        "a prompt that was taken back without a run id is nobody's business"
    );
}

#[test]
fn a_failure_says_what_and_why() {
    let error = SessionError {
        error_type: "rate_limit".into(),
        message: "slow down".into(),
        ..SessionError::default()
    };
    let story = story().user(1, "hi").asks().then(error).round_ends().settles(&[1], Outcome::Failed);
    let finish = &story.messages()[1]["parts"][0]["data"];
    assert_eq!(
        *finish,
        json!({"reason": "error", "time": 5, "message": "Too many requests", "details": "because"})
    );
    assert_eq!(runs(&story)[0]["error"], "because");
}

#[test]
fn a_turn_that_ends_with_a_refusal_ends() {
    let story = story().user(1, "hi").asks().says("", &[("c", "bash", "{}")]).result("c", "no").round_ends();
    assert!(shorts(&story)[1].ends_with("finish=tool_use"));
    assert!(shorts(&story.settles(&[1], Outcome::Completed))[1].ends_with("finish=end_turn"));
}

/// Other agents' programs say several things in one round, and name their calls as they begin.
#[test]
fn an_engines_turn_becomes_messages_too() {
    let start = |id: &str| ToolStart {
        tool_call_id: id.into(),
        tool_name: "bash".into(),
        arguments: Json::from_text(r#"{"command":"ls"}"#).ok(),
        turn_id: None,
        model: None,
        parent_tool_call_id: None,
    };
    let story = story()
        .user(1, "go")
        .asks()
        .then(start("a"))
        .result("a", "A")
        .says("first", &[])
        .then(start("b"))
        .result("b", "B")
        .says("last", &[])
        .round_ends()
        .settles(&[1], Outcome::Completed);
    assert_eq!(
        shorts(&story),
        [
            "user text=go finish=stop",
            "assistant tool_call=bash finish=tool_use",
            "tool tool_result=A finish=stop",
            "assistant text=first tool_call=bash finish=tool_use",
            "tool tool_result=B finish=stop",
            "assistant text=last finish=end_turn",
        ]
    );
}

#[test]
fn requests_are_asked_and_closed_once() {
    let wants = Wants::Read { tool_call_id: Some("c".into()), path: "/x/y".into(), intention: "Read".into() };
    let asked = story().user(1, "hi").asks().says("", &[("c", "view", r#"{"path":"/x/y"}"#)]).then(
        PermissionRequested {
            request_id: "r".into(),
            permission_request: wants,
            prompt_request: None,
            resolved_by_hook: None,
        },
    );
    let mut fold = fold();
    asked.0.iter().for_each(|event| drop(fold.apply(event)));
    let [Pending::Permission(request)] = fold.pending() else { panic!("one permission waits") };
    assert_eq!((request.id.as_str(), request.tool_name.as_str(), request.path.as_str()), ("r", "view", "/x"));
    let done = |id: &str| PermissionCompleted {
        request_id: id.into(),
        tool_call_id: Some("c".into()),
        result: PermissionOutcome::Approved {},
    };
    let told = asked.then(done("other")).then(done("r")).then(done("r")).told();
    let closed = Closed { id: "r".into(), tool_call_id: "c".into(), granted: Some(true) };
    assert_eq!(told.iter().filter(|change| **change == Change::Closed(closed.clone())).count(), 1);
}

#[test]
fn questions_have_choices_or_take_any_text() {
    let opened = |choices: Option<Vec<String>>| RequestOpened {
        request_id: "q".into(),
        tool_call_id: Some("c".into()),
        question: Asks::UserInput(UserQuestion { question: "which?".into(), choices, allow_freeform: None }),
    };
    let batch = |story: &Story| match story.told().remove(0) {
        Change::Asked(Pending::Question(batch)) => serde_json::to_value(batch).unwrap(),
        other => panic!("{other:?}"),
    };
    let choice = story().then(opened(Some(vec!["red".into(), "blue".into()])));
    assert_eq!(
        batch(&choice)["questions"][0],
        json!({"id": "question", "type": "single_choice", "question": "which?",
            "choices": [{"id": "choice-0", "label": "red"}, {"id": "choice-1", "label": "blue"}]})
    );
    assert_eq!(batch(&story().then(opened(None)))["questions"][0]["type"], "free_text");
    let closed = choice.then(RequestClosed { request_id: "q".into(), answer: None }).told();
    let expected = Closed { id: "q".into(), tool_call_id: "c".into(), granted: None };
    assert_eq!(closed.last(), Some(&Change::Closed(expected)));
}

/// What a client was told and what it is given when it asks are the same, whenever it asks.
#[test]
fn the_stream_and_the_list_agree() {
    let story = story()
        .accepted(1, None)
        .user(1, "hi")
        .asks()
        .piece("m", "so")
        .says("so it is", &[("c", "bash", r#"{"command":"ls"}"#)])
        .result("c", "out")
        .round_ends()
        .asks()
        .piece("n", "half")
        .then(Abort { reason: AbortReason::UserInitiated })
        .round_ends()
        .settles(&[1], Outcome::Cancelled)
        .then(ShellRun { command: "ls".into(), output: "a".into(), exit_code: 0 });
    let mut live = fold();
    let mut told: Vec<Message> = Vec::new();
    for count in 0..story.0.len() {
        let mut changes = live.apply(&story.0[count]);
        changes.extend(live.flush());
        for change in changes {
            if let Change::Message(_, message) = change {
                told.retain(|known| known.id != message.id || known.role != message.role);
                told.push(message);
            }
        }
        live.forget_settled();
        // What a reader of the store sees, with what the watcher has seen streamed.
        let mut read = fold();
        story.0[..=count].iter().filter(|event| !event.ephemeral).for_each(|event| drop(read.apply(event)));
        read.fill_in(live.partials());
        let mut listed = read.messages();
        let by_id = |a: &Message, b: &Message| a.id.cmp(&b.id);
        listed.sort_by(by_id);
        let mut sorted = told.clone();
        sorted.sort_by(by_id);
        assert_eq!(listed, sorted, "after event {count}");
    }
}

#[test]
fn a_row_tells_title_size_and_use() {
    let start = SessionStart {
        session_id: "s".parse().unwrap(),
        version: 1,
        producer: "baton".into(),
        copilot_version: "1".into(),
        start_time: Timestamp(0),
        selected_model: None,
        reasoning_effort: None,
        context: Some(WorkContext { cwd: "/w".into(), ..WorkContext::default() }),
        remote_steerable: None,
        already_in_use: None,
    };
    let story = story().then(start).user(1, "  fix\nthis").asks().says("ok", &[]).round_ends();
    let mut fold = fold();
    story.0.iter().for_each(|event| drop(fold.apply(event)));
    let row = fold.row();
    assert_eq!((row.title.as_str(), row.message_count), ("fix", 2));
    assert_eq!((row.prompt_tokens, row.completion_tokens), (15, 3));
    assert_eq!((row.created_at, row.updated_at, fold.cwd()), (1, 5, "/w"));
    assert_eq!(title(None, None), "New Session");
    assert_eq!(title(Some("mine"), Some("x")), "mine");
    assert_eq!(title(None, Some(&"ä".repeat(80))).chars().count(), TITLE_LENGTH + 1);
}
