//! The sandbox of a session: what stays the same from call to call.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{ChildStdin, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::sandbox::{SandboxChoice, SandboxLevel, SandboxNetwork, SandboxPolicy};

use crate::control::{Control, Order, send};
use crate::environment::{self, Directories};
use crate::helper::{ENTER, INSIDE};
use crate::host::{Host, Program, Support};
use crate::mounts::{Access, Explanation, Mounts, PROGRAM};
use crate::network::Namespaces;
use crate::plan::{Bytes, Check, Limits, Plan, Walls};
use crate::protected::{Census, Held, Judge, set_aside};
use crate::survey::{self, Found};

/// Directories that the sandbox of a session uses.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The session's private directory outside: its temporary files.
    pub private: PathBuf,
    /// Caches: each working directory has one of its own there.
    pub caches: PathBuf,
    /// What is readable although it is in a hidden place: the session's own files.
    pub readable: Vec<PathBuf>,
    /// What is writable beside the working directory, at each level: files that the session hands out.
    pub writable: Vec<PathBuf>,
    /// Where files that act are moved.
    pub held: PathBuf,
    /// Files and directories of Baton: its home, its sockets.
    pub hidden: Vec<PathBuf>,
    /// Where programs are looked for.
    pub path: Option<OsString>,
    /// The variables of programs, before those of the sandbox.
    pub variables: Vec<(OsString, OsString)>,
}

impl Places {
    pub(crate) fn cargo_home(&self) -> Option<PathBuf> {
        let named =
            self.variables.iter().find(|(name, _)| name == "CARGO_HOME").map(|(_, value)| value.into());
        named.or_else(|| Some(self.home.as_ref()?.join(".cargo")))
    }
}

/// Why a program cannot run inside, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    reason: String,
    /// Whether there is no sandbox for such a program at all: then the default level lets it run outside. What a program inside
    /// could bring about never does.
    is_lack: bool,
}

impl Unavailable {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_lack: false }
    }

    /// The system, or the directory, has no sandbox.
    pub(crate) fn lack(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_lack: true }
    }
}

/// The sandbox of a session.
pub struct Enclosure {
    host: Arc<Host>,
    places: Places,
    judge: Judge,
    limits: Limits,
    watcher: Arc<dyn Watcher>,
    namespaces: Mutex<Option<Arc<Namespaces>>>,
    /// Programs that run beside the calls.
    lasting: Mutex<Vec<Lasting>>,
    /// Where the directories led when they were used first.
    led_to: Mutex<HashMap<PathBuf, PathBuf>>,
}

/// What is asked of the sandbox for one program.
struct Site {
    policy: SandboxPolicy,
    cwd: PathBuf,
    /// Files and directories of the program itself.
    own: Vec<PathBuf>,
}

/// A program that runs beside the calls, such as an MCP server.
struct Lasting {
    ready: Arc<Ready>,
    /// The files that acted when it was last looked.
    seen: Vec<Workspace>,
}

impl std::fmt::Debug for Enclosure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enclosure").field("places", &self.places).finish_non_exhaustive()
    }
}

/// A program to start.
#[derive(Debug)]
pub struct Launch {
    /// A path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its complete environment, before what the sandbox changes.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory; none means that of the sandbox. The program finds there what it finds anywhere inside.
    pub cwd: Option<PathBuf>,
    /// Its input.
    pub input: Input,
}

/// The input of a program.
#[derive(Debug)]
pub enum Input {
    /// None.
    Null,
    /// A pipe.
    Piped,
    /// This descriptor.
    Given(OwnedFd),
}

/// A program that is about to start inside. Its output is that of the command.
#[derive(Debug)]
pub struct Enclosed {
    /// Starts the helper, which starts the program.
    pub command: Command,
    /// Ends everything inside when it is dropped.
    pub control: Control,
    /// The other end of [`Input::Piped`].
    pub stdin: Option<ChildStdin>,
}

