//! What clients are shown of a run.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::run::{EnteredPhase, Line, MOST_LINES, Run, Status};

impl Run {
    /// Returns its outcome, as clients read it.
    #[must_use]
    pub fn envelope(&self) -> Value {
        let mut shown = json!({ "runId": self.id, "status": self.status });
        let fields = [
            ("result", self.result.clone()),
            ("error", self.error.clone().map(Value::from)),
            ("reason", self.reason.clone().map(Value::from)),
            ("failure", self.failure.clone()),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                shown[name] = value;
            }
        }
        shown
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

    /// Describes it in a list. `name_field` is the field of the workflow's name.
    #[must_use]
    pub fn summary(&self, name_field: &str, now: u64) -> Value {
        let current = self.current_phase();
        let running = self.status == Status::Running;
        let mut shown = json!({
            "runId": self.id,
            "description": self.definition.description,
            "status": self.status,
            "revision": self.revision,
            "createdAt": self.created_at,
            "startedAt": self.started_at,
            "updatedAt": self.updated_at,
            "completedAt": self.completed_at,
            "currentPhase": current.map(|phase| self.phase_name(phase)),
            "declaredPhaseCount": self.definition.phases.len(),
            "liveAgentCount": 0,
            "totalSpawnedAgentCount": self.spawned,
            "consumed": {
                "subagents": self.spawned,
                "nanoAiu": 0,
                "activeMs": self.completed_at.unwrap_or(now).saturating_sub(self.started_at),
            },
            "declaredLimits": self.definition.limits,
            "approved": self.limits,
            "observedAt": now,
            "activeSegmentStartedAt": running.then_some(self.started_at),
            "terminal": (!running).then(|| self.terminal()),
        });
        shown[name_field] = self.definition.name.clone().into();
        shown
    }

    fn phase_name(&self, entered: &EnteredPhase) -> Value {
        let ordinal = self.definition.phases.iter().position(|phase| phase.title == entered.title);
        json!({ "id": entered.title, "ordinal": ordinal })
    }

    /// Returns its outcome in a list: without the result, which can be large.
    fn terminal(&self) -> Value {
        let mut shown = self.envelope();
        if let Some(fields) = shown.as_object_mut() {
            for name in ["runId", "status", "result"] {
                fields.remove(name);
            }
        }
        shown
    }

    /// Describes it with its phases and its newest progress.
    #[must_use]
    pub fn detail(&self, name_field: &str, now: u64) -> Value {
        let mut shown = self.summary(name_field, now);
        let declared = self.definition.phases.iter().enumerate();
        let declared = declared.map(|(ordinal, phase)| {
            let entered = self.phases.iter().find(|entered| entered.title == phase.title);
            self.phase(&phase.title, Some(ordinal), phase.detail.as_deref(), entered, now)
        });
        let is_declared = |title: &str| self.definition.phases.iter().any(|phase| phase.title == title);
        let others = self.phases.iter().filter(|entered| !is_declared(&entered.title));
        let others = others.map(|entered| self.phase(&entered.title, None, None, Some(entered), now));
        shown["phases"] = declared.chain(others).collect();
        shown["agents"] = json!([]);
        shown["progress"] = self.progress(&Page::default());
        shown
    }

    fn phase(
        &self,
        title: &str,
        ordinal: Option<usize>,
        detail: Option<&str>,
        entered: Option<&EnteredPhase>,
        now: u64,
    ) -> Value {
        let active = entered.is_some_and(|phase| phase.left_at.is_none());
        let status = match entered {
            Some(_) if active => "active",
            Some(_) => "completed",
            None if self.status == Status::Running => "pending",
            None => "skipped",
        };
        let since = entered.filter(|_| active).map_or(0, |phase| now.saturating_sub(phase.entered_at));
        let mut shown = json!({
            "id": title,
            "ordinal": ordinal,
            "title": title,
            "status": status,
            "lastEnteredRunAttempt": entered.map_or(0, |phase| phase.attempt),
            "entryCount": entered.map_or(0, |phase| phase.entries),
            "accumulatedActiveMs": entered.map_or(0, |phase| phase.earlier_ms),
            "currentActiveMs": since,
            "totalAgentCount": 0,
            "liveAgentCount": 0,
        });
        if let Some(detail) = detail {
            shown["detail"] = detail.into();
        }
        if let Some(phase) = entered {
            shown["startedAt"] = phase.entered_at.into();
        }
        if let Some(left) = entered.and_then(|phase| phase.left_at) {
            shown["completedAt"] = left.into();
        }
        shown
    }

