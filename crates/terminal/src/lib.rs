//! Terminal input and output. The only crate that writes to standard output and error.
//!
//! All text is escaped by [`baton_markup::visible`], because most of it is untrusted: a title, a path, a server's error, an
//! answer. A line stays one line, and prose keeps its line breaks. Styles are added here, after escaping, so an escape
//! sequence in a text never comes from Baton.
//!
//! What is printed when is up to the commands. Nothing here knows a session, a server or a flag.
#![allow(clippy::disallowed_methods, reason = "runs on the main thread or on a separate one")]

mod answer;
mod columns;
mod fit;
mod input;
mod log;
mod markdown;
mod question;
mod status;
mod table;

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

use baton_markup::visible::{self, Layout, Untrusted};

pub use self::answer::AnswerPrinter;
pub use self::columns::{cut as shortened, cut_start as shortened_start};
pub use self::fit::{Flexible, Kept};
pub use self::input::{Keyboard, Typed, ask, piped_input};
pub use self::log::{LogLines, LogWriter};
pub use self::question::Question;
pub use self::status::StatusLine;
pub use self::table::{table, table_with_notes, whole_table};

/// Prints a line to standard output and flushes it, because a program may wait for it.
pub fn line(text: &str) {
    print(&format!("{}\n", Untrusted(text)));
}

/// Prints a line to standard output. On a terminal it is wrapped between words, and further rows are indented.
pub fn hanging_line(text: &str, indent: usize) {
    let text = Untrusted(text).to_string();
    print(&(wrapped(text, width_of(std::io::stdout()), indent) + "\n"));
}

/// Prints a dim line to standard output. On a terminal it is wrapped between words, and further rows are indented.
pub fn dim_hanging_line(text: &str, indent: usize) {
    let out = std::io::stdout();
    let text = wrapped(Untrusted(text).to_string(), width_of(&out), indent);
    print(&(styled("2", text, out.is_terminal()) + "\n"));
}

/// Prints a line to standard output, with a dim end.
pub fn line_with_aside(text: &str, aside: &str) {
    let aside = dim(Untrusted(aside), std::io::stdout().is_terminal());
    print(&format!("{}  {aside}\n", Untrusted(text)));
}

/// Prints text to standard output, with a prefix before each line. On a terminal, lines are wrapped between words.
pub fn paragraph(prefix: &str, text: &str) {
    let width = width_of(std::io::stdout());
    let line = |line: &str| wrapped(format!("{prefix}{line}"), width, prefix.len()) + "\n";
    print(&visible::prose_lines(text).map(|text| line(&text)).collect::<String>());
}

/// Prints a JSON document to standard output, on one line.
pub fn json_line(document: &str) {
    print(&(visible::json(document, Layout::OneLine) + "\n"));
}

/// Prints a JSON document to standard output, with its line breaks.
pub fn json(document: &str) {
    print(&(visible::json(document, Layout::Lines) + "\n"));
}

/// Prints text that the program generated itself to standard output, as it is.
pub fn generated(text: &str) {
    print(text);
}

