//! A workspace: a directory that crush's clients work in, with its event feed, its pending requests, and its attachments to
//! sessions.
//!
//! A workspace stores nothing. Its sessions are those of its directory, through whichever door they were created, and outlive
//! it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use baton_core::ask::{Abort, Amend, SendPrompt};
use baton_core::{Change, Profile};
use baton_people::Identity;
use baton_protocol::event::{AbortReason, Prompt};
use baton_protocol::params::SessionParams;
use baton_protocol::{Author, ClientId, PromptId, SessionId};
use baton_store::Summary;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::dialogs::DialogQueue;
use super::error::{CrushError, CrushResult};
use super::feed::{Feed, Reader};
use super::settings::{ChangedSettings, ModelCatalog};
use super::watch::Watch;
use super::{events, lock};
use baton_history::metadata;
use baton_runtime::session::subscription::NoEvents;
use baton_runtime::session::{Failure, JoinKind, JoinRequest};
use baton_service::{Caller, LiveSession, Service};

/// Settings of a workspace, from the client that created it.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkspaceSettings {
    /// The directory, as the client names it.
    pub(crate) path: String,
    pub(crate) debug: bool,
    pub(crate) data_dir: String,
    pub(crate) version: String,
    pub(crate) channels: Vec<String>,
    /// Whether tools run without permission requests.
    pub(crate) yolo: bool,
    /// Whether runs continue when the last client has disconnected.
    pub(crate) keep_running: bool,
    /// Whether tools of runs with a run id run without permission requests: a script waits for them, not a user.
    pub(crate) approve_runs: bool,
}

/// An open workspace.
pub(crate) struct Workspace {
    pub(crate) id: Uuid,
    /// The directory with all links resolved. It identifies the workspace.
    pub(crate) key: String,
    pub(crate) settings: WorkspaceSettings,
    pub(crate) service: Service,
    /// The workspace itself, as a client of its sessions. It acts for all of its clients, which may connect.
    pub(crate) caller: Caller,
    pub(crate) preferences: Mutex<ChangedSettings>,
    /// The models of the server, and when they were listed.
    pub(super) catalog: tokio::sync::Mutex<Option<(Instant, Arc<ModelCatalog>)>>,
    pub(super) feed: Arc<Feed>,
    pub(super) dialogs: Mutex<DialogQueue>,
    pub(super) watches: Mutex<HashMap<SessionId, Arc<Watch>>>,
    attachments: Mutex<Attachments>,
    skips_permissions: AtomicBool,
    /// Cancelled when the workspace is no longer claimed.
    pub(crate) closed: CancellationToken,
}

/// The workspace's attachments to sessions.
#[derive(Default)]
struct Attachments {
    /// Whether the workspace is being closed. Further prompts are refused, as nothing would cancel them.
    closed: bool,
    by_session: HashMap<SessionId, Attachment>,
}

/// The workspace's attachment to one session.
struct Attachment {
    session: LiveSession,
    client: ClientId,
    /// Author of the last prompt that a client of this workspace has sent.
    prompted_by: Option<Author>,
    /// The prompts of this workspace. Only these are cancelled when it is closed.
    prompts: HashSet<PromptId>,
}

impl Workspace {
    pub(crate) fn new(service: &Service, key: String, settings: WorkspaceSettings) -> Self {
        Self {
            id: Uuid::new_v4(),
            key,
            service: service.clone(),
            caller: Caller::new(Identity::Owner, Author::crush()),
            preferences: Mutex::default(),
            catalog: tokio::sync::Mutex::default(),
            feed: Arc::default(),
            dialogs: Mutex::default(),
            watches: Mutex::default(),
            attachments: Mutex::default(),
            skips_permissions: AtomicBool::new(settings.yolo),
            closed: CancellationToken::new(),
            settings,
        }
    }

    /// Returns the span of tasks that work for the workspace.
    pub(crate) fn span(&self) -> tracing::Span {
        tracing::info_span!(parent: None, "workspace", workspace = %self.id)
    }

    /// Whether a session works in this directory.
    pub(crate) fn contains(&self, summary: &Summary) -> bool {
        self.is_at(&metadata::decode(&summary.meta).context.cwd)
    }

