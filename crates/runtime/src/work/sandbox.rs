//! The sandbox of a session: where its programs may connect, and the files that they created and that act.
//!
//! The walls themselves are built by `baton-sandbox`, the proxy by `baton-egress`. Both ask the session about what they meet,
//! and the core decides.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use baton_core::ask::{HostAnswer, ReportFile, RequestHost};
use baton_core::policy::address;
use baton_core::policy::territory::Territory;
use baton_core::{SandboxBase, Session};
use baton_egress::{Admission, Gate, Proxy, ProxyOptions, Target};
use baton_files::held::HeldFiles;
use baton_files::{SessionFiles, sandboxes};
use baton_handle::Publisher;
use baton_protocol::SessionId;
use baton_protocol::event::SessionWarning;
use baton_protocol::sandbox::{SandboxChoice, SandboxLevel, SandboxPolicy};
use baton_sandbox::protected::{Judge, Settings};
use baton_sandbox::{Enclosure, Held, Host, Place, Places, Watcher};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{WorkScope, prompt};
use crate::Runtime;
use crate::session::Handle;

/// Why a session has no sandbox before anybody has looked whether the system has one.
const UNKNOWN: &str = "this server has not looked for a sandbox yet";
/// Why a server has none at all.
const NO_HELPER: &str = "this server cannot start itself as the helper that builds one";

/// Gives a session what this server contributes to its sandbox. Finds out first what the system can enforce, if the session
/// has a sandbox.
pub(crate) async fn equip(runtime: &Runtime, session: &mut Session) {
    session.live.sandbox = base(runtime);
    if session.sandbox().policy.level.is_inside() && session.live.sandbox.missing.as_deref() == Some(UNKNOWN)
    {
        learn(runtime).await;
        session.live.sandbox = base(runtime);
    }
}

/// Updates what a session knows about the sandbox of this server, if that was unknown.
pub(crate) fn refresh(runtime: &Runtime, session: &mut Session) {
    let is_unknown = session.live.sandbox.missing.as_deref() == Some(UNKNOWN);
    if is_unknown && runtime.options.sandbox_host.as_ref().is_some_and(|host| host.known().is_some()) {
        session.live.sandbox = base(runtime);
    }
}

/// Finds out what the system can enforce. Takes some tens of milliseconds, once.
pub(crate) async fn learn(runtime: &Runtime) {
    if let Some(host) = &runtime.options.sandbox_host {
        host.probed().await;
    }
}

/// Returns why this server has no sandbox; none if it has one.
pub(crate) fn missing(host: Option<&Arc<Host>>) -> Option<String> {
    match host.map(|host| host.known()) {
        None => Some(NO_HELPER.to_owned()),
        Some(None) => Some(UNKNOWN.to_owned()),
        Some(Some(support)) => support.reason().map(str::to_owned),
    }
}

fn base(runtime: &Runtime) -> SandboxBase {
    let options = &runtime.options;
    SandboxBase {
        default: Arc::new(options.sandbox.clone()),
        missing: missing(options.sandbox_host.as_ref()),
    }
}

/// The sandbox of one session. Its walls are planned with the first program that needs them.
pub(crate) struct SessionSandbox {
    runtime: Arc<Runtime>,
    files: SessionFiles,
    hub: Publisher,
    handle: Handle,
    enclosure: OnceLock<Option<Arc<Enclosure>>>,
}

impl SessionSandbox {
    /// Creates the sandbox of a session. Nothing is started.
    pub(crate) fn new(
        runtime: &Arc<Runtime>,
        files: &SessionFiles,
        hub: &Publisher,
        handle: &Handle,
    ) -> Arc<Self> {
        let sandbox = Arc::new(Self {
            runtime: runtime.clone(),
            files: files.clone(),
            hub: hub.clone(),
            handle: handle.clone(),
            enclosure: OnceLock::new(),
        });
        runtime.sandboxes.add(&handle.id, &sandbox);
        sandbox
    }

    /// Returns the walls; none if this server builds none. Must be called in a tokio runtime.
    pub(super) fn enclosure(&self) -> Option<Arc<Enclosure>> {
        let create = || {
            let host = self.runtime.options.sandbox_host.clone()?;
            let watcher = Arc::new(SessionWalls {
                handle: self.handle.clone(),
                server: Arc::downgrade(&self.runtime),
                hub: self.hub.clone(),
                runtime: tokio::runtime::Handle::current(),
                proxy: Mutex::default(),
            });
            let places = places(&self.runtime, &self.files, &self.handle.id);
            let enclosure = Enclosure::new(
                host,
                places,
                judge(&self.runtime.engine_files),
                self.runtime.options.sandbox_limits,
                watcher,
            );
            Some(Arc::new(enclosure))
        };
        self.enclosure.get_or_init(create).clone()
    }

