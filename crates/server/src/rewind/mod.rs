//! Going back with files: what they were before the session changed them, and putting them back.
//!
//! A session that tracks files keeps a copy of each before its own tools may change it ([`Shelf`]), and says so in its
//! history, in the same order as everything else. So which file changed in which turn is read from the history ([`Trail`]),
//! what was taken back of the history does not count here either, and a crash between the copy and the change loses
//! nothing. What is not known to be the work of those tools is never overwritten ([`Plan`]).

mod restore;
mod shelf;
mod trail;

pub(crate) use self::restore::{Plan, Skip, Undone};
pub(crate) use self::shelf::{Now, Shelf, lines_between, resolve, text_now, text_of};
pub(crate) use self::trail::{Point, Touched, Trail};
