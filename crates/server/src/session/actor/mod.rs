//! The actor of one live session: it feeds the core, makes what the core records durable, and only then lets anybody
//! see it or act on it.

mod act;
mod compact;
mod history;
mod open;
pub(crate) use self::open::{Mailbox, Nascent};
pub(crate) mod transcript;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use baton_core::{Input, Output, ReplyTo, Session, Stamp, WorkId};
use baton_engines::Control;
use baton_protocol::event::ShutdownType;
use baton_protocol::{ClientId, Timestamp};
use baton_store::{Append, Lease, NewRecord, Seq, Store, StoreError};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::transcript::Conversation;
use super::hub::Hub;
use super::mail::{Failure, Mail, Responder, View};
use super::settings::Settings;
use crate::Server;
use crate::crash::CrashPoint;
use crate::mirror::Mirror;
use crate::work::{self, EngineRoom, ToolRoom};

/// How many messages are answered with one write at most.
const BATCH: usize = 64;

/// How many events may pass before the state is stored again, so that opening the session stays cheap.
const SNAPSHOT_EVERY: u64 = 128;

/// How long a session that nobody is attached to and that does nothing stays in memory.
const LINGER: Duration = Duration::from_secs(60);

/// How often a session that is busy looks whether it is still this server's.
const LEASE_CHECK: Duration = Duration::from_secs(3);

/// How often, and after how long, a write that the medium refused is tried again when nobody waits for it: the result
/// of a model call or of a tool is too dear to lose to a full disk that may be cleared in a moment.
const RETRIES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(6),
];

pub(crate) struct Actor {
    pub(super) server: Arc<Server>,
    pub(super) session: Session,
    pub(super) settings: Settings,
    pub(super) hub: Arc<Hub>,
    lease: Lease,
    head: Seq,
    /// The last metadata written, so that it is written only when it changes.
    meta: Bytes,
    last_snapshot: u64,
    /// What was passed over when the session was opened, until somebody has been told.
    repairs: Option<String>,
    inbox: mpsc::UnboundedReceiver<Mail>,
    /// A way to itself, for work to report back.
    mailbox: mpsc::UnboundedSender<Mail>,
    replies: BTreeMap<ReplyTo, Responder>,
    last_reply: u64,
    running: BTreeMap<WorkId, Running>,
    /// Tools of the running turn that have returned. A command that went to the background listens to its call's token
    /// for as long as it lives, and ends with a turn that is cancelled or fails.
    returned: Vec<CancellationToken>,
    conversation: Conversation,
    /// The summary that is being written, if one is.
    compaction: Option<compact::Compaction>,
    tools: Arc<ToolRoom>,
    engine: Arc<EngineRoom>,
    mirror: Mirror,
    /// Whether hooks have been told that the session ends.
    farewell_said: bool,
    /// When to leave the memory, if nothing happens before.
    leave_at: Option<tokio::time::Instant>,
    /// When to look whether the session is still ours, while it is busy.
    check_lease_at: tokio::time::Instant,
}

/// A piece of work that was started.
struct Running {
    token: CancellationToken,
    is_tool: bool,
    /// A way to talk to it, if it is an engine.
    control: Option<mpsc::UnboundedSender<Control>>,
}

/// Steps that have been taken and wait for their write.
struct Pending {
    /// The session before them, to go back to if the write fails.
    before: Session,
    outputs: Vec<Output>,
    /// Whether any of them came from work, rather than from somebody who waits for an answer.
    from_work: bool,
}

impl Actor {
    /// Lives until nobody needs the session, or it can no longer be written.
    async fn live(mut self) {
        loop {
            let Some(mail) = self.next_mail().await else { break };
            if self.take_mail(mail).await.is_break() {
                break;
            }
            self.plan_leaving();
        }
        self.end().await;
    }

