//! Settings of a session that are stored with it, because no client sends them again.

use baton_core::Session;
use baton_history::metadata::{Metadata, StoredSettings};
use baton_protocol::params::SystemMessageConfig;
use baton_settings::ModelSender;

use baton_settings::Settings;

/// Returns the metadata of a session's current state, with the settings to store.
pub(crate) fn metadata_of(session: &Session, settings: &Settings) -> Metadata {
    Metadata {
        client_name: settings.client_name.clone(),
        own_provider: has_provider(settings),
        carried: is_carried(settings),
        settings: settings.keep.then(|| to_store(settings)),
        ..Metadata::of(session)
    }
}

/// Whether [`metadata_of`] would return the same. Called for every append, so nothing is copied or encoded.
pub(crate) fn is_current(metadata: &Metadata, session: &Session, settings: &Settings) -> bool {
    metadata.client_name == settings.client_name
        && metadata.own_provider == has_provider(settings)
        && metadata.carried == is_carried(settings)
        && metadata.settings.is_some() == settings.keep
        && metadata.settings.as_ref().is_none_or(|stored| is_stored(settings, stored))
        && metadata.describes(session)
}

/// Returns the settings that a stored session is opened with.
pub(crate) fn settings_of(metadata: &Metadata) -> Settings {
    let Some(stored) = metadata.settings.clone() else { return Settings::default() };
    let append = |content| SystemMessageConfig { content: Some(content), ..SystemMessageConfig::default() };
    Settings {
        client_name: metadata.client_name.clone(),
        system_message: stored.instructions.map(append),
        available_tools: stored.available_tools,
        excluded_tools: stored.excluded_tools,
        questions: stored.questions,
        provider_lost: stored.own_provider,
        streaming: true,
        keep: true,
        ..Settings::default()
    }
}

fn to_store(settings: &Settings) -> StoredSettings {
    StoredSettings {
        instructions: instructions(settings).cloned(),
        available_tools: settings.available_tools.clone(),
        excluded_tools: settings.excluded_tools.clone(),
        questions: settings.questions,
        own_provider: has_provider(settings),
    }
}

fn is_stored(settings: &Settings, stored: &StoredSettings) -> bool {
    let StoredSettings { instructions: text, available_tools, excluded_tools, questions, own_provider } =
        stored;
    instructions(settings) == text.as_ref()
        && settings.available_tools == *available_tools
        && settings.excluded_tools == *excluded_tools
        && settings.questions == *questions
        && has_provider(settings) == *own_provider
}

fn has_provider(settings: &Settings) -> bool {
    settings.provider.is_some() || settings.provider_lost
}

fn is_carried(settings: &Settings) -> bool {
    settings.sender != ModelSender::Server
}

fn instructions(settings: &Settings) -> Option<&String> {
    settings.system_message.as_ref().and_then(|message| message.content.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_stored_only_if_the_session_keeps_them() {
        let session = Session::new("s".parse().unwrap());
        let mut settings = Settings {
            excluded_tools: vec!["bash".into()],
            system_message: Some(SystemMessageConfig {
                content: Some("be brief".into()),
                ..SystemMessageConfig::default()
            }),
            ..Settings::default()
        };
        let not_kept = metadata_of(&session, &settings);
        let back = settings_of(&not_kept);
        assert!(back.excluded_tools.is_empty(), "an SDK sends its settings again");
        settings.keep = true;
        assert!(!is_current(&not_kept, &session, &settings));
        let kept = metadata_of(&session, &settings);
        let back = settings_of(&kept);
        assert_eq!(back.excluded_tools, ["bash"]);
        assert_eq!(back.system_message, settings.system_message);
        assert!(back.keep && back.streaming);
        assert!(is_current(&kept, &session, &settings));
        settings.excluded_tools.clear();
        assert!(!is_current(&kept, &session, &settings));
    }
}
