//! The view of a run for clients.

use baton_ask::workflows::{
    Consumption, CurrentPhase, PhaseStatus, ProgressLine, ProgressPage, ProgressRange, RunDetails, RunEnd,
    RunOutcome, RunPhase, RunStatus, RunSummary,
};
use serde_json::{Value, json};

use super::run::{EnteredPhase, MOST_LINES, Run};

impl Run {
    /// Returns its state, with its result if it has ended.
    #[must_use]
    pub fn outcome(&self) -> RunOutcome {
        RunOutcome {
            run_id: self.id.clone(),
            status: self.status,
            result: self.result.clone(),
            end: self.end(),
        }
    }

    fn end(&self) -> RunEnd {
        RunEnd { error: self.error.clone(), reason: self.reason.clone(), failure: self.failure.clone() }
    }

    /// Returns the event data of its end.
    #[must_use]
    pub fn settled(&self) -> Value {
        let mut shown = json!({
            "runId": self.id,
            "status": self.status,
            "consumedSubagents": self.spawned,
            "consumedNanoAiu": 0,
            "elapsedMs": self.updated_at.saturating_sub(self.started_at),
        });
        if let Some(failure) = &self.failure {
            shown["failureType"] = failure["type"].clone();
        }
        shown
    }

    /// Describes it in a list.
    #[must_use]
    pub fn summary(&self, now: u64) -> RunSummary {
        let running = self.status == RunStatus::Running;
        RunSummary {
            run_id: self.id.clone(),
            workflow: self.definition.name.clone(),
            description: self.definition.description.clone(),
            status: self.status,
            revision: self.revision,
            created_at: self.created_at,
            started_at: self.started_at,
            updated_at: self.updated_at,
            completed_at: self.completed_at,
            current_phase: self.current_phase().map(|phase| self.phase_name(phase)),
            declared_phase_count: self.definition.phases.len(),
            live_agent_count: 0,
            total_spawned_agent_count: self.spawned,
            consumed: Consumption {
                subagents: self.spawned,
                nano_aiu: 0,
                active_ms: self.completed_at.unwrap_or(now).saturating_sub(self.started_at),
            },
            declared_limits: self.definition.limits,
            approved: self.limits,
            observed_at: now,
            active_segment_started_at: running.then_some(self.started_at),
            terminal: (!running).then(|| self.end()),
        }
    }

    fn phase_name(&self, entered: &EnteredPhase) -> CurrentPhase {
        let ordinal = self.definition.phases.iter().position(|phase| phase.title == entered.title);
        CurrentPhase { id: entered.title.clone(), ordinal }
    }

    /// Describes it with its phases and its newest progress.
    #[must_use]
    pub fn details(&self, now: u64) -> RunDetails {
        let declared = self.definition.phases.iter().enumerate();
        let declared = declared.map(|(ordinal, phase)| {
            let entered = self.phases.iter().find(|entered| entered.title == phase.title);
            self.phase(&phase.title, Some(ordinal), phase.detail.as_deref(), entered, now)
        });
        let is_declared = |title: &str| self.definition.phases.iter().any(|phase| phase.title == title);
        let others = self.phases.iter().filter(|entered| !is_declared(&entered.title));
        let others = others.map(|entered| self.phase(&entered.title, None, None, Some(entered), now));
        RunDetails {
            summary: self.summary(now),
            phases: declared.chain(others).collect(),
            agents: Vec::new(),
            progress: self.progress(&ProgressRange::default()),
        }
    }

    fn phase(
        &self,
        title: &str,
        ordinal: Option<usize>,
        detail: Option<&str>,
        entered: Option<&EnteredPhase>,
        now: u64,
    ) -> RunPhase {
        let active = entered.is_some_and(|phase| phase.left_at.is_none());
        let status = match entered {
            Some(_) if active => PhaseStatus::Active,
            Some(_) => PhaseStatus::Completed,
            None if self.status == RunStatus::Running => PhaseStatus::Pending,
            None => PhaseStatus::Skipped,
        };
        let since = entered.filter(|_| active).map_or(0, |phase| now.saturating_sub(phase.entered_at));
        RunPhase {
            id: title.to_owned(),
            ordinal,
            title: title.to_owned(),
            status,
            last_entered_run_attempt: entered.map_or(0, |phase| phase.attempt),
            entry_count: entered.map_or(0, |phase| phase.entries),
            accumulated_active_ms: entered.map_or(0, |phase| phase.earlier_ms),
            current_active_ms: since,
            total_agent_count: 0,
            live_agent_count: 0,
            detail: detail.map(str::to_owned),
            started_at: entered.map(|phase| phase.entered_at),
            completed_at: entered.and_then(|phase| phase.left_at),
        }
    }

