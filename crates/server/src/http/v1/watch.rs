//! Following a session for a workspace: every event through the fold, every change to whoever streams.
//!
//! What is durable is taken from the store whenever anything was missed, so a client is told of each change once and in
//! order. Streamed pieces are gathered for a moment: a message is always told whole, and once for each word would be a lot.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::{Answer as Answers, Reply};
use baton_protocol::{Body, ClientId, Event, RequestId, SessionId};
use baton_store::{Seq, Span, StoreError};
use tokio::time::Instant;

use super::error::Answer;
use super::fold::{Change, Fold, Partial, Pending};
use super::telling;
use super::wire::{Session as Row, What, piece};
use super::workspace::{Workspace, lock};
use crate::Server;
use crate::http::ear::{Heard, Hearing, ear};
use crate::session::{Handle, Mail};

/// How many events may wait before the store is read instead.
const QUEUE: usize = 1024;
const PAGE: usize = 500;
/// How long streamed pieces are gathered.
const GATHER: Duration = Duration::from_millis(33);

/// A session that is followed.
pub(crate) struct Watch {
    client: ClientId,
    busy: AtomicBool,
    fold: Mutex<Fold>,
}

impl Watch {
    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    fn note(&self, busy: Option<bool>) {
        if let Some(busy) = busy {
            self.busy.store(busy, Ordering::Release);
        }
    }

    pub(crate) fn row(&self) -> Row {
        lock(&self.fold).row()
    }

    /// What was streamed and is in no history.
    pub(crate) fn partials(&self) -> Vec<(String, Partial)> {
        lock(&self.fold).partials()
    }
}

impl Workspace {
    /// Follows a session from here on, if it is not followed already.
    pub(super) async fn watch(self: &Arc<Self>, session: &SessionId) -> Answer<()> {
        if self.watch_of(session).is_some() {
            return Ok(());
        }
        let head = self.server.store.summary(session).await?.map_or(Seq::ZERO, |summary| summary.head);
        self.follow(session, head, None);
        Ok(())
    }

    /// Follows a session that has just grown; `after` is where it ended before, and told of so far.
    pub(crate) fn follow(self: &Arc<Self>, session: &SessionId, after: Seq, busy: Option<bool>) {
        let mut watches = lock(&self.watches);
        if let Some(watch) = watches.get(session) {
            return watch.note(busy);
        }
        let client = self.server.new_client();
        let fold = Mutex::new(Fold::new(session.clone()));
        let watch = Arc::new(Watch { client, busy: AtomicBool::new(false), fold });
        watch.note(busy);
        watches.insert(session.clone(), watch.clone());
        // Before anything is read: what happens in between is heard.
        let hearing = self.server.registry.get(session).map(|handle| listen(&handle, client));
        let listener = Listener {
            workspace: self.clone(),
            session: session.clone(),
            watch,
            cursor: Seq::ZERO,
            told: after,
        };
        self.server.tasks.spawn(listener.run(hearing));
    }

    fn forget(&self, session: &SessionId, watch: &Arc<Watch>) {
        let mut watches = lock(&self.watches);
        if watches.get(session).is_some_and(|known| Arc::ptr_eq(known, watch)) {
            watches.remove(session);
        }
    }

    /// Something waits for an answer. One thing at a time is shown.
    fn ask(self: &Arc<Self>, session: &SessionId, pending: Pending, is_run: bool) {
        let approved = self.skips_permissions() || (self.founding.approve_runs && is_run);
        if let Pending::Permission(request) = &pending
            && approved
            && self.drives(session)
        {
            let request = RequestId(request.id.clone());
            return self.approve(session, request, pending);
        }
        self.show(pending);
    }

    fn show(&self, pending: Pending) {
        let mut desk = lock(&self.desk);
        let (piece, noticed) = (telling::asked(&pending), telling::noticed(&pending));
        if desk.find(pending.id()).is_none() {
            noticed.iter().for_each(|piece| self.feed.tell(piece));
        }
        if desk.put(pending) {
            self.feed.tell(&piece);
        }
    }

    /// Approves a request without a person. What allow-all would not allow is shown to one after all.
    fn approve(self: &Arc<Self>, session: &SessionId, request: RequestId, pending: Pending) {
        let handle = self.server.registry.open(&self.server, session);
        let workspace = Arc::clone(self);
        let respond = Box::new(move |reply| {
            if matches!(reply, Ok(Reply::Refused(_))) {
                workspace.show(pending);
            }
        });
        drop(handle.send(Mail::Answer(request, Box::new(Answers::ApproveUnattended), respond)));
    }

    fn tell(self: &Arc<Self>, session: &SessionId, row: &Row, is_run: bool, change: Change) {
        match change {
            Change::Asked(pending) => self.ask(session, pending, is_run),
            Change::Closed(closed) => {
                let mut desk = lock(&self.desk);
                self.feed.tell(&telling::closed(&closed));
                if let Some(next) = desk.remove(&closed.id) {
                    self.feed.tell(&telling::asked(next));
                }
            }
            _ if !self.feed.has_readers() => {}
            Change::Message(what, message) => self.feed.tell(&piece("message", what, &message)),
            Change::Session(what) => self.feed.tell(&piece("session", what, row)),
            Change::Run(run) => self.feed.tell(&piece("run_complete", What::Updated, &run)),
            Change::Finished => self.feed.tell(&telling::finished(row)),
            Change::Trouble(error) => self.feed.tell(&telling::trouble(session, &error)),
        }
    }
}

