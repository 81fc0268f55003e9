//! A session in this process. Others can attach to it: it is served on a socket file of its own, which `baton attach` finds.
#![expect(clippy::disallowed_methods, reason = "only this command's session lives in this process")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use baton_history::metadata;
use baton_http::{HttpDoor, HttpListener, HttpOptions};
use baton_protocol::event::Prompt;
use baton_protocol::params::SessionParams;
use baton_protocol::sandbox::{SandboxChoice, SandboxPolicy};
use baton_protocol::{Author, SessionId};
use baton_runtime::{Join, LocalSession, Options, Runtime};
use baton_service::Service;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::connection::Home;
use super::description::Description;
use super::place::{
    Arrived, Leaving, NothingToContinue, SessionHost, Work, check_demo, check_engine, current_directory,
    may_continue, model_of, nothing_pending,
};
use super::remote::Remote;
use crate::args::{PeerArgs, RunArgs};
use crate::client::{
    Address, Client, PendingList, PendingRequest, ServerLocator, SessionView, user_of_terminal,
};
use crate::config::{self, Config, Environment};
use crate::discovery::{PublishedFile, RunningServer, socket_of_run};
use crate::{cluster, sessions, setup, terminal};

/// A session in this process.
pub(super) struct Embedded {
    runtime: Arc<Runtime>,
    store: setup::SessionStore,
    session: LocalSession,
    pub(super) description: Description,
    /// Whether this command created the session.
    is_new: bool,
    /// Whether requests of an earlier process wait for the user.
    has_requests: bool,
    home: PathBuf,
    door: Option<JoinHandle<anyhow::Result<Door>>>,
    remote: Option<Remote>,
}

impl Embedded {
    /// Opens the session that the arguments ask for. One that another `baton run` holds stays there.
    pub(super) async fn open(
        config: &Config,
        options: Options,
        args: &RunArgs,
        locator: ServerLocator<'_>,
        note: Option<String>,
        work: Work,
    ) -> anyhow::Result<SessionHost> {
        let engines = baton_runtime::engine_names(&options);
        let store = setup::store(config, options.crash.clone())?;
        let id = find(&store, args).await?;
        if let Some(id) = id.as_ref().filter(|id| locator.is_run(id.as_str())) {
            let client = locator.connect_for(id.as_str())?;
            let session: SessionView = client.get(&format!("/api/sessions/{id}")).await?;
            store.close().await?;
            check_demo(args, &session.id, session.model.as_deref())?;
            let endpoint = config::describe(&config.endpoint.value);
            let description = Description::new(session.model.as_deref(), &engines, &endpoint)
                .in_place("in another `baton run`");
            return Ok(SessionHost::Server(Box::new(Remote::new(
                client,
                Home::of(&locator),
                &session,
                description,
                false,
            ))));
        }
        if let Some(note) = note.filter(|_| !args.quiet && !args.json) {
            terminal::note(&note);
        }
        let runtime = setup::server(options, &store);
        cluster::enter(&runtime, config, &Environment::of_process(), &PeerArgs::default()).await?;
        let is_new = id.is_none();
        let (session, door) = match join(&runtime, config, args, id, work).await {
            Ok(joined) => joined,
            Err(error) => {
                setup::stop(&runtime, &store).await;
                return Err(error);
            }
        };
        let model = session.model().await?;
        let endpoint = config::describe(&config.endpoint.value);
        Ok(SessionHost::Here(Box::new(Self {
            runtime,
            store,
            session,
            description: Description::new(model.as_deref(), &engines, &endpoint),
            is_new,
            has_requests: door.is_some(),
            home: config.home.value.clone(),
            door: door.map(|door| tokio::spawn(async { Ok(door) })),
            remote: None,
        })))
    }

    pub(super) fn has_requests(&self) -> bool {
        self.has_requests
    }

    pub(super) fn id(&self) -> &str {
        self.session.id().as_str()
    }

