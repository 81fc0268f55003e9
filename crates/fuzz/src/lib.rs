//! Fuzz targets: what must hold for every input of the parsers that read what strangers send.
//!
//! A target is a function that takes any bytes and panics if a law is broken. `cargo +nightly fuzz run` calls the targets
//! with inputs that it invents (`fuzz/`, see `docs/fuzzing.md`); `tests/replay.rs` calls them on stable Rust with the corpus of
//! `fuzz/corpus/` and with mutations of it.
//!
//! Laws that need more than bytes, such as random rules and grants, are property tests of the crates themselves.

#![allow(clippy::disallowed_methods, reason = "targets may block")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "targets report by panicking")]

mod archive;
mod frames;
mod markdown;
mod mcp;
mod shell;

pub use archive::archive;
pub use frames::frames;
pub use markdown::markdown;
pub use mcp::mcp;
pub use shell::shell;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets, by the names of their binaries and corpora.
pub const TARGETS: [(&str, Target); 5] =
    [("archive", archive), ("frames", frames), ("markdown", markdown), ("mcp", mcp), ("shell", shell)];
