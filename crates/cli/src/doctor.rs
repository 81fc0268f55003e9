//! `baton doctor`: checks the setup, and suggests fixes.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use baton_addons::mcp::ServerCatalogue;
use baton_addons::skills::overview;
use baton_model::catalog;
use baton_model::http::{HttpClient, Patience};
use baton_postgres::PostgresStore;
use baton_providers::ServerEndpoint;
use baton_runtime::Runtime;
use serde::Serialize;

use crate::args::{Cli, JsonArgs, ModelArgs};
use crate::config::{self, Config, Environment};
use crate::discovery::RunningServer;
use crate::setup::SessionStore;
use crate::{mcp, sandbox, setup, terminal};

/// The result of one check.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) what: &'static str,
    pub(crate) state: State,
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Good,
    /// Works, but could be better.
    Note,
    Bad,
}

pub(crate) fn doctor(cli: &Cli, args: &JsonArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &ModelArgs::default(), None, &environment)?;
    let findings = setup::run(async {
        let mut findings =
            vec![home(&config.home.value), server(&RunningServer::servers(&config.home.value))];
        findings.extend(store(&config).await);
        findings.extend([
            model(&config, &environment).await,
            local(&LOCAL_SERVERS).await,
            program("bash", "the shell tool falls back to sh", &environment),
            program("git", "sessions work without it, but models often use it", &environment),
        ]);
        findings.push(sandbox::finding(&config.sandbox.value).await);
        if let Ok(options) = setup::options(&config, &environment) {
            findings.extend(baton_runtime::probe_engines(&options).await.into_iter().map(engine));
        }
        findings.push(servers(&config, &environment).await);
        if let Ok(runtime) = setup::server_without_sessions(&config, &environment) {
            findings.push(skills(&runtime).await);
            findings.push(plugins(&runtime).await);
        }
        findings.push(notifications(&config, &environment).await);
        Ok(findings)
    })?;
    let bad = findings.iter().any(|finding| finding.state == State::Bad);
    if args.json {
        terminal::json(&serde_json::to_string_pretty(&serde_json::json!({ "findings": findings }))?);
    } else {
        findings.iter().for_each(print);
    }
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(finding: &Finding) {
    let mark = match finding.state {
        State::Good => "✓",
        State::Note => "·",
        State::Bad => "✗",
    };
    terminal::hanging_line(&format!("{mark} {:<9} {}", finding.what, finding.detail), 12);
    if let Some(advice) = &finding.advice {
        terminal::hanging_line(&format!("            → {advice}"), 14);
    }
}

fn home(path: &Path) -> Finding {
    let what = "home";
    let probe = path.join(".doctor");
    let tried =
        baton_disk::private::create_dir_all(path).and_then(|()| baton_disk::private::write(&probe, b"x"));
    let _ = std::fs::remove_file(&probe);
    match tried {
        Ok(()) => Finding { what, state: State::Good, detail: path.display().to_string(), advice: None },
        Err(error) => Finding {
            what,
            state: State::Bad,
            detail: format!("cannot write to {}: {error}", path.display()),
            advice: Some(match error.kind() {
                std::io::ErrorKind::StorageFull => "free some space".into(),
                _ => "make it writable, or choose another with --home or BATON_HOME".into(),
            }),
        },
    }
}

/// Says whether servers of the home run, and where.
fn server(running: &[RunningServer]) -> Finding {
    let what = "server";
    let describe = |server: &RunningServer| format!("process {}: {}", server.pid(), server.addresses());
    match running {
        [] => Finding {
            what,
            state: State::Note,
            detail: "none is running for this home".into(),
            advice: Some("start one with `baton serve`; `baton run` works without".into()),
        },
        _ => Finding {
            what,
            state: State::Good,
            detail: running.iter().map(describe).collect::<Vec<_>>().join("; "),
            advice: (running.len() > 1).then(|| {
                "several servers run for this home; `baton run` and `baton attach` use the first that has an \
                 address for HTTP"
                    .into()
            }),
        },
    }
}

