//! A server as a service of systemd: its unit file, and installing it.

mod unit;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::OpsError;

pub use self::unit::{ServiceScope, Unit, UnitError};

/// Tells a service manager that the server is ready. `socket` is the value of `NOTIFY_SOCKET`: a path, or an abstract name
/// after `@`.
///
/// # Errors
/// When nothing listens there.
pub fn notify_ready(socket: &str) -> io::Result<()> {
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.strip_prefix('@') {
        let address = <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)?;
        return UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop);
    }
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &SocketAddr::from_pathname(socket)?).map(drop)
}

/// Name of the unit.
const NAME: &str = "baton.service";

/// A service of one scope, installed or not.
#[derive(Debug, Clone)]
pub struct SystemdService {
    scope: ServiceScope,
    directory: PathBuf,
}

/// State of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Path of the unit file, if it is installed.
    pub unit: Option<PathBuf>,
    /// State as systemd names it, such as `active` or `failed`; none if systemd does not answer.
    pub state: Option<String>,
}

/// Result of asking systemd to do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Systemd {
    /// It did.
    Done,
    /// It did not, or is not there. The commands are left to the user.
    Left {
        /// What it said.
        why: String,
        /// The commands to run.
        commands: Vec<String>,
    },
    /// It has the unit, and the service did not start.
    NotStarted {
        /// What it said.
        why: String,
        /// The command that shows the service's log.
        log: String,
    },
}

impl SystemdService {
    /// Creates a service. `user_units` is the directory of the user's own units; services of the system have a fixed one.
    #[must_use]
    pub fn new(scope: ServiceScope, user_units: &Path) -> Self {
        let directory = match scope {
            ServiceScope::User => user_units.to_owned(),
            ServiceScope::System => PathBuf::from("/etc/systemd/system"),
        };
        Self { scope, directory }
    }

    /// Returns the path of the unit file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// Writes the unit file, and has systemd start the service now and at each boot or login. A service that runs is restarted:
    /// its arguments may be others.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn install(&self, unit: &str) -> Result<Systemd, OpsError> {
        let path = self.path();
        let write = || {
            fs::create_dir_all(&self.directory)?;
            baton_disk::private::replace_public(&path, unit)?;
            // It holds no secret, and systemd complains about units that it cannot show to others.
            fs::set_permissions(
                &path,
                <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644),
            )
        };
        write().map_err(OpsError::file("write", &path))?;
        Ok(self.start(|arguments| self.run(arguments)))
    }

    /// Has systemd read the unit, enable the service and start it again.
    fn start(&self, run: impl Fn(&[&str]) -> Result<(), String>) -> Systemd {
        match self.ask(&[&["daemon-reload"], &["enable", NAME], &["restart", NAME]], run) {
            Systemd::Left { why, commands } if commands.len() == 1 => {
                Systemd::NotStarted { why, log: format!("journalctl {}-u {NAME} -n 20", self.flag()) }
            }
            other => other,
        }
    }

    /// Stops the service and removes its unit file. Returns none if it is not installed.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn uninstall(&self) -> Result<Option<Systemd>, OpsError> {
        let path = self.path();
        if !path.exists() {
            return Ok(None);
        }
        let stopped = self.ask(&[&["disable", "--now", NAME]], |arguments| self.run(arguments));
        fs::remove_file(&path).map_err(OpsError::file("remove", &path))?;
        Ok(Some(match stopped {
            Systemd::Done => self.ask(&[&["daemon-reload"]], |arguments| self.run(arguments)),
            left => left,
        }))
    }

    /// Reads the state of the service.
    #[must_use]
    pub fn status(&self) -> ServiceStatus {
        let output = self.systemctl(&["is-active", NAME]).output().ok();
        let state = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        ServiceStatus {
            unit: Some(self.path()).filter(|path| path.exists()),
            state: state.filter(|state| !state.is_empty()),
        }
    }

    /// Runs commands of systemd in order. After one that fails, the rest is left to the user.
    fn ask(&self, commands: &[&[&str]], run: impl Fn(&[&str]) -> Result<(), String>) -> Systemd {
        for (done, arguments) in commands.iter().enumerate() {
            let Err(why) = run(arguments) else { continue };
            let line = |arguments: &&[&str]| format!("systemctl {}{}", self.flag(), arguments.join(" "));
            return Systemd::Left { why, commands: commands[done..].iter().map(line).collect() };
        }
        Systemd::Done
    }

    /// Runs a command of systemd. Returns what it said if it failed.
    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        match self.systemctl(arguments).output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(one_line(&String::from_utf8_lossy(&output.stderr))),
            Err(error) => Err(format!("cannot run systemctl: {error}")),
        }
    }

    fn systemctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("systemctl");
        command.args(self.flag().split_whitespace()).args(arguments);
        command
    }

    fn flag(&self) -> &'static str {
        match self.scope {
            ServiceScope::User => "--user ",
            ServiceScope::System => "",
        }
    }
}

/// Joins the lines of a message.
fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_reaches_a_service_manager() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        notify_ready(path.to_str().unwrap()).unwrap();
        let mut buffer = [0; 64];
        let count = manager.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"READY=1");
        assert!(notify_ready("/nonexistent").is_err());
    }

    #[test]
    fn service_that_does_not_start_is_told_from_a_missing_systemd() {
        let service = SystemdService::new(ServiceScope::User, Path::new("/units"));
        let failing = |verb: &'static str| {
            service.start(move |arguments| match arguments[0] == verb {
                true => Err(one_line("no.\n  See the log.\n")),
                false => Ok(()),
            })
        };
        assert_eq!(failing("nothing"), Systemd::Done);
        let why = "no. See the log.".to_owned();
        let log = "journalctl --user -u baton.service -n 20".to_owned();
        assert_eq!(failing("restart"), Systemd::NotStarted { why: why.clone(), log });
        let commands = ["enable", "restart"].map(|verb| format!("systemctl --user {verb} baton.service"));
        assert_eq!(failing("enable"), Systemd::Left { why, commands: commands.into() });
    }
}
