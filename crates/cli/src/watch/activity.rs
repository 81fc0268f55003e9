//! Describes in a few words what a session is doing, for the status line while nothing else is printed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use baton_protocol::ToolCallId;
use baton_protocol::event::{Body, Event};

/// What a session is doing, as far as its events tell.
#[derive(Debug)]
pub(crate) struct Activity {
    phase: Phase,
    since: Instant,
    /// The model or engine of the turn.
    model: Option<String>,
    /// Running calls, oldest first.
    calls: Vec<(ToolCallId, String, Instant)>,
    /// MCP servers that are starting.
    servers: BTreeSet<String>,
    /// Since when the server is away.
    lost: Option<Instant>,
    /// Since when the user is asked.
    asked: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The prompt waits for its turn.
    Queued,
    /// The model, or the engine, has not answered.
    Model,
    /// The model streams its reasoning, which is not printed.
    Reasoning,
    /// The model streams the arguments of a call.
    Call(Option<String>),
    Compaction,
}

impl Activity {
    /// Begins with a prompt that was just sent.
    #[must_use]
    pub(crate) fn of_prompt(now: Instant) -> Self {
        Self {
            phase: Phase::Queued,
            since: now,
            model: None,
            calls: Vec::new(),
            servers: BTreeSet::new(),
            lost: None,
            asked: None,
        }
    }

    /// The connection to the server was lost: nothing is known of the session.
    pub(crate) fn lose(&mut self, now: Instant) {
        self.lost = Some(now);
    }

    /// The server is connected again.
    pub(crate) fn reconnect(&mut self) {
        self.lost = None;
    }

    /// A request is put to the user, or no longer.
    pub(crate) fn ask(&mut self, is_asked: bool, now: Instant) {
        self.asked = is_asked.then(|| self.asked.unwrap_or(now));
    }

    /// The turn of the prompt has begun.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        self.phase = Phase::Model;
        self.since = now;
    }

    /// Keeps track of the session.
    pub(crate) fn track(&mut self, event: &Event, now: Instant) {
        match &event.body {
            Body::ToolStart(start) => {
                self.calls.push((start.tool_call_id.clone(), start.tool_name.clone(), now));
            }
            Body::ToolComplete(complete) => {
                self.calls.retain(|(id, ..)| *id != complete.tool_call_id);
                self.enter(Phase::Model, now);
            }
            Body::Unknown { kind, data } if kind == "session.mcp_server_status_changed" => {
                self.track_server(data);
                self.enter(Phase::Model, now);
            }
            _ if event.agent_id.is_some() => {}
            Body::TurnStart(start) => {
                self.model.clone_from(&start.model);
                self.enter(Phase::Model, now);
            }
            Body::AssistantMessage(_) | Body::MessageDelta(_) | Body::ModelCallFailure(_) => {
                self.enter(Phase::Model, now);
            }
            Body::ReasoningDelta(_) => self.enter(Phase::Reasoning, now),
            Body::ToolCallDelta(delta) => {
                let known = match &self.phase {
                    Phase::Call(name) => name.clone(),
                    _ => None,
                };
                self.enter(Phase::Call(delta.tool_name.clone().or(known)), now);
            }
            Body::CompactionStart(_) => self.enter(Phase::Compaction, now),
            Body::CompactionComplete(_) => self.enter(Phase::Model, now),
            _ => {}
        }
    }

    /// Keeps the time if the phase stays.
    fn enter(&mut self, phase: Phase, now: Instant) {
        if self.phase != phase && self.phase != Phase::Queued {
            self.phase = phase;
            self.since = now;
        }
    }

    fn track_server(&mut self, data: &baton_protocol::Json) {
        let data: serde_json::Value = data.parse().unwrap_or_default();
        let Some(server) = data["serverName"].as_str() else { return };
        if data["status"] == "pending" {
            self.servers.insert(server.to_owned());
        } else {
            self.servers.remove(server);
        }
    }

    /// Describes what the session is doing, and for how long.
    #[must_use]
    pub(crate) fn describe(&self, now: Instant) -> String {
        let (what, since) = self.doing();
        format!("… {what} · {}", lasting(now.saturating_duration_since(since)))
    }

    fn doing(&self) -> (String, Instant) {
        if let Some(since) = self.lost {
            return ("reconnecting".to_owned(), since);
        }
        if let Some(since) = self.asked {
            return ("waiting for your answer".to_owned(), since);
        }
        let model = self.model.as_deref().unwrap_or("the model");
        let what = match &self.phase {
            Phase::Queued => "queued: the session is working on another prompt".to_owned(),
            _ if !self.calls.is_empty() => return self.running(),
            _ if !self.servers.is_empty() => {
                let names: Vec<&str> = self.servers.iter().map(String::as_str).collect();
                format!("starting MCP servers: {}", names.join(", "))
            }
            Phase::Model => format!("waiting for {model}"),
            Phase::Reasoning => format!("{model} is reasoning"),
            Phase::Call(Some(tool)) => format!("{model} is writing a call of {tool}"),
            Phase::Call(None) => format!("{model} is writing a call"),
            Phase::Compaction => "summarising the conversation".to_owned(),
        };
        (what, self.since)
    }

    /// Describes the running calls, since the oldest began.
    fn running(&self) -> (String, Instant) {
        let (name, since) =
            self.calls.first().map_or(("a tool", self.since), |(_, name, at)| (name.as_str(), *at));
        let what = match self.calls.len() {
            0 | 1 => format!("running {name}"),
            2 => format!("running {name} and another tool"),
            more => format!("running {name} and {} other tools", more - 1),
        };
        (what, since)
    }
}

