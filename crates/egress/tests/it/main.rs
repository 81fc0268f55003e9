//! The proxy, with real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests may panic and print"
)]

mod curl;
mod limits;
mod requests;
mod support;
mod tunnels;
