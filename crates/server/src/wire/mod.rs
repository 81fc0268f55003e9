//! Bytes in and out: what a connection is made of, below any protocol.

mod outbox;
mod pipe;
pub(crate) mod stdio;

pub(crate) use outbox::{Closed, Outbox};
pub(crate) use pipe::Pipe;
