//! `baton run`: one prompt, answered on the terminal.

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_protocol::event::{Body, Outcome, Prompt};
use baton_protocol::params::SessionParams;
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::{PromptId, RequestId};
use baton_server::{Arrived, Endpoint, Joint, LocalSession, Server};
use baton_store::sqlite::SqliteStore;

use crate::args::{Cli, RunArgs};
use crate::config::{self, Config, Environment};
use crate::signals::{Interrupts, Meaning};
use crate::{sessions, setup, show, terminal};

/// The exit code of a prompt that was cancelled, as shells have it for Ctrl-C.
const CANCELLED: u8 = 130;

pub(crate) fn run(cli: &Cli, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &args.model, None, &environment)?;
    setup::log(&config);
    let options = setup::options(&config, &environment)?;
    if let Some(engine) = &args.engine {
        let known = baton_server::engine_names(&options);
        anyhow::ensure!(
            known.contains(&engine.as_str()),
            "there is no engine named {engine:?}; there are {}",
            known.join(", ")
        );
    }
    let prompt = prompt(args)?;
    setup::run(async {
        let store = setup::store(&config, options.crash.clone());
        let server = setup::server(options, &store);
        let outcome = converse(&server, &store, &config, args, prompt).await;
        setup::stop(&server, &store).await;
        outcome
    })
}

/// The prompt: the words, and standard input where a `-` stands.
fn prompt(args: &RunArgs) -> anyhow::Result<String> {
    let mut words = Vec::new();
    for word in &args.prompt {
        if word == "-" {
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input).context("cannot read standard input")?;
            words.push(input);
        } else {
            words.push(word.clone());
        }
    }
    let prompt = words.join(" ");
    anyhow::ensure!(!prompt.trim().is_empty(), "the prompt is empty");
    Ok(prompt)
}

async fn converse(
    server: &Arc<Server>,
    store: &Arc<SqliteStore>,
    config: &Config,
    args: &RunArgs,
    text: String,
) -> anyhow::Result<ExitCode> {
    let joint = joint(store, config, args).await?;
    let mut session = server.join(joint).await?;
    if !args.quiet && !args.json {
        let model = match &config.endpoint.value {
            _ if args.engine.is_some() => model(config, args).unwrap_or_default(),
            Endpoint::Demo => {
                "demo model, no AI: set OPENAI_API_KEY or OPENAI_BASE_URL for a real one".to_owned()
            }
            endpoint => config::describe(endpoint),
        };
        terminal::note(&format!("session {} · {model}", session.id()));
    }
    let interrupts = Interrupts::listen(Meaning::Ask)?;
    let prompt = session.prompt(Prompt { text, ..Prompt::default() }).await?;
    let watch = Watch {
        args,
        session: &mut session,
        prompt,
        interrupts,
        cancelled: false,
        trouble: None,
        wrote: false,
        answer: terminal::Answer::default(),
    };
    let code = watch.until_settled().await?;
    session.close().await?;
    Ok(code)
}

/// The model that the session is to use. An engine's model is the engine's name, with one of its own models after it.
fn model(config: &Config, args: &RunArgs) -> Option<String> {
    match &args.engine {
        Some(engine) => Some(match &args.model.model {
            Some(model) => format!("{engine}/{model}"),
            None => engine.clone(),
        }),
        None => config.model.as_ref().map(|model| model.value.clone()),
    }
}

/// Which session to use.
async fn joint(store: &Arc<SqliteStore>, config: &Config, args: &RunArgs) -> anyhow::Result<Joint> {
    let cwd = std::env::current_dir()?.display().to_string();
    let params = SessionParams {
        model: model(config, args),
        working_directory: Some(cwd.clone()),
        streaming: Some(true),
        client_name: Some("baton-run".into()),
        ..SessionParams::default()
    };
    let id = match (&args.session, args.continue_last) {
        (Some(prefix), _) => Some(sessions::find(&**store, prefix).await?),
        (None, true) => Some(
            sessions::last_here(&**store, &cwd)
                .await?
                .context("no session of this directory to continue; start one without --continue")?,
        ),
        (None, false) => None,
    };
    Ok(match id {
        Some(id) => Joint::Resume(id, SessionParams { continue_pending_work: Some(false), ..params }),
        None => Joint::Create(params),
    })
}

/// Follows a session until a prompt has its outcome.
struct Watch<'a> {
    args: &'a RunArgs,
    session: &'a mut LocalSession,
    prompt: PromptId,
    interrupts: Interrupts,
    cancelled: bool,
    /// The last error that was shown: the reason, should the session end without an outcome.
    trouble: Option<String>,
    /// Whether the last thing on standard output was a piece of text without an end of line.
    wrote: bool,
    answer: terminal::Answer,
}