/// Checks a database, and the settings on which the promises depend.
async fn database(store: &PostgresStore) -> Finding {
    let what = "store";
    let report = match store.check().await {
        Ok(report) => report,
        Err(error) => return Finding { what, state: State::Bad, detail: error.to_string(), advice: None },
    };
    let detail = format!("PostgreSQL {} at {}", report.version, store.location());
    let finding =
        |state, advice: &str| Finding { what, state, detail: detail.clone(), advice: Some(advice.into()) };
    if report.fsync == "off" || report.full_page_writes == "off" {
        return finding(
            State::Bad,
            "fsync or full_page_writes is off: a crash of its machine can destroy the database; turn them on",
        );
    }
    match report.synchronous_commit.as_str() {
        "off" => finding(
            State::Bad,
            "synchronous_commit is off: acknowledged prompts can be lost when the database crashes; set it to on",
        ),
        "local" if report.standbys > 0 => {
            finding(State::Note, "synchronous_commit is local: a failover can lose acknowledged prompts")
        }
        _ if report.standbys > 0 && report.synchronous_standbys == 0 => finding(
            State::Note,
            "no standby is synchronous: a failover can lose acknowledged prompts; set synchronous_standby_names",
        ),
        _ => Finding { what, state: State::Good, detail: detail.clone(), advice: None },
    }
}

async fn store(config: &Config) -> Vec<Finding> {
    let what = "sessions";
    let bad = |detail, advice| Finding { what, state: State::Bad, detail, advice };
    let store = match setup::store(config, None) {
        Ok(store) => store,
        Err(error) => return vec![bad(format!("{error:#}"), None)],
    };
    let mut findings = Vec::new();
    if let SessionStore::Database(store) = &store {
        findings.push(database(store).await);
        if findings.iter().any(|found| found.state == State::Bad && found.advice.is_none()) {
            return findings;
        }
    }
    let listed = store.list().await;
    // Nothing was written, so a failed close loses nothing.
    let _ = store.close().await;
    findings.push(match listed {
        Ok(sessions) => {
            let bytes: u64 = sessions.iter().map(|session| session.size).sum();
            let detail = format!("{} stored, {} KB of events", sessions.len(), bytes / 1024);
            Finding { what, state: State::Good, detail, advice: None }
        }
        Err(error) => {
            bad(error.to_string(), Some("nothing was changed; the message above says what to do".into()))
        }
    });
    findings
}

async fn model(config: &Config, environment: &Environment) -> Finding {
    let what = "model";
    if matches!(config.endpoint.value, ServerEndpoint::Demo) {
        return Finding {
            what,
            state: State::Note,
            detail: "built-in demo model: no AI, no network".into(),
            advice: Some("for a real model, set OPENAI_API_KEY or ANTHROPIC_API_KEY, or OPENAI_BASE_URL for a local server".into()),
        };
    }
    let detail = config::describe(&config.endpoint.value);
    let options = match setup::options(config, environment) {
        Ok(options) => options,
        Err(error) => return Finding { what, state: State::Bad, detail: error.to_string(), advice: None },
    };
    match baton_runtime::list_models(&options).await {
        Ok(models) => Finding {
            what,
            state: State::Good,
            detail: match models.len() {
                1 => format!("{detail}: 1 model"),
                count => format!("{detail}: {count} models"),
            },
            advice: None,
        },
        Err(error) => Finding { what, state: State::Bad, detail, advice: Some(error.to_string()) },
    }
}

