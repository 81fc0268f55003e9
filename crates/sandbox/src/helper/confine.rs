//! The last walls, from inside: limits of the process, Landlock, system calls. They hold for this helper too.

use std::io;
use std::os::unix::fs::MetadataExt;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Context, Failure, filter};
use crate::features::landlock_version;
use crate::plan::{Check, Plan, Walls};

/// The newest Landlock that this program knows.
const NEWEST: ABI = ABI::V6;
/// The oldest Landlock that is enough alone: it knows truncation.
const OLDEST: ABI = ABI::V3;
/// The first version that keeps signals in.
const SIGNALS: u8 = 6;

/// Threads for each process that is allowed, on average.
const THREADS: u64 = 8;

/// Confines this process and all that it starts.
pub(super) fn confine(plan: &Plan) -> Result<(), Failure> {
    plan.checks.iter().try_for_each(verify)?;
    limit(Resource::Nofile, plan.limits.files).context("cannot limit open files")?;
    // It counts threads, and root is not limited by it: the watch counts processes.
    limit(Resource::Nproc, plan.limits.processes.saturating_mul(THREADS))
        .context("cannot limit processes")?;
    // A pattern that names a program ignores a limit of 0, and 1 byte is no dump.
    limit(Resource::Core, 1).context("cannot forbid core dumps")?;
    // The kernel ends these first if memory is short. A wish: some containers forbid it.
    prefer_for_out_of_memory();
    if plan.walls == Walls::Landlock {
        drop_capabilities().context("cannot drop the capabilities of root")?;
    }
    restrict_files(plan).context("cannot restrict files (Landlock)")?;
    let signals_are_walled = plan.walls == Walls::Namespaces || landlock_version() >= Some(SIGNALS);
    filter::apply(plan.walls, signals_are_walled)
}

/// Checks that a mount is where it was planned: a program of an earlier call may have put a link there meanwhile.
#[expect(clippy::disallowed_methods, reason = "a process of its own, which may block")]
fn verify(check: &Check) -> Result<(), Failure> {
    let path = check.path.path();
    let what = || format!("{} was replaced while the sandbox was built; try again", path.display());
    let metadata = path.symlink_metadata().context(what())?;
    let mount = |path: &std::path::Path| {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statx(rustix::fs::CWD, path, flags, rustix::fs::StatxFlags::MNT_ID)
            .map(|found| found.stx_mnt_id)
    };
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput).context(what())?;
    let is_mounted = mount(&path).context(what())? != mount(parent).context(what())?;
    let is_same = check.identity.is_none_or(|identity| identity == (metadata.dev(), metadata.ino()));
    if is_mounted && is_same { Ok(()) } else { Err(io::ErrorKind::StaleNetworkFileHandle).context(what()) }
}

fn limit(resource: Resource, limit: u64) -> io::Result<()> {
    let limit = Some(getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit)));
    Ok(setrlimit(resource, Rlimit { current: limit, maximum: limit })?)
}

#[expect(clippy::disallowed_methods, reason = "a process of its own, which may block")]
fn prefer_for_out_of_memory() {
    drop(std::fs::write("/proc/self/oom_score_adj", "500"));
}

/// Gives up the rights of root beside the files that it owns. In namespaces, `bwrap` has done it.
fn drop_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
    // Without it, root would have all of them again in the program that it starts.
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Behind the mounts, this is a second wall. Without them it is the only one, and has to be complete.
fn restrict_files(plan: &Plan) -> io::Result<()> {
    let alone = plan.walls == Walls::Landlock;
    let level = if alone { CompatLevel::HardRequirement } else { CompatLevel::BestEffort };
    let enforced = (|| {
        let mut ruleset =
            Ruleset::default().set_compatibility(level).handle_access(AccessFs::from_all(OLDEST))?;
        ruleset =
            ruleset.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(NEWEST))?;
        ruleset = ruleset.scope(Scope::from_all(NEWEST))?;
        if alone {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
        }
        let everywhere = [crate::plan::Bytes::from("/")];
        let readable = plan.readable.as_deref().unwrap_or(&everywhere);
        let read = path_beneath_rules(readable.iter().map(|path| path.path()), AccessFs::from_read(NEWEST));
        let write =
            path_beneath_rules(plan.writable.iter().map(|path| path.path()), AccessFs::from_all(NEWEST));
        ruleset.create()?.add_rules(read)?.add_rules(write)?.restrict_self()
    })();
    let status = enforced.map_err(io::Error::other)?;
    if alone && status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::other("the kernel does not enforce it"));
    }
    Ok(())
}
