//! What this system can enforce, and why not.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::enclosure::Unavailable;
use crate::network::Namespaces;

/// This program, started again as a helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Absolute path.
    pub path: PathBuf,
    /// Arguments before the name of the helper's command.
    pub arguments: Vec<OsString>,
}

impl Program {
    #[expect(clippy::disallowed_methods, reason = "one look, when the server starts and on blocking threads")]
    fn identity(&self) -> Option<(u64, u64)> {
        self.path.metadata().ok().map(|found| (found.dev(), found.ino()))
    }
}

/// Where `bwrap` is. The profiles of AppArmor name the first. `PATH` does not count: it may have directories that programs inside
/// write, such as that of a virtual environment.
const BWRAP: [&str; 5] = [
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
    "/home/linuxbrew/.linuxbrew/bin/bwrap",
];

/// What the system can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// All levels: namespaces through `bwrap`, and the walls inside.
    Full {
        /// The program that creates namespaces.
        bwrap: PathBuf,
    },
    /// `read-only` without a network, by Landlock and seccomp.
    ReadOnly {
        /// Why not more, and what to do.
        reason: String,
    },
    /// Nothing.
    None {
        /// Why, and what to do.
        reason: String,
    },
}

impl Support {
    /// Returns why `workspace` is not available, and what to do.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Full { .. } => None,
            Self::ReadOnly { reason } | Self::None { reason } => Some(reason),
        }
    }
}

/// A system that programs are started on.
#[derive(Debug)]
pub struct Host {
    pub(crate) program: Program,
    /// Device and inode of the program, which an upgrade may replace.
    identity: Option<(u64, u64)>,
    support: OnceLock<Support>,
}

impl Host {
    /// Creates a host that is probed when somebody asks for the first time, so that servers start as fast as without.
    #[must_use]
    pub fn later(program: Program) -> Self {
        let identity = program.identity();
        Self { program, identity, support: OnceLock::new() }
    }

    /// Checks that the helper is still this program. Another version may not understand what it is told.
    pub(crate) fn check_program(&self) -> Result<(), Unavailable> {
        let is_same = self.identity.is_some() && self.program.identity() == self.identity;
        let replaced = || format!("{} was replaced; restart the server", self.program.path.display());
        is_same.then_some(()).ok_or_else(|| Unavailable::new(replaced()))
    }

    /// Returns what the system can enforce. The first call finds it out, by doing it: it blocks for some tens of milliseconds.
    #[must_use]
    pub fn support(&self) -> &Support {
        self.support.get_or_init(|| probe(&self.program))
    }

    /// Returns what the system can enforce, if it is known already. Does not block.
    #[must_use]
    pub fn known(&self) -> Option<&Support> {
        self.support.get()
    }

    /// Returns what the system can enforce. The first call finds it out on a blocking thread.
    pub async fn probed(self: &Arc<Self>) -> &Support {
        if self.known().is_none() {
            let this = Arc::clone(self);
            // A panic there leaves the probe to the next line.
            drop(tokio::task::spawn_blocking(move || drop(this.support().clone())).await);
        }
        self.support()
    }
}

/// Finds out what the system can enforce, by doing it.
fn probe(program: &Program) -> Support {
    match find_bwrap() {
        None => without_namespaces(
            "bubblewrap is not installed; install the package \"bubblewrap\" (Debian, Ubuntu, Fedora, Arch, Alpine)".to_owned(),
        ),
        Some(bwrap) => match try_namespaces(&bwrap, program) {
            Ok(()) => Support::Full { bwrap },
            Err(error) => without_namespaces(advice(&error.to_string())),
        },
    }
}

#[expect(clippy::disallowed_methods, reason = "callers run it on a blocking thread")]
pub(crate) fn find_bwrap() -> Option<PathBuf> {
    BWRAP.iter().map(PathBuf::from).find(|candidate| candidate.is_file())
}

/// Does what each call does: joins the namespaces of a session, and starts a program in others, with the helper as PID 1.
fn try_namespaces(bwrap: &Path, program: &Program) -> io::Result<()> {
    let (session, _) = Namespaces::create(bwrap, program)?;
    crate::enclosure::rehearse(bwrap, program, &Arc::new(session))
}

/// Returns what is left without namespaces.
fn without_namespaces(reason: String) -> Support {
    if has_landlock() { Support::ReadOnly { reason } } else { Support::None { reason } }
}

/// Whether Landlock can keep programs from changing files: the kernel is 6.2 or later, and has it enabled.
fn has_landlock() -> bool {
    #[cfg(target_os = "linux")]
    {
        use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        ruleset.handle_access(AccessFs::from_all(ABI::V3)).and_then(Ruleset::create).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

/// Explains an error of `bwrap`.
fn advice(error: &str) -> String {
    let cause = [
        ("RTM_NEWADDR", UBUNTU),
        ("uid map", UBUNTU),
        (
            "Can't mount proc",
            "this container masks /proc; run it with an unmasked /proc, or let the container be the wall",
        ),
        ("pivot_root", CONTAINER),
        ("No permissions to create", CONTAINER),
        ("Creating new namespace failed", CONTAINER),
        ("Operation not permitted", CONTAINER),
        ("Unknown option", "bubblewrap is too old; 0.8 or later is needed"),
    ];
    match cause.iter().find(|(symptom, _)| error.contains(symptom)) {
        Some((_, cause)) => format!("{cause} (bwrap: {error})"),
        None => format!("namespaces cannot be created (bwrap: {error})"),
    }
}

const UBUNTU: &str = "AppArmor forbids user namespaces to bwrap; load its profile: install apparmor-profiles, copy \
    /usr/share/apparmor/extra-profiles/bwrap-userns-restrict to /etc/apparmor.d and run apparmor_parser -r on it";
const CONTAINER: &str =
    "this system or container does not allow user namespaces; the container is then the only wall";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_with_advice() {
        let error = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted";
        assert!(advice(error).starts_with("AppArmor"), "the first symptom counts");
        assert!(advice("something else").contains("something else"));
    }
}
