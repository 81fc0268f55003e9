//! Assembles tool calls from their parts, each with a unique id.
//!
//! As the API defines it, each part carries the index of its call, and the first one also the id and the tool's name.
//! Providers omit the index, repeat the id, omit it, use one index for all calls, or one id for all of them.

use std::collections::HashSet;

use crate::endpoint::Endpoint;
use crate::{Delta, Message, ModelError, Request, ToolCall, failure};

/// Maximum number of calls in one answer; more are a malfunction of the model.
const MOST_CALLS: usize = 1000;

/// Maximum size of the arguments of all calls in one answer. The longest answers of models have about a megabyte; arguments are
/// stored, shown to clients and sent back with every later request, so each byte of them is kept many times.
const LONGEST_ARGUMENTS: usize = 4 << 20;

/// A part of a call, from any wire format. Absent fields are `None` or empty.
#[derive(Debug, Default)]
pub(crate) struct CallDelta {
    pub(crate) index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// The calls of one answer.
pub(crate) struct Calls {
    calls: Vec<Call>,
    used_ids: HashSet<String>,
    /// Size of the arguments of all calls.
    size: usize,
}

struct Call {
    index: Option<u64>,
    /// The id as the provider wrote it, by which further parts refer to the call; ours may differ.
    wire_id: String,
    call: ToolCall,
}

impl Calls {
    /// Creates an empty list. Ids used in the conversation are reserved: results would be matched with the
    /// wrong call.
    pub(crate) fn after(request: &Request) -> Self {
        let used_ids = request.messages.iter().filter_map(|message| match &**message {
            Message::Assistant { tool_calls, .. } => Some(tool_calls.iter().map(|call| call.id.clone())),
            _ => None,
        });
        Self { calls: Vec::new(), used_ids: used_ids.flatten().collect(), size: 0 }
    }

    /// Takes a part and returns what is new.
    pub(crate) fn take(&mut self, delta: CallDelta, answer_id: Option<&str>) -> Delta {
        let CallDelta { index, id: wire_id, name, mut arguments } = delta;
        let position = match self.find(index, &wire_id, !name.is_empty()) {
            Some(position) => position,
            None => self.begin(index, wire_id, answer_id),
        };
        let call = &mut self.calls[position].call;
        // Some providers repeat the name with every part; none splits it.
        if call.name.is_empty() {
            call.name = name;
        }
        self.size += arguments.len();
        // What is too long is dropped at once; `check` then fails the answer.
        if self.size > LONGEST_ARGUMENTS {
            arguments = String::new();
        }
        call.arguments.push_str(&arguments);
        Delta::ToolCall { id: call.id.clone(), name: call.name.clone(), arguments }
    }

    /// Takes a complete call, whatever its index.
    pub(crate) fn take_whole(&mut self, delta: CallDelta, answer_id: Option<&str>) -> Delta {
        // A fresh index separates it from all others.
        let index = Some(u64::MAX - self.calls.len() as u64);
        self.take(CallDelta { index, ..delta }, answer_id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Fails if there are too many calls, or too long arguments.
    pub(crate) fn check(&self, endpoint: &Endpoint) -> Result<(), ModelError> {
        let problem = match (self.calls.len(), self.size) {
            (..=MOST_CALLS, ..=LONGEST_ARGUMENTS) => return Ok(()),
            (..=MOST_CALLS, _) => format!("sent tool arguments of more than {LONGEST_ARGUMENTS} bytes"),
            _ => format!("made more than {MOST_CALLS} tool calls at once"),
        };
        Err(failure::invalid(endpoint, &problem))
    }

    pub(crate) fn finish(self) -> Vec<ToolCall> {
        let calls = self.calls.into_iter().map(|call| call.call);
        // A tool without parameters is often called without arguments. Servers that parse the arguments as
        // JSON would refuse an empty string in every later request, and the conversation would be stuck.
        calls
            .map(|call| if call.arguments.trim().is_empty() { with_no_arguments(call) } else { call })
            .collect()
    }

    /// Finds the call that a part continues.
    fn find(&self, index: Option<u64>, wire_id: &str, names_a_tool: bool) -> Option<usize> {
        let same_index = |call: &Call| call.index == index;
        let same_id = |call: &Call| call.wire_id == wire_id;
        match (index, wire_id) {
            // With neither index nor id, a tool's name starts a new call.
            (None, "") if names_a_tool => None,
            (None, "") => self.calls.len().checked_sub(1),
            (None, _) => self.calls.iter().rposition(same_id),
            (Some(_), "") => self.calls.iter().rposition(same_index),
            // A different id and a name under the same index: a provider that uses index 0 for every call.
            (Some(_), _) if names_a_tool => self
                .calls
                .iter()
                .rposition(|call| same_index(call) && (same_id(call) || call.wire_id.is_empty())),
            (Some(_), _) => self
                .calls
                .iter()
                .rposition(|call| same_index(call) && same_id(call))
                .or_else(|| self.calls.iter().rposition(same_index)),
        }
    }

    fn begin(&mut self, index: Option<u64>, wire_id: String, answer_id: Option<&str>) -> usize {
        let id = self.unique_id(&wire_id, answer_id);
        let call = ToolCall { id, name: String::new(), arguments: String::new() };
        self.calls.push(Call { index, wire_id, call });
        self.calls.len() - 1
    }

    /// Returns the provider's id, or one derived from the answer's id, with a number if it is taken.
    fn unique_id(&mut self, wire_id: &str, answer_id: Option<&str>) -> String {
        let wanted = match wire_id {
            "" => format!("call_{}", answer_id.unwrap_or("1")),
            id => id.to_owned(),
        };
        let mut id = wanted.clone();
        // Starting from the number of calls keeps this cheap when every call has the same id.
        let mut number = (self.calls.len() + 1).max(2);
        while !self.used_ids.insert(id.clone()) {
            id = format!("{wanted}_{number}");
            number += 1;
        }
        id
    }
}

fn with_no_arguments(call: ToolCall) -> ToolCall {
    ToolCall { arguments: "{}".to_owned(), ..call }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::chat::WireCallDelta;

    /// Feeds parts in; expects calls as `(id, name, arguments)`.
    fn check(deltas: &Value, expected: &[(&str, &str, &str)]) {
        let mut calls = Calls::after(&Request::default());
        let deltas: Vec<WireCallDelta> = baton_json::from_value(deltas).unwrap();
        let deltas: Vec<Delta> =
            deltas.into_iter().map(|delta| calls.take(delta.into(), Some("a"))).collect();
        let calls = calls.finish();
        let found: Vec<_> =
            calls.iter().map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str())).collect();
        assert_eq!(found, expected);
        for delta in deltas {
            let Delta::ToolCall { id, .. } = delta else { panic!("{delta:?}") };
            assert!(calls.iter().any(|call| call.id == id), "a part of an unknown call: {id}");
        }
    }

