//! How a session comes into memory: made, or read back.

use std::sync::Arc;

use baton_core::{Arrival, Durable, Input, Output, Session};
use baton_protocol::event::{FileTrackingBegun, SessionWarning};
use baton_protocol::params::SessionParams;
use baton_protocol::{SessionId, Timestamp};
use baton_store::{Lease, NewRecord, NewSession, Opened, Seq, Span, StoreError, Take};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::transcript::Conversation;
use super::{Actor, record_of, stamp};
use crate::Server;
use crate::crash::CrashPoint;
use crate::mirror::Mirror;
use crate::repairs::Passed;
use crate::session::hub::Hub;
use crate::session::mail::{Failure, How, Joined, Joining, Mail};
use crate::session::settings::Settings;
use crate::work::ToolRoom;

/// How many records are read at once where all of them must be.
const PAGE: usize = 512;

/// The two ends of a session's mailbox.
pub(crate) struct Mailbox {
    pub(crate) sender: mpsc::UnboundedSender<Mail>,
    pub(crate) receiver: mpsc::UnboundedReceiver<Mail>,
}

/// A session that is about to come into memory.
pub(crate) struct Nascent {
    pub(crate) server: Arc<Server>,
    pub(crate) id: SessionId,
    pub(crate) hub: Arc<Hub>,
    pub(crate) mailbox: Mailbox,
}

impl Nascent {
    /// Makes the session, with its first client, in one write.
    pub(crate) async fn create(self, joining: Joining, answer: oneshot::Sender<Result<Joined, Failure>>) {
        let mut session = Session::new(self.id.clone());
        let mut settings = Settings::default();
        settings.merge(joining.client, &joining.params, joining.legacy);
        self.server.secrets.add_brought(&joining.params);
        let mut outputs = session.step(create_input(&self.server, &joining.params).await, stamp());
        let attach = Input::Attach {
            client: joining.client,
            profile: joining.profile.clone(),
            arrival: Arrival::Made,
        };
        outputs.extend(session.step(attach, stamp()));
        outputs.extend(track_files(&mut session, &joining.params));
        let records: Vec<NewRecord> = outputs.iter().filter_map(record_of).collect();
        let bodies: Vec<Bytes> = records.iter().map(|record| record.body.clone()).collect();
        let meta = crate::metadata::encode(&session, &settings);
        let new = NewSession {
            session: self.id.clone(),
            owner: self.server.owner.clone(),
            created: Timestamp::now(),
            records,
            meta: meta.clone(),
            busy: false,
        };
        self.server.crash_point(CrashPoint::BeforeCreate);
        match self.server.store.create(new).await {
            Ok(lease) => {
                self.server.crash_point(CrashPoint::AfterCreate);
                let head = Seq(session.durable.seq);
                let mut actor = self.into_actor(session, settings, lease, head, meta, Conversation::new());
                // A deletion that died half way may have left the files of a namesake.
                actor.mirror.catch_up(&actor.session.id, Seq::ZERO);
                actor.mirror.start(&actor.session);
                actor.hub.attach(joining.client, joining.port);
                actor.act(Seq(1), outputs, bodies).await;
                drop(answer.send(Ok(actor.joined())));
                actor.live().await;
            }
            Err(error) => {
                drop(answer.send(Err(Failure::Store(error.clone()))));
                self.fail(error);
            }
        }
    }

    /// Reads the session back.
    pub(crate) async fn open(self) {
        match self.acquire().await {
            Ok(opened) => {
                self.server.crash_point(CrashPoint::AfterAcquire);
                let meta = opened.meta.clone();
                let (session, repairs) = match self.recover(&opened).await {
                    Ok(recovered) => recovered,
                    Err(error) => return self.fail(error),
                };
                self.hub.start_after(session.durable.last_public, opened.head);
                let snapshot = opened.snapshot.as_ref().map_or(0, |(seq, _)| seq.0);
                let settings = crate::metadata::settings(&meta);
                let mut actor = self.into_actor(
                    session,
                    settings,
                    opened.lease,
                    opened.head,
                    meta,
                    Conversation::default(),
                );
                actor.last_snapshot = snapshot;
                actor.repairs = repairs;
                actor.mirror.catch_up(&actor.session.id, actor.head);
                actor.live().await;
            }
            Err(error) => self.fail(error),
        }
    }