    pub(super) async fn prompt(&mut self, text: &str) -> anyhow::Result<String> {
        let prompt = self.session.prompt(Prompt { text: text.to_owned(), ..Prompt::default() }).await?;
        // After the prompt: the model is working on it meanwhile.
        if self.door.is_none() {
            self.door = Some(Door::opening(&self.runtime, &self.home, self.session.id()));
        }
        Ok(prompt.to_string())
    }

    pub(super) async fn next_event(&mut self) -> Option<Arrived> {
        let received = self.session.next_event().await?;
        let json = String::from_utf8_lossy(&received.json).into_owned();
        Some(Arrived::Event(Box::new(received.event), json))
    }

    pub(super) async fn cancel(&self) -> anyhow::Result<()> {
        Ok(self.session.abort().await?)
    }

    /// The session as other clients see it. Requests are listed and answered in one way, wherever the session lives.
    pub(super) async fn as_remote(&mut self) -> anyhow::Result<&Remote> {
        if self.remote.is_none() {
            let opening = self.door.take().context("the prompt has not been sent")?;
            let door = opening.await.context("cannot open a socket file")??;
            let client = door.client();
            self.door = Some(tokio::spawn(async { Ok(door) }));
            let client = client?;
            let session: SessionView = client.get(&format!("/api/sessions/{}", self.id())).await?;
            let home = Home { path: self.home.clone(), token: None };
            let description = self.description.clone();
            self.remote = Some(Remote::new(client, home, &session, description, false));
        }
        self.remote.as_ref().context("the session is not served")
    }

    pub(super) async fn leave(self, leaving: Leaving) -> anyhow::Result<()> {
        let id = self.session.id().clone();
        let closed = self.session.close().await;
        if self.is_new && leaving == Leaving::FailedStart {
            self.runtime.delete(&id).await?;
        }
        setup::stop(&self.runtime, &self.store).await;
        if let Some(door) = self.door
            && let Ok(Ok(door)) = door.await
        {
            door.close();
        }
        Ok(closed?)
    }
}

/// The socket file on which the session is served.
struct Door {
    socket: PathBuf,
    /// A directory of its own, if the path in the home is too long for a socket.
    directory: Option<PathBuf>,
    published: PublishedFile,
}

impl Door {
    /// Opens the socket file on another thread.
    fn opening(runtime: &Arc<Runtime>, home: &Path, session: &SessionId) -> JoinHandle<anyhow::Result<Self>> {
        let (runtime, home, session) = (Arc::clone(runtime), home.to_owned(), session.clone());
        tokio::task::spawn_blocking(move || Self::open(&runtime, &home, &session))
    }

    fn client(&self) -> anyhow::Result<Client> {
        Client::new(Address::Socket(self.socket.clone()), None, None)
    }

    /// Opens the socket file, and makes it known to clients of the same home.
    fn open(runtime: &Arc<Runtime>, home: &Path, session: &SessionId) -> anyhow::Result<Self> {
        let in_home = socket_of_run(home);
        let (listener, socket, directory) = match private_socket(&in_home) {
            Ok(listener) => (listener, std::path::absolute(&in_home)?, None),
            Err(_) => {
                let directory = std::env::temp_dir().join(format!("baton-{}", SessionId::random()));
                let socket = directory.join("run.sock");
                (private_socket(&socket)?, socket, Some(directory))
            }
        };
        let door = HttpDoor::new(&Service::new(runtime), HttpOptions::default());
        runtime.tasks.spawn(async move { door.serve(HttpListener::Socket(listener)).await });
        let published = RunningServer::of_run(socket.clone(), session.to_string()).publish(home)?;
        Ok(Self { socket, directory, published })
    }

