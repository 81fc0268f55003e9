//! What the kernel and the system offer, for `baton doctor`.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::host::find_bwrap;

/// What walls can be built of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// The program that creates namespaces.
    pub bwrap: Option<Bwrap>,
    /// Version of Landlock's interface, as far as this program knows it.
    pub landlock: Option<u8>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// Release of the kernel.
    pub kernel: String,
    /// Whether the user is root, whose processes the kernel does not count.
    pub is_root: bool,
}

/// An installed `bwrap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Where it is.
    pub path: PathBuf,
    /// Its version, as it prints it.
    pub version: String,
    /// Whether it runs with the rights of root.
    pub is_setuid: bool,
}

impl Features {
    /// Looks at the system. Blocks for some milliseconds.
    #[must_use]
    pub fn find() -> Self {
        Self {
            bwrap: find_bwrap().map(Bwrap::at),
            landlock: landlock_version(),
            seccomp: std::fs::read_to_string("/proc/self/status")
                .is_ok_and(|status| status.lines().any(|line| line.starts_with("Seccomp:"))),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }
}

impl Bwrap {
    fn at(path: PathBuf) -> Self {
        let asked = Command::new(&path).arg("--version").env_clear().stdin(Stdio::null()).output();
        let said =
            asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
        let version = said.strip_prefix("bubblewrap ").unwrap_or(&said);
        let version = if version.is_empty() { "of an unknown version" } else { version }.to_owned();
        let is_setuid = Path::metadata(&path).is_ok_and(|file| file.mode() & 0o4000 != 0);
        Self { path, version, is_setuid }
    }
}

/// Returns the newest version of Landlock that the kernel and this program know.
pub(crate) fn landlock_version() -> Option<u8> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, Scope,
    };
    let can = |abi: ABI| -> Result<(), RulesetError> {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let mut ruleset = ruleset.handle_access(AccessFs::from_all(abi))?;
        if abi >= ABI::V4 {
            ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
        }
        if abi >= ABI::V6 {
            ruleset = ruleset.scope(Scope::from_all(abi))?;
        }
        ruleset.create().map(drop)
    };
    let known = [(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];
    known.into_iter().find(|(_, abi)| can(*abi).is_ok()).map(|(number, _)| number)
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.bwrap {
            Some(Bwrap { path, version, is_setuid }) => {
                let setuid = if *is_setuid { ", setuid" } else { "" };
                write!(f, "bubblewrap {version} ({}{setuid})", path.display())?;
            }
            None => f.write_str("no bubblewrap")?,
        }
        match self.landlock {
            Some(version) => write!(f, ", Landlock {version}")?,
            None => f.write_str(", no Landlock")?,
        }
        f.write_str(if self.seccomp { ", seccomp" } else { ", no seccomp" })?;
        write!(f, ", Linux {}", self.kernel)?;
        if self.is_root { f.write_str(", as root") } else { Ok(()) }
    }
}
