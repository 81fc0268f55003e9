//! Settings: a file, then the environment, then flags; the later one wins. Every value remembers where it came from.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use baton_protocol::provider::{AzureConfig, ProviderConfig, ProviderKind, ProviderTransport, WireApi};
use baton_server::{Endpoint, WorkspaceOptions};
use baton_store::sqlite::Durability;
use serde::Deserialize;
use serde_json::json;

use crate::args::{Cli, ConfigArgs, Global, ModelArgs};
use crate::door::HttpTable;
use crate::engines::EngineTable;
use crate::terminal;
use crate::tool_environment::ToolsTable;
use crate::workspaces::{self, WorkspaceTable};

/// The configuration file, as people write it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    home: Option<PathBuf>,
    log_level: Option<String>,
    durability: Option<String>,
    model: ModelTable,
    engines: BTreeMap<String, EngineTable>,
    http: HttpTable,
    workspaces: WorkspaceTable,
    tools: ToolsTable,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ModelTable {
    name: Option<String>,
    /// `openai` (and all that is compatible with it), `azure` or `anthropic`.
    provider: Option<ProviderKind>,
    /// `completions` or `responses`.
    wire_api: Option<WireApi>,
    /// `http` or `websockets`.
    transport: Option<ProviderTransport>,
    base_url: Option<String>,
    /// Azure's older routes have a version.
    api_version: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    max_prompt_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    /// The name of the variable that holds the key. Keys themselves do not belong into files that people share.
    api_key_env: Option<String>,
}

impl ModelTable {
    /// Whether it says more than which model.
    fn says_where_or_how(&self) -> bool {
        let Self {
            name: _,
            provider,
            wire_api,
            transport,
            base_url,
            api_version,
            headers,
            max_prompt_tokens,
            max_output_tokens,
            api_key_env,
        } = self;
        let texts = [base_url, api_version, api_key_env].into_iter().any(Option::is_some);
        let limits = [max_prompt_tokens, max_output_tokens].into_iter().any(Option::is_some);
        texts
            || limits
            || provider.is_some()
            || wire_api.is_some()
            || transport.is_some()
            || headers.is_some()
    }
}

/// A value, and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: String,
}

/// Everything that is configured.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) home: Sourced<PathBuf>,
    pub(crate) log_level: Sourced<String>,
    pub(crate) durability: Sourced<Durability>,
    pub(crate) endpoint: Sourced<Endpoint>,
    pub(crate) model: Option<Sourced<String>>,
    pub(crate) engines: BTreeMap<String, EngineTable>,
    pub(crate) http: HttpTable,
    pub(crate) workspaces: Sourced<WorkspaceOptions>,
    /// Further variables that commands of sessions see.
    pub(crate) tool_environment: Sourced<Vec<String>>,
    /// The variables that keys and tokens for models were to be read from.
    pub(crate) key_variables: Vec<String>,
    pub(crate) file: PathBuf,
    pub(crate) file_found: bool,
}