    fn close(self) {
        drop(self.published);
        let _ = std::fs::remove_file(&self.socket);
        if let Some(directory) = self.directory {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// Binds a socket file that only its owner can use, in a directory that only its owner can enter. The umask stays as it is,
/// because commands of the session may start meanwhile.
fn private_socket(path: &Path) -> anyhow::Result<UnixListener> {
    baton_disk::private::create_dir_all(path.parent().context("a socket file needs a directory")?)?;
    // Left by a killed process with the same id.
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    // Nobody else can reach it before that: its directory is private.
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// The stored session that the arguments name.
async fn find(store: &setup::SessionStore, args: &RunArgs) -> anyhow::Result<Option<SessionId>> {
    match (&args.session, args.continue_last) {
        (Some(prefix), _) => {
            let id = sessions::find(&**store, prefix).await?;
            let summary = store.summary(&id).await?.context("the session was deleted")?;
            check_engine(args, id.as_str(), metadata::decode(&summary.meta).model.as_deref())?;
            Ok(Some(id))
        }
        (None, true) => {
            let may = |model: Option<&str>| may_continue(args, model);
            let last = sessions::last_here(&**store, &current_directory()?, may).await?;
            let (id, model) = last.ok_or_else(|| NothingToContinue::new(args))?;
            check_engine(args, id.as_str(), model.as_deref())?;
            Ok(Some(id))
        }
        (None, false) => Ok(None),
    }
}

/// Creates or resumes the session. With it comes its socket file if requests of an earlier process wait for the user: they
/// are asked again. All other work of an earlier process is interrupted.
async fn join(
    runtime: &Arc<Runtime>,
    config: &Config,
    args: &RunArgs,
    id: Option<SessionId>,
    work: Work,
) -> anyhow::Result<(LocalSession, Option<Door>)> {
    let params = SessionParams {
        model: model_of(config, args),
        working_directory: Some(current_directory()?),
        streaming: Some(true),
        client_name: Some("baton-run".into()),
        sandbox: args.sandbox.map(|level| Box::new(SandboxChoice::of_user(SandboxPolicy::of(level)))),
        ..SessionParams::default()
    };
    let (join, door) = match id {
        Some(id) => {
            let door = with_requests(runtime, config, args, &id).await?;
            if work == Work::Requests && door.is_none() {
                return Err(nothing_pending(id.as_str()));
            }
            let params = SessionParams {
                // A session keeps its model or engine unless this command names another one.
                model: params.model.filter(|_| args.engine.is_some() || args.model.model.is_some()),
                continue_pending_work: Some(door.is_some()),
                ..params
            };
            (Join::Resume(id, params), door)
        }
        None => (Join::Create(params), None),
    };
    match runtime.join_as(join, Author::terminal(&user_of_terminal())).await {
        Ok(session) => Ok((session, door)),
        Err(error) => {
            if let Some(door) = door {
                door.close();
            }
            Err(error.into())
        }
    }
}

/// Opens the socket file of a stored session if requests in it wait for the user, and for nobody else.
async fn with_requests(
    runtime: &Arc<Runtime>,
    config: &Config,
    args: &RunArgs,
    id: &SessionId,
) -> anyhow::Result<Option<Door>> {
    // Whether the session can be opened at all is decided, and reported, by joining it.
    let Ok(view) = runtime.registry.open(runtime, id).inspect().await else { return Ok(None) };
    check_demo(args, id.as_str(), view.session.durable.facts.model.as_deref())?;
    if !view.session.is_busy() {
        return Ok(None);
    }
    let door =
        Door::opening(runtime, &config.home.value, id).await.context("cannot open a socket file")??;
    let listed = match door.client() {
        Ok(client) => client.get::<PendingList>(&format!("/api/sessions/{id}/requests")).await,
        Err(error) => {
            door.close();
            return Err(error);
        }
    };
    match listed {
        Ok(PendingList { requests }) if PendingRequest::are_for_user(&requests) => Ok(Some(door)),
        _ => {
            door.close();
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn socket_file_is_private_whatever_the_umask() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("runs/1.sock");
        let _listener = private_socket(&path).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }
}
