//! The sandbox of the current directory, as sessions there have it.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread; there is no server to stop")]

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use baton_files::sandboxes;
use baton_protocol::SessionId;
use baton_protocol::sandbox::{SandboxChoice, SandboxLevel, SandboxNetwork};
use baton_sandbox::protected::Judge;
use baton_sandbox::{Enclosure, Limits, Place, Places, Ready, Watcher};

use crate::args::{Cli, ModelArgs, SandboxRules};
use crate::config::{self, Environment};
use crate::discovery::RunningServer;
use crate::setup;

/// Begins the names of the private directories of trials.
const NAME: &str = "trial-";

/// A sandbox for one command.
pub(super) struct Trial {
    pub(super) choice: SandboxChoice,
    pub(super) cwd: PathBuf,
    /// Variables of commands of sessions.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) judge: Judge,
    pub(super) held: PathBuf,
    limits: Limits,
    places: Places,
    private: PathBuf,
    /// Locked while the private directory is used.
    _lock: File,
}

impl Trial {
    /// Prepares a sandbox. Nothing is started.
    pub(super) fn new(cli: &Cli, rules: &SandboxRules) -> anyhow::Result<Self> {
        let environment = Environment::of_process();
        let config = config::load(&cli.global, &ModelArgs::default(), None, &environment)?;
        crate::logging::start(&config);
        let home = &config.home.value;
        setup::check_home(home)?;
        let options = setup::options(&config, &environment)?;
        remove_unused(home);
        let name = format!("{NAME}{}", SessionId::random());
        let private = sandboxes::private(home, &name.parse()?);
        let made = baton_disk::private::create_dir_all(&private).and_then(|()| File::open(&private));
        let lock = made.with_context(|| format!("cannot create {}", private.display()))?;
        lock.lock().context("cannot lock the private directory of the sandbox")?;
        let variable = |name: &str| {
            let found = options.environment.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        let engine_files = baton_engines::guarded_files().into_iter().map(str::to_owned).collect();
        let held = home.join("sandbox/held").join(&name);
        let sockets = RunningServer::all(home).into_iter().filter_map(|server| server.socket);
        let places = Places {
            home: variable("HOME").map(PathBuf::from),
            private: private.clone(),
            caches: sandboxes::caches(home),
            held: held.clone(),
            hidden: [home.clone()].into_iter().chain(sockets).collect(),
            path: variable("PATH"),
            variables: options.environment.clone(),
            ..Places::default()
        };
        Ok(Self {
            choice: choose(&config.sandbox.value, rules)?,
            cwd: options.cwd,
            environment: options.environment,
            judge: baton_runtime::work::sandbox::judge(&engine_files),
            held,
            limits: options.sandbox_limits,
            places,
            private,
            _lock: lock,
        })
    }

    /// Decides where the command runs. A level that the system cannot enforce is an error: this command is there to try it.
    pub(super) async fn place(&self, watcher: Arc<dyn Watcher>) -> anyhow::Result<Option<Inside>> {
        let host = Arc::new(super::host().context("cannot find the path of this program")?);
        let enclosure = Enclosure::new(host, self.places.clone(), self.judge.clone(), self.limits, watcher);
        let enclosure = Arc::new(enclosure);
        match enclosure.place(&self.choice, &self.cwd).await? {
            Place::Inside(ready) => Ok(Some(Inside { enclosure, ready })),
            Place::Outside => Ok(None),
        }
    }
}

/// The sandbox of a command.
pub(super) struct Inside {
    pub(super) enclosure: Arc<Enclosure>,
    pub(super) ready: Arc<Ready>,
}

impl Drop for Trial {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.private));
    }
}

/// Returns the sandbox of the configuration, with the rules of the flags.
fn choose(configured: &SandboxChoice, rules: &SandboxRules) -> anyhow::Result<SandboxChoice> {
    let mut choice = config::with_level(configured, rules.level);
    let policy = &mut choice.policy;
    let paths =
        |paths: &[PathBuf]| paths.iter().map(|path| absolute(path)).collect::<anyhow::Result<Vec<_>>>();
    policy.write.extend(paths(&rules.write)?);
    policy.read.extend(paths(&rules.read)?);
    policy.hide.extend(paths(&rules.hide)?);
    policy.hosts.extend(rules.host.iter().cloned());
    if !rules.host.is_empty() && policy.level != SandboxLevel::Off {
        policy.network = SandboxNetwork::Asked;
    }
    choice.chosen = true;
    Ok(choice)
}

fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path)?;
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

/// Deletes the private directories of trials that were killed.
fn remove_unused(home: &Path) {
    let one = sandboxes::private(home, &SessionId::random());
    let entries = one.parent().and_then(|sessions| sessions.read_dir().ok());
    for entry in entries.into_iter().flatten().filter_map(Result::ok) {
        let is_trial = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME));
        let Some(Ok(directory)) = is_trial.then(|| File::open(entry.path())) else { continue };
        if !matches!(directory.try_lock(), Err(TryLockError::WouldBlock)) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}
