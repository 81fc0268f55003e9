//! Messages and changes that result from the events of a session.

mod history;

use baton_protocol::Json;
use baton_protocol::event::{
    Abort, AbortReason, Outcome, PermissionCompleted, PermissionRequested, Question as ProtocolQuestion,
    ReasoningDelta, RequestClosed, RequestOpened, SessionError, SessionStart, ToolCallDelta, ToolStart,
    UserQuestion, WorkContext,
};
use baton_protocol::permission::{PermissionOutcome, PermissionRequest as ProtocolRequest};
use serde_json::{Value, json};

use super::*;
use history::*;

#[test]
fn response_without_tools_is_one_message() {
    let history =
        history().accepted(1, None).user(1, "hi").round_starts().responds("hello", &[]).round_ends();
    let history = history.settles(&[1], Outcome::Completed);
    assert_eq!(summaries(&history), ["user text=hi finish=stop", "assistant text=hello finish=end_turn"]);
    let response = &history.messages()[1];
    assert_eq!((&response["model"], &response["provider"]), (&json!("gpt"), &json!("baton")));
    assert_eq!((&response["created_at"], &response["updated_at"]), (&json!(3), &json!(6)));
    assert_eq!(
        runs(&history),
        [json!({"session_id": "s", "message_id": response["id"], "text": "hello"})],
        "one completion, also for a turn without a run id"
    );
    assert_eq!(history.changes().last(), Some(&Change::TurnCompleted));
}