impl Watch<'_> {
    async fn until_settled(mut self) -> anyhow::Result<ExitCode> {
        let mut outcome = None;
        loop {
            let arrived = tokio::select! {
                arrived = self.session.next() => {
                    arrived.with_context(|| self.trouble.take().unwrap_or("the session has ended".into()))?
                }
                () = self.interrupts.next() => {
                    if self.cancelled {
                        return Ok(ExitCode::from(CANCELLED));
                    }
                    self.cancel().await?;
                    continue;
                }
            };
            if self.args.json {
                terminal::json_line(&String::from_utf8_lossy(&arrived.json));
            }
            match arrived.event.body {
                Body::TurnSettled(settled) if settled.prompt_ids.contains(&self.prompt) => {
                    outcome = Some(settled);
                }
                Body::SessionIdle(_) if outcome.is_some() => break,
                _ => self.take(arrived).await?,
            }
        }
        let settled = outcome.context("the turn had no outcome")?;
        self.end_line();
        Ok(match settled.outcome {
            Outcome::Completed => ExitCode::SUCCESS,
            Outcome::Cancelled | Outcome::Interrupted => ExitCode::from(CANCELLED),
            Outcome::Failed => {
                terminal::error(&settled.reason);
                ExitCode::FAILURE
            }
        })
    }

    async fn cancel(&mut self) -> anyhow::Result<()> {
        self.cancelled = true;
        self.say("cancelling; press Ctrl-C again to leave at once");
        Ok(self.session.abort().await?)
    }

    async fn take(&mut self, arrived: Arrived) -> anyhow::Result<()> {
        // What sub-agents say is for the agent that they work for; what they do, and want to, is shown.
        let of_agent = arrived.event.agent_id.is_some();
        match arrived.event.body {
            Body::MessageDelta(_) | Body::AssistantMessage(_) | Body::SessionError(_) if of_agent => {}
            Body::MessageDelta(delta) if !self.args.json => {
                self.answer.piece(&delta.delta_content);
                self.wrote = true;
            }
            Body::AssistantMessage(message) if !message.content.is_empty() => {
                if !self.args.json && !self.wrote {
                    self.answer.piece(&message.content);
                    self.wrote = true;
                }
                self.end_line();
            }
            Body::ToolStart(start) => self.say(&format!("▸ {}", show::call(&start))),
            Body::ToolComplete(complete) if !complete.success => {
                let why = complete.error.map(|error| error.message).unwrap_or_default();
                self.say(&format!("✗ {}", why.lines().next().unwrap_or_default()));
            }
            Body::SessionError(error) => self.trouble = Some(error.message),
            Body::PermissionRequested(requested) => {
                self.decide(requested.request_id, &requested.permission_request).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn decide(&mut self, request: RequestId, wants: &PermissionRequest) -> anyhow::Result<()> {
        if self.args.yes && self.session.approve_unattended(request.clone()).await? {
            return Ok(());
        }
        match self.ask(wants).await? {
            Some(verdict) => self.session.decide(request, verdict).await.map(drop)?,
            None => self.cancel().await?,
        }
        Ok(())
    }

    /// Asks the person at the terminal. Where there is none, the answer is that nobody can be asked. `None` when the
    /// person cancels instead.
    async fn ask(&mut self, wants: &PermissionRequest) -> anyhow::Result<Option<Verdict>> {
        self.end_line();
        let offers = self.session.offers(wants).await?;
        let hint = show::permission_hint(offers.len());
        loop {
            let question = show::with_offers(show::wish(wants), offers.iter().map(|offer| &*offer.meaning));
            let answer = tokio::select! {
                answer = terminal::ask_aside(question, hint) => answer,
                () = self.interrupts.next() => return Ok(None),
            };
            let grant =
                |which: usize| Some(Verdict::ApproveForSession(Some(offers.get(which)?.approval.clone())));
            let Some(line) = answer else {
                self.say("nobody can be asked here; use --yes to allow tools");
                return Ok(Some(Verdict::UserNotAvailable));
            };
            let (word, why) = line.trim().split_once([' ', ',']).unwrap_or((line.trim(), ""));
            let verdict = match word.to_lowercase().as_str() {
                "y" | "yes" => Some(Verdict::ApproveOnce),
                "a" | "always" => grant(0),
                "w" | "wider" => grant(1),
                "n" | "no" => {
                    let feedback = Some(why.trim().to_owned()).filter(|why| !why.is_empty());
                    Some(Verdict::Reject { feedback })
                }
                _ => None,
            };
            // A typo, or a grant that is not offered, is no answer: ask again.
            if verdict.is_some() {
                return Ok(verdict);
            }
        }
    }

    fn say(&mut self, text: &str) {
        if !self.args.quiet && !self.args.json {
            self.end_line();
            terminal::note(text);
        }
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.wrote) {
            self.answer.end_line();
        }
    }
}
