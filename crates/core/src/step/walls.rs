//! Requests of programs in the sandbox: one wants to reach a host, or has created a file that acts.
//!
//! They are beside the turns, as logins are: the call may end before the answer, so a request stays open after it, and after a
//! crash. An answer about a host holds until a turn ends, unless it gives a grant. A file is moved back before its approval
//! counts, so that the person learns of a failure.

use baton_protocol::event::{ApprovalsChanged, PermissionCompleted, PermissionMode, SessionWarning};
use baton_protocol::permission::{Approval, PermissionRequest, Verdict};
use baton_protocol::sandbox::{SandboxNetwork, Wall};
use baton_protocol::{Author, RequestId};

use super::Step;
use super::permissions::{Asked, Decider, Given, Permitted, is_approval};
use crate::ask::{
    AnswerOutcome, AnswerRequest, FileVerdict, HostAnswer, ReplyTo, ReportFile, RequestAnswer, RequestHost,
    Serve,
};
use crate::output::Work;
use crate::policy::{self, Advice, Decision, ParsedRequest, address};
use crate::state::{Admission, WallRequest};

/// Requests for hosts that may be pending at the same time.
const MOST_HOSTS: usize = 32;
/// Requests about files that may be pending at the same time.
const MOST_FILES: usize = 64;
/// Programs that may wait for the same host.
const MOST_WAITING: usize = 64;
/// Length of an origin, in bytes. Names of hosts are shorter.
const LONGEST_ORIGIN: usize = 300;

/// Why a host is asked about, for people.
const CONNECTS: &str = "A command in the sandbox wants to connect to it.";
/// Why a file is asked about, for people.
const CREATED: &str = "A command in the sandbox has created this file, and other programs act on files of this name. It was \
                       moved away; approve to move it back.";

impl Serve<RequestHost> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<RequestHost>, RequestHost { call, origin }: RequestHost) {
        if self.session.sandbox().policy.network == SandboxNetwork::None {
            return self.reply(to, denied("the sandbox of this session has no network"));
        }
        if origin.len() > LONGEST_ORIGIN {
            return self.reply(to, denied("the name of the host is too long"));
        }
        let wants = PermissionRequest::Url {
            tool_call_id: None,
            url: origin.clone(),
            intention: CONNECTS.to_owned(),
        };
        let asked = match self.decide_host(&wants, &origin) {
            Ok(verdict) => return self.host_decided(to, &origin, &verdict),
            Err(asked) => asked,
        };
        let request = match self.host_request(&origin) {
            Some(open) => open,
            None if self.count_walls(|wall| matches!(wall, Wall::Host { .. })) >= MOST_HOSTS => {
                return self.reply(to, denied("too many hosts wait for approval"));
            }
            None => {
                self.open_permission(None, wants, &asked, Some(Wall::Host { origin, tool_call_id: call }))
            }
        };
        let waiting = self.session.live.waiting_for_hosts.entry(request).or_default();
        waiting.push(to);
        // Most have given up by then. Their replies are owed all the same.
        let oldest = (waiting.len() > MOST_WAITING).then(|| waiting.remove(0));
        if let Some(oldest) = oldest {
            self.reply(oldest, denied("it still waits for approval"));
        }
    }
}

impl Serve<ReportFile> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<ReportFile>, ask: ReportFile) {
        let ReportFile { call, path, kept, content } = ask;
        let wants = PermissionRequest::Write {
            tool_call_id: None,
            file_name: match path.starts_with('/') {
                true => path.clone(),
                false => format!("{}/{path}", self.session.durable.facts.context.cwd.trim_end_matches('/')),
            },
            diff: added(&path, &content),
            intention: CREATED.to_owned(),
            new_file_contents: Some(content),
            can_offer_session_approval: false,
        };
        // A newer file of the same path replaces the older one, as it would have without the sandbox.
        let is_older = |wall: &Wall| matches!(wall, Wall::File { path: known, .. } if *known == path);
        if let Some(older) = self.session.durable.walls.iter().find(|wall| is_older(&wall.wall)).cloned() {
            self.close_wall(&older, &Verdict::UserNotAvailable, None, Decider::Replaced);
        }
        match self.decide(&wants, Advice::EachTime, None) {
            Ok(Permitted::Yes) => {
                self.start(Work::RestoreFile { approved: None, path, kept });
                self.reply(to, FileVerdict::Restored);
            }
            Ok(Permitted::No) => {
                self.start(Work::DropFile { kept });
                self.reply(to, FileVerdict::Dropped);
            }
            Err(_) if self.count_walls(|wall| matches!(wall, Wall::File { .. })) >= MOST_FILES => {
                self.refuse(to, "too many files wait for an answer; answer their requests first");
            }
            Err(asked) => {
                self.open_permission(
                    None,
                    wants,
                    &asked,
                    Some(Wall::File { path, kept, tool_call_id: call }),
                );
                self.reply(to, FileVerdict::Asked);
            }
        }
    }
}

