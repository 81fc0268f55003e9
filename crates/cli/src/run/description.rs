//! Describes in words what answers: the engine of a session, or its model and endpoint.

use baton_providers::ServerEndpoint;

use crate::config;

/// What is said when the demo model answers because nothing else is configured.
const DEMO: &str = "demo model, no AI; see `baton doctor`";

/// What answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    text: String,
    /// Whether the demo model answers.
    pub(super) is_demo: bool,
    /// Whether the model is named. If not, it is the first one of the endpoint, and known with its first answer.
    pub(super) has_model: bool,
}

impl Description {
    /// Describes the session of this model, or of the endpoint's first one.
    pub(super) fn new(model: Option<&str>, engines: &[&str], endpoint: &str) -> Self {
        let engine = model.map(|model| model.split('/').next().unwrap_or_default());
        let is_engine = engine.is_some_and(|engine| engines.contains(&engine));
        let is_demo = !is_engine && endpoint == config::describe(&ServerEndpoint::Demo);
        let text = match model {
            _ if is_demo => DEMO.to_owned(),
            Some(model) if is_engine => model.to_owned(),
            Some(model) => format!("{model} · {endpoint}"),
            None => endpoint.to_owned(),
        };
        Self { text, is_demo, has_model: is_demo || model.is_some() }
    }

    /// Adds where the session is.
    pub(super) fn in_place(self, place: &str) -> Self {
        Self { text: format!("{} · {place}", self.text), ..self }
    }

    /// The description, in one line.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}