fn listen(handle: &Handle, client: ClientId) -> Hearing {
    let (ear, hearing) = ear(QUEUE);
    handle.hub.attach(client, ear);
    hearing
}

/// Waits for a moment, or for ever.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The task that follows.
struct Listener {
    workspace: Arc<Workspace>,
    session: SessionId,
    watch: Arc<Watch>,
    /// The last durable event that was folded.
    cursor: Seq,
    /// Up to here, clients know.
    told: Seq,
}

impl Listener {
    async fn run(mut self, mut hearing: Option<Hearing>) {
        let over = self.workspace.over.clone();
        let stopping = self.workspace.server.stopping.clone();
        tokio::select! {
            () = self.follow(&mut hearing) => {}
            () = over.cancelled() => {}
            () = stopping.cancelled() => {}
        }
        if let Some(handle) = self.workspace.server.registry.get(&self.session) {
            handle.hub.detach(self.watch.client);
        }
        self.workspace.forget(&self.session, &self.watch);
    }

    async fn follow(&mut self, hearing: &mut Option<Hearing>) {
        loop {
            if let Err(error) = self.read_store().await {
                tracing::warn!(session = %self.session, %error, "a session cannot be followed");
                return;
            }
            if let Some(hearing) = hearing {
                self.hear(hearing).await;
            }
            // The session has left the memory. It may be back already.
            let Some(handle) = self.workspace.server.registry.get(&self.session) else { break };
            *hearing = Some(listen(&handle, self.watch.client));
        }
        self.workspace.forget(&self.session, &self.watch);
        // Whoever brought it back before it was forgotten here counted on us.
        if self.workspace.server.registry.get(&self.session).is_some() {
            self.workspace.follow(&self.session, self.cursor, None);
        }
    }

    /// Hears what happens until the session leaves the memory.
    async fn hear(&mut self, hearing: &mut Hearing) {
        let mut flush_at = None;
        loop {
            let grown = lock(&self.watch.fold).has_grown();
            flush_at = grown.then(|| flush_at.unwrap_or_else(|| Instant::now() + GATHER));
            let heard = tokio::select! {
                heard = hearing.next() => heard,
                () = until(flush_at) => {
                    self.flush();
                    continue;
                }
            };
            match heard {
                Heard::Events(events) => {
                    for event in events.events() {
                        let next = self.cursor.plus(1);
                        match event.seq {
                            Some(seq) if seq < next => {}
                            Some(seq) if seq > next => drop(self.read_store().await),
                            seq => self.take(seq, &event.json),
                        }
                    }
                }
                Heard::Missed => drop(self.read_store().await),
                Heard::Silence => return,
            }
        }
    }

    async fn read_store(&mut self) -> Result<(), StoreError> {
        loop {
            let span = Span::After { after: self.cursor, limit: PAGE };
            let page = self.workspace.server.store.read(&self.session, span).await?;
            let full = page.len() == PAGE;
            page.into_iter().for_each(|record| self.take(Some(record.seq), &record.body));
            if !full {
                break;
            }
        }
        // What was open before anybody watched is still to be answered.
        let (open, is_run) = {
            let fold = lock(&self.watch.fold);
            (fold.pending().to_vec(), fold.is_run())
        };
        open.into_iter().for_each(|pending| self.workspace.ask(&self.session, pending, is_run));
        Ok(())
    }

    /// Takes one event. One that cannot be read has its place in the sequence, and changes nothing.
    fn take(&mut self, seq: Option<Seq>, json: &[u8]) {
        let event = std::str::from_utf8(json).ok().and_then(|text| Event::parse(text).ok());
        let known = seq.is_some_and(|seq| seq <= self.told);
        if let Some(event) = event {
            let mut fold = lock(&self.watch.fold);
            if known {
                fold.pass_over(&event);
            } else {
                let changes = fold.apply(&event);
                let (row, is_run) = (fold.row(), fold.is_run());
                fold.forget_settled();
                drop(fold);
                for change in changes {
                    self.workspace.tell(&self.session, &row, is_run, change);
                }
            }
        }
        self.cursor = seq.unwrap_or(self.cursor);
        self.told = self.told.max(self.cursor);
    }

    fn flush(&self) {
        let mut fold = lock(&self.watch.fold);
        let (change, row, is_run) = (fold.flush(), fold.row(), fold.is_run());
        drop(fold);
        change.into_iter().for_each(|change| self.workspace.tell(&self.session, &row, is_run, change));
    }
}

/// The whole history of a session, folded. What was taken back is not in it any more.
pub(super) async fn fold_of(server: &Server, session: &SessionId) -> Result<Fold, StoreError> {
    let mut fold = Fold::new(session.clone());
    let mut after = Seq::ZERO;
    // How many messages there were before each event.
    let mut lengths = BTreeMap::new();
    loop {
        let page = server.store.read(session, Span::After { after, limit: PAGE }).await?;
        for record in &page {
            after = record.seq;
            lengths.insert(record.seq, fold.len());
            let Some(event) = std::str::from_utf8(&record.body).ok().and_then(|text| Event::parse(text).ok())
            else {
                continue;
            };
            match &event.body {
                Body::HistoryTruncated(cut) => {
                    let kept = lengths.range(Seq(cut.from_seq)..).next();
                    fold.take_back(kept.map_or(0, |(_, length)| *length));
                }
                _ => drop(fold.apply(&event)),
            }
        }
        if page.len() < PAGE {
            return Ok(fold);
        }
    }
}
