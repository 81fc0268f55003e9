//! Reading secrets, and Baton's own files.

use super::arena::{Arena, Level, User, escape, escape_of_root, needs_walls, python, try_all};

const SECRETS: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".netrc",
    ".git-credentials",
    ".docker/config.json",
    ".kube/config",
    ".gnupg/private-keys-v1.d/key",
    ".mozilla/firefox/profile/logins.json",
    ".config/google-chrome/Default/Cookies",
    ".npmrc",
    ".cargo/credentials.toml",
    ".claude/.credentials.json",
    ".bash_history",
    "baton/token",
    "baton/session-state/other/workspace.yaml",
];

#[tokio::test]
async fn secrets_are_not_read() {
    needs_walls!();
    try_all(
        |arena| SECRETS.iter().for_each(|path| arena.write(path, "secret")),
        |_| {
            let by_path = SECRETS.iter().map(|path| escape(path, format!("grep secret $HOME/{path}")));
            let mut all: Vec<_> = by_path.collect();
            all.extend([
                escape("by a link", "ln -s $HOME/.ssh keys && grep secret keys/id_ed25519"),
                escape("by /proc/self/root", "grep secret /proc/self/root$HOME/.ssh/id_ed25519"),
                escape_of_root("by /proc of the parent", "grep secret /proc/$PPID/root$HOME/.ssh/id_ed25519"),
                escape("by a search", "grep -r secret $HOME --include=id_ed25519"),
                escape(
                    "by a copy of the mounts",
                    "unshare -rm sh -c 'umount -l $HOME/.ssh; grep secret $HOME/.ssh/id_ed25519'",
                ),
                escape_of_root("passwords of the system", "test -s /etc/shadow"),
            ]);
            #[cfg(target_arch = "x86_64")]
            all.push(escape_of_root(
                "a handle of a file",
                python(
                    "import os\nhandle = (ctypes.c_uint8 * 136)()\nhandle[0] = 128\nmount = ctypes.c_int()\n\
                         home = os.environ['HOME'].encode()\n\
                         call(303, -100, home, handle, ctypes.byref(mount), 0)\n\
                         fd = os.open('/', os.O_RDONLY)\ncall(304, fd, handle, os.O_RDONLY)",
                ),
            ));
            all
        },
    )
    .await;
}

#[tokio::test]
async fn hidden_path_of_a_rule_is_hidden_and_a_readable_one_is_not() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        arena.write("private/diary", "dear diary");
        arena.write(".aws/config", "region");
        let (hide, read) = (arena.home().join("private"), arena.home().join(".aws/config"));
        let flags = ["--hide", hide.to_str().unwrap(), "--read", read.to_str().unwrap()];
        let ran =
            arena.run_with(Level::Workspace, &flags, "cat $HOME/private/diary; cat $HOME/.aws/config").await;
        assert_eq!(ran.stdout, "region", "{ran:?}");
    }
}
