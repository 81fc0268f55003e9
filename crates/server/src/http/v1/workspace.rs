//! One directory that crush's clients work in: what they are told of it, what waits for them there, and the sessions in
//! which they have a say.
//!
//! A workspace keeps nothing: its sessions are the sessions of its directory, whoever made them, and stay when it goes.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use baton_core::{Change, Profile, Reply};
use baton_protocol::event::{AbortReason, Prompt};
use baton_protocol::params::SessionParams;
use baton_protocol::{ClientId, PromptId, SessionId};
use baton_store::Summary;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::desk::Desk;
use super::error::{Answer, V1Error};
use super::feed::{Feed, Reader};
use super::settings::{Offer, Preferences};
use super::telling;
use super::watch::Watch;
use crate::Server;
use crate::http::ear::Deaf;
use crate::metadata;
use crate::session::{Failure, Handle, How, Joining, Mail};

/// What the first client said about the workspace. Later ones find it as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Founding {
    /// The directory, as the client calls it.
    pub(crate) path: String,
    pub(crate) debug: bool,
    pub(crate) data_dir: String,
    pub(crate) version: String,
    pub(crate) channels: Vec<String>,
    /// Whether tools run without asking.
    pub(crate) yolo: bool,
    /// Whether runs go on when the last client has left.
    pub(crate) keep_running: bool,
    /// Whether tools of runs with a name run without asking: nobody sits in front of them.
    pub(crate) approve_runs: bool,
}

/// See the module.
pub(crate) struct Workspace {
    pub(crate) id: Uuid,
    /// The directory with all links resolved: two that agree here are one.
    pub(crate) key: String,
    pub(crate) founding: Founding,
    pub(crate) server: Arc<Server>,
    pub(crate) preferences: Mutex<Preferences>,
    /// The models of the server, and when it was asked for them.
    pub(super) offer: tokio::sync::Mutex<Option<(Instant, Arc<Offer>)>>,
    pub(super) feed: Arc<Feed>,
    pub(super) desk: Mutex<Desk>,
    pub(super) watches: Mutex<HashMap<SessionId, Arc<Watch>>>,
    guests: Mutex<Guests>,
    skips_permissions: AtomicBool,
    /// Cancelled when nobody claims the workspace any more.
    pub(crate) over: CancellationToken,
}

/// The sessions in which the workspace takes part.
#[derive(Default)]
struct Guests {
    /// Whether the workspace is being taken down: no prompt is accepted any more that nobody would cancel.
    closed: bool,
    by_session: HashMap<SessionId, Guest>,
}

/// The workspace's part in one session.
struct Guest {
    handle: Handle,
    client: ClientId,
    /// Whether a client of ours has prompted here.
    drives: bool,
    /// The prompts that came from here. Only these are cancelled when the workspace goes.
    posted: HashSet<PromptId>,
}

impl Workspace {
    pub(crate) fn new(server: &Arc<Server>, key: String, founding: Founding) -> Self {
        Self {
            id: Uuid::new_v4(),
            key,
            server: server.clone(),
            preferences: Mutex::default(),
            offer: tokio::sync::Mutex::default(),
            feed: Arc::default(),
            desk: Mutex::default(),
            watches: Mutex::default(),
            guests: Mutex::default(),
            skips_permissions: AtomicBool::new(founding.yolo),
            over: CancellationToken::new(),
            founding,
        }
    }

    /// Whether a session works in this directory.
    pub(crate) fn holds(&self, summary: &Summary) -> bool {
        self.is_at(&metadata::decode(&summary.meta).context.cwd)
    }

    pub(crate) fn is_at(&self, cwd: &str) -> bool {
        cwd == self.key || cwd == self.founding.path
    }

    /// Reads what the workspace tells from here on, beginning with what waits for an answer.
    pub(crate) fn subscribe(&self) -> Reader {
        let desk = lock(&self.desk);
        let reader = self.feed.subscribe();
        if let Some(pending) = desk.shown() {
            telling::noticed(pending).iter().for_each(|piece| reader.tell(piece));
            reader.tell(&telling::asked(pending));
        }
        reader
    }

    pub(crate) fn skips_permissions(&self) -> bool {
        self.skips_permissions.load(Ordering::Acquire)
    }

    pub(crate) fn skip_permissions(&self, skip: bool) {
        self.skips_permissions.store(skip, Ordering::Release);
    }

    /// Whether a client of this workspace has prompted in a session.
    pub(crate) fn drives(&self, session: &SessionId) -> bool {
        lock(&self.guests).by_session.get(session).is_some_and(|guest| guest.drives)
    }

    /// A session that was watched, if it is.
    pub(crate) fn watch_of(&self, session: &SessionId) -> Option<Arc<Watch>> {
        lock(&self.watches).get(session).cloned()
    }

    /// Whether anything runs in a session that is watched.
    pub(crate) fn is_busy(&self) -> bool {
        lock(&self.watches).values().any(|watch| watch.is_busy())
    }

