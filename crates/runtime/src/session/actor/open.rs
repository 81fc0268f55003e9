//! Creates sessions, opens them from the store, and attaches clients.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use baton_core::{Arrival, Durable, Input, Output, Session};
use baton_history::metadata::{self, Metadata};
use baton_history::repairs::Damage;
use baton_history::{owner, record_of};
use baton_protocol::event::{FileTrackingBegun, SessionWarning};
use baton_protocol::params::SessionParams;
use baton_protocol::{ClientId, SessionId, Timestamp};
use baton_store::{Lease, NewRecord, NewSession, Opened, Seq, Span, StoreError, Take};
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::transcript::Conversation;
use super::{Actor, stamp};
use crate::Runtime;
use crate::crash::CrashPoint;
use crate::mcp::SessionMcp;
use crate::session::failure::Failure;
use crate::session::hub::{Hub, Port};
use crate::session::message::{ActorMessage, JoinKind, JoinReply, JoinRequest};
use crate::session::settings::Settings;
use crate::session::stored_settings;
use crate::skills::SessionSkills;
use crate::work::SessionTools;

/// Number of records per read, where the whole history is read.
const PAGE: usize = 512;

/// Both ends of a session's mailbox.
pub(crate) struct Mailbox {
    pub(crate) sender: mpsc::UnboundedSender<ActorMessage>,
    pub(crate) receiver: mpsc::UnboundedReceiver<ActorMessage>,
}

/// A session that is being created or loaded, before its actor runs.
pub(crate) struct Loading {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) id: SessionId,
    pub(crate) hub: Arc<Hub>,
    pub(crate) mailbox: Mailbox,
}

/// A session that was just created: the first outputs, to act on, and the reply to its creator.
struct Created {
    client: ClientId,
    port: Arc<dyn Port>,
    outputs: Vec<Output>,
    bodies: Vec<Bytes>,
    reply: oneshot::Sender<Result<JoinReply, Failure>>,
}

impl Loading {
    /// Creates the session with its first client, in one write, and runs its actor.
    pub(crate) async fn create(
        self,
        joining: JoinRequest,
        port: Arc<dyn Port>,
        reply: oneshot::Sender<Result<JoinReply, Failure>>,
    ) {
        let mut session = Session::new(self.id.clone());
        let mut settings = Settings::default();
        settings.merge(joining.client, &joining.params, joining.legacy);
        self.runtime.secrets.add_client_credentials(&joining.params);
        let mut outputs = session.step(create_input(&self.runtime, &joining.params).await, stamp());
        let attach = Input::Attach {
            client: joining.client,
            profile: joining.profile.clone(),
            arrival: Arrival::Made,
        };
        outputs.extend(session.step(attach, stamp()));
        outputs.extend(track_files(&mut session, &joining.params));
        let records: Vec<NewRecord> = outputs.iter().filter_map(record_of).collect();
        let bodies: Vec<Bytes> = records.iter().map(|record| record.body.clone()).collect();
        let meta = stored_settings::metadata_of(&session, &settings);
        let new = NewSession {
            session: self.id.clone(),
            owner: self.runtime.owner.clone(),
            created: Timestamp::now(),
            records,
            meta: meta.encode(),
            busy: false,
        };
        self.runtime.crash_point(CrashPoint::BeforeCreate);
        match self.runtime.store.create(new).await {
            Ok(lease) => {
                self.runtime.crash_point(CrashPoint::AfterCreate);
                remember_provider(&self.runtime, &self.id, &settings);
                let head = Seq(session.durable.seq);
                let actor = self.into_actor(session, settings, lease, head, meta, Conversation::new());
                actor.run(Some(Created { client: joining.client, port, outputs, bodies, reply })).await;
            }
            Err(error) => {
                drop(reply.send(Err(Failure::Store(error.clone()))));
                self.fail(error);
            }
        }
    }

    /// Opens the session from the store, and runs its actor.
    pub(crate) async fn open(self) {
        match self.acquire().await {
            Ok(opened) => {
                self.runtime.crash_point(CrashPoint::AfterAcquire);
                let meta = metadata::decode(&opened.meta);
                let (session, repairs) = match self.recover(&opened).await {
                    Ok(recovered) => recovered,
                    Err(error) => return self.fail(error),
                };
                self.hub.start_after(session.durable.last_public, opened.head);
                let snapshot = opened.snapshot.as_ref().map_or(0, |(seq, _)| seq.0);
                let mut settings = stored_settings::settings_of(&meta);
                if settings.provider_lost
                    && let Some(provider) = self.runtime.provider_cache.get(&self.id)
                {
                    (settings.provider, settings.provider_lost) = (Some(provider), false);
                }
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
                actor.mirror.catch_up(actor.head);
                actor.runtime.metrics.note_pending(&actor.session);
                actor.run(None).await;
            }
            Err(error) => self.fail(error),
        }
    }