    /// The next message; none when the session has been idle and alone for long enough, or has lost its lease.
    async fn next_mail(&mut self) -> Option<Mail> {
        if let Some(leave_at) = self.leave_at {
            return tokio::select! {
                mail = self.inbox.recv() => mail,
                () = tokio::time::sleep_until(leave_at) => self.server.registry.try_remove(&self.session.id, &mut self.inbox),
            };
        }
        if !self.session.is_busy() {
            return self.inbox.recv().await;
        }
        loop {
            tokio::select! {
                mail = self.inbox.recv() => return mail,
                () = tokio::time::sleep_until(self.check_lease_at) => {}
            }
            self.check_lease_at = tokio::time::Instant::now() + LEASE_CHECK;
            if has_lost(&*self.server.store, &self.lease).await {
                self.give_up(&StoreError::Fenced(self.session.id.clone()));
                return None;
            }
        }
    }

    fn plan_leaving(&mut self) {
        let needed =
            !self.session.live.clients.is_empty() || self.session.is_busy() || self.compaction.is_some();
        self.leave_at = match (needed, self.leave_at) {
            (true, _) => None,
            (false, Some(planned)) => Some(planned),
            (false, None) => Some(tokio::time::Instant::now() + LINGER),
        };
    }

    /// Takes a message, and whatever else is waiting, with as few writes as possible.
    async fn take_mail(&mut self, first: Mail) -> ControlFlow<()> {
        let mut next = Some(first);
        let mut taken = 0;
        let mut pending: Option<Pending> = None;
        while let Some(mail) = next.take() {
            match self.as_input(mail) {
                Ok((input, from_work)) => {
                    let pending = pending.get_or_insert_with(|| Pending {
                        before: self.session.clone(),
                        outputs: Vec::new(),
                        from_work: false,
                    });
                    pending.from_work |= from_work;
                    pending.outputs.extend(self.session.step(input, stamp()));
                }
                Err(other) => {
                    if let Some(pending) = pending.take() {
                        self.settle(pending).await?;
                    }
                    self.take_other(*other).await?;
                }
            }
            taken += 1;
            next = if taken < BATCH { self.inbox.try_recv().ok() } else { None };
        }
        match pending {
            Some(pending) => self.settle(pending).await,
            None => ControlFlow::Continue(()),
        }
    }

    /// A message as an input of the core, if it is one, and whether it comes from work.
    fn as_input(&mut self, mail: Mail) -> Result<(Input, bool), Box<Mail>> {
        Ok(match mail {
            Mail::Prompt(prompt, respond) => {
                (Input::Prompt { reply: self.expect_reply(respond), prompt: *prompt }, false)
            }
            Mail::Enqueue(command, respond) => {
                (Input::Enqueue { reply: self.expect_reply(respond), command }, false)
            }
            Mail::Arrange(how, respond) => (Input::Arrange { reply: self.expect_reply(respond), how }, false),
            Mail::Host(client, handle, offers) => (Input::Host { client, handle, offers }, false),
            Mail::Withdraw(which, respond) => {
                (Input::Withdraw { reply: self.expect_reply(respond), which }, false)
            }
            Mail::Abort(reason, respond) => {
                (Input::Abort { reply: self.expect_reply(respond), reason }, false)
            }
            Mail::Answer(request, answer, respond) => {
                (Input::Answer { reply: self.expect_reply(respond), request, answer: *answer }, false)
            }
            Mail::Ask(ask, respond) => (Input::Ask { reply: self.expect_reply(respond), ask: *ask }, false),
            Mail::Listen(client, respond) => {
                (Input::Listen { reply: self.expect_reply(respond), client }, false)
            }
            Mail::StopListening(listener, respond) => {
                (Input::StopListening { reply: self.expect_reply(respond), listener }, false)
            }
            Mail::Suspend(respond) => (Input::Suspend { reply: self.expect_reply(respond) }, false),
            Mail::Change(change, respond) => {
                (Input::Change { reply: self.expect_reply(respond), change: *change }, false)
            }
            Mail::StartAgent(task, respond) => {
                (Input::StartAgent { reply: self.expect_reply(respond), task }, false)
            }
            Mail::StopAgent(agent, respond) => {
                (Input::StopAgent { reply: self.expect_reply(respond), agent }, false)
            }
            Mail::Note(agent, body) => (Input::Note { agent, body }, true),
            Mail::Report(work, report) => (Input::Reported { work, report }, true),
            Mail::Finished(work, result) => {
                self.server.crash_point(CrashPoint::WorkReturned);
                if let Some(running) = self.running.remove(&work)
                    && running.is_tool
                {
                    self.returned.push(running.token);
                }
                (Input::Finished { work, result }, true)
            }
            other => return Err(Box::new(other)),
        })
    }