/// Everything that is known before a program is started: what it will find, and what acted before.
#[derive(Debug)]
pub struct Ready {
    policy: SandboxPolicy,
    cwd: PathBuf,
    walls: Shape,
    before: Vec<Workspace>,
    program: Program,
    writable: Vec<Bytes>,
    checks: Vec<Check>,
    has_registry: bool,
    limits: Limits,
}

/// A directory that programs write, with the files in it that act.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// Links in it are resolved.
    pub(crate) root: PathBuf,
    pub(crate) census: Census,
}

#[derive(Debug)]
enum Shape {
    Namespaces { bwrap: PathBuf, mounts: Mounts, session: Arc<Namespaces> },
    Landlock { readable: Vec<Bytes>, temporary: PathBuf, caches: PathBuf },
}

impl Enclosure {
    /// Creates the sandbox of a session. Nothing is started.
    #[must_use]
    pub fn new(
        host: Arc<Host>,
        places: Places,
        judge: Judge,
        limits: Limits,
        watcher: Arc<dyn Watcher>,
    ) -> Self {
        Self {
            host,
            places,
            judge,
            limits,
            watcher,
            namespaces: Mutex::default(),
            lasting: Mutex::default(),
            led_to: Mutex::default(),
        }
    }

    /// Returns the namespaces of the session; creates them first if there are none. Blocks.
    ///
    /// # Errors
    /// If the system cannot create them.
    fn namespaces(&self) -> Result<Arc<Namespaces>, Unavailable> {
        let Support::Full { bwrap } = self.host.support() else {
            return Err(Unavailable::lack(self.host.support().reason().unwrap_or_default()));
        };
        let mut known = lock(&self.namespaces);
        if let Some(namespaces) = &*known {
            return Ok(Arc::clone(namespaces));
        }
        let (new, listener) = Namespaces::create(bwrap, &self.host.program).map_err(|error| {
            Unavailable::new(format!("the network of the session cannot be created: {error}"))
        })?;
        self.watcher.serve(listener);
        Ok(Arc::clone(known.insert(Arc::new(new))))
    }

    /// Prepares a program's start in a directory. Blocks for some milliseconds.
    ///
    /// # Errors
    /// If the system cannot enforce the policy there.
    fn prepare(&self, site: &Site) -> Result<Ready, Unavailable> {
        let reason = match (self.host.support(), site.policy.level) {
            (_, SandboxLevel::Off) => return Err(Unavailable::new("the sandbox is off")),
            (Support::Full { bwrap }, _) => return self.with_namespaces(bwrap, site),
            (Support::ReadOnly { .. }, SandboxLevel::ReadOnly) => return self.with_landlock(site),
            (Support::ReadOnly { reason } | Support::None { reason }, _) => reason,
        };
        Err(Unavailable::lack(reason.clone()))
    }

    fn with_namespaces(&self, bwrap: &Path, site: &Site) -> Result<Ready, Unavailable> {
        let session = self.namespaces()?;
        let (found, before) = self.look(site)?;
        let writable = found.survey.writable.iter().map(|(at, _)| at.as_path());
        let writable = writable.chain(["/dev", "/run"].map(Path::new)).map(Bytes::from).collect();
        let mounts = Mounts::plan(&found.survey);
        let walls = Shape::Namespaces { bwrap: bwrap.to_owned(), mounts, session };
        Ok(self.ready(&site.policy, found, before, walls, writable))
    }

    /// Without mounts, programs read the system, the workspace and what is on their `PATH`, and write temporary files only.
    fn with_landlock(&self, site: &Site) -> Result<Ready, Unavailable> {
        let (found, before) = self.look(site)?;
        let readable = survey::readable_without_mounts(&self.places, &site.policy, &found.cwd)?;
        let temporary = self.places.private.join("tmp");
        let writable = [temporary.as_path(), Path::new("/dev/null")].map(Bytes::from).to_vec();
        let caches = temporary.join("cache");
        let readable = readable.into_iter().map(Bytes::from).collect();
        let walls = Shape::Landlock { readable, temporary, caches };
        Ok(self.ready(&site.policy, Found { checks: Vec::new(), ..found }, before, walls, writable))
    }

