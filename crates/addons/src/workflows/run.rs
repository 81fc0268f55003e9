//! One run of a workflow: its state. Pure: times come in.

use std::collections::{BTreeMap, VecDeque};

use baton_ask::workflows::{LineKind, ProgressLine, ReportedLine, RunStatus};
use baton_protocol::workflow::{Definition, Limits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Most progress lines that are kept of a run; older ones are dropped.
pub(super) const MOST_LINES: usize = 1000;
/// Longest progress line, in bytes; the rest is cut.
const LONGEST_LINE: usize = 4 * 1024;
/// Largest journal of a run, in bytes of JSON.
const LARGEST_JOURNAL: usize = 8 * 1024 * 1024;
/// Largest result of a run, and largest arguments, in bytes of JSON.
pub const LARGEST_RESULT: usize = 4 * 1024 * 1024;
/// Longest error of a run, in bytes; the rest is cut.
const LONGEST_ERROR: usize = 64 * 1024;

/// How a run has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The final status.
    pub status: RunStatus,
    /// The result of a completed run.
    pub result: Option<Value>,
    /// The error of a failed run.
    pub error: Option<String>,
    /// Why it was interrupted.
    pub reason: Option<String>,
    /// The limit that it reached.
    pub limit: Option<(&'static str, f64)>,
}

impl Settled {
    /// A run with a result. One that is too large is a failure.
    #[must_use]
    pub fn completed(result: Option<Value>) -> Self {
        let size = result.as_ref().map_or(0, |result| result.to_string().len());
        if size > LARGEST_RESULT {
            return Self::failed(format!("the result has more than {LARGEST_RESULT} bytes"));
        }
        Self { status: RunStatus::Completed, result, error: None, reason: None, limit: None }
    }

    /// A run whose code failed.
    #[must_use]
    pub fn failed(mut error: String) -> Self {
        error.truncate(error.floor_char_boundary(LONGEST_ERROR));
        Self { status: RunStatus::Error, result: None, error: Some(error), reason: None, limit: None }
    }

    /// A run that was interrupted.
    #[must_use]
    pub fn halted(reason: &str) -> Self {
        let reason = Some(reason.to_owned());
        Self { status: RunStatus::Halted, result: None, error: None, reason, limit: None }
    }

    /// A run that has reached a limit.
    #[must_use]
    pub fn limited(limit: &'static str, value: f64) -> Self {
        Self { limit: Some((limit, value)), ..Self::halted(&format!("the limit {limit} was reached")) }
    }

    /// A run that a client cancelled.
    #[must_use]
    pub fn cancelled() -> Self {
        Self { status: RunStatus::Cancelled, ..Self::halted("cancelled") }
    }
}

/// A run of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// The workflow, as declared when it was started.
    pub definition: Definition,
    /// Its arguments.
    pub args: Value,
    /// Its limits.
    pub limits: Limits,
    /// Its status.
    pub status: RunStatus,
    /// How often it was started.
    pub attempt: u32,
    /// Sub-agents that it has started.
    pub spawned: u32,
    /// Who executes it, or did so last; see `Executor`.
    pub executor: Value,
    pub(super) revision: u64,
    pub(super) created_at: u64,
    pub(super) started_at: u64,
    pub(super) updated_at: u64,
    pub(super) completed_at: Option<u64>,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) failure: Option<Value>,
    pub(super) phases: Vec<EnteredPhase>,
    pub(super) lines: VecDeque<ProgressLine>,
    pub(super) last_line: u64,
    pub(super) journal: BTreeMap<String, Value>,
}

/// A phase that a run has entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EnteredPhase {
    pub(super) title: String,
    pub(super) attempt: u32,
    pub(super) entries: u32,
    pub(super) entered_at: u64,
    pub(super) left_at: Option<u64>,
    pub(super) earlier_ms: u64,
}

impl Run {
    /// Creates a run that is running.
    #[must_use]
    pub fn new(id: String, definition: Definition, args: Value, limits: Limits, now: u64) -> Self {
        Self {
            id,
            definition,
            args,
            limits,
            status: RunStatus::Running,
            attempt: 1,
            spawned: 0,
            executor: Value::Null,
            revision: 1,
            created_at: now,
            started_at: now,
            updated_at: now,
            completed_at: None,
            result: None,
            error: None,
            reason: None,
            failure: None,
            phases: Vec::new(),
            lines: VecDeque::new(),
            last_line: 0,
            journal: BTreeMap::new(),
        }
    }

    /// Returns the number of changes.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Starts it again, with its arguments and journal.
    ///
    /// # Errors
    /// With code and text, when it is running or completed.
    pub fn resume(&mut self, limits: Limits, now: u64) -> Result<(), (&'static str, String)> {
        match self.status {
            RunStatus::Running => return Err(("already_active", format!("run \"{}\" is running", self.id))),
            RunStatus::Completed => {
                return Err(("non_resumable", format!("run \"{}\" has completed; start a new one", self.id)));
            }
            RunStatus::Halted | RunStatus::Cancelled | RunStatus::Error => {}
        }
        self.limits = self.limits.replaced_by(limits);
        self.status = RunStatus::Running;
        self.attempt += 1;
        (self.error, self.reason, self.failure, self.completed_at) = (None, None, None, None);
        self.started_at = now;
        self.touch(now);
        Ok(())
    }

    /// Ends it. A run that has ended stays as it is.
    pub fn settle(&mut self, settled: Settled, now: u64) {
        if self.status != RunStatus::Running {
            return;
        }
        self.leave_phase(now);
        self.status = settled.status;
        (self.result, self.error, self.reason) = (settled.result, settled.error, settled.reason);
        self.failure = settled.limit.map(|(kind, value)| {
            json!({ "type": "factory_limit_reached", "kind": kind, "value": value, "runId": self.id })
        });
        self.completed_at = Some(now);
        self.touch(now);
    }