    async fn take_other(&mut self, mail: Mail) -> ControlFlow<()> {
        match mail {
            Mail::Join(joining, answer) => match self.join(&joining).await {
                Ok(joined) => drop(answer.send(Ok(joined))),
                Err(error @ StoreError::Medium { .. }) => drop(answer.send(Err(Failure::Store(error)))),
                // Another server has taken the session over, or somebody has deleted it. The client is handed on to
                // whoever opens it next here, and hears from there how it is.
                Err(lost) => {
                    drop(self.mailbox.send(Mail::Join(joining, answer)));
                    self.show_failure(&lost);
                    return ControlFlow::Break(());
                }
            },
            Mail::Leave(client) => return self.leave(client).await,
            Mail::Close(client, respond) => return self.close(client, respond).await,
            Mail::ShutDown(how, reason, respond) => return self.shut_down(reason, how, respond).await,
            Mail::Truncate(event, respond) => return self.truncate(&event, respond).await,
            Mail::Rewind(wish) => return self.rewind(*wish).await,
            Mail::Compact(wish) => return self.compact(*wish).await,
            Mail::Compacted(complete) => return self.compacted(*complete).await,
            Mail::StopCompacting { manual, told } => return self.stop_compacting(manual, told).await,
            Mail::Borrow(lend) => {
                let loaded = self.conversation.load(&self.server, &self.session.id, self.head).await;
                let bench = loaded.map(|()| self.work_bench(CancellationToken::new()));
                drop(lend.send(bench.map_err(Failure::Store)));
            }
            Mail::Look(look) => {
                look(View {
                    session: &self.session,
                    settings: &self.settings,
                    head: self.head,
                    tools: &self.tools,
                });
            }
            Mail::Adjust(adjust) => adjust(&mut self.settings),
            Mail::Stop(done) | Mail::Vanish(done) => {
                self.stop_everything();
                self.close_rooms().await;
                let _ = done.send(());
                return ControlFlow::Break(());
            }
            // Inputs, taken by `as_input`.
            Mail::Prompt(..)
            | Mail::Enqueue(..)
            | Mail::Arrange(..)
            | Mail::Host(..)
            | Mail::Withdraw(..)
            | Mail::Abort(..)
            | Mail::Answer(..)
            | Mail::Ask(..)
            | Mail::Listen(..)
            | Mail::StopListening(..)
            | Mail::Suspend(_)
            | Mail::Change(..)
            | Mail::StartAgent(..)
            | Mail::StopAgent(..)
            | Mail::Note(..)
            | Mail::Report(..)
            | Mail::Finished(..) => {}
        }
        ControlFlow::Continue(())
    }

    async fn leave(&mut self, client: ClientId) -> ControlFlow<()> {
        self.hub.detach(client);
        self.step(Input::Detach { client }).await
    }

