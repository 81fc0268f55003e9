//! Creates sessions, opens them from the store, and runs their actors.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use baton_addons::SessionTrust;
use baton_addons::mcp::SessionMcp;
use baton_addons::skills::SessionSkills;
use baton_addons::workflows::{SessionWorkflows, Workflows};
use baton_core::{Arrival, Durable, Input, Output, Session};
use baton_handle::attached::Attached;
use baton_handle::{
    ActorMessage, Batch, Failure, JoinReply, JoinRequest, Port, Published, Publisher, Residence,
};
use baton_history::metadata::{self, Metadata};
use baton_history::record_of;
use baton_history::repairs::Damage;
use baton_protocol::event::SessionIdle;
use baton_protocol::params::SessionParams;
use baton_protocol::{ClientId, SessionId, Timestamp};
use baton_settings::{Layers, ModelSender, Settings};
use baton_store::{Lease, NewRecord, NewSession, Opened, Seq, Span, StoreError};
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::join::{remember_provider, track_files};
use super::locate::Located;
use super::transcript::Transcripts;
use super::{Actor, stamp};
use crate::Runtime;
use crate::crash::CrashPoint;
use crate::extension_host::start_ask;
use crate::session::edge;
use crate::session::{AddonPort, Handle, stored_settings};
use crate::work::sandbox::{self, SessionSandbox};
use crate::work::{FileShare, Parts, SessionTools};

/// Number of records per read, where the whole history is read.
const PAGE: usize = 512;

/// Both ends of a session's mailbox.
pub(crate) struct Mailbox {
    pub(crate) sender: mpsc::UnboundedSender<ActorMessage>,
    pub(crate) receiver: mpsc::UnboundedReceiver<ActorMessage>,
}

/// A session that this server has lost, with the clients for which it is to be found again.
pub(crate) struct Survivors {
    pub(crate) loading: Loading,
    pub(crate) attached: Attached,
}

/// A session that is being created or loaded, before its actor runs.
pub(crate) struct Loading {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) id: SessionId,
    pub(crate) hub: Publisher,
    pub(crate) mailbox: Mailbox,
}

/// A session as it was acquired or created.
struct Held {
    lease: Lease,
    head: Seq,
    meta: Metadata,
    share: FileShare,
}

/// A session that was just created: the first outputs, to act on, and the reply to its creator.
struct Created {
    client: ClientId,
    params: Box<SessionParams>,
    port: Arc<dyn Port>,
    outputs: Vec<Output>,
    bodies: Vec<Bytes>,
    reply: oneshot::Sender<Result<JoinReply, Failure>>,
    attached: Attached,
}

/// The reason why an acquired session has no actor.
enum NotLoaded {
    /// Clients wait for the session: it is to be found again.
    TryAgain(Box<Loading>),
    /// The reason was reported.
    Failed,
}

impl Loading {
    /// Creates the session with its first client, in one write, and runs its actor.
    ///
    /// A task is as large as its largest moment for as long as it lives, and that of an idle session lives long. So whatever
    /// happens once, or rarely, is boxed here and in the actor: its memory goes when it is over.
    pub(crate) async fn create(
        self,
        joining: JoinRequest,
        port: Arc<dyn Port>,
        reply: oneshot::Sender<Result<JoinReply, Failure>>,
    ) {
        let Some((actor, created)) = Box::pin(self.write_first(joining, port, reply)).await else { return };
        if let Some(lost) = actor.run(Some(created), Attached::default()).await {
            Box::pin(lost.loading.host(lost.attached)).await;
        }
    }