    /// Adds lines of progress.
    pub fn report(&mut self, lines: Vec<ReportedLine>, now: u64) {
        for ReportedLine { kind, mut text } in lines {
            text.truncate(text.floor_char_boundary(LONGEST_LINE));
            if kind == LineKind::Phase {
                self.enter_phase(&text, now);
            }
            self.last_line += 1;
            let phase_id = self.current_phase().map(|phase| phase.title.clone());
            let (seq, attempt) = (self.last_line, self.attempt);
            self.lines.push_back(ProgressLine { seq, attempt, phase_id, recorded_at: now, kind, text });
            if self.lines.len() > MOST_LINES {
                self.lines.pop_front();
            }
        }
        self.touch(now);
    }

    /// Returns the result of a step that has completed.
    #[must_use]
    pub fn journaled(&self, key: &str) -> Option<&Value> {
        self.journal.get(key)
    }

    /// Records the result of a step.
    ///
    /// # Errors
    /// When the journal is too large.
    pub fn journal(&mut self, key: String, result: Value, now: u64) -> Result<(), String> {
        let size = |(key, value): (&String, &Value)| key.len() + value.to_string().len();
        let used: usize = self.journal.iter().map(size).sum();
        if used + size((&key, &result)) > LARGEST_JOURNAL {
            return Err(format!("the journal of run {} has more than {LARGEST_JOURNAL} bytes", self.id));
        }
        self.journal.insert(key, result);
        self.touch(now);
        Ok(())
    }

    /// Counts a sub-agent. Returns whether the limit allows it.
    pub fn spawn(&mut self, now: u64) -> bool {
        let allowed = self.limits.max_total_subagents.is_none_or(|most| f64::from(self.spawned) < most);
        if allowed {
            self.spawned += 1;
            self.touch(now);
        }
        allowed
    }

    fn touch(&mut self, now: u64) {
        self.revision += 1;
        self.updated_at = now;
    }

    pub(super) fn current_phase(&self) -> Option<&EnteredPhase> {
        self.phases.iter().rev().find(|phase| phase.left_at.is_none())
    }

    fn leave_phase(&mut self, now: u64) {
        for phase in self.phases.iter_mut().filter(|phase| phase.left_at.is_none()) {
            phase.left_at = Some(now);
            phase.earlier_ms += now.saturating_sub(phase.entered_at);
        }
    }

    fn enter_phase(&mut self, title: &str, now: u64) {
        self.leave_phase(now);
        let attempt = self.attempt;
        let known = self.phases.iter().position(|phase| phase.title == title);
        if let Some(phase) = known.and_then(|known| self.phases.get_mut(known)) {
            (phase.attempt, phase.entered_at, phase.left_at) = (attempt, now, None);
            phase.entries += 1;
        } else if self.phases.len() < MOST_LINES {
            self.phases.push(EnteredPhase {
                title: title.to_owned(),
                attempt,
                entries: 1,
                entered_at: now,
                left_at: None,
                earlier_ms: 0,
            });
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::workflows::Phase;

    pub(in crate::workflows) fn run() -> Run {
        let phases = vec![
            Phase { title: "plan".into(), detail: Some("d".into()) },
            Phase { title: "do".into(), detail: None },
        ];
        let definition = Definition { name: "w".into(), phases, ..Definition::default() };
        Run::new("1".into(), definition, json!([1]), Limits::default(), 10)
    }

    pub(in crate::workflows) fn line(kind: LineKind, text: &str) -> ReportedLine {
        ReportedLine { kind, text: text.into() }
    }

    #[test]
    fn failed_run_is_resumed_with_its_journal_and_a_completed_one_is_not() {
        let mut run = run();
        run.journal("step".into(), json!("kept"), 11).unwrap();
        assert_eq!(run.resume(Limits::default(), 12).unwrap_err().0, "already_active");
        run.settle(Settled::failed("no".into()), 12);
        assert_eq!(json!(run.outcome()), json!({"runId": "1", "status": "error", "error": "no"}));
        run.settle(Settled::completed(None), 13);
        assert_eq!(run.status, RunStatus::Error, "the first outcome counts");
        run.resume(Limits::default(), 14).unwrap();
        assert_eq!((run.attempt, run.journaled("step")), (2, Some(&json!("kept"))));
        assert_eq!(json!(run.outcome()), json!({"runId": "1", "status": "running"}));
        run.settle(Settled::completed(Some(json!([1, "two"]))), 15);
        assert_eq!(json!(run.outcome())["result"], json!([1, "two"]));
        assert_eq!(run.resume(Limits::default(), 16).unwrap_err().0, "non_resumable");
    }

    #[test]
    fn hostile_reports_are_bounded() {
        let mut run = run();
        run.report(vec![line(LineKind::Log, &"é".repeat(LONGEST_LINE)); 2 * MOST_LINES], 20);
        assert_eq!(run.lines.len(), MOST_LINES);
        assert!(run.lines[0].text.len() <= LONGEST_LINE);
        assert!(run.journal("k".into(), json!("x".repeat(LARGEST_JOURNAL)), 21).is_err());
        let large = Settled::completed(Some(json!("x".repeat(LARGEST_RESULT))));
        assert_eq!(large.status, RunStatus::Error);
        let error = Settled::failed("é".repeat(LONGEST_ERROR)).error.unwrap();
        assert!(error.len() <= LONGEST_ERROR);
    }

    #[test]
    fn limit_of_sub_agents_is_enforced() {
        let mut run = run();
        run.limits.max_total_subagents = Some(2.0);
        assert_eq!([run.spawn(1), run.spawn(2), run.spawn(3)], [true, true, false]);
    }
}
