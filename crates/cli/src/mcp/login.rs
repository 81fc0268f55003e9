//! `baton mcp login` and `logout`.
//!
//! A login of the command line belongs to no session: its tokens are stored for all of them. The browser returns to a port
//! of this machine, which the command opens; if the browser runs on another machine, its
//! user pastes the address at which it ended.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use baton_addons::mcp::{Protected, parse_returned, protected};
use baton_runtime::Runtime;
use serde_json::json;

use super::{NO_SUCH_SERVER, Surroundings, no_such_server};
use crate::setup;
use crate::signals::{FirstSignal, Interrupts};
use crate::terminal::{self, Keyboard, Typed};

/// Exit code of a login that was interrupted.
const INTERRUPTED: u8 = 130;

/// The way to log in.
pub(super) struct How {
    pub(super) may_open_browser: bool,
    pub(super) port: Option<u16>,
    pub(super) limit: Duration,
    /// Whether to log in although there is a login.
    pub(super) again: bool,
    pub(super) as_json: bool,
}

/// The end of a login.
enum End {
    LoggedIn,
    Failed(String),
    Interrupted,
}

pub(super) async fn login(around: &Surroundings, name: &str, how: &How) -> anyhow::Result<ExitCode> {
    let runtime = setup::server_without_sessions(&around.config, &around.environment)?;
    let server = match find(around, &runtime, name).await? {
        Ok(server) => server,
        Err(code) => return Ok(code),
    };
    if !how.again && runtime.addons.logins.known(&server).await.is_some() {
        return Ok(report(name, how.as_json, "you are logged in already; use --force to log in again"));
    }
    let mut ended = runtime.addons.logins.ended();
    let redirect = match how.port {
        Some(port) => Some(crate::landing::open_at(&runtime, port).await?),
        None => None,
    };
    let link = runtime.addons.logins.prepare(None, &server, None, redirect).await;
    let link = link.map_err(|why| anyhow::anyhow!("cannot log in to {name}: {why}"))?;
    show(&link.url, &link.redirect, how);
    let (mut keyboard, mut interrupts) = (Keyboard::listen(), Interrupts::listen(FirstSignal::IsForwarded)?);
    let end = tokio::time::timeout(how.limit, async {
        loop {
            tokio::select! {
                Ok(done) = ended.recv() => match done {
                    Ok(_) => return End::LoggedIn,
                    Err(why) => return End::Failed(why),
                },
                typed = keyboard.next() => match typed {
                    Typed::Line(line) if line.trim().is_empty() => {}
                    Typed::Line(line) if parse_returned(&line).is_none() => {
                        terminal::error("that is neither an address with a code nor a code; paste it again");
                    }
                    Typed::Line(line) => match runtime.addons.logins.finish_pasted(None, name, &line).await {
                        Ok(()) => return End::LoggedIn,
                        Err(why) => return End::Failed(why),
                    },
                    Typed::End => {}
                },
                () = interrupts.next() => return End::Interrupted,
            }
        }
    });
    Ok(match end.await {
        Ok(End::LoggedIn) => report(name, how.as_json, "logged in; sessions use it with their next prompt"),
        Ok(End::Failed(why)) => failed(name, how.as_json, &why),
        Ok(End::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(_) => failed(name, how.as_json, &format!("nobody logged in within {} s", how.limit.as_secs())),
    })
}

/// Finds a remote server. A file of a workspace that is not trusted cannot choose where a person logs in.
async fn find(
    around: &Surroundings,
    runtime: &Runtime,
    name: &str,
) -> anyhow::Result<Result<Protected, ExitCode>> {
    let entries = around.catalogue.entries(Some(&around.cwd)).await;
    let Some(entry) = entries.get(name) else { return Ok(Err(no_such_server(around, name).await)) };
    anyhow::ensure!(!entry.is_pending(), "{name} is not trusted yet; approve it with `baton mcp trust`");
    let declared = entry.chosen.declared.clone();
    if let Err(error) = &declared.config {
        anyhow::bail!("{name} cannot be used: {}", error.problem);
    }
    let server = protected(&runtime.addons, declared, around.cwd.clone());
    server.map(Ok).ok_or_else(|| anyhow::anyhow!("{name} is a program on this machine, and has no login"))
}

/// Shows the link, and opens a browser where there is one.
fn show(link: &str, redirect: &str, how: &How) {
    if how.as_json {
        terminal::json_line(&json!({ "authorizationUrl": link, "redirectUri": redirect }).to_string());
    } else {
        terminal::note("open this link in a browser, here or on another machine:");
        terminal::line(link);
        terminal::note("if the browser ends at an address that does not load, paste that address here");
    }
    if how.may_open_browser && !how.as_json && terminal::errors_are_on_a_terminal() && has_display() {
        open_browser(link);
    }
}

fn has_display() -> bool {
    cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Opens a browser, if the system knows how. The link was checked: it is an address of the web.
fn open_browser(link: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(program)
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    // Without a browser, the person has the link.
    drop(started);
}

pub(super) async fn logout(around: &Surroundings, name: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let runtime = setup::server_without_sessions(&around.config, &around.environment)?;
    let server = match find(around, &runtime, name).await? {
        Ok(server) => server,
        Err(code) => return Ok(code),
    };
    let forgotten = runtime.addons.logins.forget(&server).await.map_err(anyhow::Error::msg)?;
    if forgotten {
        return Ok(report(name, as_json, "logged out"));
    }
    failed(name, as_json, "there is no login");
    Ok(ExitCode::from(NO_SUCH_SERVER))
}

fn report(name: &str, as_json: bool, text: &str) -> ExitCode {
    match as_json {
        true => terminal::json_line(&json!({ "name": name, "ok": true, "message": text }).to_string()),
        false => terminal::note(&format!("{name}: {text}")),
    }
    ExitCode::SUCCESS
}

fn failed(name: &str, as_json: bool, why: &str) -> ExitCode {
    match as_json {
        true => terminal::json_line(&json!({ "name": name, "ok": false, "message": why }).to_string()),
        false => terminal::error(&format!("{name}: {why}")),
    }
    ExitCode::FAILURE
}
