//! `baton` alone and `baton attach`: opens the full-screen interface on a session.
//!
//! The interface itself is `baton_tui`; here is what it needs to know of flags, the configuration and this process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_client::start::{self, Starter};
use baton_protocol::Author;
use baton_tui::state::About;
use baton_tui::theme::Theme;
use baton_tui::{BoxFuture, Found, Left, Options, Servers, Start};

use crate::args::{AttachArgs, Cli, Global, ModelArgs};
use crate::client::{ServerLocator, SessionView, id_for_people, user_of_terminal};
use crate::config::{self, Environment};
use crate::{setup, terminal};

/// Opens the interface with a new session in this directory.
pub(crate) fn open(cli: &Cli) -> anyhow::Result<ExitCode> {
    run(&cli.global, Place::default(), Start::New)
}

/// Opens the interface on a session.
pub(crate) fn attach(cli: &Cli, args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let place = Place {
        url: args.url.clone(),
        socket: args.socket.clone(),
        token_file: args.token_file.clone(),
        ca: args.ca.clone(),
    };
    let start = match &args.session {
        _ if args.new => Start::New,
        Some(id) => Start::Existing(id.clone()),
        None => Start::Newest,
    };
    run(&cli.global, place, start)
}

/// The server that the user named, if any.
#[derive(Debug, Clone, Default)]
struct Place {
    url: Option<String>,
    socket: Option<PathBuf>,
    token_file: Option<PathBuf>,
    ca: Option<PathBuf>,
}

fn run(global: &Global, place: Place, start: Start) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(global, &ModelArgs::default(), None, &environment)?;
    let home = config.home.value;
    if place.url.is_none() && place.socket.is_none() {
        setup::check_home(&home)?;
    }
    let cwd = std::env::current_dir().context("cannot read the current directory")?;
    let starter = starter(global, &home)?;
    let text = |name: &str| environment.get(name).unwrap_or_default().to_owned();
    let start_is_newest = start == Start::Newest;
    let servers = HomeServers {
        place,
        home: home.clone(),
        token: environment.get("BATON_TOKEN").map(str::to_owned),
        starter,
        start_is_newest,
    };
    let theme = match environment.get("NO_COLOR") {
        Some(value) if !value.is_empty() => Theme::Plain,
        _ => Theme::default(),
    };
    let theme = config.terminal.theme()?.unwrap_or(theme);
    let options = Options {
        servers: Arc::new(servers),
        start,
        about: About {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            home: text("HOME"),
            author: Author::terminal(&user_of_terminal()).0,
            ..About::default()
        },
        theme,
        mouse: config.terminal.mouse(),
        cwd,
        // Those of this shell, not those of the one that has started the server. The server filters them.
        variables: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        directory: home,
        environment: baton_tui::Environment {
            term: text("TERM"),
            program: text("TERM_PROGRAM"),
            in_tmux: environment.get("TMUX").is_some_and(|value| !value.is_empty()),
            editor: environment.get("VISUAL").or(environment.get("EDITOR")).map(str::to_owned),
        },
    };
    let left = setup::run(baton_tui::run(options))?;
    Ok(say_goodbye(&left))
}

/// Prints to the normal screen what the full one took away: the last answer, and how to return.
fn say_goodbye(left: &Left) -> ExitCode {
    if let Some(answer) = &left.answer {
        let mut printer = terminal::AnswerPrinter::new();
        printer.print(answer);
        printer.end_line();
    }
    if let Some(failure) = &left.failure {
        terminal::error(failure);
        return ExitCode::FAILURE;
    }
    if let Some(session) = &left.session {
        let id = id_for_people(session);
        terminal::note(&format!("the session goes on: `baton attach {id}` comes back"));
    }
    ExitCode::SUCCESS
}

/// Returns how a server of the home is started: by this program, with the flags that lead to the same home.
fn starter(global: &Global, home: &Path) -> anyhow::Result<Starter> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let home = absolute(home);
    let mut arguments: Vec<OsString> =
        vec!["serve".into(), "--detached".into(), "--home".into(), home.clone().into()];
    arguments.extend(["--socket".into(), home.join("baton.sock").into()]);
    arguments.extend(["--exit-when-idle".into(), "1h".into()]);
    let mut add = |flag: &str, value: Option<OsString>| {
        if let Some(value) = value {
            arguments.extend([flag.into(), value]);
        }
    };
    add("--config", global.config.as_deref().map(|path| absolute(path).into()));
    add("--store", global.store.clone().map(Into::into));
    add("--place", global.place.clone().map(Into::into));
    Ok(Starter { program, arguments })
}

/// Finds the server that the user named, the process that holds the session, or the server of the home, which is started if
/// there is none.
struct HomeServers {
    place: Place,
    home: PathBuf,
    token: Option<String>,
    starter: Starter,
    start_is_newest: bool,
}

impl HomeServers {
    fn locator(&self) -> ServerLocator<'_> {
        ServerLocator {
            url: self.place.url.as_deref(),
            socket: self.place.socket.as_deref(),
            token_file: self.place.token_file.as_deref(),
            home: &self.home,
            ca: self.place.ca.as_deref(),
            token: self.token.as_deref(),
        }
    }

    async fn find(&self, session: Option<&str>) -> anyhow::Result<Found> {
        let locator = self.locator();
        // A `baton run` serves its one session itself.
        let of_run = locator.session_of_run().filter(|_| session.is_none() && self.start_is_newest);
        if let Some(holder) = session.or(of_run.as_deref()).filter(|id| locator.is_run(id)) {
            return Ok(Found { client: locator.connect_for(holder)?, note: None });
        }
        let found = start::find_or_start(&locator, &self.starter, env!("CARGO_PKG_VERSION")).await?;
        let mut client = found.client;
        if let Some(id) = session
            && let Ok(view) = client.get::<SessionView>(&format!("/api/sessions/{id}")).await
            && let Ok(Some(holder)) = locator.connect_to_holder(&view)
        {
            client = holder;
        }
        Ok(Found { client, note: found.note })
    }
}

impl Servers for HomeServers {
    fn connect<'a>(&'a self, session: Option<&'a str>) -> BoxFuture<'a, anyhow::Result<Found>> {
        Box::pin(self.find(session))
    }
}
