//! Settings: from flags, the environment and the configuration file, in this order of precedence. Every value carries its
//! source, for `baton config`.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

mod endpoint;
mod engines;
mod environment;
mod limit;
mod listeners;
mod mcp;
mod notifications;
mod sandbox;
mod show;
mod store;
mod terminal;
mod workspaces;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use baton_addons::mcp::Declared;
use baton_core::AgentLimits;
use baton_protocol::provider::ProviderKind;
use baton_protocol::sandbox::SandboxChoice;
use baton_providers::ServerEndpoint;
use baton_providers::prices::{Price, Prices};
use baton_runtime::cluster::Recovery;
use baton_sandbox::Limits;
use baton_store::sqlite::Durability;
use serde::Deserialize;

use self::endpoint::ModelTable;
use self::engines::EngineTable;
use self::listeners::{HttpTable, RpcTable};
use self::mcp::McpTable;
use self::notifications::NotificationsTable;
use self::sandbox::{LimitsTable, SandboxTable};
use self::store::{AgentsTable, RecoveryTable, StoreTable};
use self::terminal::TerminalTable;
use self::workspaces::WorkspaceTable;
use crate::args::{Global, LogFormat, ModelArgs};
use crate::logging;
use crate::tool_environment::ToolsTable;

pub(crate) use self::endpoint::{describe, published};
pub(crate) use self::environment::Environment;
pub(crate) use self::sandbox::with_level;
pub(crate) use self::show::show;
pub(crate) use self::store::StoreChoice;

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    home: Option<PathBuf>,
    log_level: Option<String>,
    log_format: Option<String>,
    durability: Option<String>,
    model: ModelTable,
    engines: BTreeMap<String, EngineTable>,
    prices: BTreeMap<String, Price>,
    mcp: McpTable,
    rpc: RpcTable,
    http: HttpTable,
    notifications: NotificationsTable,
    workspaces: WorkspaceTable,
    terminal: TerminalTable,
    tools: ToolsTable,
    sandbox: SandboxTable,
    store: StoreTable,
    recovery: RecoveryTable,
    agents: AgentsTable,
}

/// A value and its source.
#[derive(Debug, Clone)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: String,
}

/// All settings.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) home: Sourced<PathBuf>,
    pub(crate) log_level: Sourced<String>,
    pub(crate) log_format: Sourced<LogFormat>,
    pub(crate) durability: Sourced<Durability>,
    pub(crate) endpoint: Sourced<ServerEndpoint>,
    pub(crate) model: Option<Sourced<String>>,
    pub(crate) engines: BTreeMap<String, EngineTable>,
    /// Prices of models.
    pub(crate) prices: Prices,
    /// MCP servers for all sessions.
    pub(crate) mcp_servers: Vec<Declared>,
    /// Whether the key of stored logins at MCP servers is in the user's keyring.
    pub(crate) keyring: Option<bool>,
    pub(crate) rpc: RpcTable,
    pub(crate) http: HttpTable,
    pub(crate) notifications: NotificationsTable,
    pub(crate) workspaces: WorkspaceTable,
    pub(crate) terminal: TerminalTable,
    /// Further variables that commands of sessions see.
    pub(crate) tool_environment: Sourced<Vec<String>>,
    /// Variables that may hold keys and tokens for models.
    pub(crate) key_variables: Vec<String>,
    /// Where sessions are stored.
    pub(crate) store: Sourced<StoreChoice>,
    /// Name of the machines that have the same working directories.
    pub(crate) place: Sourced<String>,
    /// What becomes of work that a dead server left in sessions without clients.
    pub(crate) recovery: Sourced<Recovery>,
    /// Sandbox of sessions that have none of their own.
    pub(crate) sandbox: Sourced<SandboxChoice>,
    /// Limits of one command in a sandbox.
    sandbox_limits: LimitsTable,
    /// Limits on the sub-agents that models start.
    pub(crate) agent_limits: AgentLimits,
    /// How long unused sessions are kept; none means forever.
    pub(crate) keep: Option<Duration>,
    pub(crate) file: PathBuf,
    pub(crate) file_found: bool,
    /// The file, for `baton config`.
    as_written: toml::Table,
}

