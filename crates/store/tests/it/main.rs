//! All tests of the public interface, in one binary: linking SQLite takes most of the build time.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests report by panicking")]

mod contract;
mod crash;
mod damage;
mod faults;
mod lease_model;
mod lifecycle;
mod model;
mod support;
mod vanish;
