//! The wires of the model crate, tested over real HTTP against the scripted server. One program, so that it
//! is linked once.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bad_input;
mod catalog;
mod chat;
mod common;
mod environment;
mod failures;
mod laws;
mod messages;
mod responses;
mod socket;
mod switching;