    /// Whether a directory is that of the workspace.
    pub(crate) fn is_at(&self, cwd: &str) -> bool {
        cwd == self.key || cwd == self.settings.path
    }

    /// Subscribes to events that are published from now on, after the pending request that is shown.
    pub(crate) fn subscribe(&self) -> Reader {
        let dialogs = lock(&self.dialogs);
        let reader = self.feed.subscribe();
        if let Some(pending) = dialogs.shown() {
            events::permission_pending(pending).iter().for_each(|event| reader.send(event));
            reader.send(&events::request_opened(pending));
        }
        reader
    }

    pub(crate) fn skips_permissions(&self) -> bool {
        self.skips_permissions.load(Ordering::Acquire)
    }

    pub(crate) fn skip_permissions(&self, skip: bool) {
        self.skips_permissions.store(skip, Ordering::Release);
    }

    /// Whether a client of this workspace has sent a prompt to a session.
    pub(crate) fn has_prompted(&self, session: &SessionId) -> bool {
        lock(&self.attachments)
            .by_session
            .get(session)
            .is_some_and(|attachment| attachment.prompted_by.is_some())
    }

    /// Returns the person who has sent the last prompt of this workspace to a session; none for a client of the owner.
    pub(crate) fn prompting_person(&self, session: &SessionId) -> Option<Author> {
        let attachments = lock(&self.attachments);
        let by = attachments.by_session.get(session)?.prompted_by.clone();
        by.filter(|by| *by != Author::crush())
    }

    /// Returns the watch of a session, if the session is watched.
    pub(crate) fn watch_of(&self, session: &SessionId) -> Option<Arc<Watch>> {
        lock(&self.watches).get(session).cloned()
    }

    /// Whether a watched session is busy.
    pub(crate) fn is_busy(&self) -> bool {
        lock(&self.watches).values().any(|watch| watch.is_busy())
    }

    /// Sends a prompt, and returns when it is durable.
    pub(super) async fn prompt(
        self: &Arc<Self>,
        session: &SessionId,
        prompt: Prompt,
    ) -> CrushResult<PromptId> {
        let live = self.attach(session).await?;
        let by = prompt.by.clone().unwrap_or_else(Author::crush);
        self.apply_model(&live, by.clone()).await?;
        // Watched before the prompt is sent, so that no event of its turn is missed.
        self.watch(session).await?;
        let (sender, receiver) = oneshot::channel();
        {
            // Sent under the lock: a workspace that is being closed either cancels this prompt or refuses it.
            let mut attachments = lock(&self.attachments);
            if attachments.closed {
                return Err(closing());
            }
            if let Some(attachment) = attachments.by_session.get_mut(session) {
                attachment.prompted_by = Some(by.clone());
            }
            let (workspace, session) = (self.clone(), session.clone());
            let respond = move |accepted: Result<PromptId, Failure>| {
                if let Ok(id) = &accepted {
                    workspace.add_prompt(&session, *id);
                }
                drop(sender.send(accepted));
            };
            let prompt = Prompt { by: Some(by), ..prompt };
            live.ask_then(SendPrompt { prompt: Box::new(prompt) }, respond)?;
        }
        Ok(receiver.await.unwrap_or_else(|_| Err(Failure::NotFound(session.clone())))?)
    }

    fn add_prompt(&self, session: &SessionId, prompt: PromptId) {
        if let Some(attachment) = lock(&self.attachments).by_session.get_mut(session) {
            attachment.prompts.insert(prompt);
        }
    }

    /// Attaches to a session, so that it can send requests to the clients and stays live.
    async fn attach(&self, session: &SessionId) -> CrushResult<LiveSession> {
        let live = self.service.live(&self.caller, session);
        if let Some(live) = live.filter(|live| self.is_attached_to(live)) {
            return Ok(live);
        }
        let client = self.service.new_client();
        let opened = self.service.open_existing(&self.caller, session);
        opened.join(joining(client), Arc::new(NoEvents)).await?;
        // If the session was closed and loaded again meanwhile, the client was attached to the newer instance.
        let live = self.service.live(&self.caller, session);
        let live = live.ok_or_else(|| CrushError::no_session(session.as_str()))?;
        let mut attachments = lock(&self.attachments);
        let known = attachments.by_session.get(session);
        let is_attached = known.is_some_and(|attachment| attachment.session.is_same(&live));
        if attachments.closed || is_attached {
            live.leave(client);
            return if is_attached { Ok(live) } else { Err(closing()) };
        }
        let earlier = attachments.by_session.remove(session);
        let (prompted_by, prompts) =
            earlier.map(|earlier| (earlier.prompted_by, earlier.prompts)).unwrap_or_default();
        let attachment = Attachment { session: live.clone(), client, prompted_by, prompts };
        attachments.by_session.insert(session.clone(), attachment);
        Ok(live)
    }

