//! Processes: those outside, and those that a command leaves.

use std::process::Stdio;

use baton_testkit::processes::Marker;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::arena::{Arena, Level, Ran, User, escape, needs_walls, python, try_all};

#[tokio::test]
async fn processes_outside_are_not_touched() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        let mut other = arena.user_command("sleep");
        let mut other = other.arg("600").env("TOKEN", "secret").spawn().unwrap();
        let pid = other.id().unwrap();
        let all = [
            escape("signal", format!("kill -0 {pid}")),
            escape("environment", format!("grep -a secret /proc/{pid}/environ")),
            escape("command line", format!("grep -a sleep /proc/{pid}/cmdline")),
            escape("directory", format!("ls /proc/{pid}/cwd/")),
            escape("priority", format!("renice -n 5 {pid}")),
            escape(
                "ptrace",
                python(&format!(
                    "import os\ncall(101, 0x4206, {pid}, 0, 0)\ncall(101, 17, {pid}, 0, 0) if False else None"
                )),
            ),
        ];
        let names = arena.attempt(Level::Off, &[], &all).await;
        assert_eq!(names.len(), all.len(), "with the level off: {names:?}");
        assert_eq!(arena.attempt(Level::Workspace, &[], &all).await, [""; 0], "as {user:?}");
        other.kill().await.unwrap();
    }
}

#[tokio::test]
async fn helper_cannot_be_seized_or_stopped() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        let seize = python("call(101, 0x4206, 1, 0, 0)\nprint('seized')");
        let script = format!(
            "kill -9 1; kill -STOP 1; kill -TERM 1; cat /proc/1/environ /proc/1/mem; readlink /proc/1/fd/0
             (: > /proc/1/fd/0)\n{seize}\nsleep 0.1; echo alive"
        );
        let ran = arena.run(Level::Workspace, &script).await;
        assert!(ran.stdout.ends_with("alive\n") && ran.stdout.lines().count() == 1, "{ran:?}");
    }
}

/// A process that clears its environment, leaves its session, and forks twice.
fn daemon(marker: &Marker) -> String {
    format!(
        "(setsid env -i /bin/sh -c 'sleep 600 & exec sleep 600' {} >/dev/null 2>&1 </dev/null &)",
        marker.word()
    )
}

#[tokio::test]
async fn nothing_is_left_running() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        let name = |marker: &Marker| {
            format!(
                "cp /bin/sleep {0} && (setsid env -i ./{0} 600 >/dev/null 2>&1 </dev/null &)",
                marker.word()
            )
        };
        let marker = Marker::new();
        // Its variables are those of its parent until it has become another program.
        let ran = arena.run(Level::Off, &format!("{}; sleep 1", name(&marker))).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(marker.alive().len(), 1, "with the level off, it escapes");
        let marker = Marker::new();
        let ran = arena
            .run(Level::Workspace, &format!("{}; {}; echo started", name(&marker), daemon(&marker)))
            .await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "started\n"), "{ran:?}");
        marker.until_gone("the end of the command").await;
    }
}

#[tokio::test]
async fn death_of_the_program_ends_everything() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        let marker = Marker::new();
        let script = format!(
            "cp /bin/sleep {0}; (trap '' TERM HUP INT; setsid env -i ./{0} 600 & exec ./{0} 601) & echo started; exec ./{0} 602",
            marker.word()
        );
        let mut command = arena.baton(&["sandbox", "--level", "workspace", "--", "sh", "-c", &script]);
        let mut program = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        assert_eq!(line, "started\n");
        marker.until_at_least(3).await;
        let pid = Pid::from_raw(i32::try_from(program.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        marker.until_gone("kill -9 of the program").await;
    }
}

#[tokio::test]
async fn signal_is_passed_on() {
    needs_walls!();
    let arena = Arena::new(User::Ordinary);
    let script = "trap 'echo interrupted; exit 7' INT; echo started; while :; do sleep 0.1; done";
    let mut command = arena.baton(&["sandbox", "--level", "workspace", "--", "bash", "-c", script]);
    let mut program = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).await.unwrap();
    assert_eq!(line, "started\n");
    let pid = Pid::from_raw(i32::try_from(program.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).await.unwrap();
    assert_eq!((rest.as_str(), program.wait().await.unwrap().code()), ("interrupted\n", Some(7)));
}

/// Runs a command on a terminal of its own, and prints what was typed into it.
const TERMINAL: &str = r"
import os, pty, sys, termios, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
output = b''
while True:
    try: part = os.read(terminal, 4096)
    except OSError: break
    if not part: break
    output += part
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.decode(errors='replace'))
";

#[tokio::test]
async fn characters_are_not_typed_into_the_terminal() {
    needs_walls!();
    for user in User::all() {
        for level in ["off", "workspace"] {
            let arena = Arena::new(user);
            let attempt = python(
                "import fcntl, termios\nfor n in (0x5412, 0x1_0000_5412):\n  c.ioctl(0, ctypes.c_ulong(n), b'x')\n\
                 print('errno', ctypes.get_errno())",
            );
            let attempt = attempt
                .replace("/usr/bin/python3 -", "/usr/bin/python3 typing.py")
                .replace("<<'PYTHON'", "; : <<'PYTHON'");
            let script = attempt.split_once("; : <<'PYTHON'\n").unwrap().1.replace("\nPYTHON\n", "\n");
            arena.write("work/typing.py", &script);
            let mut command = arena.user_command("/usr/bin/python3");
            command.args(["-c", TERMINAL]).arg(arena.executable());
            command.args(["sandbox", "--level", level, "--", "/usr/bin/python3", "typing.py"]);
            let ran: Ran = arena.finish(command).await;
            // Root may do it on any terminal, others on their own only.
            let expected = if level == "off" && user == User::Root { "errno 0" } else { "errno 1" };
            assert!(ran.stdout.contains(expected), "{level} {user:?}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn programs_with_the_rights_of_root_gain_none() {
    needs_walls!();
    try_all(|_| {}, |_| vec![escape("no new privileges", "grep -q 'NoNewPrivs:.0' /proc/self/status")]).await;
}