    /// Writes the creation of the session. Replies with the reason if it cannot be written.
    async fn write_first(
        self,
        joining: JoinRequest,
        port: Arc<dyn Port>,
        reply: oneshot::Sender<Result<JoinReply, Failure>>,
    ) -> Option<(Box<Actor>, Box<Created>)> {
        let mut session = Session::new(self.id.clone());
        let mut settings = Settings::default();
        settings.merge(joining.client, &joining.params, joining.legacy);
        self.runtime.note_carrier(&self.id, &mut settings);
        self.runtime.secrets.add_client_credentials(&joining.params);
        let mut outputs = session.step(create_input(&self.runtime, &joining).await, stamp());
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
                let files = self.runtime.session_files(&self.id, settings.config_dir.as_deref());
                let share = FileShare::new(&self.runtime.store, &lease, &files);
                let held = Held { lease, head, meta, share };
                sandbox::equip(&self.runtime, &mut session).await;
                let actor = self.into_actor(session, settings, held, Transcripts::new());
                let (client, params) = (joining.client, joining.params.clone());
                let mut attached = Attached::default();
                if actor.runtime.cluster.is_some() {
                    attached.insert(joining, port.clone(), Seq::ZERO);
                }
                Some((actor, Box::new(Created { client, params, port, outputs, bodies, reply, attached })))
            }
            Err(error) => {
                drop(reply.send(Err(Failure::Store(error.clone()))));
                self.fail(error);
                None
            }
        }
    }

    /// Opens the session from the store, and runs its actor; or follows the server that holds it.
    pub(crate) async fn open(self) {
        Box::pin(self.host(Attached::default())).await;
    }

    /// Serves the session here or through the server that holds it, for as long as its clients need it.
    async fn host(mut self, mut attached: Attached) {
        loop {
            let survivors = match self.locate(!attached.is_empty()).await {
                Ok(Located::Here(opened)) => Box::pin(self.live(*opened, attached)).await,
                Ok(Located::There(link, head)) => match edge::follow(self, attached, link, head).await {
                    edge::Ending::Lost(survivors) => Some(*survivors),
                    edge::Ending::Over => None,
                },
                Err(error) => return self.fail(error),
            };
            match survivors {
                Some(survivors) => (self, attached) = (survivors.loading, survivors.attached),
                None => return,
            }
        }
    }

    /// Runs the actor of an acquired session. Returns the clients for which the session is to be found again.
    async fn live(self, opened: Opened, attached: Attached) -> Option<Survivors> {
        match Box::pin(self.load(opened, !attached.is_empty())).await {
            Ok(actor) => actor.run(None, attached).await,
            Err(NotLoaded::TryAgain(loading)) => Some(Survivors { loading: *loading, attached }),
            Err(NotLoaded::Failed) => None,
        }
    }

    /// Makes the actor of an acquired session. A failure is final unless clients wait (`awaited`).
    async fn load(self, opened: Opened, awaited: bool) -> Result<Box<Actor>, NotLoaded> {
        self.runtime.crash_point(CrashPoint::AfterAcquire);
        let meta = metadata::decode(&opened.meta);
        let recovered = match self.recover(&opened).await {
            Ok(recovered) => self.fill_gap(opened.head).await.map(|()| recovered),
            Err(error) => Err(error),
        };
        let (mut session, repairs) = match recovered {
            Ok(recovered) => recovered,
            Err(error) => return Err(self.not_loaded(error, awaited)),
        };
        self.hub.start_after(session.durable.last_public, opened.head);
        let snapshot = opened.snapshot.as_ref().map_or(0, |(seq, _)| seq.0);
        let mut settings = stored_settings::settings_of(&meta);
        // The turn of a dead server must not go to another provider than the one that its client brought.
        settings.provider_lost |= self.runtime.cluster.is_some() && meta.own_provider && session.is_busy();
        if settings.provider_lost
            && let Some(provider) = self.runtime.provider_cache.get(&self.id)
        {
            (settings.provider, settings.provider_lost) = (Some(provider), false);
        }
        if self.runtime.cluster.is_some() && meta.carried && session.is_busy() {
            settings.sender = ModelSender::LostClient;
        }
        let files = self.runtime.session_files(&self.id, settings.config_dir.as_deref());
        let share = match FileShare::fetch(&self.runtime.store, &opened.lease, &files).await {
            Ok(share) => share,
            Err(error) => return Err(self.not_loaded(error, awaited)),
        };
        sandbox::equip(&self.runtime, &mut session).await;
        let held = Held { lease: opened.lease, head: opened.head, meta, share };
        let mut actor = self.into_actor(session, settings, held, Transcripts::default());
        actor.last_snapshot = snapshot;
        actor.repairs = repairs;
        actor.mirror.catch_up(actor.head);
        actor.runtime.metrics.note_pending(&actor.session);
        if actor.runtime.cluster.is_some() {
            // Before edges are served: they show it to their clients.
            actor.tools.workflows().recover().await;
        }
        // Else observers would take the end of a request that they never heard of for no change.
        if actor.session.is_busy() || actor.session.durable.has_requests_beside_turns() {
            actor.runtime.lifecycle.announce_pending(&actor.session, actor.head);
        }
        Ok(actor)
    }

    fn not_loaded(self, error: StoreError, awaited: bool) -> NotLoaded {
        if awaited {
            tracing::warn!(%error, "cannot load the session; trying again");
            return NotLoaded::TryAgain(Box::new(self));
        }
        self.fail(error);
        NotLoaded::Failed
    }

    /// Publishes the durable events that this server's clients have missed while the session was elsewhere or nowhere.
    pub(crate) async fn fill_gap(&self, head: Seq) -> Result<(), StoreError> {
        // A hub that was never open has no client that could have missed anything.
        if self.hub.head() == Seq::ZERO {
            self.hub.start_after(None, head);
            return Ok(());
        }
        while self.hub.head() < head {
            let span = Span::After { after: self.hub.head(), limit: PAGE };
            let page = self.runtime.store.read(&self.id, span).await?;
            if page.is_empty() {
                break;
            }
            let events =
                page.into_iter().map(|record| Published::new(Some(record.seq), &record.kind, record.body));
            self.hub.publish_received(Batch::new(events));
        }
        Ok(())
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
        held: Held,
        conversation: Transcripts,
    ) -> Box<Actor> {
        let Held { lease, head, meta, share } = held;
        let layers = self.runtime.cluster.as_ref().map(|_| Box::new(Layers::new(settings.clone())));
        let files = self.runtime.session_files(&self.id, settings.config_dir.as_deref());
        session.live.allow_all = self.runtime.options.allow_all;
        session.live.home = Some(self.runtime.options.home.as_path().into());
        session.live.workspace = Some(files.path().into());
        session.live.engine_files = self.runtime.engine_files.clone();
        let handle = Handle::new(self.id.clone(), &self.hub, self.mailbox.sender.clone());
        let sandbox = SessionSandbox::new(&self.runtime, &files, &self.hub, &handle);
        let port = Arc::new(AddonPort { handle, publisher: self.hub.clone(), sandbox: sandbox.clone() });
        let (addons, trust) = (&self.runtime.addons, Arc::<SessionTrust>::default());
        let share = Arc::new(share);
        let runs = Workflows::new(files.path(), share.clone().sharing());
        let (tasks, stopping) = (self.runtime.tasks.clone(), &self.runtime.stopping);
        let workflows = SessionWorkflows::new(self.id.clone(), port.clone(), runs, tasks, stopping);
        let mcp = SessionMcp::new(addons, port.clone(), self.id.clone(), trust.clone());
        let skills = SessionSkills::new(addons, port, self.id.clone(), trust);
        let parts = Parts { mcp, skills, workflows, sandbox, files: files.clone(), share };
        Box::new(Actor {
            engine: Arc::default(),
            tools: Arc::new(SessionTools::new(&self.runtime, &self.hub, parts)),
            mirror: self.runtime.mirrors.of(&self.id, &files),
            runtime: self.runtime,
            session,
            settings: Arc::new(settings),
            layers,
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
            attached: Attached::default(),
            steps_down: false,
            end_hook_invoked: false,
            leave_at: None,
            lease_checked_at: tokio::time::Instant::now(),
            turn_span: None,
        })
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
        // Subscriptions end, so that readers look for the session again.
        self.hub.reside(Residence::Gone);
        self.hub.close();
    }
}