    /// Takes the lease. A holder that is dead, or idle in another server, is replaced; a busy one is not.
    async fn acquire(&self) -> Result<Opened, StoreError> {
        let (store, owner) = (&self.server.store, self.server.owner.clone());
        match store.acquire(&self.id, owner.clone(), Take::IfFree).await {
            Err(StoreError::Held { holder, .. }) => {
                let take = crate::owner::take_from(&holder, Some(&owner));
                store.acquire(&self.id, owner, take).await
            }
            other => other,
        }
    }

    /// The state of the session as the store has it, and what had to be passed over for it. A snapshot that this version
    /// cannot read is passed over: the records are the truth, it only saves time.
    async fn recover(&self, opened: &Opened) -> Result<(Session, Option<String>), StoreError> {
        let mut unreadable = Passed::default();
        let mut durable = Durable::default();
        if let Some((place, bytes)) = &opened.snapshot {
            durable = match serde_json::from_slice(bytes) {
                Ok(durable) => durable,
                Err(error) => {
                    tracing::warn!(session = %self.id, %error, "a snapshot cannot be read; reading the whole history");
                    self.fold_until(*place, &mut unreadable).await?
                }
            };
        }
        unreadable.fold(&mut durable, &opened.tail);
        unreadable.fold_to(&mut durable, opened.head);
        let file = self.server.session_directory(&self.id, None).join("events.jsonl");
        let cut = crate::mirror::lost_events(&*self.server.store, &self.id, opened.head, file).await?;
        let repairs: Vec<String> = unreadable.in_words().into_iter().chain(cut).collect();
        let repairs = (!repairs.is_empty()).then(|| repairs.join("; "));
        if let Some(repairs) = &repairs {
            tracing::warn!(session = %self.id, "{repairs}");
        }
        Ok((Session::recovered(self.id.clone(), durable), repairs))
    }

    async fn fold_until(&self, place: Seq, unreadable: &mut Passed) -> Result<Durable, StoreError> {
        let mut durable = Durable::default();
        while durable.seq < place.0 {
            let left = usize::try_from(place.0 - durable.seq).unwrap_or(PAGE);
            let span = Span::After { after: Seq(durable.seq), limit: left.min(PAGE) };
            let page = self.server.store.read(&self.id, span).await?;
            if page.is_empty() {
                break;
            }
            unreadable.fold(&mut durable, &page);
        }
        unreadable.fold_to(&mut durable, place);
        Ok(durable)
    }

    fn into_actor(
        self,
        mut session: Session,
        settings: Settings,
        lease: Lease,
        head: Seq,
        meta: Bytes,
        conversation: Conversation,
    ) -> Actor {
        let directory = self.server.session_directory(&self.id, settings.config_dir.as_deref());
        session.live.allow_all = self.server.options.allow_all;
        session.live.home = Some(self.server.options.home.as_path().into());
        session.live.workspace = Some(directory.as_path().into());
        Actor {
            engine: Arc::default(),
            tools: Arc::new(ToolRoom::new(&self.server, &self.hub, directory.clone())),
            mirror: Mirror::new(&self.server, directory),
            server: self.server,
            session,
            settings,
            hub: self.hub,
            lease,
            head,
            meta,
            last_snapshot: 0,
            repairs: None,
            inbox: self.mailbox.receiver,
            mailbox: self.mailbox.sender,
            replies: Default::default(),
            last_reply: 0,
            running: Default::default(),
            returned: Vec::new(),
            conversation,
            compaction: None,
            farewell_said: false,
            leave_at: None,
            check_lease_at: tokio::time::Instant::now(),
        }
    }