    /// Returns a page of its progress: the newest lines, or those before or after one.
    #[must_use]
    pub fn progress(&self, page: &Page) -> Value {
        let limit = page.limit.unwrap_or(100).clamp(1, MOST_LINES);
        let of_phase = |line: &&Line| page.phase_id.is_none() || line.phase_id == page.phase_id;
        let lines: Vec<&Line> = self.lines.iter().filter(of_phase).collect();
        let in_page = |line: &&&Line| {
            page.after_seq.is_none_or(|after| line.seq > after)
                && page.before_seq.is_none_or(|before| line.seq < before)
        };
        let matching: Vec<&Line> = lines.iter().filter(in_page).copied().collect();
        let surplus = matching.len().saturating_sub(limit);
        let records = match page.after_seq {
            Some(_) => &matching[..matching.len() - surplus],
            None => &matching[surplus..],
        };
        let (oldest, newest) = (records.first().map(|line| line.seq), records.last().map(|line| line.seq));
        json!({
            "records": records,
            "oldestSeq": oldest,
            "newestSeq": newest,
            "hasMoreOlder": lines.first().is_some_and(|line| oldest.is_some_and(|oldest| line.seq < oldest)),
            "hasMoreNewer": lines.last().is_some_and(|line| newest.is_some_and(|newest| line.seq > newest)),
            "revision": self.revision,
        })
    }
}

/// A page of progress.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Page {
    /// Only lines of this phase.
    pub phase_id: Option<String>,
    /// Only lines after this one, the oldest first.
    pub after_seq: Option<u64>,
    /// Only lines before this one.
    pub before_seq: Option<u64>,
    /// Most lines.
    pub limit: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflows::run::tests::{line, run};
    use crate::workflows::{LineKind, Settled};

    #[test]
    fn phases_show_what_was_entered_and_what_was_skipped() {
        let mut run = run();
        run.report(vec![line(LineKind::Phase, "plan"), line(LineKind::Log, "a")], 20);
        let detail = run.detail("workflowName", 25);
        assert_eq!(detail["currentPhase"], json!({"id": "plan", "ordinal": 0}));
        assert_eq!(detail["phases"][0]["status"], "active");
        assert_eq!(detail["phases"][0]["currentActiveMs"], 5);
        assert_eq!(detail["phases"][1]["status"], "pending");
        run.report(vec![line(LineKind::Phase, "other")], 30);
        run.settle(Settled::completed(None), 40);
        let detail = run.detail("workflowName", 50);
        let statuses: Vec<&Value> =
            detail["phases"].as_array().unwrap().iter().map(|phase| &phase["status"]).collect();
        assert_eq!(statuses, ["completed", "skipped", "completed"]);
        assert_eq!(detail["workflowName"], "w");
    }

    #[test]
    fn progress_is_paged_in_both_directions() {
        let mut run = run();
        run.report((1..=10).map(|n| line(LineKind::Log, &n.to_string())).collect(), 20);
        let seqs = |page: Page| -> (Vec<u64>, bool, bool) {
            let shown = run.progress(&page);
            let records = shown["records"].as_array().unwrap().iter();
            let seqs = records.map(|line| line["seq"].as_u64().unwrap()).collect();
            (seqs, shown["hasMoreOlder"] == true, shown["hasMoreNewer"] == true)
        };
        let limit = Some(3);
        assert_eq!(seqs(Page { limit, ..Page::default() }), (vec![8, 9, 10], true, false));
        assert_eq!(seqs(Page { limit, after_seq: Some(2), ..Page::default() }), (vec![3, 4, 5], true, true));
        assert_eq!(seqs(Page { limit, before_seq: Some(3), ..Page::default() }), (vec![1, 2], false, true));
    }
}
