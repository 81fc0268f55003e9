//! `ask_user`: what the model may ask a person, and how the answer is told to it.
//!
//! The asking itself is not done here: a question that waits must survive a crash, so it belongs to the
//! session.

use baton_protocol::Json;
use baton_protocol::tool::{ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::json;

use super::{Refusal, arguments, schema, spec};

/// The name of the tool.
pub const NAME: &str = "ask_user";

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Question {
    /// What is asked.
    pub question: String,
    /// Answers to choose from; none means any text.
    #[serde(default, alias = "options")]
    pub choices: Option<Vec<String>>,
    /// Whether other answers than the choices are welcome.
    #[serde(default, alias = "allowFreeform")]
    pub allow_freeform: Option<bool>,
}

impl Question {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// With the result that tells the model what is wrong.
    #[expect(
        clippy::result_large_err,
        reason = "it is read once for each question, and its readers want a result"
    )]
    pub fn read(arguments: &Json) -> Result<Self, ToolResult> {
        let question: Self = arguments::read(NAME, arguments)?;
        if question.question.trim().is_empty() {
            return Err(Refusal::arguments(NAME, "question: must not be empty").into());
        }
        Ok(question)
    }
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// One of the choices.
    Selected(String),
    /// Their own words.
    Freeform(String),
}

impl Answer {
    /// What the model is told.
    #[must_use]
    pub fn result(&self) -> ToolResult {
        ToolResult::success(match self {
            Self::Selected(choice) => format!("User selected: {choice}"),
            Self::Freeform(text) => format!("User responded: {text}"),
        })
    }
}

/// The tool, as the model is told.
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
    fn questions_are_read_and_bad_ones_explained() {
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
            let told = read(bad).unwrap_err();
            assert!(told.contains(hint), "{told}");
        }
    }

    #[test]
    fn answers_are_told_in_the_words_that_models_know() {
        assert_eq!(Answer::Selected("Red".into()).result().text_result_for_llm, "User selected: Red");
        assert_eq!(Answer::Freeform("no".into()).result().text_result_for_llm, "User responded: no");
    }
}
