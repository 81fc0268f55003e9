//! Events on the wire: round trips, and unknown types.

use super::*;
use crate::ids::ToolCallId;
use crate::permission::PermissionRequest;
use crate::sandbox::{SandboxChoice, SandboxLevel, SandboxPolicy, Wall};

fn event(body: impl Into<Body>) -> Event {
    let body = body.into();
    Event {
        id: "0190c2f0-0000-7000-8000-000000000001".parse().unwrap(),
        timestamp: Timestamp(1_794_774_653_223),
        parent_id: None,
        agent_id: None,
        ephemeral: body.is_ephemeral(),
        body,
    }
}

#[track_caller]
fn check(event: &Event, expected: &str) {
    let text = serde_json::to_string(event).unwrap();
    assert_eq!(text, expected);
    assert_eq!(&Event::parse(&text).unwrap(), event);
}

#[test]
fn envelope_matches_the_sdks() {
    check(
        &event(TurnEnd { turn_id: "0".into(), model: None }),
        r#"{"type":"assistant.turn_end","data":{"turnId":"0"},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}"#,
    );
    check(
        &event(SessionIdle::default()),
        r#"{"type":"session.idle","data":{},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":null,"ephemeral":true}"#,
    );
}

#[test]
fn permission_request_round_trips() {
    let request = PermissionRequest::Read {
        tool_call_id: Some(ToolCallId::from("call_1")),
        path: "/tmp/a".into(),
        intention: "Read file".into(),
    };
    let requested = PermissionRequested {
        request_id: "r".into(),
        permission_request: request,
        prompt_request: None,
        resolved_by_hook: None,
        requires_user: None,
        wall: None,
    };
    check(
        &event(requested),
        r#"{"type":"permission.requested","data":{"requestId":"r","permissionRequest":{"kind":"read","toolCallId":"call_1","path":"/tmp/a","intention":"Read file"}},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}"#,
    );
}

#[test]
fn requests_of_walls_and_changes_of_the_sandbox_round_trip() {
    let requested = PermissionRequested {
        request_id: "r".into(),
        permission_request: PermissionRequest::Url {
            tool_call_id: None,
            url: "https://x.example".into(),
            intention: String::new(),
        },
        prompt_request: None,
        resolved_by_hook: None,
        requires_user: None,
        wall: Some(Wall::Host { origin: "https://x.example".into(), tool_call_id: Some("c".into()) }),
    };
    check(
        &event(requested.clone()),
        r#"{"type":"permission.requested","data":{"requestId":"r","permissionRequest":{"kind":"url","url":"https://x.example","intention":""},"batonWall":{"kind":"host","origin":"https://x.example","toolCallId":"c"}},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}"#,
    );
    let file = Some(Wall::File { path: ".envrc".into(), kept: "1".into(), tool_call_id: None });
    let of_file = event(PermissionRequested { wall: file, ..requested });
    let text = serde_json::to_string(&of_file).unwrap();
    assert!(text.contains(r#""batonWall":{"kind":"file","path":".envrc","kept":"1"}"#), "{text}");
    assert_eq!(Event::parse(&text).unwrap(), of_file);
    let policy = SandboxPolicy::of(SandboxLevel::ReadOnly);
    let changed = SandboxChanged { choice: Some(SandboxChoice { policy, chosen: true }), by: None };
    check(
        &event(changed),
        r#"{"type":"baton.sandbox_changed","data":{"choice":{"policy":{"level":"read-only","network":"none"},"chosen":true}},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}"#,
    );
}

/// An event that cannot be parsed is lost after a crash: every kind of request, with all fields set.
#[test]
fn requests_with_arguments_round_trip() {
    let (id, args) = (
        || Some(ToolCallId::from("call_1")),
        || Some(Json::from_text(r#"{"z":[1,null],"a":{"b":"c"}}"#).unwrap()),
    );
    let requests = [
        PermissionRequest::CustomTool {
            tool_call_id: id(),
            tool_name: "t".into(),
            tool_description: "d".into(),
            args: args(),
        },
        PermissionRequest::Mcp {
            tool_call_id: id(),
            server_name: "s".into(),
            tool_name: "t".into(),
            tool_title: "T".into(),
            args: args(),
            read_only: true,
            binding: Some("1:2".into()),
        },
        PermissionRequest::Hook {
            tool_call_id: id(),
            tool_name: "t".into(),
            tool_args: args(),
            hook_message: None,
        },
    ];
    for permission_request in requests {
        let requested = PermissionRequested {
            request_id: "r".into(),
            prompt_request: Some(permission_request.as_prompt()),
            permission_request,
            resolved_by_hook: None,
            requires_user: None,
            wall: None,
        };
        let event = event(requested);
        assert_eq!(Event::parse(&serde_json::to_string(&event).unwrap()).unwrap(), event);
    }
    let rules = vec![Json::from_text(r#"{"kind":"deny"}"#).unwrap()];
    let completed = event(PermissionCompleted {
        request_id: "r".into(),
        tool_call_id: id(),
        result: crate::permission::PermissionOutcome::DeniedByRules { rules },
        by: Some(crate::Author::http()),
    });
    assert_eq!(Event::parse(&serde_json::to_string(&completed).unwrap()).unwrap(), completed);
}

#[test]
fn unknown_event_type_is_preserved() {
    let line = r#"{"type":"session.from_the_future","data":{"a":[1]},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}"#;
    let parsed = Event::parse(line).unwrap();
    assert!(matches!(&parsed.body, Body::Unknown { kind, .. } if kind == "session.from_the_future"));
    check(&parsed, line);
}

#[test]
fn mismatched_data_yields_an_unknown_event() {
    let line = r#"{"type":"user.message","data":{"content":7},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}"#;
    assert!(matches!(Event::parse(line).unwrap().body, Body::Unknown { .. }));
}

#[test]
fn truncated_line_is_an_error() {
    let line = serde_json::to_string(&event(TurnEnd { turn_id: "0".into(), model: None })).unwrap();
    for end in 0..line.len() {
        assert!(Event::parse(&line[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn baton_events_are_not_public() {
    assert!(!Body::from(Renamed { name: "n".into(), by_user: true, by: None }).is_public());
    assert!(Body::from(SessionIdle::default()).is_public());
}

#[test]
fn prompt_headers_are_never_stored() {
    let prompt =
        Prompt { request_headers: [("authorization".into(), "secret".into())].into(), ..Prompt::default() };
    assert!(!serde_json::to_string(&prompt).unwrap().contains("secret"));
}