    /// Returns where a program runs that was not called by a model: of the session's repository, or an engine's. It may write
    /// `state`, too.
    ///
    /// # Errors
    /// With the reason, when the session needs a sandbox and there is none.
    pub(crate) async fn place(&self, state: &[PathBuf]) -> Result<Place, String> {
        let view = self.handle.inspect().await.map_err(|failure| failure.to_string())?;
        let choice = view.session.sandbox();
        let cwd = PathBuf::from(&view.session.durable.facts.context.cwd);
        let Some(enclosure) = self.enclosure().filter(|_| choice.policy.level.is_inside()) else {
            let is_required = choice.chosen && choice.policy.level.is_inside();
            return if is_required { Err(NO_HELPER.to_owned()) } else { Ok(Place::Outside) };
        };
        enclosure.place_lasting(choice, &cwd, state).await.map_err(|why| why.to_string())
    }

    /// Returns where the SQL of the session runs: it reaches no host, and writes the session's own files only.
    ///
    /// # Errors
    /// With the reason, when the session needs a sandbox and there is none.
    pub(super) async fn place_database(&self) -> Result<Place, String> {
        let view = self.handle.inspect().await.map_err(|failure| failure.to_string())?;
        let SandboxChoice { policy, chosen } = view.session.sandbox();
        if !policy.level.is_inside() {
            return Ok(Place::Outside);
        }
        let choice = SandboxChoice { policy: SandboxPolicy::of(SandboxLevel::ReadOnly), chosen: *chosen };
        let own = self.files.path().to_owned();
        match self.enclosure() {
            Some(walls) => walls
                .place_with(&choice, &own, std::slice::from_ref(&own))
                .await
                .map_err(|why| why.to_string()),
            None if *chosen => Err(NO_HELPER.to_owned()),
            None => Ok(Place::Outside),
        }
    }

    /// Warns of files that act and that appeared while programs ran beside the calls.
    pub(super) async fn sweep(&self) {
        let Some(Some(enclosure)) = self.enclosure.get() else { return };
        for file in enclosure.sweep().await {
            let path = file.display();
            warn(
                &self.hub,
                format!(
                    "{path} has appeared while programs of the repository run in the sandbox; other programs act on files of this name, so look at it before you use them"
                ),
            );
        }
    }
}

/// The sandboxes of the sessions that are live here.
#[derive(Default)]
pub(crate) struct Sandboxes(Mutex<HashMap<SessionId, Weak<SessionSandbox>>>);

impl Sandboxes {
    fn add(&self, session: &SessionId, sandbox: &Arc<SessionSandbox>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Sessions come and go; the dead ones are removed when the map would grow.
        if known.len() == known.capacity() {
            known.retain(|_, sandbox| sandbox.strong_count() > 0);
        }
        known.insert(session.clone(), Arc::downgrade(sandbox));
    }

    fn of(&self, session: &SessionId) -> Option<Arc<SessionSandbox>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(session)?.upgrade()
    }
}

/// Returns where a program of a session's repository runs.
///
/// # Errors
/// With the reason, when the session needs a sandbox and there is none, or is not live here.
pub(crate) async fn place_of(runtime: &Runtime, session: &SessionId) -> Result<Place, String> {
    match runtime.sandboxes.of(session) {
        Some(sandbox) => sandbox.place(&[]).await,
        None => Err("the session is not live on this server".to_owned()),
    }
}

fn places(runtime: &Runtime, files: &SessionFiles, session: &SessionId) -> Places {
    let options = &runtime.options;
    let variable = |name: &str| -> Option<OsString> {
        let found = options.environment.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let own = files.path();
    Places {
        home: variable("HOME").map(PathBuf::from),
        private: sandboxes::private(&options.home, session),
        caches: sandboxes::caches(&options.home),
        readable: vec![own.to_owned()],
        writable: vec![own.join("files")],
        held: files.held().path().to_owned(),
        hidden: [&options.home].into_iter().chain(&options.own_files).cloned().collect(),
        path: variable("PATH"),
        variables: options.environment.clone(),
    }
}

/// Returns the policy's list of files that act, and git's of settings that run programs. `engine_files` are those of
/// [`baton_engines::guarded_files`].
#[must_use]
pub fn judge(engine_files: &Arc<[String]>) -> Judge {
    let (names, paths) = (Arc::clone(engine_files), Arc::clone(engine_files));
    let may_act = move |name: &OsStr| territory(&names).may_act(name);
    let acts = move |path: &Path| territory(&paths).acts_by_itself(path).is_some();
    let settings = |text: &[u8]| Settings {
        run: baton_git::may_run_programs(text),
        names: baton_git::named_files(text),
    };
    Judge::new(may_act, acts, settings)
}

fn territory(engine_files: &[String]) -> Territory<'_> {
    Territory { cwd: Path::new("/"), home: None, workspace: None, engine_files }
}

