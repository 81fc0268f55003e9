//! Operating a server: [`mod@backup`] and [`mod@restore`] of a home, and running it as a [`service`].
//!
//! This crate works on the files of a home, beside running servers and without them. It opens no session and speaks to no
//! client; it prints nothing and does not read the environment.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a thread of their own")]

mod archive;
pub mod backup;
mod error;
pub mod restore;
pub mod service;
pub mod span;

pub use self::error::OpsError;
