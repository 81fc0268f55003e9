//! Detaches clients, closes the session, and unloads it.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use baton_ask::{Close, ShutDown};
use baton_core::Input;
use baton_handle::{Failure, Residence};
use baton_protocol::ClientId;
use baton_protocol::event::{SessionError, ShutdownType};
use baton_store::StoreError;
use tokio_util::sync::CancellationToken;

use super::{Actor, Loading, Mailbox, Survivors, spans};
use crate::crash::CrashPoint;
use crate::session::Respond;
use crate::session::panics;
use crate::work;

impl Actor {
    /// Detaches a client.
    pub(super) async fn leave(&mut self, client: ClientId) -> ControlFlow<()> {
        self.hub.detach(client);
        self.attached.remove(client);
        self.tools.workflows().leave(client);
        if let Some(host) = self.runtime.extension_host() {
            host.release(&self.handle(), client);
        }
        self.step(Input::Detach { client }).await
    }

    /// Detaches a client; closes the session if it was the last one.
    pub(super) async fn close(&mut self, client: ClientId, respond: Respond<Close>) -> ControlFlow<()> {
        // Extensions belong to other clients, and end with the last of them.
        let clients = &self.session.live.clients;
        let others = clients.iter().any(|(id, profile)| *id != client && !profile.is_extension);
        if others {
            let left = self.leave(client).await;
            respond.with(Ok(()));
            return left;
        }
        if !self.end_hook_invoked
            && self.session.live.clients.get(&client).is_some_and(|profile| profile.hooks)
        {
            // Beside the actor: a hook may send asks to the session before it replies.
            self.end_hook_invoked = true;
            let scope = self.work_scope(CancellationToken::new());
            spans::ask("Close").in_scope(|| work::close_after_hook(scope, client, respond));
            return ControlFlow::Continue(());
        }
        let closed = self.end_for_all("the session was closed".into(), ShutdownType::Routine).await;
        respond.with(Ok(()));
        closed
    }

    /// Ends the session for all attached clients.
    pub(super) async fn shut_down(&mut self, ask: ShutDown, respond: Respond<ShutDown>) -> ControlFlow<()> {
        let closed = self.end_for_all(ask.reason, ask.how).await;
        respond.with(Ok(()));
        closed
    }

    async fn end_for_all(&mut self, reason: String, shutdown: ShutdownType) -> ControlFlow<()> {
        let _ = self.step(Input::Close { reason, shutdown }).await;
        self.steps_down = false;
        self.hub.reside(Residence::Closed);
        self.hub.close();
        self.stop_everything();
        self.release().await;
        ControlFlow::Break(())
    }

    /// Stops all work, with its processes.
    pub(super) fn stop_everything(&mut self) {
        for (_, running) in std::mem::take(&mut self.running) {
            running.token.cancel();
        }
        self.end_background(true);
        if let Some(compaction) = self.compaction.take() {
            compaction.token.cancel();
        }
    }

    /// Detaches the background commands of a turn that has ended. Ends them if the turn was cancelled or failed.
    pub(super) fn end_background(&mut self, end: bool) {
        for token in std::mem::take(&mut self.returned) {
            if end {
                token.cancel();
            }
        }
    }

    /// Ends all processes of the session.
    pub(super) async fn end_processes(&mut self) {
        if let Some(host) = self.runtime.extension_host() {
            host.end(&self.handle());
        }
        tokio::join!(self.tools.close(), self.engine.close());
    }

    /// Ends all processes, and releases the lease, unless the session is to be found as one of a dead server.
    async fn release(&mut self) {
        self.end_processes().await;
        self.mirror.finish().await;
        self.tools.share().try_push().await;
        self.runtime.crash_point(CrashPoint::BeforeRelease);
        if !self.is_left_to_others()
            && let Err(error) = self.runtime.store.release(self.lease.clone()).await
        {
            tracing::warn!(%error, "failed to release the lease; it ends with this process");
        }
        self.runtime.crash_point(CrashPoint::AfterRelease);
        self.runtime.registry.remove(&self.session.id, &self.mailbox);
    }

    /// Whether this server stops with work left, and others share the store. They look for the busy sessions of dead servers, so
    /// the lease stays: a graceful stop leaves no less to find than a crash.
    fn is_left_to_others(&self) -> bool {
        self.runtime.cluster.is_some() && self.runtime.stopping.is_cancelled() && self.session.is_busy()
    }

    /// Reports a panic of the actor to its clients and to later asks. The session itself is as the store has it: the next
    /// ask opens it again.
    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) {
        tracing::error!(panic = panics::text(panic), "session panicked; the next ask opens it again");
        let failure = Failure::Internal(self.session.id.clone());
        let error_type = "internal".into();
        let error = SessionError { error_type, message: failure.to_string(), ..SessionError::default() };
        self.hub.fail(failure);
        // The panic may have been that of a port, which would panic again.
        let show = || self.hub.show(error, &CancellationToken::new());
        drop(catch_unwind(AssertUnwindSafe(show)));
    }

    /// Unloads the session. Forwards messages that arrived too late, and fails the asks that have no reply yet. Returns the
    /// clients, if the session is to be found again for them.
    pub(super) async fn end(mut self: Box<Self>) -> Option<Survivors> {
        self.stop_everything();
        self.runtime.metrics.forget(&self.session.id);
        if self.steps_down && !self.runtime.stopping.is_cancelled() {
            return Some(self.survive().await);
        }
        self.release().await;
        self.hub.reside(Residence::Gone);
        self.hub.close();
        self.inbox.close();
        let gone = self.hub.gone();
        while let Ok(mail) = self.inbox.try_recv() {
            self.runtime.registry.forward(&self.runtime, &self.session.id, mail, gone.clone());
        }
        for (_, responder) in std::mem::take(&mut self.replies) {
            responder.reply(Err(gone.clone()));
        }
        None
    }

    /// Leaves the session to another server, or to a later attempt of this one. Nothing is released: the lease is lost, or
    /// the store cannot be reached.
    async fn survive(mut self: Box<Self>) -> Survivors {
        self.hub.reside(Residence::Unknown);
        let lost = Failure::Store(StoreError::Fenced(self.session.id.clone()));
        for (_, responder) in std::mem::take(&mut self.replies) {
            responder.reply(Err(lost.clone()));
        }
        self.end_processes().await;
        self.mirror.finish().await;
        tracing::warn!(clients = self.attached.len(), "the session is no longer here; looking for it");
        self.attached.note_registrations(&self.session);
        if let Some(layers) = self.layers.take() {
            self.attached.set_changes(layers.into_changes());
        }
        // The next owner starts extensions itself.
        self.attached.remove_extensions().into_iter().for_each(|client| self.hub.detach(client));
        let Self { runtime, session, hub, inbox, mailbox, attached, .. } = *self;
        let mailbox = Mailbox { sender: mailbox, receiver: inbox };
        Survivors { loading: Loading { runtime, id: session.id, hub, mailbox }, attached }
    }
}