impl Actor {
    /// Runs the actor to its end. A panic ends this actor only. `attached` are clients of an earlier one.
    async fn run(
        mut self: Box<Self>,
        created: Option<Box<Created>>,
        attached: Attached,
    ) -> Option<Survivors> {
        self.hub.reside(Residence::Here);
        // Kept also if this actor ends before they are attached again.
        self.attached = attached.clone();
        if let Some(layers) = &mut self.layers {
            layers.restore(&attached.changes());
        }
        let life = async {
            if let Some(created) = created {
                Box::pin(self.begin(*created)).await;
            }
            let (_, returning) = attached.rejoin();
            let returned = !returning.is_empty();
            for (joining, port) in returning {
                let wanted = start_ask(joining.client, &joining.params);
                let reply = oneshot::channel().0;
                let mail = ActorMessage::Join(Box::new(joining), port, reply);
                if self.take_message(mail).await.is_break() {
                    return;
                }
                if let Some(ask) = wanted {
                    // The extensions of the last owner have ended with it.
                    drop(self.handle().ask(ask));
                }
            }
            if returned && !self.session.is_busy() {
                // The event that said so is ephemeral, and its server may have died before it was shown.
                self.hub.show(SessionIdle::default(), &CancellationToken::new());
            }
            if returned {
                self.tools.workflows().show_interrupted().await;
            }
            self.live().await;
        };
        if let Err(panic) = AssertUnwindSafe(life).catch_unwind().await {
            self.panicked(&*panic);
        }
        Box::pin(self.end()).await
    }

    /// Publishes the creation of the session, and replies to its creator.
    async fn begin(&mut self, created: Created) {
        // A deletion that was interrupted may have left files of a session with the same id.
        self.mirror.catch_up(Seq::ZERO);
        self.mirror.start(&self.session);
        self.attached = created.attached;
        self.hub.attach(created.client, created.port);
        self.tools.workflows().join(created.client, &created.params);
        self.act(Seq(1), created.outputs, created.bodies).await;
        drop(created.reply.send(Ok(self.joined())));
    }
}

async fn create_input(runtime: &Runtime, joining: &JoinRequest) -> Input {
    let params = &joining.params;
    let directory = params.working_directory.as_ref().map_or_else(|| runtime.options.cwd.clone(), Into::into);
    Input::Create {
        context: baton_files::context::of(directory).await,
        model: params.model.clone(),
        reasoning_effort: params.reasoning_effort.clone(),
        version: runtime.options.version.clone(),
        by: joining.profile.user.clone(),
        sandbox: params.sandbox.clone(),
    }
}
