//! Names in snapshots of sessions: those that older versions wrote are still read.

use baton_core::state::{CallStage, Durable, Stage};
use serde_json::Value;

/// Snapshot with a value in every field, serialised by the program of 2026-11-16 (commit d43e182).
const OLDER: &str = include_str!("fixtures/snapshot-2026-11-16.json");

/// Checks that a value has everything that an older one has; it may have more.
fn check_contains(newer: &Value, older: &Value, path: &str) {
    match (newer, older) {
        (Value::Object(newer), Value::Object(older)) => {
            for (name, value) in older {
                let path = format!("{path}.{name}");
                check_contains(newer.get(name).unwrap_or(&Value::Null), value, &path);
            }
        }
        (Value::Array(newer), Value::Array(older)) => {
            assert_eq!(newer.len(), older.len(), "{path}");
            for (index, (newer, older)) in newer.iter().zip(older).enumerate() {
                check_contains(newer, older, &format!("{path}[{index}]"));
            }
        }
        _ => assert_eq!(newer, older, "{path} is lost, or has another name"),
    }
}

#[test]
fn snapshot_of_an_older_version_is_read_completely() {
    let older: Value = serde_json::from_str(OLDER).expect("the fixture is JSON");
    let durable: Durable = serde_json::from_str(OLDER).expect("the snapshot is read");
    check_contains(&serde_json::to_value(&durable).expect("it can be written"), &older, "snapshot");

    // A field with a default would be read as that default if its name had changed on both sides.
    let turn = durable.turn.expect("the running turn");
    assert_eq!((turn.stage, turn.agents[0].stage), (Stage::Acting, Stage::CallingModel));
    assert!(turn.has_notification && turn.switched && turn.fallback_request.is_some());
    assert!(matches!(turn.calls[0].stage, CallStage::AwaitingPermission { .. }));
    assert!(durable.removed.contains(4) && !durable.removed.contains(6));
    assert_eq!((durable.inbox.len(), durable.keys.len(), durable.grants.len()), (1, 1, 1));
    assert_eq!((durable.rules.denied.len(), durable.totals.prompts), (1, 7));
}
