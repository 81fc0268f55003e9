//! `ask_user`: the model asks the user a question.
//!
//! Arguments only. The core asks and builds the result: a pending question must survive a crash.

use baton_protocol::Json;
use baton_protocol::tool::{ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::json;

use super::{ToolRefusal, arguments, schema, spec};

/// The name of the tool.
pub const NAME: &str = "ask_user";

/// Arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AskUserArguments {
    /// The question.
    pub question: String,
    /// Answers to choose from; `None` means any text.
    #[serde(default, alias = "options")]
    pub choices: Option<Vec<String>>,
    /// Whether the user may answer with any text.
    #[serde(default, alias = "allowFreeform")]
    pub allow_freeform: Option<bool>,
}

impl AskUserArguments {
    /// Parses the arguments of a call.
    ///
    /// # Errors
    /// A result that explains the mistake to the model.
    #[expect(clippy::result_large_err, reason = "parsed once for each question; callers need a tool result")]
    pub fn read(arguments: &Json) -> Result<Self, ToolResult> {
        let question: Self = arguments::read(NAME, arguments)?;
        if question.question.trim().is_empty() {
            return Err(ToolRefusal::arguments(NAME, "question: must not be empty").into());
        }
        Ok(question)
    }
}

/// Returns the specification that the model is given.
#[must_use]
pub fn ask_user_spec() -> ToolSpec {
    spec(
        NAME,
        "Asks the user a question and waits for the answer. Use it when you need a decision or a fact that \
         only the user has, and give choices where you can. Do not use it to ask for permission: tools ask \
         by themselves.",
        schema::object(
            &json!({
                "question": schema::string("The question, complete in itself."),
                "choices": schema::array("string", "Answers to choose from, the recommended one first."),
                "allow_freeform": schema::boolean(
                    "Whether the user may answer in their own words instead. Default: true."
                ),
            }),
            &["question"],
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<AskUserArguments, String> {
        AskUserArguments::read(&Json::from_text(json).unwrap()).map_err(|refused| refused.text_result_for_llm)
    }

    #[test]
    fn invalid_questions_are_explained() {
        let question =
            read(r#"{"question":"Pick","choices":["Red","Blue"],"allow_freeform":false}"#).unwrap();
        assert_eq!(question.choices.unwrap(), ["Red", "Blue"]);
        assert_eq!(question.allow_freeform, Some(false));
        assert_eq!(read(r#"{"question":"Why?"}"#).unwrap().choices, None);
        for (bad, hint) in [
            ("{}", "question"),
            (r#"{"question":" "}"#, "empty"),
            (r#"{"question":"x","choices":"y"}"#, "choices"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(hint), "{error}");
        }
    }
}
