//! The processes of this machine, as `/proc` shows them. Where there is none, there are no processes to see.
#![expect(
    clippy::disallowed_methods,
    reason = "files of /proc are memory; sleeping is for a millisecond, also in `Drop`"
)]

use std::fs;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::Signal;

/// How often to look for an environment that must be there, and how long to wait in between: some 50 ms in all.
const LOOKS: usize = 500;
const A_MOMENT: Duration = Duration::from_micros(100);

/// A process, told apart from others that have had or will have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process id.
    pub pid: i32,
    /// When it started, in clock ticks since the machine did; 0 where that cannot be known.
    pub start_time: u64,
}

impl Identity {
    /// The process that has the number `pid` now.
    #[must_use]
    pub fn of(pid: i32) -> Self {
        read(pid).map_or(Self { pid, start_time: 0 }, |process| process.id)
    }
}

/// A process, and where it belongs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: Identity,
    /// Not yet over and only waiting for its parent to take notice.
    pub(super) alive: bool,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// How large its environment is, if it has one; as good as endless while its program is being loaded.
    environment: Option<usize>,
}

pub(super) fn all() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read)
}

fn read(pid: i32) -> Option<Process> {
    parse(pid, &String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

fn parse(pid: i32, stat: &str) -> Option<Process> {
    // The name of the program is in parentheses and may contain anything, parentheses too.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse().ok();
    Some(Process {
        id: Identity { pid, start_time: fields.get(19)?.parse().ok()? },
        alive: !matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        environment: size_of_environment(&fields),
    })
}

fn size_of_environment(fields: &[&str]) -> Option<usize> {
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<usize>().ok()).unwrap_or(0);
    match (number(20), number(24)) {
        // Without memory it is the kernel's own, or over.
        (0, _) => None,
        // Without code it is just being loaded.
        (_, 0) => Some(usize::MAX),
        _ => number(48).checked_sub(number(47)),
    }
}

impl Process {
    /// Whether the environment of this process has an entry that begins with `mark`.
    pub(super) fn is_marked(&self, mark: &[u8]) -> bool {
        self.find_entry(|entry| entry.starts_with(mark)).is_some()
    }

    /// The value of a variable in the environment of this process.
    pub(super) fn entry(&self, name: &str) -> Option<String> {
        let value = |entry: &[u8]| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
        let entry = self.find_entry(|entry| value(entry).is_some())?;
        String::from_utf8(value(&entry)?).ok()
    }

    /// The first entry of the environment for which `wanted` holds.
    ///
    /// While a process becomes another program, the kernel shows no environment for a moment, or only the beginning of
    /// one. Whoever took that for an answer would let a command get away that is just being started.
    fn find_entry(&self, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let pid = self.id.pid;
        let mut size = self.environment;
        for _ in 0..LOOKS {
            let Some(expected) = size else { break };
            let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else { break };
            if let Some(entry) = environ.split(|byte| *byte == 0).find(|entry| wanted(entry)) {
                return Some(entry.to_vec());
            }
            if environ.len() == expected || !*SIZES_ARE_TOLD {
                break;
            }
            std::thread::sleep(A_MOMENT);
            size = read(pid).and_then(|now| now.environment);
        }
        None
    }

    #[cfg(test)]
    pub(super) fn for_test(id: Identity, parent: i32, session: i32) -> Self {
        Self { id, alive: true, parent, group: session, session, environment: None }
    }
}

/// What time it is, in the clock ticks since the machine started that start times are in; 0 where that cannot be known.
#[must_use]
pub fn now_in_ticks() -> u64 {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let parts = uptime.split_ascii_whitespace().next().and_then(|seconds| seconds.split_once('.'));
    let hundredths = parts.and_then(|(whole, part)| {
        let (whole, part): (u64, u64) = (whole.parse().ok()?, part.parse().ok()?);
        (part < 100).then_some(whole * 100 + part)
    });
    hundredths.unwrap_or(0) * rustix::param::clock_ticks_per_second() / 100
}

/// Whether `/proc` says how large an environment is. Some sandboxes imitate only a part of it; there, the first look has
/// to do.
static SIZES_ARE_TOLD: LazyLock<bool> = LazyLock::new(|| {
    let us = i32::try_from(std::process::id()).ok().and_then(read);
    us.and_then(|process| process.environment).is_some_and(|size| size != usize::MAX)
});

/// Sends a signal to this process and to no other that may have its number by now.
#[cfg(target_os = "linux")]
pub(super) fn signal(process: Identity, signal: Signal) {
    use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    // The descriptor is taken first and the identity checked after: from then on it cannot be another.
    let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if read(process.pid).is_some_and(|now| now.id == process) {
        let _ = pidfd_send_signal(&descriptor, signal);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn signal(_: Identity, _: Signal) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_be_called_anything() {
        let line = "7 (a) R (b) S 3 5 6 0 -1 4 1 2 3 4 5 6 7 8 9 10 1 0 4242 99 0\n";
        let stat = parse(7, line).unwrap();
        assert_eq!((stat.parent, stat.group, stat.session, stat.alive), (3, 5, 6, true));
        assert_eq!(stat.id, Identity { pid: 7, start_time: 4242 });
        assert!(!parse(7, &line.replace(" S ", " Z ")).unwrap().alive);
        assert_eq!(parse(7, "7 (a"), None);
        assert_eq!(parse(7, "7 (a) S 1"), None);
    }

    #[test]
    fn a_process_that_is_not_the_one_meant_is_left_alone() {
        let mut stranger = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = Identity::of(i32::try_from(stranger.id()).unwrap());
        signal(Identity { start_time: id.start_time + 1, ..id }, Signal::KILL);
        assert_eq!(stranger.try_wait().unwrap(), None, "same number, other start: not the same process");
        signal(id, Signal::KILL);
        assert!(!stranger.wait().unwrap().success());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_keeps_its_mark_while_it_becomes_another_program() {
        let again = "[ $0 = 0 ] && exec sleep 60; exec sh -c \"$again\" $(($0 - 1))";
        let mut child = std::process::Command::new("sh")
            .args(["-c", again, "100"])
            .envs([("again", again), ("MARK", "here")])
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let command = || fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        while !command().starts_with(b"sleep") {
            assert!(read(pid).unwrap().is_marked(b"MARK=here"));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