    fn look(&self, Site { policy, cwd, own }: &Site) -> Result<(Found, Vec<Workspace>), Unavailable> {
        self.host.check_program()?;
        let real = survey::real(cwd)?;
        self.check_unmoved(cwd, &real)?;
        let cwd = &survey::workspace(&self.places, &real)?;
        survey::make_private(&self.places, cwd).map_err(|error| {
            Unavailable::new(format!("the private directories of the sandbox cannot be made: {error}"))
        })?;
        let before = match policy.level {
            SandboxLevel::Workspace => self.workspaces(policy, cwd)?,
            SandboxLevel::ReadOnly | SandboxLevel::Off => Vec::new(),
        };
        let found = survey::survey(&self.places, policy, cwd, own, &before, &self.host.program)?;
        Ok((found, before))
    }

    /// Refuses a directory that leads elsewhere than before: a program in the sandbox of a parent directory may have replaced it by
    /// a link.
    fn check_unmoved(&self, directory: &Path, real: &Path) -> Result<(), Unavailable> {
        let mut led_to = lock(&self.led_to);
        let before = led_to.entry(directory.to_owned()).or_insert_with(|| real.to_owned());
        if before == real {
            return Ok(());
        }
        Err(Unavailable::new(format!(
            "the directory {} was {} and is {} now; start a new session there",
            directory.display(),
            before.display(),
            real.display()
        )))
    }

    /// Looks at the directories that programs write: the working directory, and those of the policy.
    fn workspaces(&self, policy: &SandboxPolicy, cwd: &Path) -> Result<Vec<Workspace>, Unavailable> {
        let mut roots = vec![cwd.to_owned()];
        for extra in survey::existing(policy.write.iter().map(PathBuf::from)) {
            if !roots.iter().any(|root| extra.starts_with(root)) {
                roots.push(survey::workspace(&self.places, &extra)?);
            }
        }
        // Workspaces in Baton's home may have a name that acts in a path before them.
        let is_ours = |root: &Path| self.places.hidden.iter().any(|ours| root.starts_with(ours));
        if let Some(root) = roots.iter().find(|root| self.judge.acts(root) && !is_ours(root)) {
            let root = root.display();
            return Err(Unavailable::new(format!(
                "{root} cannot be a workspace: programs outside run what is in it"
            )));
        }
        // It is started as the helper, outside.
        if let Some(root) = roots.iter().find(|root| self.host.program.path.starts_with(root)) {
            return Err(Unavailable::new(format!(
                "{} is in the workspace {}, where programs could replace it; start the server from another place",
                self.host.program.path.display(),
                root.display()
            )));
        }
        // The directory of a worktree in its repository is written too, and git reads its configuration there.
        roots.extend(survey::worktree_directory(cwd));
        let look = |root: PathBuf| Workspace { census: Census::take(&root, &self.judge), root };
        Ok(roots.into_iter().map(look).collect())
    }

    fn ready(
        &self,
        policy: &SandboxPolicy,
        found: Found,
        before: Vec<Workspace>,
        walls: Shape,
        writable: Vec<Bytes>,
    ) -> Ready {
        Ready {
            policy: policy.clone(),
            cwd: found.cwd,
            walls,
            before,
            program: self.host.program.clone(),
            writable,
            checks: found.checks,
            has_registry: found.has_registry,
            limits: self.limits,
        }
    }

    /// Decides where a program runs, and prepares its start.
    ///
    /// # Errors
    /// If somebody chose a level that cannot be enforced. A level that is only the default lets the program run outside.
    pub async fn place(self: &Arc<Self>, choice: &SandboxChoice, cwd: &Path) -> Result<Place, Unavailable> {
        self.place_with(choice, cwd, &[]).await
    }

