//! `report_intent`: lets the model tell the user what it is working on.
//!
//! Offered to sessions of legacy SDK clients only; current ones do without. It does nothing: the call itself is shown.

use baton_protocol::tool::{ToolResult, ToolSpec};
use serde_json::json;

use super::{schema, spec};

/// The name of the tool.
pub const NAME: &str = "report_intent";

/// Returns the specification that the model is given.
#[must_use]
pub fn report_intent_spec() -> ToolSpec {
    let intent = schema::string("What you are doing now, in at most four words");
    let parameters = schema::object(&json!({ "intent": intent }), &["intent"]);
    let description = "Tells the user in a few words what you are doing. Call it when your focus changes.";
    ToolSpec { skip_permission: true, ..spec(NAME, description, parameters) }
}

/// Returns the result of every call.
#[must_use]
pub fn result() -> ToolResult {
    // Recordings of the official runtime contain this text.
    ToolResult::success("Intent logged")
}
