//! Untrusted text, made safe to show.
//!
//! Text of models, tools, files and servers is escaped by [`visible`] before people read it: control, bidirectional and
//! invisible characters become escapes. [`html`] puts such text into a page, as text or rendered from Markdown. This crate
//! knows no session, no terminal and no network.

pub mod html;
pub mod visible;
