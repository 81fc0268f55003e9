//! Counters of what sessions do, and pending requests with their age, for operators.
//!
//! Counters start at zero with the process, and count what passes through it: recorded events, and the ephemeral ones that
//! report usage and failures of model calls. No label has a value that a model, a tool or a client chooses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_core::{Call, CallStage, ClientRequest, Session};
use baton_protocol::SessionId;
use baton_protocol::event::{AssistantUsage, Body, ModelCallFailure, Outcome, Question};

/// Names of token kinds, in the order of the counters.
const TOKENS: [&str; 5] = ["input", "output", "cache_read", "cache_write", "reasoning"];
/// Names of causes of model errors, in the order of the counters.
const CAUSES: [&str; 4] = ["rate_limit", "client", "server", "connection"];
/// Names of outcomes of tool calls, in the order of the counters.
const TOOLS: [&str; 2] = ["success", "failure"];
/// Names of outcomes of turns, in the order of the counters.
const OUTCOMES: [&str; 4] = ["completed", "failed", "cancelled", "interrupted"];
/// Kinds of requests.
const KINDS: [&str; 9] = [
    "permission",
    "tool",
    "question",
    "plan",
    "fallback_model",
    "command",
    "login",
    "elicitation",
    "sampling",
];

/// Counters of a runtime.
#[derive(Default)]
pub struct Metrics {
    prompts: AtomicU64,
    turns: [AtomicU64; 4],
    tokens: [AtomicU64; 5],
    model_calls: AtomicU64,
    model_errors: [AtomicU64; 4],
    tool_calls: [AtomicU64; 2],
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    cost: f64,
    /// Pending requests of live sessions, with the time when this process saw them first.
    pending: HashMap<SessionId, Vec<PendingEntry>>,
}

struct PendingEntry {
    id: String,
    kind: &'static str,
    since: Instant,
}

