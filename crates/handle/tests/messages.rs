//! Failures and joins survive serialisation: a session may live in another process than its doors.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Debug;

use baton_core::Profile;
use baton_handle::{Failure, JoinKind, JoinReply, JoinRequest, Returning};
use baton_protocol::json::Json;
use baton_protocol::params::SessionParams;
use baton_protocol::workflow::Definition;
use baton_protocol::{ClientId, SessionId};
use baton_settings::{McpSwitch, OptionsEdit, SettingsChange, SettingsEdit};
use baton_store::{Epoch, Holder, Owner, Seq, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Serialises a value and reads it back. Compares the debug form too, which shows fields that serialisation skips.
fn assert_survives<T: Serialize + DeserializeOwned + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(format!("{read:?}"), format!("{value:?}"), "{text}");
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

fn session() -> SessionId {
    "s".parse().unwrap()
}

fn text_json() -> Json {
    Json::from_text(r#"{"b":1.50,"a":[null,"x"]}"#).unwrap()
}

fn edits() -> Vec<SettingsEdit> {
    let options = OptionsEdit {
        client_name: Some("n".into()),
        available_tools: Some(vec!["bash".into()]),
        streaming: Some(true),
        environment: Some(serde_json::from_str(r#"{"PATH":"/bin"}"#).unwrap()),
        ..OptionsEdit::default()
    };
    vec![
        SettingsEdit::Options(Box::new(options)),
        SettingsEdit::AddProviders { client: ClientId(1), providers: Some(Vec::new()), models: None },
        SettingsEdit::ModelCapabilities(text_json()),
        SettingsEdit::SelectAgent(Some("a".into())),
        SettingsEdit::SubAgents {
            models: BTreeMap::from([("explore".into(), "m".into())]),
            disabled: vec!["task".into()],
        },
        SettingsEdit::McpServer { name: "m".into(), switch: McpSwitch::Started(Some(text_json())) },
        SettingsEdit::SuppliesTokens(true),
        SettingsEdit::SuppliesHeaders,
        SettingsEdit::AppContext(text_json()),
        SettingsEdit::Credentials(None),
        SettingsEdit::Introduce { identity: None, no_questions: true },
    ]
}

fn failures() -> Vec<Failure> {
    let owner = Owner { server: "x".into(), host: "h".into(), boot: "b".into(), pid: 7, started: 8 };
    let holder = Box::new(Holder { owner, epoch: Epoch(9), busy: true });
    let store = [
        StoreError::Exists(session()),
        StoreError::NotFound(session()),
        StoreError::Held { session: session(), holder },
        StoreError::Fenced(session()),
        StoreError::OutOfStep { session: session(), expected: Seq(1), actual: Seq(2) },
        StoreError::Medium { doing: "write to".into(), path: "/p".into(), cause: "full".into() },
    ];
    let mut failures: Vec<Failure> = store.map(Failure::Store).into();
    failures.extend([
        Failure::NotFound(session()),
        Failure::Refused("why".into()),
        Failure::Internal(session()),
    ]);
    failures
}

#[test]
fn every_failure_survives_serialisation() {
    failures().iter().for_each(assert_survives);
    for failure in failures() {
        let text = failure.to_string();
        let read: Failure = serde_json::from_value(serde_json::to_value(&failure).unwrap()).unwrap();
        assert_eq!(read.to_string(), text, "clients see the same message");
    }
}

#[test]
fn joins_survive_serialisation() {
    let workflows = Some(vec![Definition { name: "w".into(), ..Definition::default() }]);
    let params = SessionParams { keep: true, model: Some("m".into()), workflows, ..SessionParams::default() };
    for kind in [JoinKind::Create, JoinKind::Resume] {
        let params = Box::new(params.clone());
        assert_survives(&JoinRequest {
            client: ClientId(1),
            profile: Profile::default(),
            params,
            legacy: true,
            kind,
            returning: None,
        });
    }
    assert_survives(&JoinReply { elicitation: true, files: "/state/s".into(), at: Seq(3) });
}

#[test]
fn returning_client_brings_all_changes_that_the_other_version_knows() {
    let changes = edits().into_iter().map(|edit| SettingsChange { at: 7, edit }).collect();
    let returning = Returning { joined_at: Seq(3), changes };
    assert_survives(&returning);
    let mut newer = serde_json::to_value(&returning).unwrap();
    newer["changes"][0]["edit"] = json!({ "of_the_next_version": { "a": 1 } });
    let read: Returning = serde_json::from_str(&newer.to_string()).unwrap();
    assert_eq!(read.changes.len(), returning.changes.len() - 1);
    assert_eq!(read.joined_at, Seq(3));
}
