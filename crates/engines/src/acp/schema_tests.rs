//! Compares with the official types: what they write is read, what they read is written, and what they refuse is refused.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1 as official;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::tool_call::{Diff, ToolCallContent, ToolCallStatus, ToolKind};
use super::*;

fn written(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

/// Asserts that the official type reads the value, and writes the same one, apart from defaults.
fn assert_official<T: DeserializeOwned + Serialize>(value: &Value) {
    let read: T = baton_json::from_value(value).unwrap_or_else(|error| panic!("{value}: {error}"));
    let again = written(read);
    for (name, field) in value.as_object().unwrap() {
        assert!(is_within(field, &again[name]), "{name}: {field} became {}", again[name]);
    }
}

/// Whether all that a value says is in another one.
fn is_within(part: &Value, whole: &Value) -> bool {
    match part.as_object() {
        Some(fields) => fields.iter().all(|(name, field)| is_within(field, &whole[name])),
        None => part == whole,
    }
}

#[test]
fn requests_are_those_of_the_official_types() {
    assert_official::<official::InitializeRequest>(&initialize());
    assert_eq!(initialize()["protocolVersion"], written(ProtocolVersion::V1));
    let nothing = written(official::InitializeRequest::new(ProtocolVersion::V1));
    assert!(is_within(&initialize()["clientCapabilities"], &nothing["clientCapabilities"]), "{nothing}");
    assert_eq!(new_session("/w", &serde_json::json!([])), written(official::NewSessionRequest::new("/w")));
    assert_eq!(
        load_session("s", "/w", &serde_json::json!([])),
        written(official::LoadSessionRequest::new("s", "/w"))
    );
    assert_eq!(
        resume_session("s", "/w", &serde_json::json!([])),
        written(official::ResumeSessionRequest::new("s", "/w"))
    );
    assert_eq!(prompt("s", "hello"), written(official::PromptRequest::new("s", vec!["hello".into()])));
    assert_official::<official::CancelNotification>(&json!({"sessionId": "s"}));
}

#[test]
fn methods_are_those_of_the_official_schema() {
    let (agent, client) = (official::AGENT_METHOD_NAMES, official::CLIENT_METHOD_NAMES);
    assert_eq!(
        [
            methods::INITIALIZE,
            methods::NEW,
            methods::LOAD,
            methods::RESUME,
            methods::PROMPT,
            methods::CANCEL,
            methods::SET_CONFIG_OPTION
        ],
        [
            agent.initialize,
            agent.session_new,
            agent.session_load,
            agent.session_resume,
            agent.session_prompt,
            agent.session_cancel,
            agent.session_set_config_option
        ]
    );
    assert_eq!(client_methods::UPDATE, client.session_update);
    assert_eq!(client_methods::REQUEST_PERMISSION, client.session_request_permission);
}

#[test]
fn updates_of_the_official_types_are_read() {
    let chunk = official::ContentChunk::new("hello".into());
    let read = |update: official::SessionUpdate| Update::read(&written(update));
    assert_eq!(
        read(official::SessionUpdate::AgentMessageChunk(chunk.clone())),
        Some(Update::Message { text: "hello".to_owned(), message: None })
    );
    assert_eq!(
        read(official::SessionUpdate::AgentThoughtChunk(chunk.clone())),
        Some(Update::Thought("hello".to_owned()))
    );
    assert_eq!(read(official::SessionUpdate::UserMessageChunk(chunk)), None);
    let entry = |status| official::PlanEntry::new("do it", official::PlanEntryPriority::High, status);
    let plan = official::Plan::new(vec![
        entry(official::PlanEntryStatus::Completed),
        entry(official::PlanEntryStatus::Pending),
    ]);
    let expected = |is_completed| PlanEntry { content: "do it".to_owned(), is_completed };
    assert_eq!(
        read(official::SessionUpdate::Plan(plan)),
        Some(Update::Plan(vec![expected(true), expected(false)]))
    );
}

#[test]
fn tool_calls_of_the_official_types_are_read() {
    let diff = official::Diff::new("/w/a", "").old_text("x".to_owned());
    let call = official::ToolCall::new("c", "")
        .kind(official::ToolKind::Edit)
        .status(official::ToolCallStatus::InProgress)
        .name("edit_file".to_owned())
        .content(vec![diff.into(), "shown".into()])
        .locations(vec![official::ToolCallLocation::new("/w/a").line(7)])
        .raw_input(json!({"path": "a"}))
        .raw_output(json!("done"));
    let Some(Update::ToolCall(read)) = Update::read(&written(official::SessionUpdate::ToolCall(call))) else {
        panic!("not read");
    };
    let diff = Diff { path: "/w/a".into(), old_text: Some("x".to_owned()), new_text: String::new() };
    assert_eq!((read.id.as_str(), read.title.as_str(), read.name.as_deref()), ("c", "", Some("edit_file")));
    assert_eq!((read.kind, read.status), (ToolKind::Edit, ToolCallStatus::InProgress));
    assert_eq!(read.content, [ToolCallContent::Diff(diff), ToolCallContent::Text("shown".to_owned())]);
    assert_eq!(written(&read.locations), json!([{"path": "/w/a", "line": 7}]));
    assert_eq!((read.raw_input, read.raw_output), (Some(json!({"path": "a"})), Some(json!("done"))));
}

#[test]
fn kinds_and_states_are_those_of_the_official_types() {
    use official::ToolKind as K;
    let call = |value: Value| match Update::read(&value) {
        Some(Update::ToolCall(call)) => call,
        other => panic!("{value}: {other:?}"),
    };
    let kinds = [
        (K::Read, ToolKind::Read),
        (K::Edit, ToolKind::Edit),
        (K::Delete, ToolKind::Delete),
        (K::Move, ToolKind::Move),
        (K::Search, ToolKind::Search),
        (K::Execute, ToolKind::Execute),
        (K::Think, ToolKind::Think),
        (K::Fetch, ToolKind::Fetch),
        (K::SwitchMode, ToolKind::Other),
        (K::Other, ToolKind::Other),
    ];
    for (theirs, ours) in kinds {
        let value =
            written(official::SessionUpdate::ToolCall(official::ToolCall::new("c", "t").kind(theirs)));
        assert_eq!(call(value).kind, ours);
    }
    use official::ToolCallStatus as S;
    let states = [
        (S::Pending, ToolCallStatus::Pending),
        (S::InProgress, ToolCallStatus::InProgress),
        (S::Completed, ToolCallStatus::Completed),
        (S::Failed, ToolCallStatus::Failed),
    ];
    for (theirs, ours) in states {
        let value =
            written(official::SessionUpdate::ToolCall(official::ToolCall::new("c", "t").status(theirs)));
        assert_eq!(call(value).status, ours);
    }
}

#[test]
fn unreadable_fields_and_items_are_skipped() {
    let value = json!({
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": 7, "status": "paused", "name": [],
        "content": [{"type": "diff", "path": "/a"}, {"type": "hologram"}, 3],
        "locations": [{"line": 1}, {"path": "/b", "line": "x"}], "rawInput": null,
    });
    let theirs: official::ToolCall = baton_json::from_value(&value).unwrap();
    let Some(Update::ToolCall(ours)) = Update::read(&value) else { panic!("not read") };
    assert_eq!((ours.kind, ours.status, ours.name), (ToolKind::Other, ToolCallStatus::Pending, None));
    assert_eq!((ours.content.len(), theirs.content.len()), (0, 0));
    assert_eq!(written(&ours.locations), written(&theirs.locations));
    assert_eq!((ours.raw_input, theirs.raw_input), (None, None));
    assert_eq!(ours.locations[0].path, std::path::Path::new("/b"));
    for missing in ["toolCallId", "title"] {
        let mut value = value.clone();
        value.as_object_mut().unwrap().remove(missing);
        assert_eq!(Update::read(&value), None, "without {missing}");
    }
}

#[test]
fn updates_change_only_what_they_have() {
    let update = |value: Value| ToolCallUpdate::read(&value).unwrap();
    let mut call = ToolCall { id: "c".to_owned(), ..ToolCall::default() };
    call.update(update(
        json!({"toolCallId": "c", "title": "t", "kind": "execute", "rawInput": {"command": "ls"}}),
    ));
    call.update(update(json!({"toolCallId": "c", "kind": "other", "status": "completed", "title": null})));
    assert_eq!(
        (call.title.as_str(), call.kind, call.status),
        ("t", ToolKind::Execute, ToolCallStatus::Completed)
    );
    assert_eq!(call.raw_input, Some(json!({"command": "ls"})));
}

#[test]
fn permission_requests_are_read_whole_or_not_at_all() {
    let option = official::PermissionOption::new("o", "Allow", official::PermissionOptionKind::AllowOnce);
    let call = official::ToolCallUpdate::new("c", official::ToolCallUpdateFields::new());
    let request = written(official::RequestPermissionRequest::new("s", call, vec![option]));
    let read = PermissionRequest::read(&request).unwrap();
    assert_eq!(read.tool_call.id, "c");
    assert_eq!(
        read.options,
        [PermissionOption { id: "o".to_owned(), kind: PermissionOptionKind::AllowOnce }]
    );
    for (kind, expected) in [
        (official::PermissionOptionKind::AllowAlways, PermissionOptionKind::AllowAlways),
        (official::PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectOnce),
        (official::PermissionOptionKind::RejectAlways, PermissionOptionKind::RejectAlways),
    ] {
        let option = written(official::PermissionOption::new("o", "x", kind));
        assert_eq!(PermissionOption::read(&option).map(|option| option.kind), Some(expected));
    }
    for (path, value) in [
        ("/options/0/kind", json!("allow_sometimes")),
        ("/options/0/optionId", json!(1)),
        ("/options", Value::Null),
        ("/toolCall/toolCallId", Value::Null),
        ("/sessionId", Value::Null),
    ] {
        let mut request = request.clone();
        *request.pointer_mut(path).unwrap() = value;
        assert!(baton_json::from_value::<official::RequestPermissionRequest>(&request).is_err(), "{path}");
        assert_eq!(PermissionRequest::read(&request), None, "{path}");
    }
}

#[test]
fn permission_responses_are_those_of_the_official_types() {
    let response = |outcome| written(official::RequestPermissionResponse::new(outcome));
    let selected = official::SelectedPermissionOutcome::new("o");
    assert_eq!(
        permission_response(Some("o")),
        response(official::RequestPermissionOutcome::Selected(selected))
    );
    assert_eq!(permission_response(None), response(official::RequestPermissionOutcome::Cancelled));
}

#[test]
fn capabilities_of_the_official_types_are_read() {
    let read = |capabilities: official::AgentCapabilities| {
        Capabilities::read(&json!({"agentCapabilities": capabilities}))
    };
    assert_eq!(read(official::AgentCapabilities::new()), Capabilities { load: false, resume: false });
    let session = official::SessionCapabilities::new().resume(official::SessionResumeCapabilities::new());
    let both = official::AgentCapabilities::new().load_session(true).session_capabilities(session);
    assert_eq!(read(both), Capabilities { load: true, resume: true });
    assert_eq!(Capabilities::read(&Value::Null), Capabilities { load: false, resume: false });
}
