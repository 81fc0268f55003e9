//! Hostile working directories and file systems: the server reads nothing outside of them, runs none of their programs, does not
//! hang, and says when a disk is full.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use baton_testkit::cannot_run;
use baton_testkit::chat::Chat;
use baton_testkit::model_server::ScriptedReply;
use baton_testkit::program::MODEL_KEY;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use crate::{baton, eventually, scripted};

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn git(at: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=n", "-c", "user.email=e"];
    let ran = Command::new("git").args(identity).args(arguments).current_dir(at).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// The concatenated contents of all files below a directory.
pub(crate) fn contents(directory: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => all.extend(contents(&entry.path())),
            kind if kind.is_file() => all.extend(fs::read(entry.path()).unwrap_or_default()),
            _ => {}
        }
    }
    all
}

#[tokio::test]
async fn instructions_linked_to_the_environment_are_not_read() {
    let (program, model) = scripted().await;
    for name in ["AGENTS.md", "CLAUDE.md"] {
        symlink("/proc/self/environ", program.work().join(name)).unwrap();
    }
    fs::create_dir_all(program.work().join(".github/instructions")).unwrap();
    symlink("/proc/self/environ", program.work().join(".github/instructions/x.instructions.md")).unwrap();
    let mut server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    chat.turn("say one").await;
    let sources = chat.ok("session.instructions.getSources", json!({})).await;
    assert_eq!(sources["sources"], json!([]));
    server.until_stderr("instructions ignored").await;
    server.stop().await;
    let sent: String = model.requests().iter().map(|request| request.body.to_string()).collect();
    let shown = client.frames().iter().map(ToString::to_string).collect::<String>();
    let stored = String::from_utf8_lossy(&contents(program.home())).into_owned();
    for (what, text) in [("model", sent), ("events", shown), ("home", stored), ("log", server.stderr())] {
        assert!(!text.contains(MODEL_KEY), "the key is in: {what}");
    }
}

#[tokio::test]
async fn devices_and_fifos_as_instructions_do_not_block_a_prompt() {
    let (program, _model) = scripted().await;
    symlink("/dev/zero", program.work().join("AGENTS.md")).unwrap();
    fifo(&program.work().join("CLAUDE.md"));
    fifo(&program.work().join("attached"));
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let attachments = json!([{"type": "file", "path": "attached"}, {"type": "file", "path": "AGENTS.md"}]);
    chat.ok("session.send", json!({"prompt": "say one", "attachments": attachments})).await;
    chat.until_idle(0).await;
    chat.assert_usable().await;
    assert!(server.peak_memory() < 400 << 20, "{} bytes", server.peak_memory());
}

