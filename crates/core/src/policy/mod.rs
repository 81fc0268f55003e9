//! The permission policy: what a request asks for, and whether a rule or a grant speaks about it.
//!
//! Everything here is pure. It reads no file, resolves no name and runs nothing, so that the same request always gets
//! the same answer, and so that its laws can be tested by the thousand.

pub mod shell;

/// Whether the argument of a rule names what a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// It does.
    Yes,
    /// It certainly does not.
    No,
    /// It may: the request does not say enough to tell.
    Unknown,
}
