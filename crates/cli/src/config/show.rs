//! `baton config`: the configuration in force, and the source of each value.
//!
//! Nothing can be left out: [`in_force`] names every field of the configuration, and [`of_file`] adds whatever else the file
//! sets. Values that may hold secrets are not shown.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::ExitCode;

use baton_protocol::sandbox::{SandboxNetwork, SandboxPolicy};
use baton_runtime::cluster::Recovery;
use baton_store::sqlite::Durability;
use serde_json::json;
use toml::Value;

use super::endpoint::without_credentials;
use super::{Config, Environment, Sourced, describe, load};
use crate::args::{Cli, JsonArgs, ModelArgs};
use crate::terminal;

/// Tables whose values may be secrets: only their keys are shown.
const SECRET_TABLES: [&str; 2] = ["env", "headers"];

/// A row: its value and its source.
pub(super) type Rows = Vec<(String, String, String)>;

/// Adds rows of a table of the file: a configured value, or the default.
pub(super) struct TableRows<'a> {
    pub(super) name: &'a str,
    pub(super) file: &'a str,
    pub(super) rows: &'a mut Rows,
}

impl TableRows<'_> {
    pub(super) fn add<T: ToString>(&mut self, key: &str, configured: Option<T>, default: &dyn Display) {
        let source = if configured.is_some() { self.file } else { "default" };
        let value = configured.map_or_else(|| default.to_string(), |value| value.to_string());
        self.rows.push((format!("{}.{key}", self.name), value, source.to_owned()));
    }
}

