//! `baton sessions`: lists, searches, shows, renames, exports, imports and deletes stored sessions.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

mod html;
mod list;
mod local_time;
mod rename;
mod search;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::args::{Cli, ModelArgs, SessionsCommand};
use anyhow::Context;
use baton_history::{metadata, repairs, transfer};
use baton_protocol::{Body, Event, SessionId, Timestamp};
use baton_runtime::{CrashPlan, CrashPoint};
use baton_store::{Seq, Span, Store, Summary};
use serde_json::json;

pub(crate) use self::list::with_tilde;
pub(crate) use self::local_time::LocalTime;
use crate::config::{self, Environment};
use crate::words::counted;
use crate::{logging, operate, setup, show, terminal};

pub(crate) fn sessions(cli: &Cli, command: &SessionsCommand) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &ModelArgs::default(), None, &environment)?;
    logging::start(&config);
    let crash = setup::crash_plan(&environment)?;
    setup::run(async {
        let opened = setup::store(&config, crash.clone())?;
        let store = opened.shared();
        let done = match command {
            SessionsCommand::List(args) => list::list(&*store, args).await,
            SessionsCommand::Search { text, limit, json } => search::run(&*store, text, *limit, *json).await,
            SessionsCommand::Show { id, json } => show_session(&*store, id, *json).await,
            SessionsCommand::Rename { id, name, json } => {
                rename::rename(&opened, &config, &environment, (id, name), *json).await
            }
            SessionsCommand::Export { id, output, force, html } => {
                export(&*store, id, output.as_deref().map(|path| (path, *force)), *html).await
            }
            SessionsCommand::Import { file, id, json } => {
                import(&store, file, id.as_deref(), crash.as_deref(), *json).await
            }
            SessionsCommand::Delete { ids, yes, json } => {
                delete(&*store, &config.home.value, ids, *yes, *json).await
            }
        };
        opened.close().await?;
        operate::or_not_found(done, |error| error.is::<NoSuchSession>())
    })
}

/// Error for an id that no session has.
#[derive(Debug, thiserror::Error)]
#[error("no session {0:?}; `baton sessions list` shows all")]
pub(crate) struct NoSuchSession(String);

/// Finds a session by its id or a unique prefix of it.
pub(crate) async fn find(store: &dyn Store, prefix: &str) -> anyhow::Result<SessionId> {
    let all = store.list().await?;
    if let Some(exact) = all.iter().find(|summary| summary.session.as_str() == prefix) {
        return Ok(exact.session.clone());
    }
    let mut matching = all.iter().filter(|summary| summary.session.as_str().starts_with(prefix));
    match (matching.next(), matching.next()) {
        (Some(only), None) => Ok(only.session.clone()),
        (None, _) => Err(NoSuchSession(prefix.to_owned()).into()),
        (Some(_), Some(_)) => {
            anyhow::bail!("{prefix:?} matches several sessions; give more of the id")
        }
    }
}

/// Returns the session of a directory that changed last, of those with a model that `may` accepts; with its model.
pub(crate) async fn last_here(
    store: &dyn Store,
    cwd: &str,
    may: impl Fn(Option<&str>) -> bool,
) -> anyhow::Result<Option<(SessionId, Option<String>)>> {
    let all = store.list().await?;
    let is_here =
        |summary: &&Summary| metadata::of(summary).context.is_some_and(|context| context.cwd == cwd);
    let mut here = all
        .iter()
        .filter(is_here)
        .map(|summary| (summary.session.clone(), metadata::decode(&summary.meta).model));
    Ok(here.find(|(_, model)| may(model.as_deref())))
}

async fn show_session(store: &dyn Store, id: &str, json: bool) -> anyhow::Result<ExitCode> {
    let session = find(store, id).await?;
    if !json {
        show_heading(store, &session).await?;
    }
    let mut after = Seq::ZERO;
    loop {
        let page = store.read(&session, Span::After { after, limit: 500 }).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for record in &page {
            let text = String::from_utf8_lossy(&record.body);
            if json {
                terminal::json_line(&text);
            } else if let Ok(event) = Event::parse(&text) {
                show_event(&event);
            }
        }
    }
    for repair in repairs::inspect(store, &session).await? {
        terminal::note(&repair);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints which session it is: its title, and in one line its id, model, directory and last change.
async fn show_heading(store: &dyn Store, session: &SessionId) -> anyhow::Result<()> {
    let summary = store.summary(session).await?.context("the session was deleted")?;
    let found = metadata::of(&summary);
    terminal::hanging_line(found.summary.as_deref().unwrap_or("(no prompt yet)"), 0);
    let model = metadata::decode(&summary.meta).model;
    let directory = found.context.map(|context| with_tilde(&context.cwd));
    let changed = match terminal::output_is_terminal() {
        true => LocalTime::of_system().format_near(found.modified_time, Timestamp::now()),
        false => found.modified_time.to_string(),
    };
    let facts = [Some(session.to_string()), model, directory, Some(changed)];
    let facts: Vec<String> = facts.into_iter().flatten().filter(|fact| !fact.is_empty()).collect();
    terminal::dim_hanging_line(&facts.join(" · "), 2);
    Ok(())
}

fn show_event(event: &Event) {
    match &event.body {
        Body::UserMessage(message) => {
            terminal::line("");
            terminal::paragraph("> ", &message.content);
        }
        Body::AssistantMessage(message) if !message.content.is_empty() => {
            terminal::line("");
            let mut answer = terminal::AnswerPrinter::new();
            answer.print(&message.content);
            answer.end_line();
        }
        Body::ToolStart(start) => terminal::dim_hanging_line(&format!("  ▸ {}", show::call(start)), 4),
        Body::SessionError(error) => {
            terminal::line("");
            terminal::paragraph("! ", &error.message);
        }
        Body::TurnSettled(settled) if settled.outcome != baton_protocol::event::Outcome::Completed => {
            terminal::dim_hanging_line(&format!("  ({:?}: {})", settled.outcome, settled.reason), 3);
        }
        _ => {}
    }
}

/// Creates the file of an export. One that exists is replaced only by force.
fn create(path: &Path, force: bool) -> anyhow::Result<File> {
    // Devices and pipes can be written to without losing anything.
    let replaces = force || path.metadata().is_ok_and(|found| !found.is_file());
    let opened = match replaces {
        true => File::create(path),
        false => File::create_new(path),
    };
    opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            anyhow::anyhow!("{} exists; choose another name, or use --force to replace it", path.display())
        }
        _ => anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
    })
}