/// Values of all counters at one moment. Pairs are a label's value and the count.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Accepted prompts.
    pub prompts: u64,
    /// Turns by outcome.
    pub turns: [(&'static str, u64); 4],
    /// Tokens of model calls by kind.
    pub tokens: [(&'static str, u64); 5],
    /// Cost of model calls in US dollars, as far as providers and engines report it.
    pub cost: f64,
    /// Answered model calls.
    pub model_calls: u64,
    /// Failed attempts of model calls by cause.
    pub model_errors: [(&'static str, u64); 4],
    /// Ended tool calls by success.
    pub tool_calls: [(&'static str, u64); 2],
    /// Pending requests of live sessions by kind: their number, and the age of the oldest.
    pub pending: [(&'static str, u64, Duration); 9],
}

impl Metrics {
    /// Counts an event that is recorded or shown.
    pub fn observe(&self, body: &Body) {
        match body {
            Body::PromptAccepted(_) => add(&self.prompts, 1),
            Body::TurnSettled(settled) => add(&self.turns[outcome(settled.outcome)], 1),
            Body::AssistantUsage(usage) => self.observe_usage(usage),
            Body::ModelCallFailure(failure) => add(&self.model_errors[cause(failure)], 1),
            Body::ToolComplete(complete) => add(&self.tool_calls[usize::from(!complete.success)], 1),
            _ => {}
        }
    }

    fn observe_usage(&self, usage: &AssistantUsage) {
        add(&self.model_calls, 1);
        let counts = [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        ];
        self.tokens.iter().zip(counts).for_each(|(counter, count)| add(counter, count.unwrap_or(0)));
        if let Some(cost) = usage.cost.filter(|cost| cost.is_finite() && *cost > 0.0) {
            self.lock().cost += cost;
        }
    }

    /// Notes the pending requests of a session. Cheap for a session without any, which is nearly always so.
    pub fn note_pending(&self, session: &Session) {
        let found = pending(session);
        let mut inner = self.lock();
        if found.is_empty() {
            inner.pending.remove(&session.id);
            return;
        }
        let known = inner.pending.remove(&session.id).unwrap_or_default();
        let since = |id: &str| known.iter().find(|known| known.id == id).map(|known| known.since);
        let all = found.into_iter().map(|(id, kind)| {
            let since = since(&id).unwrap_or_else(Instant::now);
            PendingEntry { id, kind, since }
        });
        inner.pending.insert(session.id.clone(), all.collect());
    }

    /// Forgets the pending requests of a session that leaves the memory.
    pub fn forget(&self, session: &SessionId) {
        self.lock().pending.remove(session);
    }

    /// Reads all values.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let inner = self.lock();
        let pending = KINDS.map(|kind| {
            let waiting = || inner.pending.values().flatten().filter(|request| request.kind == kind);
            let oldest = waiting().map(|request| request.since.elapsed()).max().unwrap_or_default();
            (kind, waiting().count() as u64, oldest)
        });
        Snapshot {
            prompts: self.prompts.load(Ordering::Relaxed),
            turns: read(OUTCOMES, &self.turns),
            tokens: read(TOKENS, &self.tokens),
            cost: inner.cost,
            model_calls: self.model_calls.load(Ordering::Relaxed),
            model_errors: read(CAUSES, &self.model_errors),
            tool_calls: read(TOOLS, &self.tool_calls),
            pending,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn read<const N: usize>(names: [&'static str; N], counters: &[AtomicU64; N]) -> [(&'static str, u64); N] {
    std::array::from_fn(|n| (names[n], counters[n].load(Ordering::Relaxed)))
}

fn outcome(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Completed => 0,
        Outcome::Failed => 1,
        Outcome::Cancelled => 2,
        Outcome::Interrupted => 3,
    }
}

fn cause(failure: &ModelCallFailure) -> usize {
    match failure.status_code {
        Some(429) => 0,
        Some(400..=499) => 1,
        Some(_) => 2,
        None => 3,
    }
}

/// Returns the pending requests of a session, as id and kind.
fn pending(session: &Session) -> Vec<(String, &'static str)> {
    let turn = session.durable.turn.iter();
    let calls = turn.clone().flat_map(|turn| &turn.calls).filter_map(of_call);
    let fallbacks = turn.filter_map(|turn| turn.fallback_request.as_ref());
    let fallbacks = fallbacks.map(|request| (request.request_id.to_string(), "fallback_model"));
    let commands = session.command_of_clients().map(|(id, _)| (id.to_string(), "command"));
    let logins = session.durable.logins.iter().map(|login| (login.request_id.to_string(), "login"));
    let walls = session.durable.walls.iter().map(|wall| (wall.request.to_string(), "permission"));
    let asks = session.live.asks.iter().filter_map(|(id, ask)| match ask {
        ClientRequest::Elicit(..) | ClientRequest::Consent(..) => Some((id.to_string(), "elicitation")),
        ClientRequest::Sample(..) => Some((id.to_string(), "sampling")),
        ClientRequest::InvokeCommand(..) => None,
    });
    calls.chain(fallbacks).chain(commands).chain(logins).chain(walls).chain(asks).collect()
}

fn of_call(call: &Call) -> Option<(String, &'static str)> {
    let kind = match &call.stage {
        CallStage::AwaitingPermission { .. } => "permission",
        CallStage::AwaitingClient { .. } => "tool",
        CallStage::AwaitingAnswer { question: Question::UserInput(_), .. } => "question",
        CallStage::AwaitingAnswer { question: Question::Plan(_), .. } => "plan",
        CallStage::Started | CallStage::Done { .. } => return None,
    };
    Some((call.stage.request()?.to_string(), kind))
}

#[cfg(test)]
mod tests {
    use baton_protocol::event::{ToolComplete, TurnSettled};

    use super::*;

    #[test]
    fn events_are_counted_by_what_they_report() {
        let metrics = Metrics::default();
        let settled = |outcome| TurnSettled { prompt_ids: Vec::new(), outcome, reason: String::new() }.into();
        metrics.observe(&settled(Outcome::Completed));
        metrics.observe(&settled(Outcome::Cancelled));
        metrics.observe(&settled(Outcome::Cancelled));
        for status in [Some(429), Some(404), Some(503), None] {
            metrics.observe(&ModelCallFailure { status_code: status, ..Default::default() }.into());
        }
        let usage = |cost| AssistantUsage {
            input_tokens: Some(10),
            output_tokens: Some(3),
            cost,
            ..AssistantUsage::default()
        };
        for cost in [None, Some(0.25), Some(f64::NAN), Some(-1.0)] {
            metrics.observe(&usage(cost).into());
        }
        let read = metrics.snapshot();
        assert_eq!(read.turns.map(|(_, count)| count), [1, 0, 2, 0]);
        assert_eq!(read.model_errors.map(|(_, count)| count), [1; 4]);
        assert_eq!((read.tokens[0], read.tokens[1]), (("input", 40), ("output", 12)));
        assert_eq!((read.model_calls, read.cost), (4, 0.25), "a cost that makes no sense does not count");
        let failed: ToolComplete = baton_json::from_str(r#"{"toolCallId":"c","success":false}"#).unwrap();
        metrics.observe(&failed.into());
        assert_eq!(metrics.snapshot().tool_calls, [("success", 0), ("failure", 1)]);
    }

    #[test]
    fn pending_request_has_an_age_until_it_is_closed() {
        let metrics = Metrics::default();
        let mut session = Session::new("s".parse().unwrap());
        metrics.note_pending(&session);
        assert_eq!(metrics.snapshot().pending[4], ("fallback_model", 0, Duration::ZERO));
        for (kind, data) in [
            ("baton.turn_opened", r#"{"interactionId":"i"}"#),
            (
                "baton.switch_offered",
                r#"{"requestId":"r","model":"m","error":{"errorType":"e","message":"m"}}"#,
            ),
        ] {
            let event = format!(
                r#"{{"type":"{kind}","data":{data},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:54.223Z","parentId":null}}"#
            );
            session.durable.apply(&baton_protocol::Event::parse(&event).unwrap());
        }
        metrics.note_pending(&session);
        let (_, count, first) = metrics.snapshot().pending[4];
        assert_eq!(count, 1);
        metrics.note_pending(&session);
        let (_, count, later) = metrics.snapshot().pending[4];
        assert!(count == 1 && later > first, "a further step does not make it young again");
        session.durable.turn = None;
        metrics.note_pending(&session);
        assert_eq!(metrics.snapshot().pending[4].1, 0);
        metrics.forget(&session.id);
    }

    #[test]
    fn login_is_pending_without_a_turn() {
        let metrics = Metrics::default();
        let mut session = Session::new("s".parse().unwrap());
        let login = r#"{"requestId":"r","serverName":"docs","serverUrl":"https://docs.example/mcp","reason":"initial"}"#;
        session.durable.logins.push(std::sync::Arc::new(baton_json::from_str(login).unwrap()));
        metrics.note_pending(&session);
        let pending = metrics.snapshot().pending;
        assert!(pending.iter().any(|(kind, count, _)| (*kind, *count) == ("login", 1)), "{pending:?}");
    }
}