impl Step<'_> {
    /// Decides about a host without a person.
    ///
    /// # Errors
    /// If a person has to decide.
    fn decide_host(&self, wants: &PermissionRequest, origin: &str) -> Result<Verdict, Asked> {
        let asked = match self.decide(wants, Advice::None, None) {
            Ok(Permitted::Yes) => return Ok(Verdict::ApproveOnce),
            Ok(Permitted::No) => return Ok(Verdict::DeniedByRules),
            Err(asked) => asked,
        };
        let hosts = &self.session.sandbox().policy.hosts;
        let is_ruled = || hosts.iter().any(|pattern| address::is_covered_by(origin, pattern));
        match self.session.durable.origins.get(origin) {
            Some(Admission::Admitted) => Ok(Verdict::ApproveOnce),
            Some(Admission::Denied) => Ok(Verdict::Reject { feedback: None }),
            None if !asked.is_doubted() && is_ruled() => Ok(Verdict::ApproveOnce),
            None => Err(asked),
        }
    }

    /// Replies to a program whose host needs no person. A request for it that is still open has its answer, too.
    fn host_decided(&mut self, to: ReplyTo<RequestHost>, origin: &str, verdict: &Verdict) {
        self.reply(to, answer_of(verdict));
        if let Some(open) = self.host_request(origin)
            && let Some(wall) = self.session.durable.wall_of(&open).cloned()
        {
            self.close_wall(&wall, verdict, None, Decider::Rules);
        }
    }

    /// Returns the open request for an origin.
    fn host_request(&self, origin: &str) -> Option<RequestId> {
        let mut walls = self.session.durable.walls.iter();
        let is_same = |wall: &Wall| matches!(wall, Wall::Host { origin: known, .. } if known == origin);
        walls.find(|wall| is_same(&wall.wall)).map(|wall| wall.request.clone())
    }

    fn count_walls(&self, which: impl Fn(&Wall) -> bool) -> usize {
        self.session.durable.walls.iter().filter(|wall| which(&wall.wall)).count()
    }

    /// Handles an answer to a request of a program in the sandbox.
    pub(super) fn answer_wall(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        wall: &WallRequest,
        answer: RequestAnswer,
    ) {
        if self.session.live.claimed.contains_key(&wall.request) {
            return self.reply(to, AnswerOutcome::TooLate);
        }
        match answer {
            RequestAnswer::Permission(verdict, by) => self.wall_answered(to, wall, verdict, by),
            RequestAnswer::ApproveUnattended(by) => {
                let subject = ParsedRequest::of(&wall.wants);
                match self.decide_in(PermissionMode::AllowAll, &subject, Advice::EachTime, None) {
                    Decision::Ask(reason) => self.reply(to, AnswerOutcome::Refused(reason.to_string())),
                    Decision::Allow(_) => self.approve_wall(to, wall, &Verdict::ApproveOnce, None, by),
                    Decision::Deny(_) => self.deny_wall(to, wall, &Verdict::DeniedByRules, Decider::Rules),
                }
            }
            _ => self.reply(to, AnswerOutcome::Mismatch),
        }
    }

    fn wall_answered(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        wall: &WallRequest,
        verdict: Verdict,
        by: Author,
    ) {
        if !is_approval(&verdict) {
            return self.deny_wall(to, wall, &verdict, Decider::Client(by));
        }
        if policy::is_denied(&wall.wants, &self.session.durable.rules) {
            return self.deny_wall(to, wall, &Verdict::DeniedByRules, Decider::Rules);
        }
        match (self.grant_in(&wall.wants, &verdict), verdict) {
            (Err(refused), _) => self.reply(to, AnswerOutcome::NotOffered(refused.to_string())),
            (Ok(Some(approval)), Verdict::ApproveForLocation { location_key, .. }) => {
                self.session.live.claimed.insert(wall.request.clone(), to);
                let request = wall.request.clone();
                self.start(Work::SaveGrant { request, location_key, approval, by, binding: None });
            }
            (Ok(approval), verdict) => self.approve_wall(to, wall, &verdict, approval, by),
        }
    }

    fn approve_wall(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        wall: &WallRequest,
        verdict: &Verdict,
        approval: Option<Approval>,
        by: Author,
    ) {
        match &wall.wall {
            Wall::Host { .. } => {
                let given = approval.map(|approval| Given { approval, location_key: None, by: by.clone() });
                self.close_wall(wall, verdict, given, Decider::Client(by));
                self.reply_after_records(to);
            }
            Wall::File { path, kept, .. } => {
                self.session.live.claimed.insert(wall.request.clone(), to);
                let (path, kept) = (path.clone(), kept.clone());
                self.start(Work::RestoreFile { approved: Some((wall.request.clone(), by)), path, kept });
            }
        }
    }

    fn deny_wall(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        wall: &WallRequest,
        verdict: &Verdict,
        decider: Decider,
    ) {
        self.close_wall(wall, verdict, None, decider);
        self.reply_after_records(to);
    }

    /// Records the answer to a request, replies to the programs that wait for it, and deletes a file that was not approved.
    fn close_wall(&mut self, wall: &WallRequest, verdict: &Verdict, given: Option<Given>, decider: Decider) {
        let result = decider.outcome(verdict, given.as_ref());
        let request_id = wall.request.clone();
        self.record(PermissionCompleted { request_id, tool_call_id: None, result, by: decider.author() });
        if let Some(Given { approval, location_key, by }) = given {
            let approval = Some(approval);
            self.record(ApprovalsChanged {
                approval,
                location_key,
                revoked: None,
                by: Some(by),
                binding: None,
            });
        }
        self.remember_closed(&wall.request);
        for waiting in self.session.live.waiting_for_hosts.remove(&wall.request).unwrap_or_default() {
            self.reply(waiting, answer_of(verdict));
        }
        if let Wall::File { kept, .. } = &wall.wall
            && !is_approval(verdict)
        {
            self.start(Work::DropFile { kept: kept.clone() });
        }
        // Another answer may still be processed.
        self.stop_where(|work| match work {
            Work::SaveGrant { request, .. } | Work::RestoreFile { approved: Some((request, _)), .. } => {
                *request == wall.request
            }
            _ => false,
        });
        if let Some(claim) = self.session.live.claimed.remove(&wall.request) {
            self.reply(claim, AnswerOutcome::TooLate);
        }
    }

    /// Handles the result of storing a grant that an answer about a host gives. Returns whether it was one.
    pub(super) fn host_grant_saved(
        &mut self,
        request: &RequestId,
        given: Given,
        saved: &Result<(), String>,
    ) -> bool {
        let Some(wall) = self.session.durable.wall_of(request).cloned() else { return false };
        let Some(to) = self.session.live.claimed.remove(request) else { return true };
        match saved {
            Err(why) => self.reply(to, AnswerOutcome::Refused(why.clone())),
            Ok(()) if policy::is_denied(&wall.wants, &self.session.durable.rules) => {
                self.deny_wall(to, &wall, &Verdict::DeniedByRules, Decider::Rules);
            }
            Ok(()) => {
                let by = given.by.clone();
                self.close_wall(&wall, &Verdict::ApproveOnce, Some(given), Decider::Client(by));
                self.reply_after_records(to);
            }
        }
        true
    }

    /// Handles the result of moving a held file back. If that failed, its request stays open.
    pub(super) fn file_restored(
        &mut self,
        approved: Option<(RequestId, Author)>,
        path: &str,
        restored: Result<(), String>,
    ) {
        let Some((request, by)) = approved else {
            return self.warn_of_file(&format!("cannot move {path} back"), restored);
        };
        let wall = self.session.durable.wall_of(&request).cloned();
        let (Some(to), Some(wall)) = (self.session.live.claimed.remove(&request), wall) else { return };
        match restored {
            Err(why) => self.reply(to, AnswerOutcome::Refused(format!("cannot move {path} back: {why}"))),
            Ok(()) => {
                self.close_wall(&wall, &Verdict::ApproveOnce, None, Decider::Client(by));
                self.reply_after_records(to);
            }
        }
    }

    /// Handles the result of deleting a held file.
    pub(super) fn file_dropped(&mut self, dropped: Result<(), String>) {
        self.warn_of_file("cannot delete a file that was moved away", dropped);
    }

    fn warn_of_file(&mut self, failed: &str, outcome: Result<(), String>) {
        let Err(why) = outcome else { return };
        let message = format!("{failed}: {why}");
        self.record(SessionWarning { warning_type: "sandbox".into(), message, url: None });
    }

    /// Stops the work of requests, because the session closes. The requests stay open.
    pub(super) fn leave_walls(&mut self) {
        self.stop_where(|_| true);
        for (_, claim) in std::mem::take(&mut self.session.live.claimed) {
            self.reply(claim, AnswerOutcome::Refused("the session was closed; answer again".into()));
        }
        for (_, waiting) in std::mem::take(&mut self.session.live.waiting_for_hosts) {
            waiting.into_iter().for_each(|to| self.reply(to, denied("the session was closed")));
        }
    }
}

fn answer_of(verdict: &Verdict) -> HostAnswer {
    match verdict {
        Verdict::ApproveOnce | Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. } => {
            HostAnswer::Allowed
        }
        Verdict::Reject { feedback: Some(feedback) } => denied(format!("the user denied it: {feedback}")),
        Verdict::Reject { feedback: None } => denied("the user denied it"),
        Verdict::DeniedByRules => denied("a rule denies it"),
        Verdict::UserNotAvailable => denied("nobody could be asked"),
    }
}

fn denied(reason: impl Into<String>) -> HostAnswer {
    HostAnswer::Denied { reason: reason.into() }
}

/// Returns the diff of a new file.
fn added(path: &str, content: &str) -> String {
    let count = content.lines().count();
    let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
    format!("diff --git a/{path} b/{path}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{count} @@\n{lines}")
}

/// Whether work goes on when a turn ends: it belongs to a request that does.
pub(super) fn is_beside_turns(work: &Work, walls: &[std::sync::Arc<WallRequest>]) -> bool {
    match work {
        Work::RestoreFile { .. } | Work::DropFile { .. } => true,
        Work::SaveGrant { request, .. } => walls.iter().any(|wall| wall.request == *request),
        _ => false,
    }
}
