//! Terminal input and output. The only module that writes to standard output and error.
//!
//! All text is escaped by [`baton_markup::visible`], because most of it is untrusted: a title, a path, a server's error, an answer. A line
//! stays one line, and prose keeps its line breaks. Styles are added here, after escaping, so an escape sequence in a text
//! never comes from Baton.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the only module that prints")]
#![allow(clippy::disallowed_methods, reason = "runs on the main thread or on a separate one")]

mod answer;
mod columns;
mod generated;
mod input;
mod log;
mod markdown;
mod question;
mod table;

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use crate::logging::LogFormat;
use baton_markup::visible::{self, Layout, Untrusted};

pub(crate) use self::answer::AnswerPrinter;
pub(crate) use self::columns::{cut as shortened, cut_start as shortened_start};
pub(crate) use self::generated::{completions, manual};
pub(crate) use self::input::{Keyboard, Typed, ask, piped_input};
#[cfg(test)]
pub(crate) use self::log::LogWriter;
pub(crate) use self::question::Question;
pub(crate) use self::table::{table, table_with_notes};

/// Prints a line to standard output and flushes it, because a program may wait for it.
pub(crate) fn line(text: &str) {
    print(&format!("{}\n", Untrusted(text)));
}

/// Prints a dim line to standard output.
pub(crate) fn dim_line(text: &str) {
    print(&format!("{}\n", dim(Untrusted(text), std::io::stdout().is_terminal())));
}

/// Prints a line to standard output, with a dim end.
pub(crate) fn line_with_aside(text: &str, aside: &str) {
    let aside = dim(Untrusted(aside), std::io::stdout().is_terminal());
    print(&format!("{}  {aside}\n", Untrusted(text)));
}

/// Prints text to standard output, with a prefix before each line.
pub(crate) fn paragraph(prefix: &str, text: &str) {
    print(&visible::prose_lines(text).map(|line| format!("{prefix}{line}\n")).collect::<String>());
}

/// Prints a JSON document to standard output, on one line.
pub(crate) fn json_line(document: &str) {
    print(&(visible::json(document, Layout::OneLine) + "\n"));
}

/// Prints a JSON document to standard output, with its line breaks.
pub(crate) fn json(document: &str) {
    print(&(visible::json(document, Layout::Lines) + "\n"));
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed output is no reason to fail.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns standard output for JSON lines: unchanged into files and pipes, escaped on a terminal.
pub(crate) fn json_output() -> Box<dyn Write> {
    let out = std::io::stdout();
    if out.is_terminal() {
        Box::new(JsonLines { line: Vec::new() })
    } else {
        Box::new(std::io::BufWriter::new(out))
    }
}

/// Standard output for text that was escaped.
pub(crate) fn escaped_output() -> Box<dyn Write> {
    Box::new(std::io::BufWriter::new(std::io::stdout()))
}

/// Whether standard output is a terminal.
pub(crate) fn output_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Prints JSON line by line, escaped.
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

/// Creates a writer of log entries to standard error.
pub(crate) fn log_writer(format: LogFormat) -> impl Write {
    log::LogWriter::new(std::io::stderr(), format)
}

/// Prints a dim note for people to standard error, on one line.
pub(crate) fn note(text: &str) {
    write_stderr(&dim(Untrusted(text), std::io::stderr().is_terminal()));
}

/// Prints a dim line of a tool's output to standard error, cut to the width of the terminal.
pub(crate) fn output_line(text: &str) {
    const MAX_WIDTH: usize = 500;
    let width = width_of(std::io::stderr()).unwrap_or(MAX_WIDTH);
    let text = columns::cut(&Untrusted(text).to_string(), width.saturating_sub(5).max(20));
    write_stderr(&styled("2", format!("  │ {text}"), std::io::stderr().is_terminal()));
}

/// Prints an error to standard error. Further lines are indented, so that none looks like an error of its own.
pub(crate) fn error(text: &str) {
    write_stderr(&format!("baton: {}", visible::prose_lines(text).collect::<Vec<_>>().join("\n       ")));
}

/// Whether standard error is a terminal.
pub(crate) fn errors_are_on_a_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Prints the lines of a QR code to standard error, white on black whatever the colours of the terminal, but only to a
/// terminal.
pub(crate) fn code_lines(rows: &[String]) {
    if std::io::stderr().is_terminal() {
        rows.iter().for_each(|row| write_stderr(&format!("\x1b[97;40m{row}\x1b[0m")));
    }
}

/// Prints a note that contains a secret, but only to a terminal: not into files and pipes. Returns whether it was printed.
pub(crate) fn secret_note(text: &str) -> bool {
    let shown = std::io::stderr().is_terminal();
    if shown {
        note(text);
    }
    shown
}

/// Prints a question to standard error, and the possible answers on the next line.
pub(crate) fn print_question(question: &Question, hint: &str) {
    write_stderr(&format!("{}\n{}", render(question), Untrusted(hint)));
}

/// Prints a question to standard error, and the possible answers on the next line, behind which the user types.
pub(crate) fn print_open_question(question: &Question, hint: &str) {
    let _ = std::io::stderr().write_all(format!("{}\n{} ", render(question), Untrusted(hint)).as_bytes());
}

/// Prints the beginning of a line to standard error.
pub(crate) fn print_open_line(text: &str) {
    let _ = std::io::stderr().write_all(format!("{} ", Untrusted(text)).as_bytes());
}

/// Ends a line that was begun on standard error.
pub(crate) fn end_open_line() {
    write_stderr("");
}

/// Renders a question for standard error. Its headline is bold; untrusted text cannot be, so none can imitate it.
fn render(question: &Question) -> String {
    let terminal = std::io::stderr().is_terminal();
    let width = width_of(std::io::stderr()).filter(|_| terminal);
    let mut lines = question.lines(width);
    if let Some(headline) = lines.first_mut() {
        *headline = styled("1", format!("? {headline}"), terminal);
    }
    lines.join("\n")
}

/// The number of columns of a terminal; none if the stream is no terminal, or its size is not known.
fn width_of(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Returns standard output, for bytes of a protocol that pass through this program.
pub(crate) fn protocol_output() -> impl Write {
    std::io::stdout().lock()
}

/// Writes a line to standard error in one call, so that no other output is mixed in. Not `eprintln`, which panics when
/// standard error is closed.
fn write_stderr(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints help, the version, or an error in the flags, and returns the exit code.
pub(crate) fn print_usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.exit_code() != 0 && std::env::args_os().any(|arg| arg == "--stdio") {
        wait_for_caller();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Waits until the SDK has written, for at most a second. An SDK writes to the program before it checks whether it still
/// runs; if the program were gone by then, the SDK would report a broken pipe instead of the message.
fn wait_for_caller() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(std::io::stdin().read(&mut [0]));
    });
    let _ = receiver.recv_timeout(std::time::Duration::from_secs(1));
}

/// Dims text, if it goes to a terminal.
fn dim(text: Untrusted<'_>, terminal: bool) -> String {
    styled("2", text.to_string(), terminal)
}

/// Styles text that is already escaped, if it goes to a terminal.
fn styled(style: &str, text: String, terminal: bool) -> String {
    if terminal && has_styles() { format!("\x1b[{style}m{text}\x1b[0m") } else { text }
}

/// Whether the user wants styles.
fn has_styles() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
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
