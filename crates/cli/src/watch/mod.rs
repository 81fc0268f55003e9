//! What a session does, in words for somebody who watches it at a terminal. The words are made from the session's events
//! alone. This module prints nothing, and escapes nothing: texts of tools and models are untrusted.

mod activity;
mod tool_output;

pub(crate) use self::activity::Activity;
pub(crate) use self::tool_output::{OutputLine, ToolOutputs};
