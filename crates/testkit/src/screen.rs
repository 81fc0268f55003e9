//! The screen of a full-screen program: what it has written to its terminal, as a terminal shows it.

use std::io;
use std::num::NonZero;
use std::time::{Duration, Instant};

use rustix::termios::{Termios, Winsize};
use tokio::process::Command;

use crate::terminal::Terminal;

/// Time limit for something to appear.
const LIMIT: Duration = Duration::from_secs(30);
/// Time for which the screen must not change to count as still.
const STILL: Duration = Duration::from_millis(150);

/// A terminal of a size, with a full-screen program.
pub struct Screen {
    /// The terminal.
    pub terminal: Terminal,
    /// Sizes that the terminal had, with the number of bytes that were written before.
    sizes: Vec<(usize, u16, u16)>,
}

impl Screen {
    /// Starts a command on a terminal with columns and rows.
    ///
    /// # Errors
    /// When no pseudo-terminal is available.
    pub fn start(command: &Command, columns: u16, rows: u16) -> io::Result<Self> {
        let terminal = Terminal::start_sized(command, Some((columns, rows)))?;
        Ok(Self { terminal, sizes: vec![(0, columns, rows)] })
    }

    /// Changes the size.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn resize(&mut self, columns: u16, rows: u16) -> io::Result<()> {
        self.sizes.push((self.terminal.bytes().len(), columns, rows));
        self.terminal.resize(columns, rows)
    }

    fn parser(&self) -> vt100::Parser {
        let bytes = self.terminal.bytes();
        let (_, columns, rows) = self.sizes[0];
        let mut parser = vt100::Parser::new(cells(rows), cells(columns), 0);
        for (number, (from, columns, rows)) in self.sizes.iter().enumerate() {
            let to = self.sizes.get(number + 1).map_or(bytes.len(), |(next, ..)| *next);
            parser.screen_mut().set_size(cells(*rows), cells(*columns));
            parser.process(&bytes[*from..to]);
        }
        parser
    }

    /// Returns the text of the screen.
    #[must_use]
    pub fn text(&self) -> String {
        self.parser().screen().contents()
    }

    /// Whether the program shows the alternate screen.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.parser().screen().alternate_screen()
    }

    /// Whether the cursor is shown.
    #[must_use]
    pub fn has_cursor(&self) -> bool {
        !self.parser().screen().hide_cursor()
    }

    /// Whether the program receives pastes in brackets, or the mouse.
    #[must_use]
    pub fn has_modes(&self) -> bool {
        let parser = self.parser();
        let screen = parser.screen();
        screen.bracketed_paste() || screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None
    }

    /// Returns the settings that the terminal had before the program was started.
    #[must_use]
    pub fn initial_settings(&self) -> Termios {
        self.terminal.initial().clone()
    }

    /// Returns the settings of the terminal.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn settings(&self) -> io::Result<Termios> {
        self.terminal.settings()
    }

    /// Waits until the screen shows a text.
    ///
    /// # Panics
    /// When it does not within the time limit.
    pub async fn until(&self, text: &str) {
        self.until_it(&format!("{text:?} is not on the screen"), |shown| shown.contains(text)).await;
    }

    /// Waits until the screen does not show a text.
    ///
    /// # Panics
    /// When it does so for the time limit.
    pub async fn until_gone(&self, text: &str) {
        self.until_it(&format!("{text:?} stays on the screen"), |shown| !shown.contains(text)).await;
    }

    /// Waits until the screen is as a test wants it.
    ///
    /// # Panics
    /// When it is not within the time limit.
    pub async fn until_it(&self, what: &str, is: impl Fn(&str) -> bool) {
        let started = Instant::now();
        loop {
            let shown = self.text();
            if is(&shown) {
                return;
            }
            assert!(started.elapsed() < LIMIT, "{what}:\n{shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until nothing has been written for a moment.
    pub async fn still(&self) {
        let (mut length, mut since) = (self.terminal.bytes().len(), Instant::now());
        while since.elapsed() < STILL {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let now = self.terminal.bytes().len();
            if now != length {
                (length, since) = (now, Instant::now());
            }
        }
    }

    /// Sends keys.
    ///
    /// # Panics
    /// When the program is gone.
    pub fn press(&mut self, keys: &str) {
        self.terminal.press(keys).expect("a terminal");
    }
}

/// A number of rows or columns; at least one.
fn cells(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap_or(NonZero::<u16>::MIN)
}

/// The size of a terminal, as the system wants it.
pub(crate) fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}
