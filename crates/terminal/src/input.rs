//! Lines from standard input or the terminal, and questions that are answered with a line.
//!
//! Reads happen on threads that are never joined: a read from a terminal cannot be cancelled, and a program that is asked to
//! stop must not block in one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::sync::mpsc::channel;
use std::time::Duration;

use tokio::sync::mpsc;

use super::note;
use baton_markup::visible::Untrusted;

/// Size limit of standard input as part of a prompt.
const MAX_INPUT: u64 = 16 << 20;
/// Time after which a wait for standard input is announced.
const SLOW_INPUT: Duration = Duration::from_secs(1);

/// Asks a question and reads one line. `None` without a terminal.
pub fn ask(question: &str) -> Option<String> {
    let mut lines = terminal_lines()?;
    let _ = write!(std::io::stderr(), "{} ", Untrusted(question)).and_then(|()| std::io::stderr().flush());
    let mut answer = String::new();
    match lines.read_line(&mut answer) {
        Ok(read) if read > 0 => Some(answer.trim().to_owned()),
        _ => None,
    }
}

/// Opens the terminal for answers: standard input, or the controlling terminal if input is piped. Only if a person sees the
/// question, which is printed to standard error.
fn terminal_lines() -> Option<Box<dyn BufRead + Send>> {
    if std::io::stdin().is_terminal() {
        return Some(Box::new(BufReader::new(std::io::stdin())));
    }
    let tty = std::io::stderr().is_terminal().then(|| File::open("/dev/tty").ok())??;
    Some(Box::new(BufReader::new(tty)))
}

/// Reads piped standard input to its end; `None` if it is a terminal. A program that leaves its input open without writing
/// would wait forever, so the wait is announced.
///
/// # Errors
/// If it cannot be read, is not UTF-8, or is larger than 16 MiB.
pub fn piped_input() -> io::Result<Option<String>> {
    let input = std::io::stdin();
    if input.is_terminal() {
        return Ok(None);
    }
    let (done, is_done) = channel::<()>();
    std::thread::spawn(move || {
        if is_done.recv_timeout(SLOW_INPUT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            note("waiting for the end of standard input; add `< /dev/null` if nothing is piped in");
        }
    });
    let mut text = String::new();
    let read = input.lock().take(MAX_INPUT + 1).read_to_string(&mut text);
    drop(done);
    match read {
        // A closed descriptor is no input.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => {
            return Ok(None);
        }
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("cannot read standard input: {error}")));
        }
        Ok(_) => {}
    }
    if text.len() as u64 > MAX_INPUT {
        return Err(io::Error::other(format!("standard input is larger than {} MiB", MAX_INPUT >> 20)));
    }
    Ok(Some(text))
}

/// Something typed on standard input.
pub enum Typed {
    /// A line.
    Line(String),
    /// The end of the input.
    End,
}

/// Lines of standard input, read in the background.
pub struct Keyboard {
    lines: Option<mpsc::UnboundedReceiver<String>>,
}

impl Keyboard {
    /// Creates a keyboard without input.
    pub fn none() -> Self {
        Self { lines: None }
    }

    /// Lines of standard input.
    pub fn listen() -> Self {
        Self::read(Box::new(BufReader::new(std::io::stdin())))
    }

    /// Lines of the terminal, also if standard input is piped; `None` if nobody is there to answer. What was typed before is
    /// discarded: it answers no question.
    pub fn of_terminal() -> Option<Self> {
        let lines = terminal_lines()?;
        discard_typed();
        Some(Self::read(lines))
    }

    fn read(input: Box<dyn BufRead + Send>) -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let lines = input.lines().map_while(Result::ok);
            for line in lines {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines: Some(lines) }
    }

    /// Whether standard input is a terminal.
    pub fn is_terminal(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    /// Whether more input can come.
    pub fn is_open(&self) -> bool {
        self.lines.is_some()
    }

    /// Waits for the next line. The end is returned once; later calls wait forever.
    pub async fn next(&mut self) -> Typed {
        let Some(lines) = &mut self.lines else { return std::future::pending().await };
        match lines.recv().await {
            Some(line) => Typed::Line(line),
            None => {
                self.lines = None;
                Typed::End
            }
        }
    }
}

/// Discards what was typed and not read.
fn discard_typed() {
    let queue = rustix::termios::QueueSelector::IFlush;
    if std::io::stdin().is_terminal() {
        let _ = rustix::termios::tcflush(std::io::stdin(), queue);
    } else if let Ok(tty) = File::open("/dev/tty") {
        let _ = rustix::termios::tcflush(tty, queue);
    }
}
