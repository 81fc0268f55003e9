//! Servers that behave, and one that misbehaves in many ways (`odd_server.py`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]

mod odd;
mod real;
mod shared;
mod support;
