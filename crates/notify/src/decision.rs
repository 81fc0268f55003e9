//! Describes how a request ended, for the people who were notified of it. The outcome is read from the history, which names
//! the author.

use std::collections::BTreeMap;

use baton_protocol::event::{Body, Event};
use baton_protocol::permission::PermissionOutcome;
use baton_protocol::{Author, RequestId};
use baton_store::Record;

/// Reason of a withdrawal that no record explains.
pub(crate) const UNKNOWN: &str = "Answered or withdrawn.";

/// Returns how each of these requests ended, as far as the records say who answered.
pub(crate) fn decisions(records: &[Record], requests: &[RequestId]) -> BTreeMap<String, String> {
    let is_end =
        |record: &&Record| matches!(record.kind.as_ref(), "permission.completed" | "baton.request_closed");
    let events = records.iter().filter(is_end);
    let events = events.filter_map(|record| Event::parse(&String::from_utf8_lossy(&record.body)).ok());
    let ends = events.filter_map(|event| decision(&event.body));
    ends.filter(|(request, _)| requests.contains(request))
        .map(|(request, text)| (request.to_string(), text))
        .collect()
}

fn decision(body: &Body) -> Option<(RequestId, String)> {
    let (request, verb, by): (_, _, &Option<Author>) = match body {
        Body::PermissionCompleted(completed) => {
            let verb = match &completed.result {
                PermissionOutcome::Approved {} => "Allowed once",
                PermissionOutcome::ApprovedForSession { .. } => "Allowed for the session",
                PermissionOutcome::ApprovedForLocation { .. } => "Allowed for the location",
                PermissionOutcome::Cancelled { .. } => "Cancelled",
                _ => "Denied",
            };
            (&completed.request_id, verb, &completed.by)
        }
        Body::RequestClosed(closed) => (&closed.request_id, "Answered", &closed.by),
        _ => return None,
    };
    let by = by.as_ref()?;
    Some((request.clone(), format!("{verb} by {}.", by.0)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn record(kind: &str, data: &Value) -> Record {
        let id = "0190c2f0-0000-7000-8000-000000000001";
        let event = json!({ "type": kind, "data": data, "id": id, "timestamp": "2026-11-15T20:30:53.223Z", "parentId": null });
        Record { seq: baton_store::Seq(1), kind: kind.into(), body: event.to_string().into() }
    }

    #[test]
    fn author_of_an_answer_is_named() {
        let records = [
            record(
                "permission.completed",
                &json!({ "requestId": "a", "result": { "kind": "approved" }, "batonBy": "telegram:5" }),
            ),
            record(
                "permission.completed",
                &json!({ "requestId": "b", "result": { "kind": "denied-interactively-by-user" }, "batonBy": "ada" }),
            ),
            record("baton.request_closed", &json!({ "requestId": "c", "by": "HTTP API" })),
            record("baton.request_closed", &json!({ "requestId": "d" })),
            record(
                "permission.completed",
                &json!({ "requestId": "e", "result": { "kind": "approved" }, "batonBy": "ada" }),
            ),
        ];
        let requests = ["a", "b", "c", "d"].map(|id| RequestId(id.into()));
        let found = decisions(&records, &requests);
        let expected =
            [("a", "Allowed once by telegram:5."), ("b", "Denied by ada."), ("c", "Answered by HTTP API.")];
        assert_eq!(found, expected.map(|(id, text)| (id.to_owned(), text.to_owned())).into());
    }
}
