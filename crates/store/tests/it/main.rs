//! All tests that use the store from outside, in one program: linking SQLite once is what takes time.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test reports by panicking")]

mod contract;
mod crash;
mod damage;
mod faults;
mod lifecycle;
mod model;
mod support;
mod vanish;
