//! Prepares texts to be shown: untrusted ones, Markdown, code, differences.
//!
//! Text of models, tools, files and servers is escaped by [`visible`] before people read it: control, bidirectional and
//! invisible characters become escapes. [`html`] puts such text into a page, as text or rendered from Markdown, and [`diff`]
//! compares two of them. [`document`], [`patch`] and [`highlight`] give Markdown, unified diffs and code as data to places that
//! draw them themselves. This crate knows no session, no terminal and no network.

pub mod diff;
pub mod document;
pub mod highlight;
pub mod html;
pub mod patch;
pub mod visible;
