//! `baton attach`: a running session, watched and steered from the terminal over the HTTP door.
//!
//! [`client`] talks to the server, [`screen`] shows what happens, [`watch`] brings both together with the keyboard.
#![expect(clippy::disallowed_methods, reason = "a client of its own, with nobody else to wait")]

mod client;
mod questions;
mod screen;
mod watch;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde::Deserialize;
use serde_json::json;

use self::client::{Client, Place};
use self::watch::Watch;
use crate::args::{AttachArgs, Cli, ModelArgs};
use crate::beacon::Beacon;
use crate::config::{self, Environment};
use crate::{setup, terminal};

/// A session, as the server lists it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: String,
    title: Option<String>,
    cwd: Option<String>,
    head: u64,
    busy: bool,
}

#[derive(Deserialize)]
struct Listing {
    sessions: Vec<Listed>,
}

pub(crate) fn attach(cli: &Cli, args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &ModelArgs::default(), None, &environment)?;
    setup::log(&config);
    let finder = Finder { args, home: &config.home.value, token: environment.get("BATON_TOKEN") };
    setup::run(async {
        let client = finder.find()?;
        let session = choose(&client, args).await?;
        introduce(&session, args);
        Watch::new(finder, client, &session)?.run().await
    })
}

/// Knows where the server is; asked again whenever the connection is lost, because the next server may be elsewhere.
struct Finder<'a> {
    args: &'a AttachArgs,
    home: &'a Path,
    token: Option<&'a str>,
}

impl Finder<'_> {
    fn find(&self) -> anyhow::Result<Client> {
        let (place, token_file) = match (&self.args.url, &self.args.socket) {
            (Some(url), _) => (Place::Url(url.trim_end_matches('/').to_owned()), None),
            (None, Some(socket)) => (Place::Socket(socket.clone()), None),
            (None, None) => self.find_here()?,
        };
        let file = self.args.token_file.clone().or(token_file);
        let token = match (self.token, file) {
            (Some(token), _) => Some(token.to_owned()),
            (None, Some(file)) => {
                let read = std::fs::read_to_string(&file);
                Some(read.with_context(|| format!("cannot read {}", file.display()))?.trim().to_owned())
            }
            (None, None) => None,
        };
        Client::new(place, token)
    }

    /// A server of this machine and this home. Its socket file before its port: no token has to travel.
    fn find_here(&self) -> anyhow::Result<(Place, Option<std::path::PathBuf>)> {
        let running = Beacon::all(self.home);
        let places = running.iter().filter_map(|beacon| match (&beacon.socket, &beacon.url) {
            (Some(socket), _) => Some((Place::Socket(socket.clone()), None)),
            (None, Some(url)) => Some((Place::Url(url.clone()), beacon.token_file.clone())),
            (None, None) => None,
        });
        match (places.into_iter().next(), running.first()) {
            (Some(found), _) => Ok(found),
            (None, Some(_)) => anyhow::bail!(
                "the server of {} has no HTTP door; start it with --socket or --http",
                self.home.display()
            ),
            (None, None) => anyhow::bail!(
                "no server runs on {}; start one with `baton serve`, or name one with --url or --socket",
                self.home.display()
            ),
        }
    }
}

/// The session that is meant.
async fn choose(client: &Client, args: &AttachArgs) -> anyhow::Result<Listed> {
    if args.new {
        let cwd = std::env::current_dir().context("cannot tell the current directory")?;
        return Ok(client.post("/api/sessions", &json!({ "cwd": cwd, "questions": true }), None).await?);
    }
    let mut all: Vec<Listed> = client.get::<Listing>("/api/sessions").await?.sessions;
    let Some(wanted) = &args.session else {
        let newest = all.into_iter().next();
        return newest.context("there are no sessions yet; `baton attach --new` makes one");
    };
    if let Some(exact) = all.iter().position(|session| session.id == *wanted) {
        return Ok(all.swap_remove(exact));
    }
    all.retain(|session| session.id.starts_with(wanted));
    match all.len() {
        0 => anyhow::bail!("the server has no session {wanted:?}"),
        1 => Ok(all.swap_remove(0)),
        _ => anyhow::bail!("{wanted:?} is the beginning of several sessions; give more of the id"),
    }
}

fn introduce(session: &Listed, args: &AttachArgs) {
    if args.json {
        return;
    }
    let about = [session.title.as_deref(), session.cwd.as_deref()];
    let about: String = about.into_iter().flatten().map(|text| format!(" · {text}")).collect();
    terminal::note(&format!("session {}{about}", session.id));
    terminal::note(if args.read_only {
        "watching; Ctrl-C leaves"
    } else {
        "type to prompt or steer; Ctrl-C cancels the running turn, once more leaves; Ctrl-D leaves"
    });
}