    /// Like [`place`](Self::place), for a program that also writes files of its `own`, which programs inside do not even see
    /// otherwise.
    ///
    /// # Errors
    /// If somebody chose a level that cannot be enforced.
    pub async fn place_with(
        self: &Arc<Self>,
        choice: &SandboxChoice,
        cwd: &Path,
        own: &[PathBuf],
    ) -> Result<Place, Unavailable> {
        if choice.policy.level == SandboxLevel::Off {
            return Ok(Place::Outside);
        }
        let this = Arc::clone(self);
        let site = Site { policy: choice.policy.clone(), cwd: cwd.to_owned(), own: own.to_vec() };
        let prepared = tokio::task::spawn_blocking(move || this.prepare(&site)).await;
        match prepared.unwrap_or_else(|_| Err(internal())) {
            Ok(ready) => Ok(Place::Inside(Arc::new(ready))),
            Err(why) if choice.chosen || !why.is_lack => Err(why),
            Err(why) => {
                tracing::debug!(%why, "a program runs outside: there is no sandbox for it");
                Ok(Place::Outside)
            }
        }
    }

    /// Returns the level that a program would run at, none outside, without preparing anything: for requests, which are asked
    /// about before a program is started.
    ///
    /// # Errors
    /// If somebody chose a level that cannot be enforced.
    pub async fn level(
        self: &Arc<Self>,
        choice: &SandboxChoice,
        cwd: &Path,
    ) -> Result<Option<SandboxLevel>, Unavailable> {
        let level = choice.policy.level;
        if level == SandboxLevel::Off {
            return Ok(None);
        }
        let (this, cwd) = (Arc::clone(self), cwd.to_owned());
        let look = move || match (this.host.support(), level) {
            (Support::Full { .. }, _) | (Support::ReadOnly { .. }, SandboxLevel::ReadOnly) => {
                survey::real(&cwd).and_then(|real| survey::workspace(&this.places, &real).map(drop))
            }
            (support, _) => Err(Unavailable::lack(support.reason().unwrap_or_default())),
        };
        match tokio::task::spawn_blocking(look).await.unwrap_or_else(|_| Err(internal())) {
            Ok(()) => Ok(Some(level)),
            Err(why) if choice.chosen || !why.is_lack => Err(why),
            Err(_) => Ok(None),
        }
    }

    /// Prepares the start of a program that runs beside the calls, such as an MCP server of a repository. Like
    /// [`place_with`](Self::place_with), but what it creates is found by [`sweep`](Self::sweep).
    ///
    /// # Errors
    /// If somebody chose a level that cannot be enforced.
    pub async fn place_lasting(
        self: &Arc<Self>,
        choice: &SandboxChoice,
        cwd: &Path,
        own: &[PathBuf],
    ) -> Result<Place, Unavailable> {
        let place = self.place_with(choice, cwd, own).await?;
        if let Place::Inside(ready) = &place
            && ready.policy.level == SandboxLevel::Workspace
        {
            let seen = ready.before.clone();
            lock(&self.lasting).push(Lasting { ready: Arc::clone(ready), seen });
        }
        Ok(place)
    }

    /// Returns files that act and that have appeared since the last sweep, while programs ran beside the calls. They stay where
    /// they are: somebody outside may have created them. Does nothing if no such program runs.
    pub async fn sweep(self: &Arc<Self>) -> Vec<PathBuf> {
        if lock(&self.lasting).is_empty() {
            return Vec::new();
        }
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.look_for_new()).await.unwrap_or_default()
    }

    fn look_for_new(&self) -> Vec<PathBuf> {
        let mut lasting = lock(&self.lasting);
        let mut found = BTreeSet::new();
        for Workspace { root, census } in lasting.iter_mut().flat_map(|program| &mut program.seen) {
            let now = census.again(root, &self.judge);
            found.extend(now.new_since(census).into_iter().map(|path| root.join(path)));
            *census = now;
        }
        // Of a program that has ended, nobody else has the place any more.
        lasting.retain(|program| Arc::strong_count(&program.ready) > 1);
        found.into_iter().collect()
    }

    /// Moves files away that act and that were created since a program was prepared, and tells the watcher. Returns them.
    pub async fn after(self: &Arc<Self>, ready: &Arc<Ready>) -> Vec<Held> {
        if ready.policy.level != SandboxLevel::Workspace {
            return Vec::new();
        }
        let (this, ready) = (Arc::clone(self), Arc::clone(ready));
        let looked = tokio::task::spawn_blocking(move || {
            ready.before.iter().flat_map(|workspace| this.hold_new(workspace, &ready.cwd)).collect::<Vec<_>>()
        });
        let held = looked.await.unwrap_or_default();
        held.iter().for_each(|held| self.watcher.set_aside(held));
        held
    }

    fn hold_new(&self, Workspace { root, census }: &Workspace, cwd: &Path) -> Vec<Held> {
        let now = census.again(root, &self.judge);
        if census.is_complete() && !now.is_complete() {
            tracing::warn!(root = %root.display(), "a program has created more directories than are searched for files that act");
        }
        let mut held = set_aside(root, &now.new_since(census), &self.places.held);
        if root != cwd {
            held.iter_mut().for_each(|held| held.path = root.join(&held.path));
        }
        held
    }
}