#[tokio::test]
async fn fifos_as_git_state_block_neither_sessions_nor_shutdown() {
    let (program, _model) = scripted().await;
    let mut server = program.serve().await;
    let client = server.connect().await;
    for name in [".git/HEAD", ".git/config", ".git/refs/heads/main", ".git/packed-refs", ".git"] {
        let directory = program.work().join(name.replace('/', "-"));
        fs::create_dir(&directory).unwrap();
        if name != ".git" {
            git(&directory, &["init", "--quiet", "--initial-branch=main"]);
            let _ = fs::remove_file(directory.join(name));
        }
        fifo(&directory.join(name));
        let chat = Chat::create(&client, json!({"workingDirectory": directory})).await;
        chat.ok("session.metadata.setWorkingDirectory", json!({"workingDirectory": directory})).await;
        chat.ok("session.workspaces.diff", json!({"mode": "unstaged"})).await;
        chat.assert_usable().await;
    }
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn diffs_run_no_git_filter_of_the_repository() {
    let (program, _model) = scripted().await;
    let (work, ran) = (program.work(), program.work().join("ran"));
    git(&work, &["init", "--quiet"]);
    fs::write(work.join("a.txt"), "before\n").unwrap();
    fs::write(work.join(".gitattributes"), "* filter=evil\n").unwrap();
    git(&work, &["add", "."]);
    git(&work, &["commit", "--quiet", "--message=x"]);
    let filter = work.join(".git/filter");
    fs::write(&filter, format!("#!/bin/sh\ntouch {}\ncat\n", ran.display())).unwrap();
    fs::set_permissions(&filter, fs::Permissions::from_mode(0o755)).unwrap();
    git(&work, &["config", "filter.evil.clean", &filter.display().to_string()]);
    fs::write(work.join("a.txt"), "after\n").unwrap();
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    for mode in ["unstaged", "branch"] {
        let diff = chat.ok("session.workspaces.diff", json!({"mode": mode})).await;
        assert!(diff["changes"][0]["diff"].as_str().unwrap().contains("+after"), "{diff}");
    }
    assert!(!ran.exists());
}

/// Mounts a file system that never answers on `$HOME_DIR/hung`.
const HANG: &str = "mkdir -p $HOME_DIR/hung; exec 9<>/dev/fuse; \
    mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 hung $HOME_DIR/hung";

/// Copies the home to a small file system, and fills it.
const FULL: &str = "cp -a $HOME_DIR $HOME_DIR.$$; mount -t tmpfs -o size=4m tmpfs $HOME_DIR; \
    cp -a $HOME_DIR.$$/. $HOME_DIR/; head -c 9000000 /dev/zero > $HOME_DIR/fill 2> /dev/null || true";

/// Tries whether a script runs in a sandbox of this machine, for which users need namespaces. The error says why not.
fn try_sandbox(script: &str, home: &Path) -> Result<(), String> {
    let tried = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-ec", script])
        .env("HOME_DIR", home)
        .output()
        .map_err(|error| format!("cannot run `unshare`: {error}"))?;
    let said = String::from_utf8_lossy(&tried.stderr);
    tried.status.success().then_some(()).ok_or_else(|| format!("a sandbox fails: {}", said.trim()))
}

#[tokio::test]
async fn full_disk_is_not_called_a_broken_one() {
    let program = baton();
    assert_eq!(program.run(&["run", "--demo", "hello"]).await.code(), Some(0));
    if let Err(why) = try_sandbox(FULL, program.home()) {
        return cannot_run!(why);
    }
    let program = program.in_sandbox(FULL);
    for command in [&["sessions", "list"][..], &["run", "--demo", "hello"]] {
        let ran = program.run(command).await;
        assert_eq!(ran.code(), Some(1), "{command:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("the disk is full. Free some space"), "{command:?}: {}", ran.stderr);
    }
    let checked = program.run(&["doctor"]).await;
    assert!(checked.stdout.contains("→ free some space"), "{}", checked.stdout);
}

#[tokio::test]
async fn hanging_file_systems_block_neither_sessions_nor_shutdown() {
    let (program, _model) = scripted().await;
    if let Err(why) = try_sandbox(HANG, &program.work()) {
        return cannot_run!(why);
    }
    let program = program.in_sandbox(HANG);
    let hung = program.home().join("hung/repository");
    let mut server = program.serve().await;
    let client = server.connect().await;
    // More than the runtime has workers, and fewer than the pool has slots.
    for _ in 0..8 {
        client.start("session.create", json!({"workingDirectory": hung})).await;
    }
    let chat = Chat::create(&client, json!({})).await;
    chat.turn("say one").await;
    chat.assert_usable().await;
    server.stop().await;
}

/// System calls that take a path. A child between fork and exec makes none of them. And the call by which workers of the runtime
/// wait for connections, and no other thread does.
const TRACED_CALLS: &str = "trace=?epoll_wait,epoll_pwait,?open,openat,?openat2,?stat,?lstat,newfstatat,statx,?access,faccessat,?faccessat2,\
    ?readlink,readlinkat,?mkdir,mkdirat,?rename,?renameat,renameat2,?unlink,unlinkat";

#[tokio::test]
async fn runtime_workers_do_not_touch_files() {
    let (program, model) = scripted().await;
    if let Err(why) = try_sandbox("strace -D -f -q -o $HOME_DIR/tried true", &program.work()) {
        return cannot_run!(why);
    }
    let trace = program.work().parent().unwrap().join("trace");
    // With -D the tracer is a grandchild, so that the started process is the program itself.
    let strace = format!("set -- strace -D -f -q -e {TRACED_CALLS} -o {} \"$@\"", trace.display());
    let program = program.in_sandbox(&strace);
    let work = program.work();
    git(&work, &["init", "--quiet"]);
    fs::write(work.join("AGENTS.md"), "Use tabs.").unwrap();
    let mut server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::trusting(&client, json!({})).await;
    chat.ok(
        "session.send",
        json!({"prompt": "say one", "attachments": [{"type": "file", "path": "AGENTS.md"}]}),
    )
    .await;
    chat.until_idle(0).await;
    model.push(ScriptedReply::call("bash", &json!({"command": "ls", "description": "list"})));
    chat.turn("run it").await;
    chat.ok("session.workspaces.diff", json!({"mode": "branch"})).await;
    chat.ok("session.instructions.getSources", json!({})).await;
    chat.ok("session.metadata.setWorkingDirectory", json!({"workingDirectory": work.join(".git")})).await;
    chat.ok("session.shell.exec", json!({"command": "true", "cwd": work})).await;
    let id = chat.id.clone();
    client.ok("session.destroy", json!({"sessionId": id})).await;
    client.ok("session.resume", json!({"sessionId": id, "workingDirectory": work})).await;
    server.stop().await;
    let traced = eventually("the end of the trace", async || {
        let traced = fs::read_to_string(&trace).unwrap_or_default();
        let is_end = |line: &str| {
            let (id, rest) = line.split_once(' ').unwrap_or_default();
            id == server.pid().to_string() && rest.contains("+++ exited with 0 +++")
        };
        traced.lines().any(is_end).then_some(traced)
    })
    .await;
    let roots = [work.to_str().unwrap(), program.home().to_str().unwrap()];
    let calls = |is_one: &dyn Fn(&str) -> bool| -> Vec<(&str, &str)> {
        let calls = traced.lines().filter_map(|line| line.split_once(' '));
        calls.filter(|(_, call)| is_one(call)).collect()
    };
    let waits = calls(&|call| call.contains("epoll_"));
    let is_worker = |thread: &str| waits.iter().any(|(waiting, _)| *waiting == thread);
    let reads = calls(&|call| roots.iter().any(|root| call.contains(root)));
    let (by_workers, by_others): (Vec<_>, Vec<_>) =
        reads.into_iter().partition(|(thread, _)| is_worker(thread));
    assert!(!waits.is_empty() && !by_others.is_empty(), "the trace lacks what it should show");
    assert_eq!(by_workers, Vec::<(&str, &str)>::new());
}
