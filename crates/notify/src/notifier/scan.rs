//! Finds what no session reports: requests that were answered elsewhere, sessions that nobody has opened, and turns that
//! ended just before a server was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_history::metadata;
use baton_protocol::{RequestId, SessionId, Timestamp};
use baton_runtime::Runtime;
use baton_store::{Span, Summary};

use super::task::{SCAN, SEARCHED, Task};
use crate::documents::NotifyError;
use crate::facts::label;
use crate::outbox::earlier;

/// How far the stored progress stays behind: ends of turns that are being posted.
const SLACK: Duration = Duration::from_secs(120);
/// Age at which the end of a turn is no news any more.
const STALE: Duration = Duration::from_secs(12 * 3600);

impl Task {
    /// Withdraws notifications whose requests do not wait any more: answered by another server, while no server ran, or without
    /// a record.
    pub(super) async fn reconcile(&self) {
        let Ok(outbox) = self.notifier.courier.outbox().await else { return };
        let mut sessions: BTreeMap<SessionId, BTreeSet<String>> = BTreeMap::new();
        for (session, request) in outbox.requests() {
            sessions.entry(session).or_default().insert(request.to_string());
        }
        for (session, announced) in sessions {
            let waiting = match self.notifier.facts(&session).await {
                Some(facts) => facts.ids(),
                // It cannot be read now: another server holds it, and compares itself.
                None if self.notifier.exists(&session).await => continue,
                None => Vec::new(),
            };
            let waiting: BTreeSet<String> = waiting.iter().map(ToString::to_string).collect();
            let gone: Vec<RequestId> = announced.difference(&waiting).cloned().map(RequestId).collect();
            if let Err(error) = self.withdraw(&session, &gone, None).await {
                tracing::warn!(%error, %session, "cannot withdraw a notification; trying again");
            }
        }
    }

    /// Looks for what no server has noticed: requests that wait in sessions that nobody has opened, and, after a start, turns
    /// that ended just before a server was killed.
    pub(super) async fn scan(&mut self, with_turns: bool) -> Result<(), NotifyError> {
        let targets = self.notifier.courier.targets().await?;
        if targets.is_empty() {
            return Ok(());
        }
        let noticed = self.notifier.courier.outbox().await?.noticed();
        let is_first = noticed == Timestamp(0);
        let since = noticed.max(earlier(Timestamp::now(), STALE));
        for summary in self.notifier.runtime.store.list().await? {
            if may_wait(&self.notifier.runtime, &summary)
                && let Some(facts) = self.notifier.facts(&summary.session).await
            {
                let (delay, now) = (self.notifier.courier.options.delay, Timestamp::now());
                let gone = self.schedule.note(&facts, delay, now);
                self.withdraw(&summary.session, &gone, None).await?;
            }
            let is_idle = !summary.holder.as_ref().is_some_and(|holder| holder.busy);
            let looks = with_turns && !is_first && self.notifier.courier.options.turns;
            if looks && is_idle && summary.modified > since {
                let span = Span::Before { before: summary.head.plus(1), limit: SEARCHED };
                let known = metadata::decode(&summary.meta);
                let (name, title) = (known.name.as_ref(), known.title.as_ref());
                // The metadata does not say who chose a name.
                let title = label(self.notifier.courier.options.details, false, name, title, &known.context);
                self.post_turn(&summary.session, title, span, since).await?;
            }
        }
        self.store_progress().await
    }

    /// Stores how far ends of turns have been noticed.
    pub(super) async fn store_progress(&self) -> Result<(), NotifyError> {
        if self.notifier.courier.targets().await?.is_empty() {
            return Ok(());
        }
        let now = Timestamp::now();
        let stored = self.notifier.courier.outbox().await?.noticed();
        // The first start notices nothing of the past; later ones write only now and then.
        let until = if stored == Timestamp(0) { now } else { earlier(now, SLACK) };
        if stored == Timestamp(0) || earlier(until, 10 * SCAN) > stored {
            self.notifier.courier.edit(|outbox| outbox.notice_until(until)).await?;
        }
        Ok(())
    }
}

/// Whether requests may wait in a session. Those of MCP servers are only in memory, also in an idle session.
fn may_wait(runtime: &Runtime, summary: &Summary) -> bool {
    metadata::may_have_requests(summary) || runtime.registry.get(&summary.session).is_some()
}