pub(crate) fn show(cli: &Cli, args: &JsonArgs) -> anyhow::Result<ExitCode> {
    let config = load(&cli.global, &ModelArgs::default(), None, &Environment::of_process())?;
    let note = if config.file_found { "" } else { " (not found)" };
    let file = config.file.display().to_string();
    let heading = format!("# {file}{note}");
    let rows = rows(config);
    if args.json {
        let values: serde_json::Map<_, _> = rows
            .into_iter()
            .map(|(key, value, source)| (key, json!({ "value": value, "source": source })))
            .collect();
        terminal::json(&serde_json::to_string_pretty(&values)?);
    } else {
        terminal::line(&heading);
        terminal::whole_table(&["SETTING", "VALUE", "SOURCE"], &cells(rows, &file));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the cells of the table. The heading has named the file.
fn cells(rows: Rows, file: &str) -> Vec<Vec<String>> {
    let short = |source: String| if source == file { "file".to_owned() } else { source };
    rows.into_iter().map(|(key, value, source)| vec![key, value, short(source)]).collect()
}

/// Returns all rows: those of known settings first.
fn rows(config: Config) -> Rows {
    let (file, source) = (config.as_written.clone(), config.file.display().to_string());
    let mut rows = in_force(config);
    let mut written = BTreeMap::new();
    of_file("", &Value::Table(file), &mut written);
    let known: Vec<String> = rows.iter().map(|(key, ..)| key.clone()).collect();
    let more = written.into_iter().filter(|(key, _)| !known.contains(key));
    rows.extend(more.map(|(key, value)| (key, value, source.clone())));
    rows
}

/// Returns the settings that have a value without a file, too.
fn in_force(config: Config) -> Rows {
    let Config {
        home,
        log_level,
        log_format,
        durability,
        endpoint,
        model,
        rpc,
        http,
        notifications,
        workspaces,
        terminal,
        tool_environment,
        store,
        place,
        recovery,
        sandbox,
        sandbox_limits,
        agent_limits,
        keep,
        file,
        // Shown as the file has them.
        engines: _,
        prices: _,
        mcp_servers: _,
        keyring,
        as_written,
        // Names of variables, which the rows of their tables show.
        key_variables: _,
        file_found: _,
    } = config;
    let file = file.display().to_string();
    let durability = Sourced {
        value: match durability.value {
            Durability::Full => "full",
            Durability::Relaxed => "relaxed",
        },
        source: durability.source,
    };
    let unattended = match recovery.value {
        Recovery::Wait => "wait",
        Recovery::Continue => "continue",
    };
    let row = |key: &str, value: String, source: String| (key.to_owned(), value, source);
    let mut rows = vec![
        row("home", home.value.display().to_string(), home.source),
        row("log_level", log_level.value, log_level.source),
        row("log_format", log_format.value.name().to_owned(), log_format.source),
        row("durability", durability.value.to_owned(), durability.source),
        row("store.url", store.value.to_string(), store.source),
        row("store.place", place.value, place.source),
    ];
    let keep = keep.and_then(|_| as_written.get("store")?.get("keep").map(text));
    TableRows { name: "store", file: &file, rows: &mut rows }.add("keep", keep, &"forever");
    rows.push(row("recovery.unattended", unattended.to_owned(), recovery.source));
    let written = |key: &str| as_written.get("agents").and_then(|table| table.get(key)).map(text);
    let mut agents = TableRows { name: "agents", file: &file, rows: &mut rows };
    agents.add("at_once", written("at_once"), &agent_limits.at_once);
    agents.add("per_turn", written("per_turn"), &agent_limits.per_turn);
    let SandboxPolicy { level, network, .. } = sandbox.value.policy;
    let network = match network {
        SandboxNetwork::None => "none",
        SandboxNetwork::Asked => "asked",
    };
    rows.push(row("sandbox.level", level.to_string(), sandbox.source.clone()));
    rows.push(row("sandbox.network", network.to_owned(), sandbox.source));
    sandbox_limits.show(&mut TableRows { name: "sandbox.limits", file: &file, rows: &mut rows });
    rows.push(row("model.base_url", describe(&endpoint.value), endpoint.source));
    let model = model.unwrap_or(Sourced { value: "the endpoint's first".into(), source: "default".into() });
    rows.push(row("model.name", model.value, model.source));
    let passed = tool_environment.value.join(" ");
    let passed = if passed.is_empty() { "none beside the usual ones".to_owned() } else { passed };
    rows.push(row("tools.environment", passed, tool_environment.source));
    rpc.show(TableRows { name: "rpc", file: &file, rows: &mut rows });
    http.show(TableRows { name: "http", file: &file, rows: &mut rows });
    notifications.show(TableRows { name: "notifications", file: &file, rows: &mut rows });
    workspaces.show(TableRows { name: "workspaces", file: &file, rows: &mut rows });
    terminal.show(TableRows { name: "terminal", file: &file, rows: &mut rows });
    TableRows { name: "mcp", file: &file, rows: &mut rows }.add("keyring", keyring, &false);
    rows
}

/// Collects the settings of the file, by their whole names.
fn of_file(name: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) if SECRET_TABLES.contains(&name.rsplit('.').next().unwrap_or_default()) => {
            let keys: Vec<&str> = table.keys().map(String::as_str).collect();
            found.insert(name.to_owned(), keys.join(" "));
        }
        Value::Table(table) => {
            for (key, value) in table {
                let whole = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                of_file(&whole, value, found);
            }
        }
        value => {
            found.insert(name.to_owned(), text(value));
        }
    }
}