/// Where a program runs.
#[derive(Debug, Clone)]
pub enum Place {
    /// In the sandbox.
    Inside(Arc<Ready>),
    /// With the rights of the server's user.
    Outside,
}

impl Place {
    /// Returns the level of the sandbox that the program runs in; none outside.
    #[must_use]
    pub fn level(&self) -> Option<SandboxLevel> {
        match self {
            Self::Inside(ready) => Some(ready.policy.level),
            Self::Outside => None,
        }
    }
}

/// A place that is being prepared. The error is a message for people.
pub type Preparing = Pin<Box<dyn Future<Output = Result<Place, String>> + Send>>;

/// What a session does about its sandbox.
pub trait Watcher: Send + Sync {
    /// Serves the proxy at a port inside. Called once, before the first program starts.
    fn serve(&self, listener: TcpListener);

    /// Asks about a file that was moved away.
    fn set_aside(&self, held: &Held);
}

impl Ready {
    /// Returns what a program will find at a path. Links have to be resolved.
    #[must_use]
    pub fn explain(&self, path: &Path) -> Explanation {
        let readable = match &self.walls {
            Shape::Namespaces { mounts, .. } => return mounts.explain(path),
            Shape::Landlock { readable, .. } => readable,
        };
        let is_in = |paths: &[Bytes]| paths.iter().map(Bytes::path).find(|root| path.starts_with(root));
        let (access, because, reason) = match (is_in(&self.writable), is_in(readable)) {
            (Some(root), _) => (Access::Writable, Some(root), "temporary files can be written"),
            (None, Some(root)) => (Access::ReadOnly, Some(root), "it is part of the system or the workspace"),
            (None, None) => {
                (Access::Hidden, None, "without bubblewrap, programs read the system and the workspace only")
            }
        };
        Explanation { access, reason, because }
    }

    /// Returns the level.
    #[must_use]
    pub fn level(&self) -> SandboxLevel {
        self.policy.level
    }

