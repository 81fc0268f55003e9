//! Watches what the kernel has no limit for, or none without privileges: processes, memory, free space, time.
#![expect(clippy::disallowed_methods, reason = "a process of its own, which may block")]

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::control::Ended;
use crate::plan::{Limits, Plan};

/// How often everything is checked.
const PERIOD: Duration = Duration::from_millis(200);
/// How often the processes of root are counted, for whom the kernel has no limit.
const MOMENT: Duration = Duration::from_millis(20);
/// A call that has written less than this is not the one that filled the disk.
const WRITTEN: u64 = 64 << 20;

/// Watches until a limit is reached.
pub(super) fn watch(plan: &Plan, end: impl FnOnce(Ended)) {
    let began = Instant::now();
    let limits = plan.limits;
    let disks: Vec<(_, u64)> = plan
        .writable
        .iter()
        .map(|path| path.path())
        .map(|path| (free(&path), path))
        .map(|(free, path)| (path, free))
        .collect();
    let page = rustix::param::page_size() as u64;
    let is_root = rustix::process::geteuid().is_root();
    loop {
        if is_root && !count_for(PERIOD, limits.processes) {
            return end(Ended::Processes);
        } else if !is_root {
            std::thread::sleep(PERIOD);
        }
        if let Some(by) = exceeded(&limits, began, &disks, page) {
            return end(by);
        }
    }
}

/// Counts the processes for a while. Returns whether they were never too many.
fn count_for(time: Duration, limit: u64) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::thread::sleep(MOMENT);
        if are_more_than(limit) {
            return false;
        }
    }
    true
}

/// Whether there are more processes than this. Looks at no more than it has to: among thousands, each moment counts.
fn are_more_than(limit: u64) -> bool {
    processes().nth(usize::try_from(limit).unwrap_or(usize::MAX)).is_some()
}

fn exceeded(
    limits: &Limits,
    began: Instant,
    disks: &[(std::path::PathBuf, u64)],
    page: u64,
) -> Option<Ended> {
    if are_more_than(limits.processes) {
        return Some(Ended::Processes);
    }
    let processes: Vec<Pid> = processes().collect();
    // Pages that processes share are counted for each in the quick sum, so that it is never too small.
    let resident: u64 = processes.iter().filter_map(|pid| resident(*pid)).sum::<u64>().saturating_mul(page);
    if resident > limits.memory
        && processes.iter().filter_map(|pid| proportional(*pid)).sum::<u64>() > limits.memory
    {
        return Some(Ended::Memory);
    }
    if began.elapsed().as_secs() >= limits.seconds {
        return Some(Ended::Time);
    }
    let is_filled = |(path, before): &(std::path::PathBuf, u64)| {
        let now = free(path);
        now < limits.free_space && now.saturating_add(WRITTEN) < *before
    };
    disks.iter().any(is_filled).then_some(Ended::Disk)
}

/// Returns all processes of the namespace but the first, which is this one.
pub(super) fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| *number > 1).filter_map(Pid::from_raw)
}

fn read(pid: Pid, file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero())).ok()
}

/// Returns the resident memory of a process, in pages.
fn resident(pid: Pid) -> Option<u64> {
    read(pid, "statm")?.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the memory of a process in bytes, with its part of shared pages.
fn proportional(pid: Pid) -> Option<u64> {
    let text = read(pid, "smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Returns the free bytes of the file system of a path, for its users.
fn free(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}