    /// Sends a prompt, and returns when it is accepted for good.
    pub(super) async fn prompt(self: &Arc<Self>, session: &SessionId, prompt: Prompt) -> Answer<PromptId> {
        let handle = self.enter(session).await?;
        self.choose_model(&handle).await?;
        // Heard before it is sent: nothing of the answer is missed.
        self.watch(session).await?;
        let (sender, receiver) = oneshot::channel();
        {
            // Under the lock: a workspace that is being taken down cancels after this, or we do not send.
            let mut guests = lock(&self.guests);
            if guests.closed {
                return Err(closing());
            }
            guests.by_session.get_mut(session).into_iter().for_each(|guest| guest.drives = true);
            let (workspace, session) = (self.clone(), session.clone());
            let respond = move |answer| {
                if let Ok(Reply::Accepted(id)) = answer {
                    workspace.note_posted(&session, id);
                }
                drop(sender.send(answer));
            };
            handle.send(Mail::Prompt(Box::new(prompt), Box::new(respond)))?;
        }
        match receiver.await.unwrap_or_else(|_| Err(Failure::NotFound(session.clone())))? {
            Reply::Accepted(id) => Ok(id),
            other => Err(V1Error::unexpected(&other)),
        }
    }

    fn note_posted(&self, session: &SessionId, prompt: PromptId) {
        if let Some(guest) = lock(&self.guests).by_session.get_mut(session) {
            guest.posted.insert(prompt);
        }
    }

    /// Takes part in a session, so that it can ask our clients and is not closed under them.
    async fn enter(&self, session: &SessionId) -> Answer<Handle> {
        let live = self.server.registry.get(session);
        if let Some(handle) = live.filter(|handle| self.is_guest_of(handle)) {
            return Ok(handle);
        }
        let client = self.server.new_client();
        self.server.registry.open(&self.server, session).join(joining(client)).await?;
        // On its way in, the client may have been handed on to a later stay of the session.
        let handle =
            self.server.registry.get(session).ok_or_else(|| V1Error::no_session(session.as_str()))?;
        let mut guests = lock(&self.guests);
        let already = guests.by_session.get(session).is_some_and(|guest| guest.handle.is_same(&handle));
        if guests.closed || already {
            drop(handle.send(Mail::Leave(client)));
            return if already { Ok(handle) } else { Err(closing()) };
        }
        let before = guests.by_session.remove(session);
        let (drives, posted) = before.map(|guest| (guest.drives, guest.posted)).unwrap_or_default();
        guests.by_session.insert(session.clone(), Guest { handle: handle.clone(), client, drives, posted });
        Ok(handle)
    }

    fn is_guest_of(&self, handle: &Handle) -> bool {
        lock(&self.guests).by_session.get(&handle.id).is_some_and(|guest| guest.handle.is_same(handle))
    }

    /// A model that was chosen for the workspace is the one that the next prompt goes to.
    async fn choose_model(&self, handle: &Handle) -> Answer<()> {
        let Some(chosen) = lock(&self.preferences).large.clone() else { return Ok(()) };
        let (model, reasoning_effort) = (chosen.model, chosen.reasoning_effort);
        let current = handle.look(|view| {
            (view.session.durable.facts.model.clone(), view.session.durable.facts.reasoning_effort.clone())
        });
        if current.await? != (Some(model.clone()), reasoning_effort.clone()) {
            let change = Box::new(Change::Model { model, reasoning_effort });
            handle.ask(|respond| Mail::Change(change, respond)).await?;
        }
        Ok(())
    }

    /// Nobody claims the workspace any more. What its clients have started is cancelled, unless somebody else is attached
    /// to the session or runs are to go on without anybody.
    pub(crate) async fn close(&self) {
        let guests = {
            let mut guests = lock(&self.guests);
            guests.closed = true;
            std::mem::take(&mut guests.by_session)
        };
        for (session, guest) in guests {
            let watch = self.watch_of(&session);
            if !self.founding.keep_running && guest.is_alone(watch.as_deref()).await {
                drop(guest.handle.ask(|respond| Mail::Abort(AbortReason::UserInitiated, respond)).await);
            }
            drop(guest.handle.send(Mail::Leave(guest.client)));
        }
        self.over.cancel();
    }
}

impl Guest {
    /// Whether all that goes on in the session came from here, and nobody else is there to see it.
    async fn is_alone(&self, watch: Option<&Watch>) -> bool {
        let ours: Vec<ClientId> = watch.map(Watch::client).into_iter().chain([self.client]).collect();
        if self.handle.hub.has_others(&ours) {
            return false;
        }
        let posted = self.posted.clone();
        let look = self.handle.look(move |view| {
            let durable = &view.session.durable;
            let running = durable.turn.iter().flat_map(|turn| &turn.prompts);
            running
                .chain(durable.inbox.iter().map(|waiting| &waiting.id))
                .all(|prompt| posted.contains(prompt))
        });
        look.await.unwrap_or(false)
    }
}

/// Clients of a workspace can be asked on the user's behalf, and go on with what was pending.
fn joining(client: ClientId) -> Joining {
    Joining {
        client,
        port: Arc::new(Deaf),
        profile: Profile { user_input: true, ..Profile::default() },
        params: Box::new(SessionParams {
            streaming: Some(true),
            disable_resume: Some(true),
            continue_pending_work: Some(true),
            ..SessionParams::default()
        }),
        legacy: false,
        how: How::Resumed,
    }
}

/// A session to be made here.
pub(super) fn founding_client(server: &Server, directory: &str) -> Joining {
    let joining = joining(server.new_client());
    let params = SessionParams {
        working_directory: Some(directory.to_owned()),
        client_name: Some("crush".into()),
        ..*joining.params
    };
    Joining { params: Box::new(params), how: How::Made, ..joining }
}

fn closing() -> V1Error {
    V1Error::conflict("the workspace is closing: its last client has left")
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
