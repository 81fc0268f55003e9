//! The permission policy: pure, and the only place that decides.

pub mod address;
pub mod territory;

/// Whether a rule's argument names something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// That cannot be told.
    Unknown,
}
