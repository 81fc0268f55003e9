//! What the server tells the helper inside: the program to start, and its limits. It crosses a socket as JSON.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Limits of one call, beside those of the mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Processes and threads' groups at the same time.
    pub processes: u64,
    /// Bytes of memory of all processes together, shared pages counted once.
    pub memory: u64,
    /// Open files of one process.
    pub files: u64,
    /// Free bytes that a call must leave on each file system that it can write.
    pub free_space: u64,
    /// Seconds until the call is ended, with everything that it left running.
    pub seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: 1024,
            memory: three_quarters_of_memory(),
            files: 16_384,
            free_space: 512 << 20,
            seconds: 24 * 60 * 60,
        }
    }
}

fn three_quarters_of_memory() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let info = rustix::system::sysinfo();
        let total = info.totalram.saturating_mul(u64::from(info.mem_unit));
        total / 4 * 3
    }
    #[cfg(not(target_os = "linux"))]
    {
        8 << 30
    }
}

/// The program that the helper starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    pub(crate) program: Bytes,
    pub(crate) args: Vec<Bytes>,
    pub(crate) environment: Vec<(Bytes, Bytes)>,
    pub(crate) cwd: Bytes,
    /// Directories that the program may write, for Landlock and for the watch on free space.
    pub(crate) writable: Vec<Bytes>,
    /// Where the program may read, if mounts do not decide it.
    pub(crate) readable: Option<Vec<Bytes>>,
    pub(crate) walls: Walls,
    /// Mounts that are verified before anything starts.
    pub(crate) checks: Vec<Check>,
    pub(crate) limits: Limits,
}

/// A mount below a directory that programs can write, and that they could have exchanged while it was mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Check {
    pub(crate) path: Bytes,
    /// Device and inode, if it is the same file as outside.
    pub(crate) identity: Option<(u64, u64)>,
}

/// What keeps the program in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Walls {
    /// The helper is PID 1 of its namespaces.
    Namespaces,
    /// Landlock and seccomp only: no network, nothing written outside of the private directories.
    Landlock,
}

/// Text that need not be UTF-8, such as a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn os(&self) -> OsString {
        OsString::from_vec(self.0.clone())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.os().into()
    }
}

impl<T: AsRef<std::ffi::OsStr>> From<T> for Bytes {
    fn from(text: T) -> Self {
        Self(text.as_ref().as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_survives_its_crossing() {
        let plan = Plan {
            program: OsString::from_vec(b"/bin/\xff".to_vec()).into(),
            args: vec!["-c".into(), "true".into()],
            environment: vec![("A".into(), "b".into())],
            cwd: "/work".into(),
            writable: vec!["/tmp".into()],
            readable: None,
            walls: Walls::Namespaces,
            checks: vec![Check { path: "/work/.git".into(), identity: Some((1, 2)) }],
            limits: Limits::default(),
        };
        let crossed = serde_json::to_value(&plan).unwrap();
        assert_eq!(Plan::deserialize(crossed).unwrap(), plan);
        assert!(plan.limits.memory > 1 << 28);
    }
}
