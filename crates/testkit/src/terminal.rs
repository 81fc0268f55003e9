//! A pseudo-terminal for interactive tests.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, tcgetattr, tcsetwinsize};
use tokio::process::Command;

use crate::program::Running;

/// The test's end of a pseudo-terminal, with a program at the other end.
pub struct Terminal {
    /// The program.
    pub running: Running,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    /// Settings before the program was started.
    initial: Termios,
}

impl Terminal {
    /// Starts a command with a terminal as input, output and controlling terminal: Ctrl-C is then a key, not
    /// a signal that the test sends.
    ///
    /// # Errors
    /// When no pseudo-terminal is available.
    pub fn start(command: &Command) -> io::Result<Self> {
        Self::start_sized(command, None)
    }

    /// Starts a command on a terminal with this many columns and rows.
    pub(crate) fn start_sized(command: &Command, size: Option<(u16, u16)>) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = rustix::fs::open(
            name.as_c_str(),
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if let Some((columns, rows)) = size {
            tcsetwinsize(&slave, crate::screen::size(columns, rows))?;
        }
        let initial = tcgetattr(&slave)?;
        let end = || slave.as_fd().try_clone_to_owned().map(Stdio::from);
        let mut command = with_controlling_terminal(command);
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        let running = Running::spawn(command);
        drop(slave);
        let screen = Arc::new(Mutex::new(Vec::new()));
        read_on(master.try_clone()?, Arc::clone(&screen))?;
        Ok(Self { running, keyboard: File::from(master), screen, initial })
    }

    /// Sends keys.
    ///
    /// # Errors
    /// When the program is gone.
    pub fn press(&mut self, keys: &str) -> io::Result<()> {
        self.keyboard.write_all(keys.as_bytes())
    }

    /// Returns everything written to the screen so far, but for rows that were erased.
    #[must_use]
    pub fn screen(&self) -> String {
        without_erased(&String::from_utf8_lossy(&self.bytes()))
    }

    /// Returns everything written to the terminal so far.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.screen.lock().unwrap().clone()
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        Ok(tcsetwinsize(&self.keyboard, crate::screen::size(columns, rows))?)
    }

    pub(crate) fn initial(&self) -> &Termios {
        &self.initial
    }

    pub(crate) fn settings(&self) -> io::Result<Termios> {
        Ok(tcgetattr(&self.keyboard)?)
    }

    /// Waits until the screen contains this text.
    ///
    /// # Panics
    /// When it does not within the time limit.
    pub async fn until(&self, text: &str) {
        self.until_within(text, Duration::from_secs(10)).await;
    }

    /// Waits until the screen contains this text.
    ///
    /// # Panics
    /// When it does not within this time.
    pub async fn until_within(&self, text: &str, limit: Duration) {
        let started = Instant::now();
        while !self.screen().contains(text) {
            assert!(started.elapsed() < limit, "{text:?} is not on the screen:\n{}", self.screen());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Drops the rows that a status line has erased.
fn without_erased(written: &str) -> String {
    let mut pieces = written.split("\r\u{1b}[K");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        shown.truncate(shown.rfind('\n').map_or(0, |end| end + 1));
        shown.push_str(piece);
    }
    shown
}

/// Wraps the command in a small program that makes its input the controlling terminal.
fn with_controlling_terminal(command: &Command) -> Command {
    let original = command.as_std();
    let mut wrapped = Command::new("setsid");
    wrapped.arg("--ctty").arg(original.get_program()).args(original.get_args()).env_clear();
    wrapped.envs(original.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = original.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped.kill_on_drop(true);
    wrapped
}

/// Reads in a thread, which ends when the program and all its children have closed the terminal.
fn read_on(master: OwnedFd, screen: Arc<Mutex<Vec<u8>>>) -> io::Result<()> {
    let mut master = File::from(master);
    let read = move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = master.read(&mut buffer) {
            screen.lock().unwrap().extend(&buffer[..length]);
        }
    };
    std::thread::Builder::new().name("screen".into()).spawn(read).map(drop)
}