#[test]
fn rounds_and_tool_results_are_separate_messages() {
    let history = history()
        .user(1, "look")
        .round_starts()
        .responds("let me see", &[("a", "view", r#"{"path":"/x"}"#), ("b", "bash", r#"{"command":"ls"}"#)])
        .result("b", "listing")
        .result("a", "1. text")
        .round_ends()
        .round_starts()
        .responds("done", &[])
        .round_ends()
        .settles(&[1], Outcome::Completed);
    assert_eq!(
        summaries(&history),
        [
            "user text=look finish=stop",
            "assistant text=let me see tool_call=view tool_call=bash finish=tool_use",
            "tool tool_result=listing finish=stop",
            "tool tool_result=1. text finish=stop",
            "assistant text=done finish=end_turn",
        ]
    );
    assert_eq!(runs(&history)[0]["text"], "done");
}

#[test]
fn streamed_response_keeps_its_message_id() {
    let history = history().user(1, "hi").round_starts();
    let history = history.then(ReasoningDelta { reasoning_id: "r".into(), delta_content: "hm".into() });
    let history = history.delta("m", "he").delta("m", "llo").responds("hello", &[]).round_ends();
    let updates: Vec<(ChangeKind, Value)> = history
        .changes()
        .into_iter()
        .filter_map(|change| match change {
            Change::Message(kind, message) if message.role == MessageRole::Assistant => {
                Some((kind, serde_json::to_value(message).unwrap()))
            }
            _ => None,
        })
        .collect();
    let seen: Vec<String> = updates.iter().map(|(_, message)| summary(message)).collect();
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
    assert!(updates.iter().all(|(_, message)| message["id"] == updates[0].1["id"]));
    assert_eq!(updates[0].0, ChangeKind::Created);
    assert!(updates[1..].iter().all(|(kind, _)| *kind == ChangeKind::Updated));
}

#[test]
fn repeated_model_call_replaces_streamed_text() {
    let history = history()
        .user(1, "hi")
        .round_starts()
        .delta("first", "half an ")
        .delta("second", "who")
        .delta("second", "le");
    assert_eq!(summaries(&history)[1], "assistant text=whole");
}

#[test]
fn call_is_shown_while_its_arguments_are_streamed() {
    let delta = |name: Option<&str>| ToolCallDelta {
        tool_call_id: "c".into(),
        tool_name: name.map(str::to_owned),
        tool_type: None,
        input_delta: "{\"pa".into(),
    };
    let started =
        history().user(1, "x").round_starts().then(delta(Some("create"))).then(delta(Some("create")));
    let call = &started.messages()[1]["parts"][0]["data"];
    assert_eq!(*call, json!({"id": "c", "name": "write", "input": "", "finished": false}));
    let cancelled = started.settles(&[1], Outcome::Cancelled);
    assert_eq!(summaries(&cancelled)[1], "assistant finish=canceled", "an incomplete call was never made");
}

/// At every point of a turn.
#[test]
fn cancelled_prompt_has_a_message_and_a_cancelled_response() {
    let abort = || Abort { reason: AbortReason::UserInitiated, by: None };
    let check = |history: History, expected: &[&str]| {
        let history = history.settles(&[1], Outcome::Cancelled);
        assert_eq!(summaries(&history), expected);
        let runs = runs(&history);
        assert_eq!((runs.len(), &runs[0]["cancelled"], &runs[0]["run_id"]), (1, &json!(true), &json!("r")));
        assert!(runs[0].get("error").is_none());
        assert!(
            !history
                .changes()
                .iter()
                .any(|change| matches!(change, Change::TurnCompleted | Change::Error(_)))
        );
    };
    let accepted = || history().accepted(1, Some("r"));
    let (user, canceled) = ("user text=hi finish=stop", "assistant finish=canceled");
    check(accepted().then(abort()).user(1, "hi"), &[user, canceled]);
    check(accepted().user(1, "hi").round_starts().then(abort()).round_ends(), &[user, canceled]);
    check(
        accepted().user(1, "hi").round_starts().delta("m", "half").then(abort()).round_ends(),
        &[user, "assistant text=half finish=canceled"],
    );
    check(
        accepted()
            .user(1, "hi")
            .round_starts()
            .responds("", &[("c", "bash", "{}")])
            .then(abort())
            .result("c", "no")
            .round_ends(),
        &[user, "assistant tool_call=bash finish=canceled", "tool tool_result=no finish=stop"],
    );
}

#[test]
fn prompts_have_separate_run_ids_and_outcomes() {
    let history = history()
        .accepted(1, Some("one"))
        .user(1, "a")
        .accepted(2, Some("two"))
        .accepted(3, None)
        .accepted(4, Some("four"))
        .settles(&[4], Outcome::Cancelled)
        .round_starts()
        .responds("A", &[])
        .round_ends()
        .settles(&[1], Outcome::Completed)
        .user(2, "b")
        .settles(&[2], Outcome::Failed)
        .settles(&[3], Outcome::Cancelled);
    let reported: Vec<(Value, Value, Value)> = runs(&history)
        .iter()
        .map(|run| (run["run_id"].clone(), run["cancelled"].clone(), run["error"].clone()))
        .collect();
    assert_eq!(
        reported,
        [
            (json!("four"), json!(true), Value::Null),
            (json!("one"), Value::Null, Value::Null),
            (json!("two"), Value::Null, json!("because")),
        ],
        "a withdrawn prompt without a run id is not reported"
    );
}

#[test]
fn failed_turn_has_a_heading_and_the_reason() {
    let error = SessionError {
        error_type: "rate_limit".into(),
        message: "slow down".into(),
        ..SessionError::default()
    };
    let history =
        history().user(1, "hi").round_starts().then(error).round_ends().settles(&[1], Outcome::Failed);
    let finish = &history.messages()[1]["parts"][0]["data"];
    assert_eq!(
        *finish,
        json!({"reason": "error", "time": 5, "message": "Too many requests", "details": "because"})
    );
    assert_eq!(runs(&history)[0]["error"], "because");
}

#[test]
fn completed_turn_without_a_last_response_has_ended() {
    let history = history()
        .user(1, "hi")
        .round_starts()
        .responds("", &[("c", "bash", "{}")])
        .result("c", "no")
        .round_ends();
    assert!(summaries(&history)[1].ends_with("finish=tool_use"));
    assert!(summaries(&history.settles(&[1], Outcome::Completed))[1].ends_with("finish=end_turn"));
}

/// Engines send several texts in one round, and report calls when they start.
#[test]
fn turn_of_an_engine_becomes_messages() {
    let start = |id: &str| ToolStart {
        tool_call_id: id.into(),
        tool_name: "bash".into(),
        arguments: Json::from_text(r#"{"command":"ls"}"#).ok(),
        turn_id: None,
        model: None,
        parent_tool_call_id: None,
        mcp_server_name: None,
        mcp_tool_name: None,
        tool_title: None,
    };
    let history = history()
        .user(1, "go")
        .round_starts()
        .then(start("a"))
        .result("a", "A")
        .responds("first", &[])
        .then(start("b"))
        .result("b", "B")
        .responds("last", &[])
        .round_ends()
        .settles(&[1], Outcome::Completed);
    assert_eq!(
        summaries(&history),
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
fn requests_are_opened_and_closed_once() {
    let request = ProtocolRequest::Read {
        tool_call_id: Some("c".into()),
        path: "/x/y".into(),
        intention: "Read".into(),
    };
    let asked =
        history().user(1, "hi").round_starts().responds("", &[("c", "view", r#"{"path":"/x/y"}"#)]).then(
            PermissionRequested {
                request_id: "r".into(),
                permission_request: request,
                prompt_request: None,
                resolved_by_hook: None,
                requires_user: None,
                wall: None,
            },
        );
    let mut fold = fold();
    asked.0.iter().for_each(|event| drop(fold.apply(event)));
    let [PendingRequest::Permission(request)] = fold.pending() else {
        panic!("one permission request is pending")
    };
    assert_eq!((request.id.as_str(), request.tool_name.as_str(), request.path.as_str()), ("r", "view", "/x"));
    let done = |id: &str| PermissionCompleted {
        request_id: id.into(),
        tool_call_id: Some("c".into()),
        result: PermissionOutcome::Approved {},
        by: None,
    };
    let reported = asked.then(done("other")).then(done("r")).then(done("r")).changes();
    let closed = ClosedRequest { id: "r".into(), tool_call_id: "c".into(), granted: Some(true) };
    assert_eq!(reported.iter().filter(|change| **change == Change::RequestClosed(closed.clone())).count(), 1);
}

#[test]
fn questions_have_choices_or_accept_any_text() {
    let opened = |choices: Option<Vec<String>>| RequestOpened {
        request_id: "q".into(),
        tool_call_id: Some("c".into()),
        question: ProtocolQuestion::UserInput(UserQuestion {
            question: "which?".into(),
            choices,
            allow_freeform: None,
        }),
    };
    let batch = |history: &History| match history.changes().remove(0) {
        Change::RequestOpened(PendingRequest::Question(batch)) => serde_json::to_value(batch).unwrap(),
        other => panic!("{other:?}"),
    };
    let choice = history().then(opened(Some(vec!["red".into(), "blue".into()])));
    assert_eq!(
        batch(&choice)["questions"][0],
        json!({"id": "question", "type": "single_choice", "question": "which?",
            "choices": [{"id": "choice-0", "label": "red"}, {"id": "choice-1", "label": "blue"}]})
    );
    assert_eq!(batch(&history().then(opened(None)))["questions"][0]["type"], "free_text");
    let closed = choice.then(RequestClosed { request_id: "q".into(), answer: None, by: None }).changes();
    let expected = ClosedRequest { id: "q".into(), tool_call_id: "c".into(), granted: None };
    assert_eq!(closed.last(), Some(&Change::RequestClosed(expected)));
}

/// After each event, the reported messages equal those read from the store.
#[test]
fn stream_and_list_agree() {
    let history = history()
        .accepted(1, None)
        .user(1, "hi")
        .round_starts()
        .delta("m", "so")
        .responds("so it is", &[("c", "bash", r#"{"command":"ls"}"#)])
        .result("c", "out")
        .round_ends()
        .round_starts()
        .delta("n", "half")
        .then(Abort { reason: AbortReason::UserInitiated, by: None })
        .round_ends()
        .settles(&[1], Outcome::Cancelled)
        .then(ShellRun { command: "ls".into(), output: "a".into(), exit_code: 0, by: None });
    let mut live = fold();
    let mut reported: Vec<Message> = Vec::new();
    for count in 0..history.0.len() {
        let mut changes = live.apply(&history.0[count]);
        changes.extend(live.flush());
        for change in changes {
            if let Change::Message(_, message) = change {
                reported.retain(|known| known.id != message.id || known.role != message.role);
                reported.push(message);
            }
        }
        live.drop_settled();
        // The messages that a reader of the store sees, with the streamed parts that the watch has seen.
        let mut read = fold();
        history.0[..=count].iter().filter(|event| !event.ephemeral).for_each(|event| drop(read.apply(event)));
        read.add_partials(live.partials());
        let mut listed = read.messages();
        let by_id = |a: &Message, b: &Message| a.id.cmp(&b.id);
        listed.sort_by(by_id);
        let mut sorted = reported.clone();
        sorted.sort_by(by_id);
        assert_eq!(listed, sorted, "after event {count}");
    }
}

#[test]
fn row_has_title_message_count_and_usage() {
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
        by: None,
        sandbox: None,
    };
    let history =
        history().then(start).user(1, "  fix\nthis").round_starts().responds("ok", &[]).round_ends();
    let mut fold = fold();
    history.0.iter().for_each(|event| drop(fold.apply(event)));
    let row = fold.row();
    assert_eq!((row.title.as_str(), row.message_count), ("fix", 2));
    assert_eq!((row.prompt_tokens, row.completion_tokens), (15, 3));
    assert_eq!((row.created_at, row.updated_at, fold.cwd()), (1, 5, "/w"));
    assert_eq!(title(None, None), "New Session");
    assert_eq!(title(Some("mine"), Some("x")), "mine");
    assert_eq!(title(None, Some(&"ä".repeat(80))).chars().count(), row::TITLE_LENGTH + 1);
}
