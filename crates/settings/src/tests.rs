//! Tests of settings.

use super::*;

fn settings(available: Option<&[&str]>, excluded: &[&str]) -> Settings {
    let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    Settings { available_tools: available.map(own), excluded_tools: own(excluded), ..Settings::default() }
}

#[test]
fn exclusion_takes_precedence_over_available_tools() {
    use ToolKind::{BuiltIn, Client};
    let all = settings(None, &[]);
    assert!(all.offers("view", BuiltIn) && all.offers("mine", Client));
    let two = settings(Some(&["view", "custom:*"]), &["custom:secret"]);
    assert!(two.offers("view", BuiltIn) && two.offers("mine", Client));
    assert!(!two.offers("bash", BuiltIn) && !two.offers("secret", Client));
    assert!(!settings(Some(&["*"]), &["view"]).offers("view", BuiltIn));
    assert!(!settings(Some(&[]), &[]).offers("view", BuiltIn), "an empty list offers nothing");
    assert!(!settings(Some(&["mcp:*"]), &[]).offers("view", BuiltIn));
    let mcp = ToolKind::Mcp { server: "a/b", tool: "c" };
    for filter in ["*", "mcp:*", "a-b-c", "mcp:a-b-c", "a/b/c", "a/b/*", "mcp:a/b/*"] {
        assert!(settings(Some(&[filter]), &[]).offers("a-b-c", mcp), "{filter}");
        assert!(!settings(None, &[filter]).offers("a-b-c", mcp), "{filter}");
    }
    for filter in ["builtin:*", "custom:*", "a/*", "c", "a/b", "a/b/"] {
        assert!(!settings(Some(&[filter]), &[]).offers("a-b-c", mcp), "{filter}");
    }
}

#[test]
fn client_agents_are_added_to_the_built_in_ones() {
    let agent = |name: &str| CustomAgent { name: name.into(), ..CustomAgent::default() };
    let mut settings = Settings {
        custom_agents: vec![
            agent("mine"),
            CustomAgent { infer: Some(false), ..agent("people") },
            agent("task"),
        ],
        excluded_agents: vec!["explore".into(), "mine".into()],
        ..Settings::default()
    };
    let names = |settings: &Settings| -> Vec<String> {
        settings.agent_kinds().into_iter().map(|kind| kind.name).collect()
    };
    let kinds = names(&settings);
    assert!(kinds.contains(&"mine".to_owned()), "only built-in agents are excluded");
    assert!(!kinds.contains(&"explore".to_owned()) && !kinds.contains(&"people".to_owned()));
    assert_eq!(kinds.iter().filter(|name| *name == "task").count(), 1);
    settings.excluded_agents.clear();
    assert!(names(&settings).contains(&"explore".to_owned()));
}

#[test]
fn selected_agent_determines_the_offered_tools() {
    use ToolKind::BuiltIn;
    let tools = Some(vec!["view".into()]);
    let reader = CustomAgent { name: "reader".into(), tools, ..CustomAgent::default() };
    let mut settings = Settings {
        custom_agents: vec![reader],
        default_agent_excludes: vec!["view".into()],
        ..Settings::default()
    };
    assert!(settings.offers("bash", BuiltIn) && !settings.offers("view", BuiltIn));
    settings.chosen_agent = Some("reader".into());
    assert!(!settings.offers("bash", BuiltIn) && settings.offers("view", BuiltIn));
}

/// Credentials of a session stay in its process.
#[test]
fn settings_are_serialised_without_credentials() {
    let settings = Settings { github_token: Some("secret".into()), ..Settings::default() };
    let value = serde_json::to_string(&settings).unwrap();
    assert!(!value.contains("secret"), "{value}");
}

#[test]
fn own_doors_discover_by_default_and_sdk_applications_do_not() {
    let discovers = |params: SessionParams| {
        let mut settings = Settings::default();
        settings.merge(ClientId(1), &params, false);
        (settings.discovers(), settings.finds_agents())
    };
    let named = |name: &str| SessionParams { client_name: Some(name.into()), ..SessionParams::default() };
    assert_eq!(discovers(SessionParams { keep: true, ..named("http") }), (true, true));
    assert_eq!(discovers(named("baton-run")), (true, true));
    assert_eq!(discovers(named("application")), (false, false));
    let explicit = |enable| SessionParams { enable_config_discovery: Some(enable), ..named("baton-run") };
    assert_eq!(discovers(explicit(false)), (false, false));
    assert_eq!(discovers(explicit(true)), (true, true));
}

#[test]
fn later_change_replaces_only_what_it_sets() {
    let options = |options: OptionsEdit| SettingsEdit::Options(Box::new(options));
    let streaming = options(OptionsEdit { streaming: Some(true), ..OptionsEdit::default() });
    let both = options(OptionsEdit {
        streaming: Some(false),
        client_name: Some("n".into()),
        ..OptionsEdit::default()
    });
    assert!(both.replaces(&streaming) && !streaming.replaces(&both));
    let server = |name: &str, switch| SettingsEdit::McpServer { name: name.into(), switch };
    let configured = server("a", McpSwitch::Started(Some(Json::null())));
    assert!(!server("a", McpSwitch::Stopped).replaces(&configured), "its configuration is still needed");
    assert!(configured.replaces(&server("a", McpSwitch::Stopped)));
    assert!(!server("a", McpSwitch::Disabled).replaces(&server("a", McpSwitch::Stopped)));
    assert!(server("a", McpSwitch::Enabled).replaces(&server("a", McpSwitch::Disabled)));
    assert!(!server("b", McpSwitch::Enabled).replaces(&server("a", McpSwitch::Disabled)));
    let selected = SettingsEdit::SelectAgent(Some("a".into()));
    assert!(SettingsEdit::SelectAgent(None).replaces(&selected) && !selected.replaces(&streaming));
}

#[test]
fn mcp_server_is_switched_in_the_settings() {
    let mut settings = Settings { disabled_mcp_servers: vec!["a".into()], ..Settings::default() };
    let mut switch = |name: &str, switch| {
        settings.apply(SettingsEdit::McpServer { name: name.into(), switch });
        settings.clone()
    };
    let enabled = switch("a", McpSwitch::Enabled);
    assert!(enabled.disabled_mcp_servers.is_empty() && enabled.enabled_mcp_servers == ["a"]);
    let disabled = switch("a", McpSwitch::Disabled);
    assert!(disabled.disabled_mcp_servers == ["a"] && disabled.enabled_mcp_servers.is_empty());
    assert_eq!(switch("b", McpSwitch::Stopped).stopped_mcp_servers, ["b"]);
    assert_eq!(switch("b", McpSwitch::Stopped).stopped_mcp_servers, ["b"]);
    let started = switch("b", McpSwitch::Started(Some(Json::null())));
    assert!(started.stopped_mcp_servers.is_empty() && started.mcp_servers.contains_key("b"));
}
