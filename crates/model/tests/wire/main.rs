//! Tests of the wire formats over real HTTP against the scripted server. One binary, to link only once.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

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
