//! Printing, and what belongs to it. The only place that writes to standard output and error.
//!
//! Nothing gets past [`visible`]: whatever the other modules hand over is taken to hold untrusted text, because most of it
//! does (a title, a path, a server's error, an answer). A line stays one line, and text of several lines is printed as
//! such. Colours are added here, afterwards; an escape sequence in a text is always somebody else's.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is where printing lives")]
#![allow(clippy::disallowed_methods, reason = "runs on the main thread, or on a thread of its own")]

mod log;
mod question;
mod visible;

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use tokio::sync::mpsc;

use self::visible::{Layout, Prose, Untrusted};
use crate::args::Cli;

pub(crate) use self::log::LogWriter;
pub(crate) use self::question::Question;

/// A line on standard output, flushed: somebody may be waiting for it.
pub(crate) fn line(text: &str) {
    print(&format!("{}\n", Untrusted(text)));
}

/// A line on standard output that stands back.
pub(crate) fn dim_line(text: &str) {
    print(&format!("{}\n", dim(Untrusted(text), std::io::stdout().is_terminal())));
}

/// A line on standard output whose end stands back.
pub(crate) fn line_with_aside(text: &str, aside: &str) {
    let aside = dim(Untrusted(aside), std::io::stdout().is_terminal());
    print(&format!("{}  {aside}\n", Untrusted(text)));
}

/// Text of several lines on standard output, each behind a prefix.
pub(crate) fn paragraph(prefix: &str, text: &str) {
    print(&visible::prose_lines(text).map(|line| format!("{prefix}{line}\n")).collect::<String>());
}

/// A JSON document on standard output, on one line.
pub(crate) fn json_line(document: &str) {
    print(&(visible::json(document, Layout::OneLine) + "\n"));
}

/// A JSON document on standard output, laid out for people.
pub(crate) fn json(document: &str) {
    print(&(visible::json(document, Layout::Lines) + "\n"));
}

/// An answer on standard output, as it comes.
#[derive(Debug, Default)]
pub(crate) struct Answer(Prose);

impl Answer {
    /// Prints the next piece.
    pub(crate) fn piece(&mut self, text: &str) {
        print(&self.0.piece(text));
    }

    /// Ends the line that the pieces have begun.
    pub(crate) fn end_line(&mut self) {
        print(&format!("{}\n", self.0.finish()));
    }
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that has gone away is no reason to fail.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Standard output for JSON lines: their very bytes, unless a person would see them.
pub(crate) fn json_output() -> Box<dyn Write> {
    let out = std::io::stdout();
    if out.is_terminal() {
        Box::new(JsonLines { line: Vec::new() })
    } else {
        Box::new(std::io::BufWriter::new(out))
    }
}

/// Prints JSON line by line.
struct JsonLines {
    line: Vec<u8>,
}

impl Write for JsonLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            json_line(&String::from_utf8_lossy(&line[..end]));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A note for people, on standard error, on one line.
pub(crate) fn note(text: &str) {
    complain(&dim(Untrusted(text), std::io::stderr().is_terminal()));
}

/// What went wrong. Further lines are indented, so that none passes for ours.
pub(crate) fn error(text: &str) {
    complain(&format!("baton: {}", visible::prose_lines(text).collect::<Vec<_>>().join("\n       ")));
}

/// A link that carries a secret: shown to a person at a terminal, and written into no file or pipe. Returns whether it
/// was shown.
pub(crate) fn secret_note(text: &str) -> bool {
    let shown = std::io::stderr().is_terminal();
    if shown {
        note(text);
    }
    shown
}

/// A question, on standard error, with how it can be answered on a line of its own.
pub(crate) fn pose(question: &Question, hint: &str) {
    complain(&format!("{}\n{}", in_full(question), Untrusted(hint)));
}

/// The question for standard error. Its headline is bold: text cannot be, so no answer of a model looks like it.
fn in_full(question: &Question) -> String {
    let terminal = std::io::stderr().is_terminal();
    let width = rustix::termios::tcgetwinsize(std::io::stderr()).ok().filter(|_| terminal);
    let width = width.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
    let mut lines = question.lines(width);
    if let Some(headline) = lines.first_mut() {
        *headline = styled("1", format!("? {headline}"), terminal);
    }
    lines.join("\n")
}

/// A line on standard error, in one piece, so that nothing comes between. Not `eprintln`: that panics when nobody reads.
fn complain(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Help, the version, or what is wrong with the flags.
pub(crate) fn wrong_usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.exit_code() != 0 && std::env::args().any(|arg| arg == "--stdio") {
        wait_for_caller();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// An SDK writes to the program it has started before it looks whether it still runs. Gone too soon, we would leave it
/// with a broken pipe instead of our message; so stay until it has written, or for a moment.
fn wait_for_caller() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(std::io::stdin().read(&mut [0]));
    });
    let _ = receiver.recv_timeout(std::time::Duration::from_secs(1));
}