/// Exports a session to a file, which is replaced only if the flag with it is set, or to standard output.
async fn export(
    store: &dyn Store,
    id: &str,
    output: Option<(&Path, bool)>,
    html: bool,
) -> anyhow::Result<ExitCode> {
    let session = find(store, id).await?;
    let mut out: Box<dyn Write> = match output {
        Some((path, force)) => Box::new(BufWriter::new(create(path, force)?)),
        None if html => terminal::escaped_output(),
        None => terminal::json_output(),
    };
    let events = match html {
        true => {
            let summary = store.summary(&session).await?.context("the session was deleted")?;
            let title = metadata::of(&summary).summary.unwrap_or_default();
            html::write(store, &session, &title, &mut out).await? as u64
        }
        false => transfer::export(store, &session, &mut out).await? as u64,
    };
    out.flush()?;
    let target = output.map(|(path, _)| format!(" to {}", path.display())).unwrap_or_default();
    let format = if html { " as a page" } else { "" };
    terminal::note(&format!("wrote {} of session {session}{format}{target}", counted(events, "event")));
    Ok(ExitCode::SUCCESS)
}

async fn import(
    store: &Arc<dyn Store>,
    file: &Path,
    id: Option<&str>,
    crash: Option<&CrashPlan>,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let id = id.map(str::parse::<SessionId>).transpose()?;
    let before_page = || crash.iter().for_each(|plan| plan.pass(CrashPoint::DuringImport));
    let imported = if file == Path::new("-") {
        transfer::import(&**store, &mut BufReader::new(std::io::stdin()), id, before_page).await?
    } else {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        transfer::import(&**store, &mut BufReader::new(opened), id, before_page).await?
    };
    if as_json {
        let (session, events, repairs) = (&imported.session, imported.events, &imported.repairs);
        let change = json!({ "imported": session, "events": events, "repairs": repairs });
        terminal::json_line(&change.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for repair in &imported.repairs {
        terminal::note(repair);
    }
    terminal::note(&counted(imported.events, "event"));
    terminal::line(imported.session.as_str());
    Ok(ExitCode::SUCCESS)
}

/// Names a session to a person: its title, and its id.
async fn named(store: &dyn Store, session: &SessionId) -> anyhow::Result<String> {
    let title = store.summary(session).await?.and_then(|summary| metadata::of(&summary).summary);
    Ok(match title.filter(|title| !title.is_empty()) {
        Some(title) => format!("\"{}\" ({session})", terminal::shortened(&title, 60)),
        None => format!("session {session}"),
    })
}

async fn delete(
    store: &dyn Store,
    home: &Path,
    ids: &[String],
    yes: bool,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let mut sessions = Vec::new();
    for id in ids {
        sessions.push(find(store, id).await?);
    }
    if !yes {
        let mut names = Vec::new();
        for session in &sessions {
            names.push(named(store, session).await?);
        }
        let answer = terminal::ask(&format!("delete {} permanently? [y/N]", names.join(", ")));
        anyhow::ensure!(answer.is_some(), "cannot ask without a terminal; use --yes to delete");
        if !answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes")) {
            terminal::note("not deleted");
            return Ok(ExitCode::FAILURE);
        }
    }
    for session in &sessions {
        baton_history::owner::delete_session(store, session, None).await?;
        // A copy of what was in the store; it may be missing.
        let _ = std::fs::remove_dir_all(home.join("session-state").join(session.as_str()));
        if !as_json {
            terminal::note(&format!("deleted {session}"));
        }
    }
    if as_json {
        terminal::json_line(&json!({ "deleted": sessions }).to_string());
    }
    Ok(ExitCode::SUCCESS)
}