    /// A client is done with the session. When it was the last, the session is closed; otherwise it just leaves.
    async fn close(&mut self, client: ClientId, respond: Responder) -> ControlFlow<()> {
        let others = self.session.live.clients.keys().any(|id| *id != client);
        if others {
            let left = self.leave(client).await;
            respond(Ok(baton_core::Reply::Done(None)));
            return left;
        }
        if !self.farewell_said && self.session.live.clients.get(&client).is_some_and(|profile| profile.hooks)
        {
            // Beside the session: a hook may well call back into it before it answers.
            self.farewell_said = true;
            work::say_farewell(self.work_bench(CancellationToken::new()), client, respond);
            return ControlFlow::Continue(());
        }
        self.shut_down("the session was closed".into(), ShutdownType::Routine, respond).await
    }

    /// Ends the session for everybody who is attached.
    async fn shut_down(&mut self, reason: String, how: ShutdownType, respond: Responder) -> ControlFlow<()> {
        let closed = self.step(Input::Close { reason, shutdown: how }).await;
        self.hub.close();
        self.stop_everything();
        self.end_before_answer().await;
        respond(Ok(baton_core::Reply::Done(None)));
        closed?;
        ControlFlow::Break(())
    }

    /// Takes one input by itself.
    pub(super) async fn step(&mut self, input: Input) -> ControlFlow<()> {
        let before = self.session.clone();
        let outputs = self.session.step(input, stamp());
        self.settle(Pending { before, outputs, from_work: true }).await
    }

    /// Makes steps durable and acts on them; goes back to before them if that cannot be done.
    async fn settle(&mut self, pending: Pending) -> ControlFlow<()> {
        let Pending { before, outputs, from_work } = pending;
        let records: Vec<NewRecord> = outputs.iter().filter_map(record_of).collect();
        let bodies: Vec<Bytes> = records.iter().map(|record| record.body.clone()).collect();
        match self.write(records, from_work).await {
            Ok(first) => {
                self.leave_background(&before, &outputs);
                self.act(first, outputs, bodies).await;
                ControlFlow::Continue(())
            }
            Err(error) => self.write_failed(before, outputs, from_work, &error),
        }
    }

