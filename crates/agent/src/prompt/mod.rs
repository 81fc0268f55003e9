//! What the model is told: the system prompt, and the form in which a user's prompt reaches it.

pub mod instructions;
pub mod system;
pub mod user;