    /// Returns the working directory, with links resolved.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Prepares the command that starts a program. Does not block.
    ///
    /// # Errors
    /// If descriptors cannot be made.
    pub fn enclose(&self, launch: Launch) -> io::Result<Enclosed> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.arguments).env_clear().stdin(OwnedFd::from(theirs));
        let plan = serde_json::to_vec(&self.plan(&launch))?;
        let (input, stdin) = match launch.input {
            Input::Null => (None, None),
            Input::Given(descriptor) => (Some(descriptor), None),
            Input::Piped => {
                let (reader, writer) = io::pipe()?;
                (Some(OwnedFd::from(reader)), Some(ChildStdin::from(OwnedFd::from(writer))))
            }
        };
        if let Shape::Namespaces { bwrap, mounts, session } = &self.walls {
            command.arg(ENTER).arg(bwrap).arg(PROGRAM).args(&self.program.arguments).arg(INSIDE);
            let arguments = memory(&nul_separated(&arguments(mounts)))?;
            let [user, net, ipc] = session.descriptors();
            send(&ours, Order::Enter, &[arguments.as_fd(), user, net, ipc])?;
        } else {
            command.arg(INSIDE);
        }
        let plan = memory(&plan)?;
        let descriptors: Vec<_> =
            [plan.as_fd()].into_iter().chain(input.as_ref().map(|input| input.as_fd())).collect();
        send(&ours, Order::Run, &descriptors)?;
        Ok(Enclosed { command, control: Control::new(ours), stdin })
    }

    fn plan(&self, launch: &Launch) -> Plan {
        let (walls, readable, proxy, directories) = match &self.walls {
            Shape::Namespaces { session, .. } => {
                let proxy = (self.policy.network == SandboxNetwork::Asked).then_some(session.port);
                (Walls::Namespaces, None, proxy, Directories::mounted())
            }
            Shape::Landlock { readable, temporary, caches } => {
                (Walls::Landlock, Some(readable.clone()), None, Directories { temporary, caches })
            }
        };
        let variables =
            environment::inside(launch.environment.iter().cloned(), directories, proxy, self.has_registry);
        Plan {
            program: (&launch.program).into(),
            args: launch.args.iter().map(Bytes::from).collect(),
            environment: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: launch.cwd.as_ref().unwrap_or(&self.cwd).into(),
            writable: self.writable.clone(),
            readable,
            walls,
            checks: self.checks.clone(),
            limits: self.limits,
        }
    }
}

/// Returns the arguments of `bwrap` for a call.
fn arguments(mounts: &Mounts) -> Vec<OsString> {
    // Not the network, which is the session's. Shared memory would outlive the call, and no limit would count it.
    let namespaces =
        ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"];
    let process = ["--as-pid-1", "--new-session", "--cap-drop", "ALL"];
    let mut arguments: Vec<OsString> = namespaces.iter().chain(&process).map(Into::into).collect();
    arguments.extend(mounts.arguments());
    arguments.extend(["--chdir", "/"].map(OsString::from));
    arguments
}

/// Starts `true` as a call would, and waits for it. Blocks.
#[expect(clippy::disallowed_methods, reason = "callers run it on a blocking thread")]
pub(crate) fn rehearse(bwrap: &Path, program: &Program, session: &Arc<Namespaces>) -> io::Result<()> {
    let mounts = Mounts::plan(&crate::mounts::Survey {
        shared: vec!["/run".into(), "/tmp".into()],
        program: program.path.clone(),
        ..Default::default()
    });
    let ready = Ready {
        policy: SandboxPolicy::of(SandboxLevel::ReadOnly),
        cwd: "/".into(),
        walls: Shape::Namespaces { bwrap: bwrap.to_owned(), mounts, session: Arc::clone(session) },
        before: Vec::new(),
        program: program.clone(),
        writable: vec!["/dev".into(), "/run".into()],
        checks: Vec::new(),
        has_registry: true,
        limits: Limits::default(),
    };
    let launch = Launch {
        program: "true".into(),
        args: Vec::new(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: None,
        input: Input::Null,
    };
    let Enclosed { mut command, mut control, .. } = ready.enclose(launch)?;
    let output = command.output()?;
    // The command holds the helper's end of the socket.
    drop(command);
    let mut reports = String::new();
    let read = control.read_to_end(&mut reports);
    if reports.contains("\"exited\"") {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    match said.trim() {
        "" => Err(read.err().unwrap_or_else(|| io::Error::other(reports))),
        said => Err(io::Error::other(said.to_owned())),
    }
}

fn nul_separated(arguments: &[OsString]) -> Vec<u8> {
    arguments.iter().flat_map(|argument| argument.as_bytes().iter().copied().chain([0])).collect()
}

/// Returns a file in memory with these contents, to be read from its start.
pub(crate) fn memory(contents: &[u8]) -> io::Result<OwnedFd> {
    let descriptor = rustix::fs::memfd_create("sandbox", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(descriptor);
    file.write_all(contents)?;
    file.rewind()?;
    Ok(file.into())
}

fn internal() -> Unavailable {
    Unavailable::new("internal error; see the server log")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