    /// Writes records and returns the place of the first. Nothing to write is nothing to wait for.
    async fn write(&mut self, records: Vec<NewRecord>, patient: bool) -> Result<Seq, StoreError> {
        let first = self.head.plus(1);
        if records.is_empty() {
            return Ok(first);
        }
        let append = self.append_of(records);
        self.server.crash_point(CrashPoint::BeforeAppend);
        let mut retries = RETRIES.iter();
        loop {
            match self.server.store.append(append.clone()).await {
                Ok(head) => {
                    self.server.crash_point(CrashPoint::AfterAppend);
                    self.head = head;
                    self.meta = append.meta.unwrap_or_else(|| self.meta.clone());
                    if append.snapshot.is_some() {
                        self.last_snapshot = head.0;
                    }
                    return Ok(first);
                }
                Err(StoreError::Medium { cause, .. }) if patient && let Some(wait) = retries.next() => {
                    tracing::warn!(session = %self.session.id, cause, "cannot write the session; trying again");
                    tokio::time::sleep(*wait).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn append_of(&self, records: Vec<NewRecord>) -> Append {
        let meta = crate::metadata::encode(&self.session, &self.settings);
        // Prompts that wait are in every snapshot: where there are many, there are fewer snapshots, so that writing them
        // never costs more than writing the events.
        let pause = SNAPSHOT_EVERY.max(4 * self.session.durable.inbox.len() as u64);
        let due = self.session.durable.seq >= self.last_snapshot + pause;
        let snapshot = due.then(|| serde_json::to_vec(&self.session.durable).ok()).flatten().map(Bytes::from);
        Append {
            lease: self.lease.clone(),
            expected: self.head,
            records,
            modified: Timestamp::now(),
            meta: (meta != self.meta).then_some(meta),
            snapshot,
            busy: self.session.is_busy(),
        }
    }

    /// Nothing of the steps has happened. Whoever waits is told why; a session that lost the result of its work, or its
    /// lease, cannot go on, and is left as it is in the store.
    fn write_failed(
        &mut self,
        before: Session,
        outputs: Vec<Output>,
        from_work: bool,
        error: &StoreError,
    ) -> ControlFlow<()> {
        tracing::error!(session = %self.session.id, %error, "a write failed");
        self.session = before;
        for output in outputs {
            if let Output::Reply(to, _) = output
                && let Some(respond) = self.replies.remove(&to)
            {
                respond(Err(Failure::Store(error.clone())));
            }
        }
        if !from_work && matches!(error, StoreError::Medium { .. }) {
            return ControlFlow::Continue(());
        }
        self.give_up(error);
        ControlFlow::Break(())
    }

    /// Ends all work, tells everybody who is attached why, and those who come later.
    fn give_up(&mut self, error: &StoreError) {
        self.hub.fail(error.clone());
        self.show_failure(error);
        self.stop_everything();
    }

    fn expect_reply(&mut self, respond: Responder) -> ReplyTo {
        self.last_reply += 1;
        let to = ReplyTo(self.last_reply);
        self.replies.insert(to, respond);
        to
    }

    /// Stops all work. Its processes end with it.
    fn stop_everything(&mut self) {
        for (_, running) in std::mem::take(&mut self.running) {
            running.token.cancel();
        }
        self.end_background(true);
        if let Some(compaction) = self.compaction.take() {
            compaction.token.cancel();
        }
    }

    /// The turn is over. What it left in the background goes on, unless the turn was cut short.
    fn end_background(&mut self, cut_short: bool) {
        for token in std::mem::take(&mut self.returned) {
            if cut_short {
                token.cancel();
            }
        }
    }

    /// Ends every process of the session.
    async fn close_rooms(&mut self) {
        tokio::join!(self.tools.close(), self.engine.close());
    }

    async fn end_before_answer(&mut self) {
        self.close_rooms().await;
        self.mirror.finish().await;
        self.server.crash_point(CrashPoint::BeforeRelease);
        if let Err(error) = self.server.store.release(self.lease.clone()).await {
            tracing::warn!(session = %self.session.id, %error, "cannot give the session back; its lease ends with this process");
        }
        self.server.crash_point(CrashPoint::AfterRelease);
        self.server.registry.remove(&self.session.id, &self.mailbox);
    }

    async fn end(mut self) {
        self.stop_everything();
        self.end_before_answer().await;
        self.hub.close();
        self.inbox.close();
        let gone =
            self.hub.failure().map_or_else(|| Failure::NotFound(self.session.id.clone()), Failure::Store);
        while let Ok(mail) = self.inbox.try_recv() {
            self.server.registry.forward(&self.server, &self.session.id, mail, gone.clone());
        }
        for (_, respond) in std::mem::take(&mut self.replies) {
            respond(Err(gone.clone()));
        }
    }
}

/// Whether another server has the session now, or it was deleted. Asked while work goes on: it may be long until the next
/// write would be refused, and whatever is done until then is done by two.
async fn has_lost(store: &dyn Store, lease: &Lease) -> bool {
    match store.summary(&lease.session).await {
        Ok(summary) => {
            let holder = summary.and_then(|summary| summary.holder);
            holder.is_none_or(|holder| holder.epoch != lease.epoch)
        }
        // A store that cannot be read says nothing about who has the session.
        Err(_) => false,
    }
}

/// The moment of a step.
fn stamp() -> Stamp {
    Stamp::new(Timestamp::now(), Uuid::new_v4().as_u128())
}

/// A recorded event as the store takes it.
pub(crate) fn record_of(output: &Output) -> Option<NewRecord> {
    let Output::Record(event) = output else { return None };
    // An event is made of strings, numbers and JSON that was JSON before: it always has a JSON form.
    let body = serde_json::to_vec(event).unwrap_or_default();
    Some(NewRecord { kind: event.body.kind().to_owned(), body: body.into() })
}
