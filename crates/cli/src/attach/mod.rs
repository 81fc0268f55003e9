//! `baton attach`: watches and steers a session of a running server, or of a `baton run`, from the terminal.
//!
//! [`session`] is the main loop; [`client`](crate::client) has the code that it shares with other commands.

mod session;

use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;

use self::session::AttachedSession;
use crate::args::{AttachArgs, Cli, ModelArgs};
use crate::client::{Client, NotFound, ServerLocator, SessionView, id_for_people};
use crate::config::{self, Environment};
use crate::{logging, operate, setup, terminal};

pub(crate) fn attach(cli: &Cli, args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &ModelArgs::default(), None, &environment)?;
    logging::start(&config);
    let locator = ServerLocator {
        url: args.url.as_deref(),
        socket: args.socket.as_deref(),
        token_file: args.token_file.as_deref(),
        ca: args.ca.as_deref(),
        home: &config.home.value,
        token: environment.get("BATON_TOKEN"),
    };
    if args.url.is_none() && args.socket.is_none() {
        setup::check_home(&config.home.value)?;
    }
    let done = setup::run(async {
        let mut client = locator.connect()?;
        let session = choose(&client, locator, args).await;
        let session = match &args.url {
            Some(url) => session.with_context(|| format!("cannot attach at {url}"))?,
            None => session?,
        };
        if let Some(holder) = locator.connect_to_holder(&session)? {
            client = holder;
        }
        introduce(&session, args);
        AttachedSession::new(args, locator, client, &session)?.run().await
    });
    operate::or_not_found(done, |error| error.is::<NotFound>())
}

/// Finds or creates the session that the arguments ask for.
async fn choose(
    client: &Client,
    locator: ServerLocator<'_>,
    args: &AttachArgs,
) -> anyhow::Result<SessionView> {
    let of_run = locator.session_of_run();
    if args.new {
        if of_run.is_some() {
            return Err(NotFound::Server { home: locator.home.to_owned() }.into());
        }
        let cwd = std::env::current_dir().context("cannot read the current directory")?;
        return Ok(client.post("/api/sessions", &json!({ "cwd": cwd, "questions": true }), None).await?);
    }
    match args.session.as_ref().or(of_run.as_ref()) {
        Some(wanted) => client.find(wanted).await,
        None => {
            let newest = client.sessions().await?.into_iter().next();
            newest.ok_or_else(|| NotFound::AnySession.into())
        }
    }
}

fn introduce(session: &SessionView, args: &AttachArgs) {
    if args.json {
        return;
    }
    let about = [session.title.as_deref(), session.cwd.as_deref()];
    let about: String = about.into_iter().flatten().map(|text| format!(" · {text}")).collect();
    terminal::note(&format!("session {}{about}", id_for_people(&session.id)));
    terminal::note(if args.read_only {
        "watching; Ctrl-C leaves"
    } else {
        "type to prompt or steer; Ctrl-C cancels the running turn; Ctrl-D leaves"
    });
}
