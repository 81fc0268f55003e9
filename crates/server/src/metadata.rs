//! What lists of sessions show: kept beside the history, so that a list needs no history to be read.

use baton_core::Session;
use baton_core::state::Facts;
use baton_protocol::event::WorkContext;
use baton_protocol::params::{SessionMetadata, SystemMessageConfig};
use baton_store::Summary;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::session::Settings;

/// The metadata of a session, as stored.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    pub(crate) title: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) client_name: Option<String>,
    pub(crate) context: WorkContext,
    /// Whether this is an import that has not come to its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) importing: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<Kept>,
}

/// What the maker of a session has set up for good. Sessions of SDKs have none: an SDK says it again when it resumes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    /// What was added to the system prompt.
    instructions: Option<String>,
    available_tools: Option<Vec<String>>,
    excluded_tools: Vec<String>,
    questions: bool,
}

impl Kept {
    fn of(settings: &Settings) -> Self {
        Self {
            instructions: settings.system_message.as_ref().and_then(|message| message.content.clone()),
            available_tools: settings.available_tools.clone(),
            excluded_tools: settings.excluded_tools.clone(),
            questions: settings.questions,
        }
    }
}

pub(crate) fn encode(session: &Session, settings: &Settings) -> Bytes {
    stored(&known(session, settings))
}

/// The metadata of a session of which only a part has been imported.
pub(crate) fn encode_importing(session: &Session) -> Bytes {
    stored(&Metadata { importing: true, ..known(session, &Settings::default()) })
}

fn stored(metadata: &Metadata) -> Bytes {
    serde_json::to_vec(metadata).unwrap_or_default().into()
}

fn known(session: &Session, settings: &Settings) -> Metadata {
    let facts = &session.durable.facts;
    Metadata {
        title: facts.title.clone(),
        name: facts.name.clone(),
        client_name: settings.client_name.clone(),
        context: facts.context.clone(),
        importing: false,
        kept: settings.keep.then(|| Kept::of(settings)),
    }
}

/// Metadata that cannot be read is no reason to hide a session.
pub(crate) fn decode(bytes: &[u8]) -> Metadata {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// The settings that a session comes back into memory with.
pub(crate) fn settings(bytes: &[u8]) -> Settings {
    let Metadata { kept: Some(kept), client_name, .. } = decode(bytes) else { return Settings::default() };
    let append = |content| SystemMessageConfig { content: Some(content), ..SystemMessageConfig::default() };
    Settings {
        client_name,
        system_message: kept.instructions.map(append),
        available_tools: kept.available_tools,
        excluded_tools: kept.excluded_tools,
        questions: kept.questions,
        streaming: true,
        keep: true,
        ..Settings::default()
    }
}

/// What clients are told about a session that may not be in memory.
pub(crate) fn of(summary: &Summary) -> SessionMetadata {
    let metadata = decode(&summary.meta);
    SessionMetadata {
        session_id: summary.session.clone(),
        start_time: summary.created,
        modified_time: summary.modified,
        is_remote: false,
        summary: metadata.name.clone().or(metadata.title).or_else(|| summary.damage.clone()),
        name: metadata.name,
        context: Some(metadata.context).filter(|context| !context.cwd.is_empty()),
    }
}

/// What is known of where a session works and how it is called, under the names that tools beside us use.
pub(crate) fn place(facts: &Facts) -> [(&'static str, &Option<String>); 5] {
    let context = &facts.context;
    [
        ("git_root", &context.git_root),
        ("repository", &context.repository),
        ("host_type", &context.host_type),
        ("branch", &context.branch),
        ("name", &facts.name),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_will_say_again_is_kept() {
        let session = Session::new("s".parse().unwrap());
        let mut settings = Settings {
            excluded_tools: vec!["bash".into()],
            system_message: Some(SystemMessageConfig {
                content: Some("be brief".into()),
                ..SystemMessageConfig::default()
            }),
            ..Settings::default()
        };
        let back = super::settings(&encode(&session, &settings));
        assert!(back.excluded_tools.is_empty(), "an SDK says it again");
        settings.keep = true;
        let back = super::settings(&encode(&session, &settings));
        assert_eq!(back.excluded_tools, ["bash"]);
        assert_eq!(back.system_message, settings.system_message);
        assert!(back.keep && back.streaming);
    }
}