/// Returns a value as text. Of an address, user name, password and query may be secrets.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains("://") => {
            without_credentials(text.split(['?', '#']).next().unwrap_or_default())
        }
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::loaded;
    use super::*;

    /// A file with every setting. `SECRET` must not be shown.
    const FILE: &str = r#"
        home = "/h"
        log_level = "info"
        log_format = "json"
        durability = "relaxed"
        [model]
        name = "m"
        provider = "openai"
        wire_api = "responses"
        transport = "http"
        base_url = "http://me:SECRET@h/v1"
        api_version = "v"
        headers = { "X-Key" = "SECRET" }
        max_prompt_tokens = 1
        max_output_tokens = 2
        api_key_env = "K"
        [engines.codex]
        program = "/c"
        env = { TOKEN = "SECRET" }
        [prices.big]
        input = 1.0
        output = 2.0
        [mcp]
        keyring = true
        [mcp.servers.docs]
        url = "https://me:SECRET@docs.example/mcp?key=SECRET"
        headers = { Authorization = "SECRET" }
        [rpc]
        token_seconds = 3
        [http]
        tls_cert = "/cert"
        tls_key = "/key"
        allow_hosts = ["h"]
        allow_origins = ["https://o.example"]
        max_body_bytes = 4
        max_connections = 5
        max_streams = 6
        requests_per_second = 7
        header_seconds = 8
        body_seconds = 9
        [notifications]
        delay_seconds = 10
        turns = false
        details = "full"
        page = "https://p.example/"
        [notifications.webhook]
        url = "https://me:SECRET@hook.example/SECRET"
        secret_env = "S"
        [notifications.telegram]
        token_env = "T"
        chats = [11]
        [notifications.push]
        enabled = false
        contact = "mailto:a@b.example"
        allow_private = true
        [workspaces]
        create_grace_seconds = 12.0
        detach_grace_seconds = 13.0
        keep_running = true
        approve_runs = true
        [terminal]
        theme = "dark"
        mouse = false
        [tools]
        environment = ["MY_*"]
        [store]
        keep = "90d"
        url = "postgres://me:SECRET@db/x"
        place = "rack"
        [recovery]
        unattended = "continue"
        [sandbox]
        level = "read-only"
        write = ["/w"]
        read = ["/r"]
        hide = ["/h"]
        network = "none"
        hosts = ["h.example"]
        [sandbox.limits]
        processes = 21
        memory_mb = 22
        files = 23
        free_space_mb = 24
        seconds = 25
        [agents]
        at_once = 4
        per_turn = 20
    "#;

    /// Names of the keys of a table, as the parser knows them.
    fn keys_of(table: &str) -> Vec<String> {
        let path = if table.is_empty() { "unknown-key".to_owned() } else { format!("{table}.unknown-key") };
        let error = format!("{:#}", loaded(&[], &format!("{path} = 1")).unwrap_err());
        let (_, expected) = error.split_once("expected").unwrap_or_else(|| panic!("{table}: {error}"));
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_setting_is_shown_with_its_source_and_without_secrets() {
        let config = loaded(&[], FILE).unwrap();
        let file = config.file.display().to_string();
        let rows = rows(config);
        let tables = [
            "",
            "model",
            "rpc",
            "http",
            "notifications",
            "notifications.push",
            "workspaces",
            "terminal",
            "tools",
            "store",
            "recovery",
            "agents",
            "sandbox",
            "sandbox.limits",
        ];
        let mut seen = 0;
        for table in tables {
            for key in keys_of(table) {
                let name = if table.is_empty() { key } else { format!("{table}.{key}") };
                let below = format!("{name}.");
                let is_shown = |row: &&(String, String, String)| row.0 == name || row.0.starts_with(&below);
                let row =
                    rows.iter().find(is_shown).unwrap_or_else(|| panic!("{name} is missing: {rows:#?}"));
                assert_eq!(row.2, file, "the test file sets {name}");
                seen += 1;
            }
        }
        assert!(seen > 50, "{seen}");
        assert!(!format!("{rows:?}").contains("SECRET"), "{rows:#?}");
        for name in ["engines.codex.program", "engines.codex.env", "prices.big.input", "mcp.servers.docs.url"]
        {
            assert!(rows.iter().any(|(key, ..)| key == name), "{name}: {rows:#?}");
        }
    }

    #[test]
    fn defaults_are_shown_without_a_file() {
        let rows = rows(loaded(&[], "").unwrap());
        let row = |name: &str| {
            let found = rows.iter().find(|(key, ..)| key == name);
            found.map(|(_, value, source)| (value.as_str(), source.as_str()))
        };
        assert_eq!(row("store.keep"), Some(("forever", "default")));
        assert_eq!(row("recovery.unattended"), Some(("wait", "default")));
        assert_eq!(row("sandbox.limits.processes"), Some(("1024", "default")));
        assert_eq!(row("agents.at_once"), Some(("16", "default")));
        assert_eq!(row("agents.per_turn"), Some(("100", "default")));
        assert_eq!(row("http.max_streams"), Some(("2048", "default")));
        assert_eq!(row("rpc.token_seconds"), Some(("10", "default")));
        assert_eq!(row("notifications.delay_seconds"), Some(("20", "default")));
    }

    #[test]
    fn table_names_the_file_in_its_heading_only() {
        let row = |value: &str, source: &str| ("home".to_owned(), value.to_owned(), source.to_owned());
        let shown = cells(vec![row("/h", "/c.toml"), row("/h", "default")], "/c.toml");
        assert_eq!(shown, [["home", "/h", "file"], ["home", "/h", "default"]]);
    }
}
