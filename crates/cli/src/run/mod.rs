//! `baton run`: sends one prompt, and streams the answer to the terminal.
//!
//! [`place`] is where the session lives: in a running server, or in this process. [`input`] is the prompt, [`conversation`]
//! follows it to its outcome. A session with pending requests can be continued without a prompt.

mod connection;
mod conversation;
mod description;
mod embedded;
mod input;
mod place;
mod progress;
mod remote;

use std::process::ExitCode;

use crate::args::{Cli, RunArgs};

use self::conversation::Conversation;
use self::input::GivenPrompt;
use self::place::{NothingToContinue, SessionHost, Work};
use crate::client::NotFound;
use crate::config::{self, Environment};
use crate::sessions::NoSuchSession;
use crate::{logging, operate, setup};

pub(crate) fn run(cli: &Cli, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &args.model, None, &environment)?;
    logging::start(&config);
    config.check_endpoint()?;
    let options = setup::options(&config, &environment)?;
    if let Some(engine) = &args.engine {
        let known = baton_runtime::engine_names(&options);
        anyhow::ensure!(
            known.contains(&engine.as_str()),
            "unknown engine {engine:?}; known engines: {}",
            known.join(", ")
        );
    }
    let (prompt, work) = match input::prompt(args)? {
        GivenPrompt::Text(prompt) => (Some(prompt), Work::Prompt),
        GivenPrompt::Absent => (None, Work::Requests),
        GivenPrompt::Invalid => return Ok(ExitCode::from(2)),
    };
    let done = setup::run(async {
        let place = SessionHost::open(&config, &environment, options, args, work).await?;
        Conversation::new(args, place)?.run(prompt).await
    });
    operate::or_not_found(done, |error| {
        error.is::<NoSuchSession>() || error.is::<NotFound>() || error.is::<NothingToContinue>()
    })
}
