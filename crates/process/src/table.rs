//! The process table of this machine, read from `/proc`. Without `/proc` it is empty.
#![expect(
    clippy::disallowed_methods,
    reason = "files of /proc are memory; sleeping is for a millisecond, also in `Drop`"
)]

use std::fs::{self, File};
use std::io::Read;
use std::time::Duration;

use rustix::process::Signal;

/// How often an incomplete environment is read again, and the pause in between: some 50 ms in all.
const ENVIRONMENT_READS: usize = 500;
const ENVIRONMENT_PAUSE: Duration = Duration::from_micros(100);

/// A process, distinguished from earlier and later ones with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time, in clock ticks since the boot; 0 if unknown.
    pub start_time: u64,
}

impl ProcessIdentity {
    /// Returns the identity of the process that has this pid now.
    #[must_use]
    pub fn of(pid: i32) -> Self {
        read(pid).map_or(Self { pid, start_time: 0 }, |process| process.id)
    }

    /// Whether the process exists, as a zombie at least.
    pub(crate) fn exists(self) -> bool {
        read(self.pid).is_some_and(|process| process.id == self)
    }
}

/// One row of the process table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: ProcessIdentity,
    /// Neither a zombie nor dead.
    pub(crate) alive: bool,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Size of the environment, if the process has one; `usize::MAX` while its program is being loaded.
    environment: Option<usize>,
}

/// Returns the start time of a living process, in clock ticks since the boot.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let process = read(i32::try_from(pid).ok()?)?;
    process.alive.then_some(process.id.start_time)
}

/// Reads the whole table.
pub(crate) fn all() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read)
}

fn read(pid: i32) -> Option<Process> {
    // The kernel writes the whole line at once, and it is shorter than this. One read for each process of the machine
    // is most of the time that ending a tree takes.
    let mut line = [0; 2048];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse(pid, &String::from_utf8_lossy(line.get(..length)?))
}

fn parse(pid: i32, stat: &str) -> Option<Process> {
    // The program's name is in parentheses and may contain anything, parentheses included.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse().ok();
    Some(Process {
        id: ProcessIdentity { pid, start_time: fields.get(19)?.parse().ok()? },
        alive: !matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        environment: environment_size(&fields),
    })
}

fn environment_size(fields: &[&str]) -> Option<usize> {
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<usize>().ok()).unwrap_or(0);
    match (number(20), number(24)) {
        // No memory: a kernel thread, or a process that has ended.
        (0, _) => None,
        // No code: the program is being loaded.
        (_, 0) => Some(usize::MAX),
        _ => number(48).checked_sub(number(47)),
    }
}

impl Process {
    /// Whether the environment has an entry that begins with `mark`.
    pub(crate) fn is_marked(&self, mark: &[u8]) -> bool {
        self.find_entry(|entry| entry.starts_with(mark)).is_some()
    }

    /// Returns the value of an environment variable.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let value = |entry: &[u8]| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
        let entry = self.find_entry(|entry| value(entry).is_some())?;
        String::from_utf8(value(&entry)?).ok()
    }

    /// Returns the first entry of the environment that satisfies `wanted`.
    ///
    /// During `execve` the kernel shows no environment for a moment, or only the beginning of one. Taking that for
    /// complete would miss a program that is just being started, so an incomplete environment is read again.
    fn find_entry(&self, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let pid = self.id.pid;
        let mut size = self.environment;
        for _ in 0..ENVIRONMENT_READS {
            let Some(expected) = size else { break };
            let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else { break };
            if let Some(entry) = environ.split(|byte| *byte == 0).find(|entry| wanted(entry)) {
                return Some(entry.to_vec());
            }
            if environ.len() == expected || !environment_sizes_are_reported() {
                break;
            }
            std::thread::sleep(ENVIRONMENT_PAUSE);
            size = read(pid).and_then(|now| now.environment);
        }
        None
    }

    #[cfg(test)]
    pub(crate) fn for_test(id: ProcessIdentity, parent: i32, session: i32) -> Self {
        Self { id, alive: true, parent, group: session, session, environment: None }
    }
}

/// Returns the current time in the unit of start times, clock ticks since the boot; 0 if unknown.
pub(crate) fn now_in_ticks() -> u64 {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let parts = uptime.split_ascii_whitespace().next().and_then(|seconds| seconds.split_once('.'));
    let hundredths = parts.and_then(|(whole, part)| {
        let (whole, part): (u64, u64) = (whole.parse().ok()?, part.parse().ok()?);
        (part < 100).then_some(whole * 100 + part)
    });
    hundredths.unwrap_or(0) * rustix::param::clock_ticks_per_second() / 100
}

/// Whether `/proc` reports the sizes of environments. Some sandboxes imitate only a part of it; there, the first read
/// has to do.
fn environment_sizes_are_reported() -> bool {
    let us = i32::try_from(std::process::id()).ok().and_then(read);
    us.and_then(|process| process.environment).is_some_and(|size| size != usize::MAX)
}

/// Sends a signal to a process, and to no later one with the same pid.
#[cfg(target_os = "linux")]
pub(crate) fn signal(process: ProcessIdentity, signal: Signal) {
    if let Ok(Some(descriptor)) = descriptor(process) {
        let _ = rustix::process::pidfd_send_signal(&descriptor, signal);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn signal(_: ProcessIdentity, _: Signal) {}

/// Opens a descriptor of a process; none if it does not exist any more.
///
/// # Errors
/// When descriptors of processes are not available.
#[cfg(target_os = "linux")]
pub(crate) fn descriptor(process: ProcessIdentity) -> std::io::Result<Option<std::os::fd::OwnedFd>> {
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(pid) = Pid::from_raw(process.pid) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // Identity is checked after opening: from then on the descriptor cannot come to mean a later process.
        Ok(descriptor) => Ok(process.exists().then_some(descriptor)),
        Err(Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_may_contain_parentheses() {
        let line = "7 (a) R (b) S 3 5 6 0 -1 4 1 2 3 4 5 6 7 8 9 10 1 0 4242 99 0\n";
        let stat = parse(7, line).unwrap();
        assert_eq!((stat.parent, stat.group, stat.session, stat.alive), (3, 5, 6, true));
        assert_eq!(stat.id, ProcessIdentity { pid: 7, start_time: 4242 });
        assert!(!parse(7, &line.replace(" S ", " Z ")).unwrap().alive);
        assert_eq!(parse(7, "7 (a"), None);
        assert_eq!(parse(7, "7 (a) S 1"), None);
    }

    #[test]
    fn signal_spares_a_later_process_with_the_same_pid() {
        let mut stranger = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = ProcessIdentity::of(i32::try_from(stranger.id()).unwrap());
        signal(ProcessIdentity { start_time: id.start_time + 1, ..id }, Signal::KILL);
        assert_eq!(stranger.try_wait().unwrap(), None, "same pid, other start time: another process");
        signal(id, Signal::KILL);
        assert!(!stranger.wait().unwrap().success());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn mark_is_found_during_exec() {
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