/// Text that stands back, where that can be shown.
fn dim(text: Untrusted<'_>, terminal: bool) -> String {
    styled("2", text.to_string(), terminal)
}

/// Text that is safe already, in a style.
fn styled(style: &str, text: String, terminal: bool) -> String {
    if terminal && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{style}m{text}\x1b[0m")
    } else {
        text
    }
}

/// Asks a question that is answered with a line. `None` when nobody can be asked.
pub(crate) fn ask(question: &str) -> Option<String> {
    ask_for_line(|| Untrusted(question).to_string())
}

/// `asked` is safe to print.
fn ask_for_line(asked: impl FnOnce() -> String) -> Option<String> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    let _ = write!(std::io::stderr(), "{} ", asked()).and_then(|()| std::io::stderr().flush());
    let mut answer = String::new();
    match std::io::stdin().read_line(&mut answer) {
        Ok(read) if read > 0 => Some(answer.trim().to_owned()),
        _ => None,
    }
}

/// Asks beside what else goes on. A thread of its own, which nobody waits for: there is no way to call back a read from a
/// terminal, and a program that is told to end must not hang in one.
pub(crate) async fn ask_aside(question: Question, hint: &'static str) -> Option<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || sender.send(ask_for_line(|| format!("{}\n{hint}", in_full(&question)))));
    receiver.await.ok().flatten()
}

/// What was typed.
pub(crate) enum Typed {
    Line(String),
    /// There is nothing more to come.
    End,
}

/// Lines from standard input, beside what else goes on. Read in a thread of its own, which nobody waits for: there is no
/// way to call back a read.
pub(crate) struct Keyboard {
    lines: Option<mpsc::UnboundedReceiver<String>>,
}

impl Keyboard {
    /// Nobody types.
    pub(crate) fn none() -> Self {
        Self { lines: None }
    }

    pub(crate) fn listen() -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let lines = std::io::stdin().lines().map_while(Result::ok);
            for line in lines {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines: Some(lines) }
    }

    /// Whether a person may be typing.
    pub(crate) fn is_terminal(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    /// Whether more can come.
    pub(crate) fn is_open(&self) -> bool {
        self.lines.is_some()
    }

    /// The next line. The end is said once; after it, nothing comes.
    pub(crate) async fn next(&mut self) -> Typed {
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

/// A completion script.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    // Written down first: the generator panics when whoever reads has had enough.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "baton", &mut script);
    print(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

/// The manual: one page on standard output, or all pages in a directory.
pub(crate) fn manual(directory: Option<&Path>) -> anyhow::Result<ExitCode> {
    match directory {
        None => clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?,
        Some(directory) => {
            std::fs::create_dir_all(directory)?;
            clap_mangen::generate_to(Cli::command(), directory)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Calls `check` for each source file of a directory.
    fn each_source(directory: &Path, check: &mut impl FnMut(&Path, &str)) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                each_source(&path, check);
            } else {
                check(&path, &std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn only_this_module_writes_to_standard_output_and_error() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut seen = 0;
        each_source(&sources, &mut |path, text| {
            seen += 1;
            if path.starts_with(sources.join("terminal")) {
                return;
            }
            let ways = ["stdout()", "stderr()", "println!", "print!(", "dbg!(", "/dev/tty"];
            for way in ways {
                assert!(!text.contains(way), "{} has {way:?}: print through `terminal`", path.display());
            }
        });
        assert!(seen > 10, "the sources are in {}", sources.display());
    }
}
