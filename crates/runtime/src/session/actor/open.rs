//! Creates sessions, opens them from the store, and attaches clients.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_core::{Arrival, Durable, Input, Output, Session};
use baton_history::metadata::{self, Metadata};
use baton_history::repairs::Damage;
use baton_history::{owner, record_of};
use baton_protocol::event::{FileTrackingBegun, SessionIdle, SessionWarning};
use baton_protocol::params::SessionParams;
use baton_protocol::{ClientId, SessionId, Timestamp};
use baton_store::members::Member;
use baton_store::{Lease, NewRecord, NewSession, Opened, Seq, Span, StoreError, Take};
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::transcript::Conversation;
use super::{Actor, stamp};
use crate::Runtime;
use crate::cluster::{Cluster, Verdict};
use crate::crash::CrashPoint;
use crate::mcp::SessionMcp;
use crate::session::failure::Failure;
use crate::session::hub::{Batch, Hub, Port, Published, Residence};
use crate::session::message::{ActorMessage, JoinKind, JoinReply, JoinRequest};
use crate::session::remote::{FromOwner, Link, edge};
use crate::session::{Handle, Settings, stored_settings};
use crate::skills::SessionSkills;
use crate::work::SessionTools;

/// How long a session is looked for on behalf of a client that has just come.
const SEARCH: Duration = Duration::from_secs(10);
/// Pause between two looks.
const SEARCH_PAUSE: Duration = Duration::from_millis(150);

/// Number of records per read, where the whole history is read.
const PAGE: usize = 512;

/// Both ends of a session's mailbox.
pub(crate) struct Mailbox {
    pub(crate) sender: mpsc::UnboundedSender<ActorMessage>,
    pub(crate) receiver: mpsc::UnboundedReceiver<ActorMessage>,
}

/// Clients of a session by their ids, with what they brought and their ports.
pub(crate) type Attached = BTreeMap<ClientId, (JoinRequest, Arc<dyn Port>)>;

/// A session that this server has lost, with the clients for which it is to be found again.
pub(crate) struct Survivors {
    pub(crate) loading: Loading,
    pub(crate) attached: Attached,
}

/// Where a session was found.
enum Located {
    /// It was acquired.
    Here(Box<Opened>),
    /// Another server holds it, at this head.
    There(Link, Seq),
}

fn here(opened: Opened) -> Located {
    Located::Here(Box::new(opened))
}

/// Converts the result of an acquisition: one that another server has won is a reason to look again.
fn again_if_held(taken: Result<Opened, StoreError>) -> Result<Result<Located, StoreError>, StoreError> {
    match taken {
        Ok(opened) => Ok(Ok(here(opened))),
        Err(held @ StoreError::Held { .. }) => Ok(Err(held)),
        Err(error) => Err(error),
    }
}

