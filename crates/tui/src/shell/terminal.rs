//! The terminal: its modes, and what is written to it. However the program ends, the terminal is as it was before.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Position;

/// Alternate screen, bracketed paste, focus, kitty's unambiguous keys, no cursor while the first frame is made.
const ENTER: &str = "\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[>1u\x1b[?25l";
/// Buttons, drags and the wheel, in columns and rows of any size.
const MOUSE: &str = "\x1b[?1000h\x1b[?1002h\x1b[?1006h";
/// Undoes all of it, whether it was done or not; the screen last.
const LEAVE: &str =
    "\x1b[?2026l\x1b[?1006l\x1b[?1002l\x1b[?1000l\x1b[<1u\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";
/// A frame begins and ends, for terminals that show it at once.
const BEGIN_FRAME: &str = "\x1b[?2026h";
const END_FRAME: &str = "\x1b[?2026l";

/// Whether the terminal is in our modes.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Sets the modes.
///
/// # Errors
/// When standard output is no terminal, or cannot be written.
pub(super) fn enter(mouse: bool) -> io::Result<()> {
    crossterm::terminal::enable_raw_mode()?;
    ENTERED.store(true, Ordering::SeqCst);
    let mouse = if mouse { MOUSE } else { "" };
    write_all(format!("{ENTER}{mouse}").as_bytes())
}

/// Restores the terminal. Can be called at any time and any number of times.
pub(super) fn leave() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        let _ = write_all(LEAVE.as_bytes());
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

/// Restores the terminal when it is dropped.
pub(super) struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        leave();
    }
}

/// Restores the terminal before a panic is reported.
pub(super) fn restore_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        leave();
        report(panic);
    }));
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes on a thread of its own: a terminal that does not read never delays a key.
pub(super) struct Writer(mpsc::SyncSender<Vec<u8>>);

impl Writer {
    /// Starts the thread. `done` is called after each write, with whether it succeeded.
    pub(super) fn start(done: impl Fn(bool) + Send + 'static) -> Self {
        let (sender, frames) = mpsc::sync_channel::<Vec<u8>>(4);
        std::thread::spawn(move || {
            for frame in frames {
                // A frame that waits while the program leaves would draw over the shell.
                let written = !ENTERED.load(Ordering::SeqCst) || write_all(&frame).is_ok();
                done(written);
            }
        });
        Self(sender)
    }

    /// Queues bytes. Returns whether there was room.
    pub(super) fn write(&self, bytes: Vec<u8>) -> bool {
        self.0.try_send(bytes).is_ok()
    }
}

/// What is on the screen, as far as it is known.
#[derive(Default)]
pub(super) struct Screen {
    shown: Option<(Buffer, Option<(u16, u16)>)>,
}

impl Screen {
    /// Forgets what is on the screen: the next frame is drawn whole.
    pub(super) fn forget(&mut self) {
        self.shown = None;
    }

    /// Returns the bytes that turn the screen into a frame; empty if it is one already.
    pub(super) fn bytes(&mut self, buffer: &Buffer, cursor: Option<(u16, u16)>) -> Vec<u8> {
        let before = self.shown.take().filter(|(before, _)| before.area == buffer.area);
        let mut out = Vec::new();
        let is_same = before.as_ref().is_some_and(|(shown, at)| shown == buffer && *at == cursor);
        if !is_same {
            // Writing to memory cannot fail.
            let _ = paint(&mut out, before.as_ref().map(|(shown, _)| shown), buffer, cursor);
        }
        self.shown = Some((buffer.clone(), cursor));
        out
    }
}

fn paint(
    out: &mut Vec<u8>,
    before: Option<&Buffer>,
    after: &Buffer,
    cursor: Option<(u16, u16)>,
) -> io::Result<()> {
    out.write_all(BEGIN_FRAME.as_bytes())?;
    out.write_all(b"\x1b[?25l")?;
    let mut backend = CrosstermBackend::new(&mut *out);
    if before.is_none() {
        backend.clear()?;
    }
    for y in 0..after.area.height {
        let row = |buffer: &Buffer, x: u16| buffer[(x, y)].clone();
        let same = |x: u16| before.is_some_and(|before| before[(x, y)] == after[(x, y)]);
        let columns = 0..after.area.width;
        if columns.clone().all(same) {
            continue;
        }
        // Terminals disagree about the width of some graphemes, and leave parts of them behind: such rows are written whole.
        let is_odd = |cell: &Cell| cell.symbol().len() > 1 && !is_plain(cell.symbol());
        let odd = columns
            .clone()
            .any(|x| is_odd(&after[(x, y)]) || before.is_some_and(|before| is_odd(&before[(x, y)])));
        let mut skip = 0;
        let cells: Vec<(u16, u16, Cell)> = columns
            .filter_map(|x| {
                if skip > 0 {
                    skip -= 1;
                    return None;
                }
                let cell = row(after, x);
                skip = crate::text::width(cell.symbol()).saturating_sub(1);
                (odd || !same(x)).then_some((x, y, cell))
            })
            .collect();
        if odd {
            backend.set_cursor_position(Position::new(0, y))?;
            backend.clear_region(ratatui::backend::ClearType::CurrentLine)?;
        }
        backend.draw(cells.iter().map(|(x, y, cell)| (*x, *y, cell)))?;
    }
    if let Some((x, y)) = cursor {
        write!(out, "\x1b[{};{}H\x1b[?25h", y + 1, x + 1)?;
    }
    out.write_all(END_FRAME.as_bytes())
}

/// Whether terminals agree on the width of a symbol: single characters of the blocks that we draw with, and letters.
fn is_plain(symbol: &str) -> bool {
    let mut chars = symbol.chars();
    let (first, rest) = (chars.next(), chars.next());
    rest.is_none() && first.is_some_and(|c| matches!(c, '\u{a0}'..='\u{24f}' | '\u{2010}'..='\u{27bf}'))
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;

    use super::*;

    fn buffer(lines: &[&str]) -> Buffer {
        Buffer::with_lines(lines.iter().copied())
    }

    #[test]
    fn frame_that_is_shown_needs_no_bytes() {
        let mut screen = Screen::default();
        let frame = buffer(&["one", "two"]);
        assert!(!screen.bytes(&frame, None).is_empty());
        assert!(screen.bytes(&frame, None).is_empty());
        assert!(!screen.bytes(&frame, Some((1, 1))).is_empty());
    }

    #[test]
    fn only_changed_cells_are_written() {
        let mut screen = Screen::default();
        let _ = screen.bytes(&buffer(&["one", "two"]), None);
        let bytes = String::from_utf8(screen.bytes(&buffer(&["one", "twx"]), None)).unwrap();
        assert!(bytes.contains('x') && !bytes.contains("tw") && !bytes.contains("one"), "{bytes:?}");
    }

    #[test]
    fn rows_with_emoji_are_written_whole() {
        let mut screen = Screen::default();
        let _ = screen.bytes(&buffer(&["ab👍cd"]), None);
        let bytes = String::from_utf8(screen.bytes(&buffer(&["abxxcd"]), None)).unwrap();
        assert!(bytes.contains("abxxcd"), "{bytes:?}");
    }

    #[test]
    fn another_size_is_drawn_from_nothing() {
        let mut screen = Screen::default();
        let _ = screen.bytes(&Buffer::empty(Rect::new(0, 0, 4, 2)), None);
        let bytes = String::from_utf8(screen.bytes(&buffer(&["abc"]), None)).unwrap();
        assert!(bytes.contains("\x1b[2J"), "{bytes:?}");
    }
}