/// Writes a duration: `12 s`, `3 min 5 s`.
fn lasting(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// An activity whose clock is set by tests, in seconds since the prompt.
    struct Watched {
        activity: Activity,
        start: Instant,
    }

    impl Watched {
        fn queued() -> Self {
            let start = Instant::now();
            Self { activity: Activity::of_prompt(start), start }
        }

        fn begun() -> Self {
            let mut watched = Self::queued();
            watched.activity.begin_turn(watched.start);
            watched.event(0, "assistant.turn_start", &json!({ "turnId": "1", "model": "codex" }));
            watched
        }

        fn at(&self, second: u64) -> Instant {
            self.start + Duration::from_secs(second)
        }

        fn event(&mut self, second: u64, kind: &str, data: &Value) {
            let (id, time) = ("01a1eb9f-13d3-7660-b785-e025f4803d4d", "2026-11-17T22:35:17.123Z");
            let event = json!({ "type": kind, "data": data, "id": id, "timestamp": time, "parentId": null });
            let now = self.at(second);
            self.activity.track(&Event::parse(&event.to_string()).unwrap(), now);
        }

        fn call(&mut self, second: u64, id: &str, tool: &str) {
            self.event(second, "tool.execution_start", &json!({ "toolCallId": id, "toolName": tool }));
        }

        fn shown(&self, second: u64) -> String {
            self.activity.describe(self.at(second))
        }
    }

    #[test]
    fn queued_prompt_says_so_until_its_turn() {
        let mut watched = Watched::queued();
        watched.call(1, "a", "bash");
        assert_eq!(watched.shown(65), "… queued: the session is working on another prompt · 1 min 5 s");
        watched.event(66, "tool.execution_complete", &json!({ "toolCallId": "a", "success": true }));
        watched.activity.begin_turn(watched.at(70));
        assert_eq!(watched.shown(75), "… waiting for the model · 5 s");
    }

    #[test]
    fn silent_model_is_named_and_timed() {
        let mut watched = Watched::begun();
        assert_eq!(watched.shown(30), "… waiting for codex · 30 s");
        watched.event(31, "assistant.reasoning_delta", &json!({ "reasoningId": "r", "deltaContent": "hm" }));
        watched.event(40, "assistant.reasoning_delta", &json!({ "reasoningId": "r", "deltaContent": "hm" }));
        assert_eq!(watched.shown(41), "… codex is reasoning · 10 s");
        let delta = |name: Option<&str>| json!({ "toolCallId": "a", "toolName": name, "inputDelta": "x" });
        watched.event(41, "assistant.tool_call_delta", &delta(Some("edit")));
        watched.event(45, "assistant.tool_call_delta", &delta(None));
        assert_eq!(watched.shown(51), "… codex is writing a call of edit · 10 s");
    }

    #[test]
    fn running_tools_come_first() {
        let mut watched = Watched::begun();
        watched.call(10, "a", "bash");
        watched.call(12, "b", "view");
        assert_eq!(watched.shown(20), "… running bash and another tool · 10 s");
        watched.event(21, "tool.execution_complete", &json!({ "toolCallId": "a", "success": true }));
        assert_eq!(watched.shown(22), "… running view · 10 s");
        watched.event(23, "tool.execution_complete", &json!({ "toolCallId": "b", "success": true }));
        assert!(watched.shown(28).starts_with("… waiting for codex"));
    }

    #[test]
    fn call_that_waits_for_an_answer_or_a_server_is_not_running() {
        let mut watched = Watched::begun();
        watched.call(10, "a", "bash");
        watched.activity.ask(true, watched.at(11));
        watched.activity.ask(true, watched.at(15));
        assert_eq!(watched.shown(21), "… waiting for your answer · 10 s");
        watched.activity.lose(watched.at(21));
        assert_eq!(watched.shown(28), "… reconnecting · 7 s");
        watched.activity.reconnect();
        watched.activity.ask(false, watched.at(30));
        assert_eq!(watched.shown(30), "… running bash · 20 s");
    }

    #[test]
    fn starting_servers_are_named() {
        let mut watched = Watched::begun();
        let status = |name: &str, status: &str| json!({ "serverName": name, "status": status });
        let changed = "session.mcp_server_status_changed";
        watched.event(0, changed, &status("slow", "pending"));
        watched.event(0, changed, &status("quick", "pending"));
        watched.event(1, changed, &status("quick", "connected"));
        assert_eq!(watched.shown(9), "… starting MCP servers: slow · 9 s");
        watched.event(20, changed, &status("slow", "failed"));
        assert!(watched.shown(21).starts_with("… waiting for codex"));
    }
}
