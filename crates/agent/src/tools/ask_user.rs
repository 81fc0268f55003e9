//! `ask_user`: the model asks the user a question.
//!
//! Arguments and result only. The session asks: a pending question must survive a crash.

use baton_protocol::Json;
use baton_protocol::tool::{ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::json;

use super::{Refusal, arguments, schema, spec};

/// The name of the tool.
pub const NAME: &str = "ask_user";

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Question {
    /// The question.
    pub question: String,
    /// Answers to choose from; `None` means any text.
    #[serde(default, alias = "options")]
    pub choices: Option<Vec<String>>,
    /// Whether the user may answer with any text.
    #[serde(default, alias = "allowFreeform")]
    pub allow_freeform: Option<bool>,
}

impl Question {
    /// Parses the arguments of a call.
    ///
    /// # Errors
    /// A result that explains the mistake to the model.
    #[expect(clippy::result_large_err, reason = "parsed once for each question; callers need a tool result")]
    pub fn read(arguments: &Json) -> Result<Self, ToolResult> {
        let question: Self = arguments::read(NAME, arguments)?;
        if question.question.trim().is_empty() {
            return Err(Refusal::arguments(NAME, "question: must not be empty").into());
        }
        Ok(question)
    }
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// One of the choices.
    Selected(String),
    /// Any text.
    Freeform(String),
}

impl Answer {
    /// Returns the result of the call.
    #[must_use]
    pub fn result(&self) -> ToolResult {
        ToolResult::success(match self {
            Self::Selected(choice) => format!("User selected: {choice}"),
            Self::Freeform(text) => format!("User responded: {text}"),
        })
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

    fn read(json: &str) -> Result<Question, String> {
        Question::read(&Json::from_text(json).unwrap()).map_err(|refused| refused.text_result_for_llm)
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

    #[test]
    fn results_have_the_official_wording() {
        assert_eq!(Answer::Selected("Red".into()).result().text_result_for_llm, "User selected: Red");
        assert_eq!(Answer::Freeform("no".into()).result().text_result_for_llm, "User responded: no");
    }
}
