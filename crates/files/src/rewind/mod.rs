//! Rewinding files: snapshots of files before a session changes them, and restoring them.
//!
//! A session that tracks files takes a snapshot of each file before one of its own tools may change it ([`Snapshots`]), and
//! records that in its history. Which file changed in which turn is therefore read from the history ([`FileHistory`]): parts
//! that a rewind removed do not count, and a crash between the snapshot and the change loses nothing. A file is restored
//! only if its content is known to come from those tools ([`Plan`]).

mod file_history;
mod preview;
mod restore;
mod snapshots;

pub use self::file_history::{FileHistory, Point, TouchedFile};
pub use self::preview::{ChangeType, Undone, preview};
pub use self::restore::{Plan, RestoreFailure, Skip};
pub use self::snapshots::{FileState, Snapshots, lines_between, text_now, text_of};
pub use baton_disk::beneath::resolve;
