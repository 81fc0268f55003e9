//! The server's own slash commands: run at once for whoever invokes one, or when it is the turn of one that waited.

use baton_core::Change;
use baton_protocol::PromptId;
use baton_protocol::event::PermissionMode;
use tokio::sync::oneshot;

use super::{Bench, Wish, compact_now};
use crate::session::{Failure, Handle, Mail, View};

/// The server's own commands: name, hint for what follows it, what it does.
pub(crate) const OWN: [(&str, &str, &str); 6] = [
    ("help", "", "Show the commands that there are"),
    ("model", "[model]", "Show or change the model of this session"),
    ("rename", "<name>", "Give this session another name"),
    ("allow-all", "[on|off|show]", "Allow all tools without asking, or ask again"),
    ("compact", "[instructions]", "Summarise the conversation, to make room for more"),
    ("usage", "", "Show what this session has used so far"),
];

/// Why a command was not run.
pub(crate) enum NotRun {
    /// There is no such command, or what follows it makes no sense.
    Wrong(String),
    Failed(Failure),
}

impl From<Failure> for NotRun {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Runs a command, and returns what it says, if anything.
pub(crate) async fn run(handle: &Handle, name: &str, input: &str) -> Result<Option<String>, NotRun> {
    let name = name.trim().trim_start_matches('/').to_lowercase();
    let change = match (name.as_str(), input.trim()) {
        ("help", _) => return Ok(Some(handle.look(|view| help(&view)).await?)),
        ("usage", _) => return Ok(Some(handle.look(|view| usage(&view)).await?)),
        ("model", "") => return Ok(Some(handle.look(|view| model(&view)).await?)),
        ("model", model) => Change::Model { model: model.to_owned(), reasoning_effort: None },
        ("compact", wanted) => {
            let custom_instructions = Some(wanted.to_owned()).filter(|wanted| !wanted.is_empty());
            compact_now(handle, Wish { custom_instructions, ..Wish::default() }).await?;
            return Ok(None);
        }
        ("rename", "") => return Err(NotRun::Wrong("/rename needs a name".into())),
        ("rename", name) => Change::Name { name: name.to_owned(), by_user: true },
        ("allow-all", "show") => return Ok(Some(handle.look(|view| permissions(&view)).await?)),
        ("allow-all", "" | "on") => Change::Permissions(PermissionMode::AllowAll),
        ("allow-all", "off") => Change::Permissions(PermissionMode::Manual),
        ("allow-all", other) => {
            return Err(NotRun::Wrong(format!("/allow-all takes on, off or show, not {other:?}")));
        }
        (unknown, _) => {
            return Err(NotRun::Wrong(format!("there is no command /{unknown}; see /help")));
        }
    };
    handle.ask(|respond| Mail::Change(Box::new(change), respond)).await?;
    Ok(None)
}

/// Runs a command whose turn it is. One that is cancelled leaves nothing running.
pub(super) async fn run_queued(bench: &Bench, command: PromptId) -> Result<Option<String>, String> {
    let waiting = bench.session.durable.inbox.iter().find(|waiting| waiting.id == command);
    let text = waiting.map(|waiting| waiting.prompt.text.trim().to_owned()).unwrap_or_default();
    let (name, input) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
    let handle = bench.handle();
    tokio::select! {
        () = bench.cancel.cancelled() => {
            if name.trim_start_matches('/').eq_ignore_ascii_case("compact") {
                let (told, _) = oneshot::channel();
                drop(handle.send(Mail::StopCompacting { manual: true, told }));
            }
            Err("cancelled".into())
        }
        ran = run(&handle, name, input) => ran.map_err(|not_run| match not_run {
            NotRun::Wrong(why) => why,
            NotRun::Failed(failure) => failure.to_string(),
        }),
    }
}

fn help(view: &View<'_>) -> String {
    let own =
        OWN.iter().map(|(name, hint, does)| format!("/{name} {hint}").trim_end().to_owned() + ": " + does);
    let commands = view.session.live.clients.values().flat_map(|client| &client.commands);
    let theirs = commands.map(|command| {
        format!("/{}: {}", command.name, command.description.as_deref().unwrap_or("a command of a client"))
    });
    own.chain(theirs).collect::<Vec<_>>().join("\n")
}

fn model(view: &View<'_>) -> String {
    match &view.session.durable.facts.model {
        Some(model) => format!("This session uses {model}."),
        None => "This session uses the default model of the server.".into(),
    }
}

fn permissions(view: &View<'_>) -> String {
    match view.session.durable.facts.permissions {
        PermissionMode::AllowAll => "All tools are allowed without asking.".into(),
        _ => "Tools are asked for.".into(),
    }
}

fn usage(view: &View<'_>) -> String {
    let totals = &view.session.durable.totals;
    let mut lines = vec![format!("{} prompts", totals.prompts)];
    lines.extend(totals.models.iter().map(|(model, (calls, tokens))| {
        format!("{model}: {calls} calls, {} tokens in, {} tokens out", tokens.input, tokens.output)
    }));
    lines.join("\n")
}