/// Brings what programs meet at the walls of a session's sandbox before the session.
struct SessionWalls {
    handle: Handle,
    server: Weak<Runtime>,
    hub: Publisher,
    /// Programs are prepared on blocking threads, which are outside of it.
    runtime: tokio::runtime::Handle,
    proxy: Mutex<Option<Proxy>>,
}

impl Watcher for SessionWalls {
    fn serve(&self, listener: TcpListener) {
        let _entered = self.runtime.enter();
        let gate = Arc::new(SessionGate { session: self.handle.clone(), server: self.server.clone() });
        match Proxy::serve(listener, gate, ProxyOptions::default()) {
            Ok(proxy) => *self.proxy.lock().unwrap_or_else(PoisonError::into_inner) = Some(proxy),
            Err(error) => {
                tracing::error!(%error, "cannot serve the proxy of the sandbox; its programs reach no host");
            }
        }
    }

    fn set_aside(&self, held: &Held) {
        let path = held.path.to_string_lossy().into_owned();
        let Some(kept) = held.kept.clone() else {
            let message = format!(
                "a command in the sandbox has created {path}, and it was deleted: it was too large to keep"
            );
            return self.warn(message);
        };
        let content = String::from_utf8_lossy(&held.excerpt).into_owned();
        let reported = self.handle.ask(ReportFile { call: None, path: path.clone(), kept, content });
        let (hub, path) = (self.hub.clone(), path);
        self.runtime.spawn(async move {
            if let Err(failure) = reported.await {
                warn(
                    &hub,
                    format!("a command in the sandbox has created {path}, which was moved away: {failure}"),
                );
            }
        });
    }
}

impl SessionWalls {
    fn warn(&self, message: String) {
        warn(&self.hub, message);
    }
}

fn warn(hub: &Publisher, message: String) {
    tracing::warn!("{message}");
    let warning = SessionWarning { warning_type: "sandbox".into(), message, url: None };
    hub.show(warning, &CancellationToken::new());
}

/// Asks the session about hosts.
struct SessionGate {
    session: Handle,
    server: Weak<Runtime>,
}

impl SessionGate {
    /// Whether a port of this machine is one of the server's own.
    fn is_own(&self, port: u16) -> bool {
        let Some(server) = self.server.upgrade() else { return true };
        server.own_ports.lock().unwrap_or_else(PoisonError::into_inner).contains(&port)
    }
}

impl Gate for SessionGate {
    fn admit<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Admission> {
        Box::pin(async move {
            let origin = target.url();
            // A name that only its resolver knows as private was not allowed as such.
            let is_private = address::is_private(&origin);
            if is_private && self.is_own(target.port) {
                return Admission::Denied {
                    reason: "it is a port of the server that runs the sandbox".to_owned(),
                };
            }
            match self.session.ask(RequestHost { call: None, origin }).await {
                Ok(HostAnswer::Allowed) if is_private => Admission::AlsoPrivate,
                Ok(HostAnswer::Allowed) => Admission::Public,
                Ok(HostAnswer::Denied { reason }) => Admission::Denied { reason },
                Err(failure) => Admission::Denied { reason: failure.to_string() },
            }
        })
    }

    fn reached(&self, target: &Target) {
        tracing::info!(session = %self.session.id, host = %target, "a command in the sandbox has reached a host");
    }
}

/// Moves a held file back to its path in the working directory.
pub(super) async fn restore_file(scope: &WorkScope, path: String, kept: String) -> Result<(), String> {
    let mut directory = prompt::cwd(scope);
    let mut name = PathBuf::from(path);
    if name.is_absolute() {
        // In another directory that commands may write.
        let parent = name.parent().unwrap_or(Path::new("/")).to_owned();
        (directory, name) = (parent, name.file_name().unwrap_or_default().into());
    }
    with_held(scope, move |held| held.restore(&kept, &directory, &name)).await
}

/// Deletes a held file.
pub(super) async fn drop_file(scope: &WorkScope, kept: String) -> Result<(), String> {
    with_held(scope, move |held| held.discard(&kept)).await
}

async fn with_held(
    scope: &WorkScope,
    act: impl FnOnce(HeldFiles) -> io::Result<()> + Send + 'static,
) -> Result<(), String> {
    let held = scope.tools.files().held();
    match tokio::task::spawn_blocking(move || act(held)).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("internal error; see the server log".to_owned()),
    }
}
