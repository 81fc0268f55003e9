//! Writing outside of the workspace.

use std::process::Stdio;

use super::arena::{Arena, Level, User, escape, escape_of_root, needs_walls, python, try_all};

#[tokio::test]
async fn files_outside_are_not_written() {
    needs_walls!();
    try_all(
        |arena| {
            for directory in [".config/systemd/user", ".config/autostart", ".local/bin", ".cargo/bin"] {
                arena.write(&format!("{directory}/mine"), "mine");
            }
            arena.write(".bashrc", "# mine");
        },
        |_| {
            vec![
                escape("by path", "echo x > $HOME/outside/path"),
                escape("by a relative path", "echo x > ../outside/relative"),
                escape("by a link", "ln -s ../outside link && echo x > link/by-link"),
                escape("by a link to a file", "ln -s $HOME/outside/existing file && echo x >> file"),
                escape("by a new hard link", "ln ../outside/existing hard && echo x >> hard"),
                escape("by a rename outwards", "echo x > moved && mv moved ../outside/moved"),
                escape("by a rename inwards", "cp ../outside/existing ../outside/copy && mv ../outside/copy ."),
                escape("by removal", "touch ../outside/gone && rm ../outside/gone"),
                escape("by a mode", "chmod 600 ../outside/existing"),
                escape("by a time", "touch -d 2001-01-01 ../outside/existing"),
                escape("by /proc/self/root", "echo x > /proc/self/root$HOME/outside/self-root"),
                escape_of_root("by /proc of the parent", "echo x > /proc/$PPID/root$HOME/outside/parent-root"),
                escape("by /proc/self/cwd", "echo x > /proc/self/cwd/../outside/cwd"),
                escape(
                    "by a bind mount",
                    "mkdir -p mount && unshare -rm sh -c 'mount --bind .. mount && echo x > mount/outside/mounted'",
                ),
                escape("through a start-up file", "echo x >> $HOME/.bashrc"),
                escape("through a program on the PATH", "echo x > $HOME/.local/bin/ls"),
                escape("through a cache of programs", "echo x > $HOME/.cargo/bin/ls"),
                escape("through a user unit", "echo x > $HOME/.config/systemd/user/x.service"),
                escape("through the desktop's start", "echo x > $HOME/.config/autostart/x.desktop"),
                escape_of_root("through the system's files", ": >> /etc/passwd"),
                escape_of_root("through cron", "mkdir -p /etc/cron.d && : >> /etc/cron.d/.placeholder"),
                escape_of_root("through the loader", "rm -f /etc/ld.so.preload.walls && : > /etc/ld.so.preload.walls && rm /etc/ld.so.preload.walls"),
                escape_of_root("by mounting anew", "mkdir m && mount --bind ../outside m && echo x > m/mounted-anew; umount m"),
                escape_of_root("through a core pattern", ": >> /proc/sys/kernel/core_pattern"),
                escape_of_root("through sysctl", ": >> /proc/sys/vm/overcommit_memory"),
                escape_of_root("through a device", "mknod device c 1 3 && : > device"),
            ]
        },
    )
    .await;
}

/// Numbers of system calls are those of one architecture.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn programs_with_the_rights_of_their_owner_are_not_created() {
    needs_walls!();
    let suid = |call: &str| {
        python(&format!(
            "os.umask(0)\npath = b'suid'\n{call}\nassert os.stat(path).st_mode & 0o6000, 'not set'\nos.unlink(path)"
        ))
    };
    try_all(
        |_| {},
        |_| {
            vec![
                escape("chmod", "touch a && chmod u+s a && test -u a"),
                escape("chmod of a group", "touch b && chmod g+s b && test -g b"),
                escape("open", suid("os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))")),
                escape("creat", suid("c.creat(path, 0o4755)")),
                escape("mknod", suid("call(133, path, 0o104755, 0)")),
                escape("fchmodat2", suid("os.close(os.open(path, os.O_CREAT, 0o755)); call(452, -100, path, 0o4755, 0)")),
                escape(
                    "openat2",
                    suid("how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)\nos.close(call(437, -100, path, how, 24))"),
                ),
            ]
        },
    )
    .await;
}

#[tokio::test]
async fn inherited_descriptors_lead_nowhere() {
    needs_walls!();
    for user in User::all() {
        for (level, expected) in [(Level::Off, true), (Level::Workspace, false)] {
            let arena = Arena::new(user);
            let level = if level == Level::Off { "off" } else { "workspace" };
            let mut command = arena.user_command("sh");
            // 9 is a directory outside, 8 a file that is open for writing.
            let script = "exec 9<$HOME/outside 8>>$HOME/outside/existing; exec \"$@\"";
            let attempt = "echo x > /proc/self/fd/9/by-directory; echo x >&8; echo done > control";
            command.args(["-c", script, "sh"]).arg(arena.executable());
            command.args(["sandbox", "--level", level, "--", "bash", "-c", attempt]);
            let ran = arena.finish(command).await;
            assert!(arena.work().join("control").exists(), "{ran:?}");
            assert_eq!(arena.home().join("outside/by-directory").exists(), expected, "{level} {ran:?}");
            let text = std::fs::read_to_string(arena.home().join("outside/existing")).unwrap();
            assert_eq!(text != "untouched", expected, "{level} {ran:?}");
        }
    }
}

#[tokio::test]
async fn file_that_is_the_input_cannot_be_opened_for_writing() {
    needs_walls!();
    for user in User::all() {
        for (level, expected) in [("off", true), ("workspace", false)] {
            let arena = Arena::new(user);
            let attempt = "echo x >> /proc/self/fd/0; echo done > control";
            let mut command = arena.baton(&["sandbox", "--level", level, "--", "sh", "-c", attempt]);
            command.stdin(Stdio::from(std::fs::File::open(arena.home().join("outside/existing")).unwrap()));
            let ran = arena.finish(command).await;
            assert!(arena.work().join("control").exists(), "{ran:?}");
            let text = std::fs::read_to_string(arena.home().join("outside/existing")).unwrap();
            assert_eq!(text != "untouched", expected, "{level} {ran:?}");
        }
    }
}

#[tokio::test]
async fn read_only_writes_temporary_files_only() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        let script = "echo x > /tmp/file && cat /tmp/file; echo x > here; echo x > $HOME/outside/there; ls";
        let ran = arena.run(Level::ReadOnly, script).await;
        assert_eq!(ran.stdout, "x\n", "{ran:?}");
        assert!(!arena.work().join("here").exists());
    }
}

#[tokio::test]
async fn directory_of_a_rule_is_written() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        let outside = arena.home().join("outside");
        let flags = ["--write", outside.to_str().unwrap()];
        let script = "echo x > $HOME/outside/allowed; echo x > $HOME/not-allowed; mkdir $HOME/outside/.vscode; echo x > $HOME/outside/.vscode/tasks.json";
        let ran = arena.run_with(Level::Workspace, &flags, script).await;
        assert!(outside.join("allowed").exists() && !arena.home().join("not-allowed").exists(), "{ran:?}");
        assert!(!outside.join(".vscode/tasks.json").exists(), "what acts there is moved away, too: {ran:?}");
    }
}
