//! The system prompt, and the user message that a prompt becomes.

pub mod instructions;
pub mod system;
pub mod user;
