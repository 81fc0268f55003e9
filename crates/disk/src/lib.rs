//! Files that strangers can prepare, and files that only their owner can use.
//!
//! * [`untrusted`] reads files of directories that somebody else filled: regular files only, within limits.
//! * [`beneath`] opens what a person approved, without following links that were swapped in later.
//! * [`paths`] makes paths absolute and real.
//! * [`blocking`] is the bounded pool for reads that may hang.
//! * [`front_matter`] parses the block of keys at the top of a Markdown file.
//! * [`private`] creates files that are closed to other users.
//!
//! This crate decides neither which files are ours nor who may read them.

pub mod beneath;
pub mod blocking;
pub mod front_matter;
pub mod paths;
pub mod private;
pub mod untrusted;