    /// Returns a page of its progress: the newest lines, or those before or after one.
    #[must_use]
    pub fn progress(&self, range: &ProgressRange) -> ProgressPage {
        let limit = range.limit.unwrap_or(100).clamp(1, MOST_LINES);
        let of_phase = |line: &&ProgressLine| range.phase_id.is_none() || line.phase_id == range.phase_id;
        let lines: Vec<&ProgressLine> = self.lines.iter().filter(of_phase).collect();
        let in_range = |line: &&&ProgressLine| {
            range.after_seq.is_none_or(|after| line.seq > after)
                && range.before_seq.is_none_or(|before| line.seq < before)
        };
        let matching: Vec<&ProgressLine> = lines.iter().filter(in_range).copied().collect();
        let surplus = matching.len().saturating_sub(limit);
        let records = match range.after_seq {
            Some(_) => &matching[..matching.len() - surplus],
            None => &matching[surplus..],
        };
        let (oldest, newest) = (records.first().map(|line| line.seq), records.last().map(|line| line.seq));
        ProgressPage {
            oldest_seq: oldest,
            newest_seq: newest,
            has_more_older: lines.first().is_some_and(|line| oldest.is_some_and(|oldest| line.seq < oldest)),
            has_more_newer: lines.last().is_some_and(|line| newest.is_some_and(|newest| line.seq > newest)),
            records: records.iter().copied().cloned().collect(),
            revision: self.revision,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflows::Settled;
    use crate::workflows::run::tests::{line, run};
    use baton_ask::workflows::LineKind;

    #[test]
    fn phases_show_what_was_entered_and_what_was_skipped() {
        let mut run = run();
        run.report(vec![line(LineKind::Phase, "plan"), line(LineKind::Log, "a")], 20);
        let detail = json!(run.details(25));
        assert_eq!(detail["currentPhase"], json!({"id": "plan", "ordinal": 0}));
        assert_eq!(detail["phases"][0]["status"], "active");
        assert_eq!(detail["phases"][0]["currentActiveMs"], 5);
        assert_eq!(detail["phases"][1]["status"], "pending");
        run.report(vec![line(LineKind::Phase, "other")], 30);
        run.settle(Settled::completed(None), 40);
        let detail = json!(run.details(50));
        let statuses: Vec<&Value> =
            detail["phases"].as_array().unwrap().iter().map(|phase| &phase["status"]).collect();
        assert_eq!(statuses, ["completed", "skipped", "completed"]);
        assert_eq!(detail["workflow"], "w");
    }

    #[test]
    fn progress_is_paged_in_both_directions() {
        let mut run = run();
        run.report((1..=10).map(|n| line(LineKind::Log, &n.to_string())).collect(), 20);
        let seqs = |range: ProgressRange| -> (Vec<u64>, bool, bool) {
            let shown = json!(run.progress(&range));
            let records = shown["records"].as_array().unwrap().iter();
            let seqs = records.map(|line| line["seq"].as_u64().unwrap()).collect();
            (seqs, shown["hasMoreOlder"] == true, shown["hasMoreNewer"] == true)
        };
        let limit = Some(3);
        assert_eq!(seqs(ProgressRange { limit, ..ProgressRange::default() }), (vec![8, 9, 10], true, false));
        assert_eq!(
            seqs(ProgressRange { limit, after_seq: Some(2), ..ProgressRange::default() }),
            (vec![3, 4, 5], true, true)
        );
        assert_eq!(
            seqs(ProgressRange { limit, before_seq: Some(3), ..ProgressRange::default() }),
            (vec![1, 2], false, true)
        );
    }
}
