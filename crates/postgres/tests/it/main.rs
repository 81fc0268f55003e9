//! Tests with a real PostgreSQL and a real pgbouncer. `scripts/test postgres` runs them.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests report by panicking")]

mod contract;
mod faults;
mod support;