/// The environment, as far as settings go. A map, so that tests need not touch the real one.
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    pub(crate) fn of_process() -> Self {
        Self(std::env::vars().filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The first of these variables that is set, with its name.
    fn first(&self, names: &[&str]) -> Option<(String, String)> {
        names.iter().find_map(|name| Some(((*name).to_owned(), self.get(name)?.to_owned())))
    }

    fn directory(&self, variable: &str, below_home: &str) -> PathBuf {
        match self.get(variable) {
            Some(directory) => PathBuf::from(directory),
            None => Path::new(self.get("HOME").unwrap_or("/")).join(below_home),
        }
    }
}

/// Reads the configuration. `token_variable` names the variable in which an SDK passes a token.
pub(crate) fn load(
    global: &Global,
    model: &ModelArgs,
    token_variable: Option<&str>,
    environment: &Environment,
) -> anyhow::Result<Config> {
    let path = global
        .config
        .clone()
        .unwrap_or_else(|| environment.directory("XDG_CONFIG_HOME", ".config").join("baton/config.toml"));
    let (file, file_found) = read_file(&path, global.config.is_some())?;
    let file_source = path.display().to_string();
    let pick = |flag: Option<String>, variables: &[&str], file: Option<String>, default: &str| {
        let from_flag = flag.map(|value| Sourced { value, source: "flag".into() });
        let from_environment = || {
            environment.first(variables).map(|(name, value)| Sourced { value, source: format!("${name}") })
        };
        let from_file = || file.map(|value| Sourced { value, source: file_source.clone() });
        let from_nowhere = || Sourced { value: default.to_owned(), source: "default".into() };
        from_flag.or_else(from_environment).or_else(from_file).unwrap_or_else(from_nowhere)
    };
    let text = |path: &PathBuf| path.display().to_string();
    let default_home = text(&environment.directory("XDG_STATE_HOME", ".local/state").join("baton"));
    let home = pick(
        global.home.as_ref().map(text),
        &["COPILOT_HOME", "BATON_HOME"],
        file.home.as_ref().map(text),
        &default_home,
    );
    let durability = pick(None, &["BATON_DURABILITY"], file.durability.clone(), "full");
    let name = pick(model.model.clone(), &["OPENAI_MODEL"], file.model.name.clone(), "");
    Ok(Config {
        home: Sourced { value: PathBuf::from(home.value), source: home.source },
        log_level: pick(global.log_level.clone(), &["BATON_LOG"], file.log_level.clone(), "warn"),
        durability: Sourced { value: parse_durability(&durability.value)?, source: durability.source },
        endpoint: endpoint(model, token_variable, environment, &file.model, &file_source),
        model: (!name.value.is_empty()).then_some(name),
        key_variables: key_variables(token_variable, environment, &file.model),
        tool_environment: Sourced {
            source: if file.tools == ToolsTable::default() { "default".into() } else { file_source.clone() },
            value: file.tools.patterns()?,
        },
        engines: file.engines,
        http: file.http,
        workspaces: Sourced {
            source: if file.workspaces.is_set() { file_source.clone() } else { "default".into() },
            value: file.workspaces.options()?,
        },
        file: path,
        file_found,
    })
}

fn read_file(path: &Path, required: bool) -> anyhow::Result<(File, bool)> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let file = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
            Ok((file, true))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => {
            Ok((File::default(), false))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn parse_durability(text: &str) -> anyhow::Result<Durability> {
    match text {
        "full" => Ok(Durability::Full),
        "relaxed" => Ok(Durability::Relaxed),
        other => anyhow::bail!(
            "unknown durability {other:?}: use \"full\" (survives a power cut) or \"relaxed\" (survives a crash)"
        ),
    }
}

const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com";

/// Where models are asked: flags, else variables that name an address, else the file, else a key, else the demo. A key
/// alone comes after the file, which may well name the variable that holds it.
fn endpoint(
    flags: &ModelArgs,
    token_variable: Option<&str>,
    environment: &Environment,
    file: &ModelTable,
    file_source: &str,
) -> Sourced<Endpoint> {
    let openai_key = environment.get("OPENAI_API_KEY");
    let name = flags
        .model
        .clone()
        .or_else(|| environment.get("OPENAI_MODEL").map(str::to_owned))
        .or(file.name.clone());
    let sourced = |provider: ProviderConfig, source: &str| Sourced {
        value: Endpoint::Provider { provider: Box::new(provider), model: name.clone() },
        source: source.to_owned(),
    };
    if flags.demo {
        return Sourced { value: Endpoint::Demo, source: "flag".into() };
    }
    if let Some(file) = environment.get("BATON_REPLAY") {
        return sourced(provider(ProviderKind::Replay, file, None), "$BATON_REPLAY");
    }
    if let Some(url) = &flags.base_url {
        return sourced(provider(ProviderKind::OpenAi, url, openai_key), "flag");
    }
    if let Some(url) = environment.get("COPILOT_API_URL") {
        let variables =
            [token_variable.unwrap_or_default(), "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];
        let token = environment.first(&variables).map(|(_, token)| token);
        return Sourced {
            value: Endpoint::Copilot { url: url.to_owned(), token },
            source: "$COPILOT_API_URL".into(),
        };
    }
    if let Some(url) = environment.get("OPENAI_BASE_URL") {
        return sourced(provider(ProviderKind::OpenAi, url, openai_key), "$OPENAI_BASE_URL");
    }
    if file.says_where_or_how() {
        return sourced(of_file(file, environment), file_source);
    }
    if openai_key.is_some() {
        return sourced(provider(ProviderKind::OpenAi, OPENAI, openai_key), "$OPENAI_API_KEY");
    }
    if let Some(key) = environment.get("ANTHROPIC_API_KEY") {
        let url = environment.get("ANTHROPIC_BASE_URL").unwrap_or(ANTHROPIC);
        return sourced(provider(ProviderKind::Anthropic, url, Some(key)), "$ANTHROPIC_API_KEY");
    }
    Sourced { value: Endpoint::Demo, source: "default".into() }
}

/// Where else keys and tokens for models come from, besides the variables that are always ours. GitHub's own tokens are
/// read only to talk to a Copilot-style API; else they are the user's, who may pass them on to commands.
fn key_variables(token_variable: Option<&str>, environment: &Environment, file: &ModelTable) -> Vec<String> {
    let of_github = environment.get("COPILOT_API_URL").map(|_| ["GH_TOKEN", "GITHUB_TOKEN"]);
    let named = [token_variable, file.api_key_env.as_deref()];
    named.into_iter().flatten().chain(of_github.into_iter().flatten()).map(str::to_owned).collect()
}

fn provider(kind: ProviderKind, url: &str, key: Option<&str>) -> ProviderConfig {
    ProviderConfig {
        kind: Some(kind),
        base_url: url.to_owned(),
        api_key: key.map(str::to_owned),
        ..ProviderConfig::default()
    }
}

fn of_file(file: &ModelTable, environment: &Environment) -> ProviderConfig {
    let kind = file.provider.unwrap_or_default();
    let (usual, usual_key) = match kind {
        ProviderKind::Anthropic => (ANTHROPIC, "ANTHROPIC_API_KEY"),
        ProviderKind::OpenAi | ProviderKind::Azure | ProviderKind::Replay => (OPENAI, "OPENAI_API_KEY"),
    };
    // The usual key is for the usual address, and for no other.
    let key = file.api_key_env.as_deref().or(file.base_url.is_none().then_some(usual_key));
    let key = key.and_then(|name| environment.get(name));
    ProviderConfig {
        wire_api: file.wire_api,
        transport: file.transport,
        headers: file.headers.clone(),
        max_prompt_tokens: file.max_prompt_tokens,
        max_output_tokens: file.max_output_tokens,
        azure: file.api_version.clone().map(|version| AzureConfig { api_version: Some(version) }),
        ..provider(kind, file.base_url.as_deref().unwrap_or(usual), key)
    }
}

/// A URL without the user name and password that it may hold.
fn without_credentials(url: &str) -> String {
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (_, rest))) => format!("{scheme}://{rest}"),
        None => url.to_owned(),
    }
}