impl Config {
    /// Returns the limits of one command in a sandbox.
    pub(crate) fn sandbox_limits(&self) -> Limits {
        self.sandbox_limits.limits()
    }

    /// Refuses an address of models that is no web address, and names where it comes from. It is not repeated: it may contain a
    /// password.
    pub(crate) fn check_endpoint(&self) -> anyhow::Result<()> {
        let Sourced { value: ServerEndpoint::Provider { provider, .. }, source } = &self.endpoint else {
            return Ok(());
        };
        let url = provider.base_url.trim();
        let is_address = url.starts_with("http://") || url.starts_with("https://");
        anyhow::ensure!(
            is_address || provider.kind == Some(ProviderKind::Replay),
            "in {}: the address of the models is not a web address; it must start with http:// or https://",
            if source == "flag" { "--base-url" } else { source }
        );
        Ok(())
    }
}

/// Loads the settings. `token_variable` names the variable in which an SDK passes a token.
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
    let (file, as_written) = read_file(&path, global.config.is_some())?;
    let (file_found, as_written) = (as_written.is_some(), as_written.unwrap_or_default());
    let file_source = path.display().to_string();
    let in_file = || format!("in {file_source}");
    file.workspaces.options().with_context(in_file)?;
    file.terminal.theme().with_context(in_file)?;
    let sources = Sources { environment, file: file_source.clone() };
    let pick = |flag, variables: &[&str], file, default: &str| sources.pick(flag, variables, file, default);
    let text = |path: &PathBuf| path.display().to_string();
    let default_home = text(&environment.directory("XDG_STATE_HOME", ".local/state").join("baton"));
    let home = pick(
        global.home.as_ref().map(text),
        &["COPILOT_HOME", "BATON_HOME"],
        file.home.as_ref().map(text),
        &default_home,
    );
    if let Some(level) = file.log_level.as_deref().filter(|level| !logging::is_level(level)) {
        let levels = logging::LEVELS.join(", ");
        anyhow::bail!("in {file_source}: unknown log level {level:?}: use one of {levels}");
    }
    let durability = pick(None, &["BATON_DURABILITY"], file.durability.clone(), "full");
    let log_format = pick(
        global.log_format.map(|format| format.name().to_owned()),
        &["BATON_LOG_FORMAT"],
        file.log_format.clone(),
        LogFormat::Text.name(),
    );
    let url = pick(global.store.clone(), &["BATON_STORE"], file.store.url.clone(), "");
    let chosen = store::choose(&url, environment.get("PGPASSWORD"))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let place = pick(global.place.clone(), &["BATON_PLACE"], file.store.place.clone(), &host);
    let name = pick(model.model.clone(), &["OPENAI_MODEL"], file.model.name.clone(), "");
    Ok(Config {
        home: Sourced { value: PathBuf::from(home.value), source: home.source },
        log_level: pick(global.log_level.clone(), &["BATON_LOG"], file.log_level.clone(), "warn"),
        log_format: Sourced {
            value: LogFormat::parse(&log_format.value)
                .map_err(anyhow::Error::msg)
                .with_context(|| format!("in {}", log_format.source))?,
            source: log_format.source,
        },
        durability: Sourced {
            value: parse_durability(&durability.value)
                .with_context(|| format!("in {}", durability.source))?,
            source: durability.source,
        },
        endpoint: endpoint::endpoint(model, token_variable, environment, &file.model, &file_source),
        model: (!name.value.is_empty()).then_some(name),
        key_variables: [
            endpoint::key_variables(token_variable, environment, &file.model),
            file.notifications.secret_variables(),
        ]
        .concat(),
        tool_environment: Sourced {
            source: if file.tools == ToolsTable::default() { "default".into() } else { file_source.clone() },
            value: file.tools.patterns().with_context(in_file)?,
        },
        store: Sourced { value: chosen, source: url.source },
        place: store::place(place)?,
        recovery: file.recovery.choose(&file_source)?,
        sandbox_limits: file.sandbox.limits(),
        sandbox: file.sandbox.choose(environment, &file_source).with_context(in_file)?,
        agent_limits: file.agents.limits(),
        keep: file.store.keep.as_deref().map(parse_keep).transpose().with_context(in_file)?,
        engines: file.engines,
        prices: check_prices(file.prices).with_context(in_file)?,
        mcp_servers: file.mcp.declared(),
        keyring: file.mcp.keyring,
        rpc: file.rpc,
        http: file.http,
        notifications: file.notifications,
        workspaces: file.workspaces,
        terminal: file.terminal,
        as_written,
        file: path,
        file_found,
    })
}

