//! Another user of this machine, for tests of what others may do.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What gives a command the right to become another user: nothing if this is root, a user namespace with the ids that
/// `/etc/subuid` lists for this user, and sudo.
const WAYS: [&[&str]; 3] =
    [&[], &["unshare", "--map-root-user", "--map-auto"], &["sudo", "--non-interactive"]];

/// Becomes the other user, who is nobody.
const BECOME: &[&str] = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A way to act as another user.
#[derive(Debug, Clone, Copy)]
pub struct AnotherUser {
    way: &'static [&'static str],
}

impl AnotherUser {
    /// Finds a way that works on this machine. The error says what is missing.
    pub fn find() -> Result<Self, &'static str> {
        let mut found = WAYS.into_iter().map(|way| Self { way });
        let works = |user: &Self| user.command("true").output().is_ok_and(|ran| ran.status.success());
        found.find(works).ok_or(
            "becoming another user needs root, ids in /etc/subuid with `newuidmap`, or sudo without a password",
        )
    }

    /// Returns a command that runs as the other user.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.through(&[BECOME, &[program]].concat());
        command.current_dir("/");
        command
    }

    /// Makes a file or directory the other user's. The mode lets the test delete it in the end.
    pub fn take(&self, path: &Path) {
        std::fs::set_permissions(path, Permissions::from_mode(0o777)).expect("the mode is set");
        let ran = self.through(&["chown", "65534"]).arg(path).output().expect("chown starts");
        assert!(ran.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&ran.stderr));
    }

    /// Returns a command with the right to become another user.
    fn through(&self, words: &[&str]) -> Command {
        let mut words = self.way.iter().chain(words);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words);
        command
    }
}