    /// The session is not to be had: everybody who asked for it is told why.
    fn fail(mut self, error: StoreError) {
        // Before the mailbox is closed: whoever finds it closed is told why.
        self.hub.fail(error.clone());
        self.server.registry.remove(&self.id, &self.mailbox.sender);
        self.mailbox.receiver.close();
        let failure = Failure::Store(error);
        while let Ok(mail) = self.mailbox.receiver.try_recv() {
            mail.refuse(failure.clone());
        }
    }
}

impl Actor {
    /// A client comes to a session that is in memory. When that cannot be written, it has not come.
    pub(super) async fn join(&mut self, joining: &Joining) -> Result<Joined, StoreError> {
        let arrival = match joining.how {
            How::Made => Arrival::Made,
            How::Resumed => self.resumed(&joining.params).await,
        };
        let before = (self.session.clone(), self.settings.clone());
        self.settings.merge(joining.client, &joining.params, joining.legacy);
        self.server.secrets.add_brought(&joining.params);
        let input = Input::Attach { client: joining.client, profile: joining.profile.clone(), arrival };
        let mut outputs = self.session.step(input, stamp());
        outputs.extend(track_files(&mut self.session, &joining.params));
        let records: Vec<NewRecord> = outputs.iter().filter_map(record_of).collect();
        let bodies: Vec<Bytes> = records.iter().map(|record| record.body.clone()).collect();
        match self.write(records, false).await {
            Ok(first) => {
                self.mirror.catch_up(&self.session.id, Seq(first.0.saturating_sub(1)));
                self.hub.attach(joining.client, joining.port.clone());
                self.leave_background(&before.0, &outputs);
                self.act(first, outputs, bodies).await;
                self.mirror.start(&self.session);
                self.say_repairs();
                Ok(self.joined())
            }
            Err(error) => {
                (self.session, self.settings) = before;
                Err(error)
            }
        }
    }

    /// Whoever comes first to a session whose history could not be read whole is told so. It is not recorded: the next
    /// one to open the session finds out again.
    fn say_repairs(&mut self) {
        if let Some(message) = self.repairs.take() {
            let warning = SessionWarning { warning_type: "history".into(), message, url: None };
            self.hub.show(warning, &CancellationToken::new());
        }
    }

    async fn resumed(&mut self, params: &SessionParams) -> Arrival {
        let context = match &params.working_directory {
            Some(directory) => crate::context::of(directory.into()).await,
            None => self.session.durable.facts.context.clone(),
        };
        Arrival::Resumed {
            continue_pending_work: params.continue_pending_work,
            record: !params.disable_resume.unwrap_or(false),
            context: Box::new(context),
            model: params.model.clone(),
            reasoning_effort: params.reasoning_effort.clone(),
        }
    }

    pub(super) fn joined(&self) -> Joined {
        Joined { elicitation: self.session.live.clients.values().any(|client| client.elicitation) }
    }
}

/// Begins to keep what files were, if a client wants that. Not once something was said: what was changed before could not
/// be put back, and going back would leave a mixture.
fn track_files(session: &mut Session, params: &SessionParams) -> Vec<Output> {
    let facts = &session.durable.facts;
    let wanted = params.enable_file_change_tracking.unwrap_or(false);
    if !wanted || facts.tracks_files || facts.title.is_some() {
        return Vec::new();
    }
    session.step(Input::Note { agent: None, body: Box::new(FileTrackingBegun {}.into()) }, stamp())
}

async fn create_input(server: &Server, params: &SessionParams) -> Input {
    let directory = params.working_directory.as_ref().map_or_else(|| server.options.cwd.clone(), Into::into);
    Input::Create {
        context: crate::context::of(directory).await,
        model: params.model.clone(),
        reasoning_effort: params.reasoning_effort.clone(),
        version: server.options.version.clone(),
    }
}