/// Sources of settings, in the order of their precedence: a flag, the environment, the file.
struct Sources<'a> {
    environment: &'a Environment,
    /// The file, as it is named to users.
    file: String,
}

impl Sources<'_> {
    /// Returns the value of the first source that has one, else the default.
    fn pick(
        &self,
        flag: Option<String>,
        variables: &[&str],
        file: Option<String>,
        default: &str,
    ) -> Sourced<String> {
        let sourced = |value: String, source: &str| Sourced { value, source: source.to_owned() };
        if let Some(value) = flag {
            sourced(value, "flag")
        } else if let Some((name, value)) = self.environment.first(variables) {
            sourced(value, &format!("${name}"))
        } else if let Some(value) = file {
            sourced(value, &self.file)
        } else {
            sourced(default.to_owned(), "default")
        }
    }
}

fn check_prices(prices: BTreeMap<String, Price>) -> anyhow::Result<Prices> {
    match prices.iter().find(|(_, price)| !price.is_valid()) {
        Some((model, _)) => anyhow::bail!("[prices.{model:?}] has a price that is negative or not a number"),
        None => Ok(Prices(prices)),
    }
}

/// Reads the file, parsed and as it is written; the latter is none if there is no file.
fn read_file(path: &Path, required: bool) -> anyhow::Result<(File, Option<toml::Table>)> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let mistake = |error: toml::de::Error| {
                anyhow::anyhow!("in {}: {}", path.display(), described(&text, &error))
            };
            let file = toml::from_str(&text).map_err(mistake)?;
            Ok((file, Some(text.parse().map_err(mistake)?)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => {
            Ok((File::default(), None))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Says where a mistake in the file is, and what it is. The line itself is left out: it may contain a key.
fn described(text: &str, error: &toml::de::Error) -> String {
    let place = error.span().map(|span| {
        let before = text.get(..span.start).unwrap_or(text);
        let (line, column) = (
            before.matches('\n').count() + 1,
            before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1,
        );
        format!("line {line}, column {column}: ")
    });
    place.unwrap_or_default() + &without_values(error.message())
}

/// Replaces quoted text that may be a value: messages about a wrong type repeat it.
fn without_values(message: &str) -> String {
    let Some((before, rest)) = message.split_once(": string \"") else { return message.to_owned() };
    let after = rest.rsplit_once("\", expected ").map(|(_, expected)| format!(", expected {expected}"));
    format!("{before}: text{}", after.unwrap_or_default())
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

fn parse_keep(text: &str) -> anyhow::Result<Duration> {
    // Not minutes: people write "6m" for months, and everything would be deleted.
    let is_long = text.ends_with(['h', 'd', 'w']);
    let keep = baton_ops::span::parse(text).filter(|keep| is_long && !keep.is_zero());
    keep.with_context(|| {
        format!(
            "unknown time {text:?} in [store] keep: use hours (\"12h\"), days (\"90d\") or weeks (\"8w\")"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads this file in this environment.
    pub(super) fn loaded(variables: &[(&str, &str)], file: &str) -> anyhow::Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, file).unwrap();
        let global = Global { config: Some(path), ..Global::default() };
        let environment = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        load(&global, &ModelArgs::default(), Some("TOKEN"), &environment)
    }

    #[test]
    fn variables_win_over_the_file_and_each_value_has_its_source() {
        let file = "home = \"/from/file\"\ndurability = \"relaxed\"\n[model]\nname = \"small\"";
        let config = loaded(&[("HOME", "/h"), ("BATON_HOME", "/from/env")], file).unwrap();
        assert_eq!(
            (config.home.value.to_str(), config.home.source.as_str()),
            (Some("/from/env"), "$BATON_HOME")
        );
        assert!(matches!(config.durability.value, Durability::Relaxed));
        assert_eq!(config.model.unwrap().value, "small");
        let config = loaded(&[("HOME", "/h"), ("COPILOT_HOME", "/sdk"), ("BATON_HOME", "/x")], "").unwrap();
        assert_eq!(config.home.value.to_str(), Some("/sdk"));
        assert_eq!(loaded(&[("HOME", "/h")], "").unwrap().home.value.to_str(), Some("/h/.local/state/baton"));
    }

    #[test]
    fn address_of_models_without_a_scheme_is_refused_with_its_source() {
        let of_file = loaded(&[], "[model]\nbase_url = \"me:SECRET@localhost:11434/v1\"").unwrap();
        let error = of_file.check_endpoint().unwrap_err().to_string();
        assert!(error.contains("c.toml: ") && !error.contains("SECRET"), "{error}");
        let of_variable = loaded(&[("OPENAI_BASE_URL", "localhost")], "").unwrap();
        assert!(of_variable.check_endpoint().unwrap_err().to_string().starts_with("in $OPENAI_BASE_URL: "));
        loaded(&[], "[model]\nbase_url = \"http://localhost/v1\"").unwrap().check_endpoint().unwrap();
    }

    #[test]
    fn errors_do_not_repeat_values_of_the_file() {
        for file in [
            "[model]\napi_key = \"sk-secret\" \"more\"",
            "[model]\napi_key = sk-secret",
            "[model]\napi_key = \"sk-secret",
            "[http]\nmax_streams = \"sk-secret\"",
            "[http]\nmax_streams = \"sk-secret\", expected u\"",
            "[rpc]\nmax_connections = [\"sk-secret\"]",
            "model = \"sk-secret\"",
        ] {
            let error = format!("{:#}", loaded(&[], file).unwrap_err());
            assert!(!error.contains("sk-secret") && error.contains("c.toml: line "), "{file}: {error}");
        }
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        for (file, word) in [
            ("workspaces.detach_grace_seconds = -1", "detach_grace"),
            ("terminal.theme = \"pink\"", "terminal, dark, light, plain"),
            ("homme = 1", "homme"),
            ("prices.big = { input = -1, output = 2 }", "big"),
            ("durability = \"maybe\"", "maybe"),
            ("store.keep = \"soon\"", "c.toml"),
            ("store.keep = \"0d\"", "0d"),
            ("store.keep = \"6m\"", "hours (\"12h\"), days (\"90d\") or weeks"),
            ("store.keep = \"600s\"", "600s"),
            ("log_format = \"xml\"", "c.toml"),
            ("log_level = \"loud\"", "c.toml"),
            ("http.max_streams = 0", "at least 1"),
            ("home = ", "c.toml: line 1, column 8"),
            ("\n[http]\nmax_streams = 0 0", "c.toml: line 3, column 15"),
            ("tools.environment = [\"OPENAI_API_KEY\"]", "OPENAI_API_KEY"),
        ] {
            let error = format!("{:#}", loaded(&[], file).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }
}