/// What a model endpoint is, in words that name no secret.
pub(crate) fn describe(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Copilot { url, token } => {
            let url = without_credentials(url);
            format!("{url} ({})", if token.is_some() { "with token" } else { "no token" })
        }
        Endpoint::Provider { provider, .. } => {
            let key = if provider.api_key.is_some() { "with key" } else { "no key" };
            format!("{} ({key})", without_credentials(&provider.base_url))
        }
        Endpoint::Demo => "built-in demo model".into(),
    }
}

/// `baton config`
pub(crate) fn show(cli: &Cli, args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let config = load(&cli.global, &ModelArgs::default(), None, &Environment::of_process())?;
    let durability = match config.durability.value {
        Durability::Full => "full",
        Durability::Relaxed => "relaxed",
    };
    let model = config
        .model
        .clone()
        .unwrap_or(Sourced { value: "(the endpoint's first)".into(), source: "default".into() });
    let rows = [
        ("home", config.home.value.display().to_string(), config.home.source),
        ("log_level", config.log_level.value, config.log_level.source),
        ("durability", durability.to_owned(), config.durability.source),
        ("model.base_url", describe(&config.endpoint.value), config.endpoint.source),
        ("model.name", model.value, model.source),
        ("tools.environment", config.tool_environment.value.join(" "), config.tool_environment.source),
        ("workspaces", workspaces::describe(&config.workspaces.value), config.workspaces.source),
    ];
    if args.json {
        let values: serde_json::Map<_, _> = rows
            .iter()
            .map(|(key, value, source)| ((*key).to_owned(), json!({ "value": value, "source": source })))
            .collect();
        terminal::json(&serde_json::to_string_pretty(&values)?);
    } else {
        let note = if config.file_found { "" } else { " (not there)" };
        terminal::line(&format!("# {}{note}", config.file.display()));
        for (key, value, source) in rows {
            terminal::line_with_aside(&format!("{key:<16} {value:<47}"), &source);
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_described_without_credentials() {
        for (url, shown) in [
            ("http://user:pass@host/v1", "http://host/v1"),
            ("http://host/v1", "http://host/v1"),
            ("https://u:p@h:8080", "https://h:8080"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    fn check(variables: &[(&str, &str)], file: &str) -> anyhow::Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, file).unwrap();
        let global = Global { home: None, config: Some(path), log_level: None };
        let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        load(&global, &ModelArgs::default(), Some("TOKEN"), &Environment(variables.iter().map(own).collect()))
    }

    #[test]
    fn the_later_layer_wins_and_says_so() {
        let file = "home = \"/from/file\"\ndurability = \"relaxed\"\n[model]\nname = \"small\"";
        let config = check(&[("HOME", "/h"), ("BATON_HOME", "/from/env")], file).unwrap();
        assert_eq!(
            (config.home.value.to_str(), config.home.source.as_str()),
            (Some("/from/env"), "$BATON_HOME")
        );
        assert!(matches!(config.durability.value, Durability::Relaxed));
        assert_eq!(config.model.unwrap().value, "small");
        let config = check(&[("HOME", "/h"), ("COPILOT_HOME", "/sdk"), ("BATON_HOME", "/x")], "").unwrap();
        assert_eq!(config.home.value.to_str(), Some("/sdk"));
        assert_eq!(check(&[("HOME", "/h")], "").unwrap().home.value.to_str(), Some("/h/.local/state/baton"));
    }

    #[test]
    fn the_endpoint_comes_from_the_first_that_names_one() {
        let endpoint = |variables: &[(&str, &str)], file: &str| check(variables, file).unwrap().endpoint;
        assert!(matches!(endpoint(&[], "").value, Endpoint::Demo));
        let copilot =
            endpoint(&[("COPILOT_API_URL", "http://c"), ("TOKEN", "t"), ("OPENAI_API_KEY", "k")], "");
        assert!(matches!(copilot.value, Endpoint::Copilot { url, token: Some(_) } if url == "http://c"));
        let openai = endpoint(&[("OPENAI_API_KEY", "k"), ("OPENAI_MODEL", "m")], "[model]\nname = \"n\"");
        let provider = |endpoint: Endpoint| match endpoint {
            Endpoint::Provider { provider, model } => (*provider, model),
            other => panic!("{other:?}"),
        };
        let (openai, model) = provider(openai.value);
        assert_eq!((openai.base_url.as_str(), openai.api_key.as_deref()), (OPENAI, Some("k")));
        assert_eq!(model.as_deref(), Some("m"));
        let filed =
            endpoint(&[("MY_KEY", "k")], "[model]\nbase_url = \"http://f\"\napi_key_env = \"MY_KEY\"");
        let (filed, _) = provider(filed.value);
        assert_eq!((filed.base_url.as_str(), filed.api_key.as_deref()), ("http://f", Some("k")));
        let keyed = |file: &str| {
            let endpoint = endpoint(&[("OPENAI_API_KEY", "k")], &format!("[model]\n{file}"));
            let (provider, _) = provider(endpoint.value);
            (provider.base_url.clone(), provider.wire_api, provider.api_key)
        };
        let responses = Some(WireApi::Responses);
        assert_eq!(keyed("wire_api = \"responses\""), (OPENAI.into(), responses, Some("k".into())));
        assert_eq!(
            keyed("base_url = \"http://f\""),
            ("http://f".into(), None, None),
            "a key goes to its owner"
        );
        let (anthropic, _) = provider(endpoint(&[("ANTHROPIC_API_KEY", "k")], "").value);
        assert_eq!((anthropic.kind, anthropic.base_url.as_str()), (Some(ProviderKind::Anthropic), ANTHROPIC));
    }

    /// The blocks of a language in a page of the documentation.
    fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
        let fence = format!("```{language}\n");
        page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
    }

    #[test]
    fn the_configurations_in_the_documentation_work() {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers");
        let mut seen = 0;
        for entry in std::fs::read_dir(pages).unwrap() {
            let path = entry.unwrap().path();
            let page = std::fs::read_to_string(&path).unwrap();
            for block in blocks(&page, "toml") {
                let config = check(&[], block).unwrap();
                let Endpoint::Provider { provider, model } = config.endpoint.value else { panic!("{block}") };
                assert!(provider.base_url.starts_with("http") && model.is_some(), "{block}");
                seen += 1;
            }
            for block in blocks(&page, "json") {
                let provider: serde_json::Value = serde_json::from_str(block).unwrap();
                let parsed: ProviderConfig = serde_json::from_value(provider).unwrap();
                assert!(!parsed.base_url.is_empty() && parsed.model_id.is_some(), "{block}");
                seen += 1;
            }
        }
        assert!(seen >= 16, "every page has a configuration for the program and one for SDKs: {seen}");
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        for (file, word) in [
            ("workspaces.detach_grace_seconds = -1", "detach_grace"),
            ("homme = 1", "homme"),
            ("durability = \"maybe\"", "maybe"),
            ("home = ", "c.toml"),
            ("tools.environment = [\"OPENAI_API_KEY\"]", "OPENAI_API_KEY"),
        ] {
            let error = format!("{:#}", check(&[], file).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }
}
