//! Limits of one command: a fork bomb, a memory hog and a disk filler are ended.

use super::arena::{Arena, Level, User, needs_walls};

fn limited(user: User, limits: &str) -> Arena {
    let arena = Arena::new(user);
    arena.write(".config/baton/config.toml", &format!("[sandbox.limits]\n{limits}\n"));
    arena
}

#[tokio::test]
async fn fork_bomb_is_ended() {
    needs_walls!();
    for user in User::all() {
        let arena = limited(user, "processes = 100");
        // The kernel does not limit root, and thousands of processes would disturb other tests: this one grows slowly.
        let bomb = match user {
            User::Root => "while :; do sleep 600 & done",
            User::Ordinary => "bomb() { bomb | bomb & }; bomb; sleep 600",
        };
        let ran = arena.run(Level::Workspace, bomb).await;
        assert!(ran.stderr.contains("it ran too many processes"), "{:?}", ran.stderr.lines().last());
        assert!(
            arena.run(Level::Workspace, "echo works").await.stdout == "works\n",
            "and the next one works"
        );
    }
}

#[tokio::test]
async fn memory_hog_is_ended() {
    needs_walls!();
    for user in User::all() {
        let arena = limited(user, "memory_mb = 200");
        let hog = "/usr/bin/python3 -c 'import time; x = bytearray(400 << 20); time.sleep(600)'";
        let ran = arena.run(Level::Workspace, hog).await;
        assert!(ran.stderr.contains("used too much memory"), "{ran:?}");
        // Memory that is only reserved, as Node and Go do, counts for nothing.
        let ran = arena
            .run(
                Level::Workspace,
                "/usr/bin/python3 -c 'import mmap, time; m = mmap.mmap(-1, 4 << 30); time.sleep(1)'",
            )
            .await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

#[tokio::test]
async fn long_command_is_ended() {
    needs_walls!();
    let arena = limited(User::Ordinary, "seconds = 1");
    let ran = arena.run(Level::Workspace, "sleep 600").await;
    assert!(ran.stderr.contains("ran too long"), "{ran:?}");
}

#[tokio::test]
async fn disk_filler_is_ended() {
    needs_walls!();
    if !rustix::process::geteuid().is_root() {
        return baton_testkit::cannot_run!("only root can mount a disk of which nobody else uses the space");
    }
    let arena = limited(User::Root, "free_space_mb = 500");
    let run = async |script: &str| {
        let disk = "mount -t tmpfs -o size=600m tmpfs \"$PWD\" && cd \"$PWD\" && exec \"$@\"";
        let mut command = arena.user_command("unshare");
        command.args(["--mount", "sh", "-ec", disk, "sh"]).arg(arena.executable());
        command.args(["sandbox", "--level", "workspace", "--", "sh", "-c", script]);
        arena.finish(command).await
    };
    let ran = run("head -c 300M /dev/zero > big; sleep 600").await;
    assert!(ran.stderr.contains("too little space"), "{ran:?}");
    let ran = run("head -c 20M /dev/zero > small; sleep 1; echo fine").await;
    assert_eq!(ran.stdout, "fine\n", "a command that writes little is not to blame: {ran:?}");
}

#[tokio::test]
async fn open_files_and_shared_memory_are_limited() {
    needs_walls!();
    for user in User::all() {
        let arena = limited(user, "files = 128");
        let ran =
            arena.run(Level::Workspace, "ulimit -Hn; head -c 400M /dev/zero > /dev/shm/big; echo $?").await;
        assert_eq!(ran.stdout, "128\n1\n", "{ran:?}");
    }
}