/// Returns what a client brought, for attaching it again: its work continues, and the history does not grow.
pub(crate) fn rejoining(mut joining: JoinRequest) -> JoinRequest {
    joining.params.continue_pending_work = Some(true);
    joining.params.disable_resume = Some(true);
    joining.kind = JoinKind::Resume;
    joining
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
    attached: Attached,
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
                let client = joining.client;
                let mut attached = Attached::new();
                if actor.runtime.cluster.is_some() {
                    attached.insert(client, (joining, port.clone()));
                }
                let created = Created { client, port, outputs, bodies, reply, attached };
                if let Some(lost) = actor.run(Some(created), Attached::new()).await {
                    Box::pin(lost.loading.host(lost.attached)).await;
                }
            }
            Err(error) => {
                drop(reply.send(Err(Failure::Store(error.clone()))));
                self.fail(error);
            }
        }
    }

    /// Opens the session from the store, and runs its actor; or follows the server that holds it.
    pub(crate) async fn open(self) {
        Box::pin(self.host(Attached::new())).await;
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
        self.runtime.crash_point(CrashPoint::AfterAcquire);
        let meta = metadata::decode(&opened.meta);
        let recovered = match self.recover(&opened).await {
            Ok(recovered) => self.fill_gap(opened.head).await.map(|()| recovered),
            Err(error) => Err(error),
        };
        let (session, repairs) = match recovered {
            Ok(recovered) => recovered,
            Err(_) if !attached.is_empty() => return Some(Survivors { loading: self, attached }),
            Err(error) => {
                self.fail(error);
                return None;
            }
        };
        self.hub.start_after(session.durable.last_public, opened.head);
        let snapshot = opened.snapshot.as_ref().map_or(0, |(seq, _)| seq.0);
        let mut settings = stored_settings::settings_of(&meta);
        if settings.provider_lost
            && let Some(provider) = self.runtime.provider_cache.get(&self.id)
        {
            (settings.provider, settings.provider_lost) = (Some(provider), false);
        }
        let (lease, head) = (opened.lease, opened.head);
        let mut actor = self.into_actor(session, settings, lease, head, meta, Conversation::default());
        actor.last_snapshot = snapshot;
        actor.repairs = repairs;
        actor.mirror.catch_up(actor.head);
        actor.runtime.metrics.note_pending(&actor.session);
        actor.run(None, attached).await
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

    /// Finds the session: acquires it, or opens a link to the server that holds it. `patiently`: for clients that were
    /// attached before, for as long as it takes.
    async fn locate(&self, patiently: bool) -> Result<Located, StoreError> {
        let Some(cluster) = &self.runtime.cluster else {
            return self.acquire().await.map(|opened| Located::Here(Box::new(opened)));
        };
        let until = tokio::time::Instant::now() + SEARCH;
        loop {
            let found = self.look(cluster).await;
            let is_late = !patiently && tokio::time::Instant::now() >= until;
            match found {
                Ok(Ok(located)) => return Ok(located),
                Ok(Err(wait)) if is_late => return Err(wait),
                Err(error @ StoreError::Medium { .. }) if patiently => {
                    tracing::warn!(%error, "cannot look for the session; trying again");
                }
                Err(error) => return Err(error),
                Ok(Err(_)) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(SEARCH_PAUSE) => {}
                () = self.runtime.stopping.cancelled() => return Err(StoreError::NotFound(self.id.clone())),
            }
        }
    }

    /// Looks for the session once. The inner error is a reason to look again.
    async fn look(&self, cluster: &Cluster) -> Result<Result<Located, StoreError>, StoreError> {
        let (store, us) = (&self.runtime.store, self.runtime.owner.clone());
        let Some(members) = store.members() else {
            return self.acquire().await.map(|opened| Ok(here(opened)));
        };
        if cluster.is_fenced() {
            return Ok(Err(StoreError::Medium {
                doing: "open".into(),
                path: self.id.to_string(),
                cause: "this server has no contact with the store".into(),
            }));
        }
        let held = match store.acquire(&self.id, us.clone(), Take::IfFree).await {
            Ok(opened) => return Ok(Ok(here(opened))),
            Err(StoreError::Held { holder, session }) => (holder, session),
            Err(StoreError::Elsewhere { place, session }) => {
                let all = members.list().await?;
                let mut of_place =
                    all.into_iter().filter(|member| member.place == place && member.is_alive());
                let Some(member) = of_place.find(|member| !member.draining && !member.address.is_empty())
                else {
                    return Err(StoreError::Elsewhere { place, session });
                };
                return Ok(self.link(cluster, &member).await.ok_or(StoreError::Elsewhere { place, session }));
            }
            Err(error) => return Err(error),
        };
        let (holder, session) = held;
        if self.runtime.is_us(&holder.owner) {
            let taken = store.acquire(&self.id, us, Take::From(holder.epoch)).await;
            return again_if_held(taken);
        }
        match cluster.judge(members, &holder.owner.server).await? {
            Verdict::Alive(member) if member.address.is_empty() => Err(StoreError::Held { holder, session }),
            Verdict::Alive(member) => {
                Ok(self.link(cluster, &member).await.ok_or(StoreError::Held { holder, session }))
            }
            Verdict::Dead(member) => {
                if let Some(member) = member {
                    self.runtime.reap_member(&member).await;
                }
                tracing::info!(session = %self.id, server = %holder.owner.server, "taking over from a dead server");
                again_if_held(store.acquire(&self.id, us, Take::From(holder.epoch)).await)
            }
            Verdict::Unknown => Ok(Err(StoreError::Held { holder, session })),
        }
    }

    /// Opens a link to the server that holds the session; none if it does not work, or that server does not hold it.
    async fn link(&self, cluster: &Cluster, owner: &Member) -> Option<Located> {
        let peers = cluster.peers()?;
        let mut link = match peers.open(owner, &self.id).await {
            Ok(link) => link,
            Err(error) => {
                tracing::debug!(server = %owner.owner.server, address = %owner.address, error, "no link to a server");
                return None;
            }
        };
        match link.from_owner.recv().await? {
            FromOwner::Opened { head, last_public } => {
                if self.hub.head() == Seq::ZERO {
                    self.hub.start_after(last_public, head);
                }
                Some(Located::There(link, head))
            }
            FromOwner::Refused { failure } => {
                tracing::debug!(server = %owner.owner.server, ?failure, "the server does not have the session");
                None
            }
            _ => None,
        }
    }

    /// Acquires the lease. A holder that is dead or idle is replaced; a busy one is not.
    async fn acquire(&self) -> Result<Opened, StoreError> {
        let (store, us) = (&self.runtime.store, self.runtime.owner.clone());
        match store.acquire(&self.id, us.clone(), Take::IfFree).await {
            Err(StoreError::Held { holder, .. }) => {
                let take = owner::take_from(&**store, &holder, Some(&us)).await?;
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
        let port = Arc::new(Handle::new(self.id.clone(), self.hub.clone(), self.mailbox.sender.clone()));
        let mcp = SessionMcp::new(&self.runtime.addons, port.clone(), self.id.clone());
        let skills = SessionSkills::new(&self.runtime.addons, port, self.id.clone());
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
            attached: Attached::new(),
            steps_down: false,
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
        // Subscriptions end, so that readers look for the session again.
        self.hub.reside(Residence::Gone);
        self.hub.close();
    }
}

impl Actor {
    /// Runs the actor to its end. A panic ends this actor only. `attached` are clients of an earlier one.
    async fn run(mut self, created: Option<Created>, attached: Attached) -> Option<Survivors> {
        self.hub.reside(Residence::Here);
        // Kept also if this actor ends before they are attached again.
        self.attached = attached.clone();
        let life = async {
            if let Some(created) = created {
                self.begin(created).await;
            }
            let returned = !attached.is_empty();
            for (_, (joining, port)) in attached {
                let reply = oneshot::channel().0;
                let mail = ActorMessage::Join(Box::new(rejoining(joining)), port, reply);
                if self.take_message(mail).await.is_break() {
                    return;
                }
            }
            if returned && !self.session.is_busy() {
                // The event that said so is ephemeral, and its server may have died before it was shown.
                self.hub.show(SessionIdle::default(), &CancellationToken::new());
            }
            self.live().await;
        };
        if let Err(panic) = AssertUnwindSafe(life).catch_unwind().await {
            self.panicked(&*panic);
        }
        self.end().await
    }

    /// Publishes the creation of the session, and replies to its creator.
    async fn begin(&mut self, created: Created) {
        // A deletion that was interrupted may have left files of a session with the same id.
        self.mirror.catch_up(Seq::ZERO);
        self.mirror.start(&self.session);
        self.attached = created.attached;
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
                // Clients of other servers are joined again by those servers.
                if self.runtime.cluster.is_some() && self.runtime.is_own(joining.client) {
                    self.attached.insert(joining.client, (joining.clone(), port.clone()));
                }
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