    fn delta(index: u64, id: &str, name: &str, arguments: &str) -> Value {
        json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
    }

    #[test]
    fn parts_are_joined_by_index() {
        check(
            &json!([
                delta(0, "x", "bash", ""),
                {"index": 1, "id": "y", "function": {"name": "view"}},
                {"index": 0, "function": {"arguments": "{\"a\""}},
                {"index": 1, "function": {"arguments": "{}"}},
                {"index": 0, "function": {"arguments": ":1}"}},
            ]),
            &[("x", "bash", "{\"a\":1}"), ("y", "view", "{}")],
        );
    }

    #[test]
    fn id_can_be_repeated_with_or_without_the_name() {
        check(
            &json!([delta(0, "x", "bash", "{"), delta(0, "x", "", "}"), delta(0, "x", "bash", " ")]),
            &[("x", "bash", "{} ")],
        );
    }

    #[test]
    fn arguments_that_are_too_long_are_dropped_and_fail_the_answer() {
        let endpoint = Endpoint::new("https://api.example.com/v1").unwrap();
        let mut calls = Calls::after(&Request::default());
        let part = "x".repeat(1 << 20);
        for number in 1..=6 {
            let delta =
                CallDelta { index: Some(number % 2), arguments: part.clone(), ..CallDelta::default() };
            let Delta::ToolCall { arguments, .. } = calls.take(delta, None) else { panic!("another delta") };
            let fits = number <= 4;
            assert_eq!((arguments.len() == part.len(), calls.check(&endpoint).is_ok()), (fits, fits));
        }
        assert_eq!(calls.finish().iter().map(|call| call.arguments.len()).sum::<usize>(), LONGEST_ARGUMENTS);
    }

    #[test]
    fn index_can_be_missing() {
        check(
            &json!([
                {"id": "x", "function": {"name": "bash", "arguments": "{"}},
                {"function": {"arguments": "}"}},
                {"id": "y", "function": {"name": "view", "arguments": "{}"}},
                {"id": "y", "function": {"arguments": " "}},
            ]),
            &[("x", "bash", "{}"), ("y", "view", "{} ")],
        );
    }

    #[test]
    fn index_can_be_the_same_for_all_calls() {
        check(
            &json!([delta(0, "x", "bash", "{}"), delta(0, "y", "view", "{"), delta(0, "y", "", "}")]),
            &[("x", "bash", "{}"), ("y", "view", "{}")],
        );
    }

    #[test]
    fn ids_can_be_missing_or_the_same_for_all_calls() {
        check(
            &json!([
                {"index": 0, "function": {"name": "bash", "arguments": "{}"}},
                {"function": {"name": "view", "arguments": "{}"}},
            ]),
            &[("call_a", "bash", "{}"), ("call_a_2", "view", "{}")],
        );
        check(
            &json!([delta(0, "x", "bash", "1"), delta(1, "x", "view", "2"), delta(2, "x", "grep", "3")]),
            &[("x", "bash", "1"), ("x_2", "view", "2"), ("x_3", "grep", "3")],
        );
    }

    #[test]
    fn late_id_belongs_to_its_call() {
        check(
            &json!([{"index": 0, "function": {"name": "bash"}}, delta(0, "late", "bash", "{}")]),
            &[("call_a", "bash", "{}")],
        );
    }

    #[test]
    fn arguments_can_be_json_or_missing() {
        check(
            &json!([
                {"index": 0, "id": "x", "function": {"name": "bash", "arguments": {"b": 1, "a": [2]}}},
                {"index": 1, "id": "y", "function": {"name": "now", "arguments": null}},
                {"index": 2, "id": "z", "function": {"name": "later"}},
            ]),
            &[("x", "bash", r#"{"b":1,"a":[2]}"#), ("y", "now", "{}"), ("z", "later", "{}")],
        );
    }

    #[test]
    fn ids_of_the_conversation_are_not_reused() {
        let call = ToolCall { id: "x".into(), name: "bash".into(), arguments: "{}".into() };
        let message =
            Message::Assistant { text: String::new(), tool_calls: vec![call], reasoning_opaque: None };
        let request = Request { messages: vec![Arc::new(message)], ..Request::default() };
        let mut calls = Calls::after(&request);
        for _ in 0..2 {
            let again: WireCallDelta = baton_json::from_value(&delta(0, "x", "bash", "{}")).unwrap();
            calls.take_whole(again.into(), None);
        }
        let ids: Vec<_> = calls.finish().into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["x_2", "x_3"]);
    }
}
