//! Identity of a server process.
//!
//! A pid is reused after a while, and at once after a reboot. Host, boot, pid and start time together are unique.
#![expect(clippy::disallowed_methods, reason = "files of /proc are memory, and do not hang")]

use serde::{Deserialize, Serialize};

use crate::table;

/// One run of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Random id of the run.
    pub server: String,
    /// Host name.
    pub host: String,
    /// Id of the machine's boot; pids of another boot mean nothing.
    pub boot: String,
    /// Process id.
    pub pid: u32,
    /// Start time of the process, in clock ticks since the boot.
    pub started: u64,
}

impl Instance {
    /// Returns the identity of this process, with a new random id.
    #[must_use]
    pub fn current() -> Self {
        let pid = std::process::id();
        Self {
            server: uuid::Uuid::new_v4().to_string(),
            host: host(),
            boot: boot(),
            pid,
            started: table::start_time(pid).unwrap_or(0),
        }
    }

    /// Whether the process may still be alive. A process of another host counts as alive: only that host could tell.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.host != host() || (self.is_of_this_boot() && table::start_time(self.pid) == Some(self.started))
    }

    /// Asks the process to stop (SIGTERM), if it is one of this host and still alive.
    pub fn terminate(&self) {
        if self.host == host() && self.is_of_this_boot() {
            let pid = i32::try_from(self.pid).unwrap_or_default();
            table::signal(
                table::ProcessIdentity { pid, start_time: self.started },
                rustix::process::Signal::TERM,
            );
        }
    }

    /// Whether the process ran since the last boot. If not, none of its children can be running.
    #[must_use]
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == boot()
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_and_living_processes_are_distinguished() {
        let me = Instance::current();
        assert!(me.is_alive() && me.started > 0);
        assert!(!Instance { started: me.started + 1, ..me.clone() }.is_alive(), "the pid was reused");
        assert!(!Instance { boot: "another".into(), ..me.clone() }.is_alive(), "the machine was rebooted");
        assert!(Instance { host: "elsewhere".into(), pid: 1, ..me }.is_alive(), "unknown host");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let started = table::start_time(child.id()).unwrap_or(1);
        let dead = Instance { pid: child.id(), started, ..Instance::current() };
        child.wait().unwrap();
        assert!(!dead.is_alive());
    }

    #[test]
    fn only_the_process_itself_is_asked_to_stop() {
        use std::os::unix::process::ExitStatusExt;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Instance {
            pid: child.id(),
            started: table::start_time(child.id()).unwrap(),
            ..Instance::current()
        };
        Instance { started: process.started + 1, ..process.clone() }.terminate();
        Instance { boot: "another".into(), ..process.clone() }.terminate();
        Instance { host: "elsewhere".into(), ..process.clone() }.terminate();
        assert!(child.try_wait().unwrap().is_none(), "a later process with the same pid is left alone");
        process.terminate();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
    }
}
