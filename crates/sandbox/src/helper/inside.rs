//! The second helper: PID 1 of the call. It starts the program behind the last walls, collects its orphans, and ends when no
//! process is left or the server has closed the socket. Its end is the end of everything in its PID namespace.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions, set_dumpable_behavior};

use super::{Context, Failure, confine, watch};
use crate::control::{Ended, Order, Report, next_order, report};
use crate::plan::{Plan, Walls};

/// How often, and how long after its end, the processes of a program are waited for before they count as left.
const ROUNDS: usize = 10;
const MOMENT: Duration = Duration::from_millis(1);
/// Largest plan: an environment and a command line have a few hundred kilobytes at most.
const LARGEST_PLAN: u64 = 16 << 20;

pub(super) fn run(socket: BorrowedFd<'_>) -> Result<(), Failure> {
    let Some((Order::Run, descriptors)) =
        next_order(socket).context("cannot read the order of the server")?
    else {
        return Ok(());
    };
    let mut descriptors = descriptors.into_iter();
    let plan = descriptors.next().ok_or(io::ErrorKind::InvalidData).context("no plan came")?;
    let input = descriptors.next();
    let plan = read(plan).context("cannot read the plan")?;
    // Whatever the server or `bwrap` left open ends here.
    close_fds::set_fds_cloexec(3, &[]);
    // Otherwise a process of the same user could stop this one, and it would not see the end of the socket.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot protect the helper")?;
    confine::confine(&plan)?;
    if is_closed(socket) {
        return Ok(());
    }
    let program = start(&plan, input)?;
    report(socket, &Report::Started, &[]).context("cannot report to the server")?;
    silence().context("cannot close the output")?;
    let ours = socket.try_clone_to_owned().context("cannot share the socket")?;
    thread::spawn(move || collect(&ours, program));
    let ours = socket.try_clone_to_owned().context("cannot share the socket")?;
    if plan.walls == Walls::Namespaces {
        thread::spawn(move || watch::watch(&plan, |by| end(&ours, by)));
    }
    obey(socket, program);
    Ok(())
}

fn read(plan: OwnedFd) -> io::Result<Plan> {
    let mut text = Vec::new();
    File::from(plan).take(LARGEST_PLAN).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Whether the server has gone already: nothing is started for nobody.
fn is_closed(socket: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    poll(&mut polled, Some(&now)).is_err() || polled[0].revents().intersects(gone)
}

/// Starts the program, in a process group of its own.
#[expect(clippy::disallowed_methods, reason = "a process of its own, which may block")]
fn start(plan: &Plan, input: Option<OwnedFd>) -> Result<Pid, Failure> {
    let program = plan.program.os();
    let mut command = Command::new(&program);
    command
        .args(plan.args.iter().map(|argument| argument.os()))
        .env_clear()
        .envs(plan.environment.iter().map(|(name, value)| (name.os(), value.os())))
        .current_dir(plan.cwd.path())
        .stdin(input.map_or_else(Stdio::null, Stdio::from))
        .process_group(0);
    let child = command.spawn().map_err(|error| Failure {
        what: format!("cannot start {} in {}", program.display(), plan.cwd.path().display()),
        error,
        is_program: true,
    })?;
    Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::InvalidData).context("the program has no id")
}

/// Lets go of the program's output: who reads it waits for the program, not for this helper.
fn silence() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Waits for processes, as PID 1 has to, and ends when there are none.
fn collect(socket: &OwnedFd, program: Pid) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                let left = !all_end_soon();
                drop(report(socket, &Report::Exited { status: status.as_raw(), left }, &[]));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => leave(),
        }
    }
}

/// Whether the processes that the program started end with it. They may need a moment: a pipe that closes ends its reader.
#[expect(clippy::disallowed_methods, reason = "a process of its own, which may block")]
fn all_end_soon() -> bool {
    for _ in 0..ROUNDS {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return true,
            }
        }
        thread::sleep(MOMENT);
    }
    false
}

/// Obeys the server until it closes the socket.
fn obey(socket: BorrowedFd<'_>, program: Pid) {
    while let Ok(Some((order, _))) = next_order(socket) {
        match order {
            Order::Interrupt => {
                let _ = rustix::process::kill_process_group(program, Signal::INT);
            }
            Order::Terminate => watch::processes().for_each(|pid| {
                let _ = rustix::process::kill_process(pid, Signal::TERM);
            }),
            Order::Enter | Order::Run => {}
        }
    }
    leave();
}

fn end(socket: &OwnedFd, by: Ended) {
    drop(report(socket.as_fd(), &Report::Ended { by }, &[]));
    leave();
}

/// Ends this process at once, and with it all others of its namespace.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing here needs cleaning up, and threads wait in the kernel"
)]
fn leave() -> ! {
    std::process::exit(0)
}