/// Checks the program of an engine. A missing one is only a note: engines are optional.
fn engine((what, probe): (&'static str, baton_engines::Installation)) -> Finding {
    let detail = match (&probe.version, &probe.path) {
        (Some(version), Some(path)) => format!("{version} ({})", path.display()),
        (None, Some(path)) => path.display().to_string(),
        (_, None) => "not installed".into(),
    };
    let state = if probe.problem.is_none() { State::Good } else { State::Note };
    // The detail has said it.
    let repeated = format!("{what} is {detail}. ");
    let advice = probe.problem.map(|problem| problem.strip_prefix(&repeated).unwrap_or(&problem).to_owned());
    Finding { what, state, detail, advice }
}

/// Local model servers, with their default ports.
const LOCAL_SERVERS: [(&str, u16); 4] =
    [("Ollama", 11434), ("LM Studio", 1234), ("vLLM", 8000), ("llama.cpp", 8080)];

/// Time limit for a local server to list its models.
const LOCAL_LIMIT: Duration = Duration::from_secs(1);

/// Finds the local model servers that run, and lists their models.
async fn local(servers: &[(&str, u16)]) -> Finding {
    let probes = servers.iter().map(|(name, port)| probe(name, *port));
    let found: Vec<String> = futures_util::future::join_all(probes).await.into_iter().flatten().collect();
    let what = "local";
    if found.is_empty() {
        let names: Vec<String> = servers.iter().map(|(name, port)| format!("{name} ({port})")).collect();
        let detail = format!("no model server on the default ports: {}", names.join(", "));
        return Finding { what, state: State::Note, detail, advice: None };
    }
    let advice = "to use one, set OPENAI_BASE_URL to its address and OPENAI_MODEL to one of its models";
    Finding { what, state: State::Good, detail: found.join("; "), advice: Some(advice.into()) }
}

/// Describes the server on a port, if it lists models.
async fn probe(name: &str, port: u16) -> Option<String> {
    let url = format!("http://127.0.0.1:{port}/v1");
    let mut endpoint = baton_model::endpoint::Endpoint::new(&url).ok()?;
    endpoint.patience = Patience { head: LOCAL_LIMIT, stall: LOCAL_LIMIT };
    let models = catalog::fetch(&HttpClient::new(), &endpoint).await.ok()?;
    let names: Vec<&str> = models.iter().map(|model| model.id.as_str()).take(8).collect();
    let more = if models.len() > names.len() { ", …" } else { "" };
    Some(format!("{name} at {url}: {}{more}", names.join(", ")))
}

/// Checks the configurations and programs of MCP servers, without starting any.
async fn servers(config: &Config, environment: &Environment) -> Finding {
    let what = "mcp";
    let catalogue = ServerCatalogue::new(&config.home.value, config.mcp_servers.clone());
    let cwd = std::env::current_dir().ok();
    let entries = catalogue.entries(cwd.as_deref()).await;
    let unusable = mcp::unusable_programs(&entries, |program| is_installed(program, environment));
    if entries.is_empty() {
        let detail = "no MCP servers are configured".to_owned();
        return Finding {
            what,
            state: State::Note,
            detail,
            advice: Some("add one with `baton mcp add`".into()),
        };
    }
    if unusable.is_empty() {
        let names: Vec<&str> = entries.keys().map(String::as_str).collect();
        let detail = format!("{} configured: {}", names.len(), names.join(", "));
        let advice = "connect to one with `baton mcp test NAME`".to_owned();
        return Finding { what, state: State::Good, detail, advice: Some(advice) };
    }
    let problems: Vec<String> = unusable.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let names: Vec<&str> = unusable.iter().map(|(name, _)| name.as_str()).collect();
    let advice = format!("fix it, or turn it off with `baton mcp disable {}`", names.join(" "));
    Finding { what, state: State::Bad, detail: problems.join("; "), advice: Some(advice) }
}

/// Checks the skills that sessions in this directory use.
async fn skills(runtime: &Runtime) -> Finding {
    let what = "skills";
    let cwd = std::env::current_dir().ok();
    let found = match overview::overview(&runtime.addons, cwd.as_deref()).await {
        Ok(found) => found,
        Err(error) => return Finding { what, state: State::Bad, detail: error, advice: None },
    };
    if !found.problems.is_empty() {
        let advice = "mend the files; everything else is used".to_owned();
        return Finding { what, state: State::Bad, detail: found.problems.join("; "), advice: Some(advice) };
    }
    let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
    match names.is_empty() {
        true => Finding { what, state: State::Note, detail: "none were found".into(), advice: None },
        false => {
            let detail = format!("{} found: {}", names.len(), names.join(", "));
            Finding { what, state: State::Good, detail, advice: None }
        }
    }
}

/// Checks the installed plugins.
async fn plugins(runtime: &Runtime) -> Finding {
    let what = "plugins";
    let listed = match runtime.addons.plugins.list().await {
        Ok(listed) => listed,
        Err(error) => {
            let advice = Some("mend plugins.json in the home, or remove it".to_owned());
            return Finding { what, state: State::Bad, detail: error, advice };
        }
    };
    let names: Vec<&str> = listed.iter().map(|plugin| plugin.name.as_str()).collect();
    match names.is_empty() {
        true => Finding { what, state: State::Note, detail: "none are installed".into(), advice: None },
        false => {
            let detail = format!("{} installed: {}", names.len(), names.join(", "));
            Finding { what, state: State::Good, detail, advice: None }
        }
    }
}

/// Checks the channels of notifications, without sending any.
async fn notifications(config: &Config, environment: &Environment) -> Finding {
    let what = "notify";
    let bad = |detail, advice: &str| Finding { what, state: State::Bad, detail, advice: Some(advice.into()) };
    let store = match setup::store(config, None) {
        Ok(store) => store,
        Err(error) => return bad(format!("{error:#}"), "the store is checked above"),
    };
    let people = baton_people::People::new(store.shared());
    let courier = match crate::notify::courier(config, environment, store.shared(), people, None) {
        Ok(courier) => courier,
        Err(error) => return bad(format!("{error:#}"), "fix [notifications] in the configuration file"),
    };
    let (targets, outbox) = (courier.targets().await, courier.outbox().await);
    let telegram = courier.telegram_name().await;
    // Nothing was written, so a failed close loses nothing.
    let _ = store.close().await;
    if let Some(Err(error)) = telegram {
        return bad(
            format!("Telegram: {error}"),
            "check the token and the address in [notifications.telegram]",
        );
    }
    let (targets, outbox) = match (targets, outbox) {
        (Ok(targets), Ok(outbox)) => (targets, outbox),
        (Err(error), _) | (_, Err(error)) => return bad(error.to_string(), "the store is checked above"),
    };
    if targets.is_empty() {
        let advice = "turn them on in a browser that shows the page, or configure [notifications]".to_owned();
        return Finding { what, state: State::Note, detail: "no receivers".into(), advice: Some(advice) };
    }
    let pending = outbox.backlog().0;
    let detail = format!("receivers: {}, pending deliveries: {pending}", targets.len());
    Finding { what, state: State::Good, detail, advice: Some("try them with `baton notify test`".into()) }
}

fn is_installed(program: &str, environment: &Environment) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let paths = environment.get("PATH").unwrap_or_default();
    std::env::split_paths(paths).any(|directory| directory.join(program).is_file())
}

