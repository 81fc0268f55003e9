//! Describes a session's events in words, for a terminal. Prints nothing and escapes nothing: texts of tools and models are
//! untrusted.

mod activity;
mod tool_output;

pub(crate) use self::activity::Activity;
pub(crate) use self::tool_output::{OutputLine, ToolOutputs};