    fn is_attached_to(&self, live: &LiveSession) -> bool {
        let attachments = lock(&self.attachments);
        attachments.by_session.get(live.id()).is_some_and(|attachment| attachment.session.is_same(live))
    }

    /// Sets the session's model to the one selected for the workspace, if any.
    async fn apply_model(&self, session: &LiveSession, by: Author) -> CrushResult<()> {
        let Some(selected) = lock(&self.preferences).large.clone() else { return Ok(()) };
        let (model, reasoning_effort) = (selected.model, selected.reasoning_effort);
        let facts = session.inspect().await?.session.durable.facts;
        if (facts.model.as_ref(), &facts.reasoning_effort) != (Some(&model), &reasoning_effort) {
            session.ask(Amend::by(by, Change::Model { model, reasoning_effort })).await?;
        }
        Ok(())
    }

    /// Closes the workspace. Cancels the prompts of its clients, unless other clients are attached to the session or runs are
    /// to continue without a client.
    pub(crate) async fn close(&self) {
        let attachments = {
            let mut attachments = lock(&self.attachments);
            attachments.closed = true;
            std::mem::take(&mut attachments.by_session)
        };
        for (session, attachment) in attachments {
            let watch = self.watch_of(&session);
            if !self.settings.keep_running && attachment.is_sole(watch.as_deref()).await {
                let by = attachment.prompted_by.clone().unwrap_or_else(Author::crush);
                let abort = Abort { reason: AbortReason::UserInitiated, by: Some(by) };
                drop(attachment.session.ask(abort).await);
            }
            attachment.session.leave(attachment.client);
        }
        self.closed.cancel();
    }
}

impl Attachment {
    /// Whether all running and queued prompts are from this workspace, and no other client is attached.
    async fn is_sole(&self, watch: Option<&Watch>) -> bool {
        let ours: Vec<ClientId> = watch.map(Watch::client).into_iter().chain([self.client]).collect();
        if self.session.hub().has_others(&ours) {
            return false;
        }
        let Ok(view) = self.session.inspect().await else { return false };
        // Clients of other servers have no port here.
        if view.session.live.clients.keys().any(|client| !ours.contains(client)) {
            return false;
        }
        let durable = &view.session.durable;
        let running = durable.turn.iter().flat_map(|turn| &turn.prompts);
        let mut prompts = running.chain(durable.inbox.iter().map(|queued| &queued.id));
        prompts.all(|prompt| self.prompts.contains(prompt))
    }
}

/// Returns the parameters of an attachment: it can answer questions for the user, and continues pending work.
fn joining(client: ClientId) -> JoinRequest {
    JoinRequest {
        client,
        profile: Profile { user_input: true, ..Profile::default() },
        params: Box::new(SessionParams {
            streaming: Some(true),
            disable_resume: Some(true),
            continue_pending_work: Some(true),
            ..SessionParams::default()
        }),
        legacy: false,
        kind: JoinKind::Resume,
        returning: None,
    }
}

/// Returns the client that creates a session in a directory.
pub(super) fn creating_client(service: &Service, directory: &str, user: Author) -> JoinRequest {
    let joining = joining(service.new_client());
    let params = SessionParams {
        working_directory: Some(directory.to_owned()),
        client_name: Some("crush".into()),
        enable_config_discovery: Some(true),
        ..*joining.params
    };
    let profile = Profile { user: Some(user), ..joining.profile };
    JoinRequest { params: Box::new(params), profile, kind: JoinKind::Create, ..joining }
}

fn closing() -> CrushError {
    CrushError::conflict("the workspace is closing: its last client has disconnected")
}