fn program(name: &'static str, without: &str, environment: &Environment) -> Finding {
    let paths = environment.get("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(paths).map(|directory| directory.join(name)).find(|path| path.is_file());
    match found {
        Some(path) => {
            Finding { what: name, state: State::Good, detail: path.display().to_string(), advice: None }
        }
        None => Finding {
            what: name,
            state: State::Note,
            detail: "not found".into(),
            advice: Some(without.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use baton_testkit::model_server::ModelServer;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn local_servers_are_found_by_their_model_lists() {
        let server = ModelServer::start().await;
        let names = (1..=9).map(|n| json!({"id": format!("model-{n}")}));
        server.set_models(json!({"object": "list", "data": names.collect::<Vec<_>>()}));
        let port = server.address().port();
        // A server that never answers, and a port without a listener.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let servers = [("Silent", silent.local_addr().unwrap().port()), ("Ollama", port), ("Missing", free)];

        let found = local(&servers).await;
        assert_eq!(found.state, State::Good, "{found:?}");
        let models = (1..=8).map(|n| format!("model-{n}")).collect::<Vec<_>>().join(", ");
        assert_eq!(found.detail, format!("Ollama at http://127.0.0.1:{port}/v1: {models}, …"));
        assert_eq!(server.requests()[0].path, "/v1/models");

        let missing = local(&[("Missing", free)]).await;
        assert_eq!(missing.state, State::Note, "local servers are optional: {missing:?}");
        assert!(missing.detail.contains(&format!("Missing ({free})")), "{missing:?}");
    }

    #[test]
    fn default_ports_match_the_documentation() {
        for (name, port) in LOCAL_SERVERS {
            let page = name.to_lowercase().replace([' ', '.'], "-");
            let page = format!("{}/../../docs/providers/{page}.md", env!("CARGO_MANIFEST_DIR"));
            let page = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page}: {error}"));
            assert!(page.contains(&format!("http://127.0.0.1:{port}/v1")), "{name}");
        }
    }
}