    /// Acquires the lease. A holder that is dead or idle is replaced; a busy one is not.
    async fn acquire(&self) -> Result<Opened, StoreError> {
        let (store, us) = (&self.runtime.store, self.runtime.owner.clone());
        match store.acquire(&self.id, us.clone(), Take::IfFree).await {
            Err(StoreError::Held { holder, .. }) => {
                let take = owner::take_from(&holder, Some(&us));
                store.acquire(&self.id, us, take).await
            }
            other => other,
        }
    }

    /// Folds the state of the session, and describes damage that was skipped. A snapshot that this version cannot read is
    /// ignored: it only saves time.
    async fn recover(&self, opened: &Opened) -> Result<(Session, Option<String>), StoreError> {
        let mut damage = Damage::default();
        let mut durable = Durable::default();
        if let Some((seq, bytes)) = &opened.snapshot {
            durable = match serde_json::from_slice(bytes) {
                Ok(durable) => durable,
                Err(error) => {
                    tracing::warn!(%error, "unreadable snapshot; reading the whole history");
                    self.fold_until(*seq, &mut damage).await?
                }
            };
        }
        damage.fold(&mut durable, &opened.tail);
        damage.fold_to(&mut durable, opened.head);
        let files = self.runtime.session_files(&self.id, None);
        let cut = files.lost_events(&*self.runtime.store, &self.id, opened.head).await?;
        let repairs: Vec<String> = damage.describe().into_iter().chain(cut).collect();
        let repairs = (!repairs.is_empty()).then(|| repairs.join("; "));
        if let Some(repairs) = &repairs {
            tracing::warn!("{repairs}");
        }
        Ok((Session::recovered(self.id.clone(), durable), repairs))
    }

    async fn fold_until(&self, seq: Seq, damage: &mut Damage) -> Result<Durable, StoreError> {
        let mut durable = Durable::default();
        while durable.seq < seq.0 {
            let left = usize::try_from(seq.0 - durable.seq).unwrap_or(PAGE);
            let span = Span::After { after: Seq(durable.seq), limit: left.min(PAGE) };
            let page = self.runtime.store.read(&self.id, span).await?;
            if page.is_empty() {
                break;
            }
            damage.fold(&mut durable, &page);
        }
        damage.fold_to(&mut durable, seq);
        Ok(durable)
    }

    fn into_actor(
        self,
        mut session: Session,
        settings: Settings,
        lease: Lease,
        head: Seq,
        meta: Metadata,
        conversation: Conversation,
    ) -> Actor {
        let files = self.runtime.session_files(&self.id, settings.config_dir.as_deref());
        session.live.allow_all = self.runtime.options.allow_all;
        session.live.home = Some(self.runtime.options.home.as_path().into());
        session.live.workspace = Some(files.path().into());
        let mcp = SessionMcp::new(&self.runtime, &self.hub, self.mailbox.sender.clone(), self.id.clone());
        let skills = SessionSkills::new(&self.runtime, &self.hub, self.id.clone());
        Actor {
            engine: Arc::default(),
            tools: Arc::new(SessionTools::new(&self.runtime, &self.hub, mcp, skills, files.clone())),
            mirror: self.runtime.mirrors.of(&self.id, &files),
            runtime: self.runtime,
            session,
            settings: Arc::new(settings),
            hub: self.hub,
            lease,
            head,
            meta,
            last_snapshot: 0,
            repairs: None,
            inbox: self.mailbox.receiver,
            mailbox: self.mailbox.sender,
            replies: Default::default(),
            last_ask: 0,
            running: Default::default(),
            returned: Vec::new(),
            conversation,
            compaction: None,
            end_hook_invoked: false,
            leave_at: None,
            lease_checked_at: tokio::time::Instant::now(),
            turn_span: None,
        }
    }