fn print(text: &str) {
    let mut out = Output;
    // What fails is noted, and the command goes on: its work may matter more than its words.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Why the first write to standard output failed that did.
static FAILURE: OnceLock<std::io::ErrorKind> = OnceLock::new();

/// Returns why something could not be written to standard output; none if everything was.
pub fn output_failure() -> Option<std::io::ErrorKind> {
    FAILURE.get().copied()
}

/// Standard output; notes when a write fails.
struct Output;

impl Output {
    fn noted<T>(result: std::io::Result<T>) -> std::io::Result<T> {
        result.inspect_err(|error| {
            if error.kind() != std::io::ErrorKind::Interrupted {
                let _ = FAILURE.set(error.kind());
            }
        })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Self::noted(std::io::stdout().write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Self::noted(std::io::stdout().flush())
    }
}

/// Returns standard output for JSON lines: unchanged into files and pipes, escaped on a terminal.
pub fn json_output() -> Box<dyn Write> {
    let out = std::io::stdout();
    if out.is_terminal() {
        Box::new(JsonLines { line: Vec::new() })
    } else {
        Box::new(std::io::BufWriter::new(Output))
    }
}

/// Standard output for text that was escaped.
pub fn escaped_output() -> Box<dyn Write> {
    Box::new(std::io::BufWriter::new(Output))
}

/// Whether somebody can type and see: standard input and output are terminals.
#[must_use]
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Whether standard output is a terminal.
pub fn output_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Returns the columns of the terminal on standard output, if it is one.
pub fn output_width() -> Option<usize> {
    let out = std::io::stdout();
    out.is_terminal().then(|| width_of(&out)).flatten()
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
pub fn log_writer(lines: LogLines) -> impl Write {
    log::LogWriter::new(std::io::stderr(), lines)
}

/// Prints a dim note for people to standard error, on one line; on a terminal, it is wrapped between words.
pub fn note(text: &str) {
    const INDENT: usize = 2;
    let indent = INDENT + text.len() - text.trim_start_matches(' ').len();
    let text = wrapped(Untrusted(text).to_string(), width_of(std::io::stderr()), indent);
    write_stderr(&styled("2", text, std::io::stderr().is_terminal()));
}

/// Prints a dim line of a tool's output to standard error, cut to the width of the terminal.
pub fn output_line(text: &str) {
    const MAX_WIDTH: usize = 500;
    let width = width_of(std::io::stderr()).unwrap_or(MAX_WIDTH);
    let text = columns::cut(&Untrusted(text).to_string(), width.saturating_sub(5).max(20));
    write_stderr(&styled("2", format!("  │ {text}"), std::io::stderr().is_terminal()));
}

/// Prints an error to standard error. Further lines are indented, so that none looks like an error of its own.
pub fn error(text: &str) {
    const PREFIX: &str = "baton: ";
    let indent = " ".repeat(PREFIX.len());
    let width = width_of(std::io::stderr());
    let lines = visible::prose_lines(text).enumerate().map(|(number, line)| {
        let prefix = if number == 0 { PREFIX } else { &indent };
        wrapped(format!("{prefix}{line}"), width, PREFIX.len())
    });
    write_stderr(&lines.collect::<Vec<_>>().join("\n"));
}

/// Whether standard error is a terminal.
pub fn errors_are_on_a_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Prints the lines of a QR code to standard error, white on black whatever the colours of the terminal, but only to a
/// terminal.
pub fn code_lines(rows: &[String]) {
    if std::io::stderr().is_terminal() {
        rows.iter().for_each(|row| write_stderr(&format!("\x1b[97;40m{row}\x1b[0m")));
    }
}

/// Prints a note that contains a secret, but only to a terminal: not into files and pipes. Returns whether it was printed.
pub fn secret_note(text: &str) -> bool {
    let shown = std::io::stderr().is_terminal();
    if shown {
        note(text);
    }
    shown
}

/// Prints a question to standard error, and the possible answers on the next line.
pub fn print_question(question: &Question, hint: &str) {
    write_stderr(&format!("{}\n{}", render(question), Untrusted(hint)));
}

/// Prints a question to standard error, and the possible answers on the next line, behind which the user types.
pub fn print_open_question(question: &Question, hint: &str) {
    let _ = std::io::stderr().write_all(format!("{}\n{} ", render(question), Untrusted(hint)).as_bytes());
}

/// Prints the beginning of a line to standard error.
pub fn print_open_line(text: &str) {
    let _ = std::io::stderr().write_all(format!("{} ", Untrusted(text)).as_bytes());
}

/// Ends a line that was begun on standard error.
pub fn end_open_line() {
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

/// Wraps a line that is already escaped for a terminal of this width.
fn wrapped(text: String, width: Option<usize>, indent: usize) -> String {
    match width {
        Some(width) => columns::wrapped(&text, width, indent),
        None => text,
    }
}

/// The number of columns of a terminal; none if the stream is no terminal, or its size is not known.
fn width_of(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Returns standard output, for bytes of a protocol that pass through this program.
pub fn protocol_output() -> impl Write {
    std::io::stdout().lock()
}

/// Writes a line to standard error in one call, so that no other output is mixed in. Not `eprintln`, which panics when
/// standard error is closed.
fn write_stderr(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
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