    /// Refuses all asks, because the session cannot be opened or created.
    fn fail(mut self, error: StoreError) {
        // Before the mailbox is closed: senders that find it closed read the failure.
        self.hub.fail(Failure::Store(error.clone()));
        self.runtime.registry.remove(&self.id, &self.mailbox.sender);
        self.mailbox.receiver.close();
        let failure = Failure::Store(error);
        while let Ok(mail) = self.mailbox.receiver.try_recv() {
            mail.refuse(failure.clone());
        }
    }
}

impl Actor {
    /// Runs the actor to its end. A panic ends this actor only.
    async fn run(mut self, created: Option<Created>) {
        let life = async {
            if let Some(created) = created {
                self.begin(created).await;
            }
            self.live().await;
        };
        if let Err(panic) = AssertUnwindSafe(life).catch_unwind().await {
            self.panicked(&*panic);
        }
        self.end().await;
    }

    /// Publishes the creation of the session, and replies to its creator.
    async fn begin(&mut self, created: Created) {
        // A deletion that was interrupted may have left files of a session with the same id.
        self.mirror.catch_up(Seq::ZERO);
        self.mirror.start(&self.session);
        self.hub.attach(created.client, created.port);
        self.act(Seq(1), created.outputs, created.bodies).await;
        drop(created.reply.send(Ok(self.joined())));
    }

    /// Attaches a client, unless the store cannot record it.
    pub(super) async fn join(
        &mut self,
        joining: &JoinRequest,
        port: Arc<dyn Port>,
    ) -> Result<JoinReply, StoreError> {
        let arrival = match joining.kind {
            JoinKind::Create => Arrival::Made,
            JoinKind::Resume => self.resumed(&joining.params).await,
        };
        let before = (self.session.clone(), self.settings.clone());
        Arc::make_mut(&mut self.settings).merge(joining.client, &joining.params, joining.legacy);
        self.runtime.secrets.add_client_credentials(&joining.params);
        let input = Input::Attach { client: joining.client, profile: joining.profile.clone(), arrival };
        let mut outputs = self.session.step(input, stamp());
        outputs.extend(track_files(&mut self.session, &joining.params));
        let records: Vec<NewRecord> = outputs.iter().filter_map(record_of).collect();
        let bodies: Vec<Bytes> = records.iter().map(|record| record.body.clone()).collect();
        match self.write(records, false).await {
            Ok(first) => {
                remember_provider(&self.runtime, &self.session.id, &self.settings);
                self.mirror.catch_up(Seq(first.0.saturating_sub(1)));
                self.hub.attach(joining.client, port);
                self.leave_background(&before.0, &outputs);
                self.act(first, outputs, bodies).await;
                self.mirror.start(&self.session);
                self.show_repairs();
                Ok(self.joined())
            }
            Err(error) => {
                (self.session, self.settings) = before;
                Err(error)
            }
        }
    }

    /// Warns the first client of a session whose history is damaged. Not recorded: whenever the session is opened, the
    /// damage is found again.
    fn show_repairs(&mut self) {
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

    pub(super) fn joined(&self) -> JoinReply {
        JoinReply { elicitation: self.session.live.clients.values().any(|client| client.elicitation) }
    }
}

/// Keeps the provider of a session that may leave the memory before its next prompt.
pub(super) fn remember_provider(runtime: &Runtime, session: &SessionId, settings: &Settings) {
    if settings.keep
        && let Some(provider) = &settings.provider
    {
        runtime.provider_cache.set(session, provider);
    }
}

/// Enables file tracking, if the client asks for it. Not after the first prompt: earlier changes could not be undone, and a
/// rewind would restore only some of the files.
fn track_files(session: &mut Session, params: &SessionParams) -> Vec<Output> {
    let facts = &session.durable.facts;
    let wanted = params.enable_file_change_tracking.unwrap_or(false);
    if !wanted || facts.tracks_files || facts.title.is_some() {
        return Vec::new();
    }
    session.step(Input::Note { agent: None, body: Box::new(FileTrackingBegun {}.into()) }, stamp())
}

async fn create_input(runtime: &Runtime, params: &SessionParams) -> Input {
    let directory = params.working_directory.as_ref().map_or_else(|| runtime.options.cwd.clone(), Into::into);
    Input::Create {
        context: crate::context::of(directory).await,
        model: params.model.clone(),
        reasoning_effort: params.reasoning_effort.clone(),
        version: runtime.options.version.clone(),
    }
}
