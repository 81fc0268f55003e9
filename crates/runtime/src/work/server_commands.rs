//! Slash commands that the server executes: at once for the client that invokes one, or from the queue.

use baton_ask::skills::{InvokeSkill, ListSkills, SkillPrompt};
use baton_ask::{CompactNow, CompactionOptions, StopCompaction, View};
use baton_core::Change;
use baton_core::ask::{Amend, SendPrompt};
use baton_protocol::event::{PermissionMode, Prompt};
use baton_protocol::{Author, PromptId};

use super::WorkScope;
use crate::session::{Failure, Handle};

/// Commands of the server: name, hint for the arguments, description.
pub const OWN: [(&str, &str, &str); 6] = [
    ("help", "", "List the commands"),
    ("model", "[model]", "Show or change the model of this session"),
    ("rename", "<name>", "Rename this session"),
    ("allow-all", "[on|off|show]", "Switch allow-all mode on or off, or show it"),
    ("compact", "[instructions]", "Compact the conversation"),
    ("usage", "", "Show the usage of this session"),
];

/// Result of a command.
pub enum Ran {
    /// It has no output.
    Done,
    /// Its output.
    Text(String),
    /// A prompt that follows it, and the text to show to people instead.
    Prompt {
        /// The prompt.
        prompt: String,
        /// The text to show.
        display: String,
    },
}

/// Error of a command.
pub enum NotRun {
    /// The command is unknown, or its arguments are invalid.
    Wrong(String),
    /// The session refused it.
    Failed(Failure),
}

impl From<Failure> for NotRun {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Runs a command for a user.
///
/// # Errors
/// When the command is unknown, its arguments are invalid, or the session refuses it.
pub async fn run(handle: &Handle, name: &str, input: &str, by: Option<Author>) -> Result<Ran, NotRun> {
    let given = name.trim().trim_start_matches('/');
    let name = given.to_lowercase();
    let change = match (name.as_str(), input.trim()) {
        ("help", _) => return Ok(Ran::Text(help(handle).await?)),
        ("usage", _) => return Ok(Ran::Text(usage(&handle.inspect().await?))),
        ("model", "") => return Ok(Ran::Text(model(&handle.inspect().await?))),
        ("model", model) => Change::Model { model: model.to_owned(), reasoning_effort: None },
        ("compact", instructions) => {
            let custom_instructions = Some(instructions.to_owned()).filter(|text| !text.is_empty());
            let options = CompactionOptions { custom_instructions, ..CompactionOptions::default() };
            handle.ask(CompactNow { options }).await?;
            return Ok(Ran::Done);
        }
        ("rename", "") => return Err(NotRun::Wrong("/rename requires a name".into())),
        ("rename", name) => Change::Name { name: name.to_owned(), by_user: true },
        ("allow-all", "show") => return Ok(Ran::Text(permissions(&handle.inspect().await?))),
        ("allow-all", "" | "on") => Change::Permissions(PermissionMode::AllowAll),
        ("allow-all", "off") => Change::Permissions(PermissionMode::Manual),
        ("allow-all", other) => {
            return Err(NotRun::Wrong(format!("/allow-all takes on, off or show, not {other:?}")));
        }
        (_, input) => return skill(handle, given, input).await,
    };
    handle.ask(Amend { change: Box::new(change), by }).await?;
    Ok(Ran::Done)
}

/// Invokes a skill by its command.
async fn skill(handle: &Handle, name: &str, input: &str) -> Result<Ran, NotRun> {
    let invoke = InvokeSkill { name: name.to_owned(), input: input.to_owned() };
    let SkillPrompt { prompt, display_prompt: display } =
        handle.ask(invoke).await.map_err(|failure| match failure {
            Failure::Refused(why) => NotRun::Wrong(why),
            failure => NotRun::Failed(failure),
        })?;
    Ok(Ran::Prompt { prompt, display })
}

/// Runs a command from the queue. When it is cancelled, a compaction that it started is stopped.
pub(super) async fn run_queued(scope: &WorkScope, command: PromptId) -> Result<Option<String>, String> {
    let queued = scope.session.durable.inbox.iter().find(|item| item.id == command);
    let (text, by) = queued.map(|item| (item.prompt.text.trim(), item.prompt.by.clone())).unwrap_or_default();
    let (name, input) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let handle = scope.handle();
    tokio::select! {
        () = scope.cancel.cancelled() => {
            if name.trim_start_matches('/').eq_ignore_ascii_case("compact") {
                drop(handle.tell(StopCompaction { manual: true }));
            }
            Err("cancelled".into())
        }
        ran = run(&handle, name, input, by.clone()) => match ran {
            Ok(Ran::Done) => Ok(None),
            Ok(Ran::Text(text)) => Ok(Some(text)),
            Ok(Ran::Prompt { prompt, display }) => send(&handle, prompt, display, by).await,
            Err(NotRun::Wrong(why)) => Err(why),
            Err(NotRun::Failed(failure)) => Err(failure.to_string()),
        },
    }
}

/// Sends the prompt that follows a command.
async fn send(
    handle: &Handle,
    text: String,
    display: String,
    by: Option<Author>,
) -> Result<Option<String>, String> {
    let prompt = Prompt { text, display: Some(display), by, ..Prompt::default() };
    let sent = handle.ask(SendPrompt { prompt: Box::new(prompt) }).await;
    sent.map(|_| None).map_err(|failure| failure.to_string())
}

async fn help(handle: &Handle) -> Result<String, Failure> {
    let skills = handle.ask(ListSkills {}).await?.skills;
    let invocable = skills.iter().filter(|skill| skill.user_invocable && skill.enabled);
    let lines = invocable.map(|skill| format!("/{}: {}", skill.command_name, skill.description));
    let own = commands(&handle.inspect().await?);
    Ok(std::iter::once(own).chain(lines).collect::<Vec<_>>().join("\n"))
}

fn commands(view: &View) -> String {
    let ours = OWN.iter().map(|(name, hint, description)| {
        format!("/{name} {hint}").trim_end().to_owned() + ": " + description
    });
    let commands = view.session.live.clients.values().flat_map(|client| &client.commands);
    let theirs = commands.map(|command| {
        format!("/{}: {}", command.name, command.description.as_deref().unwrap_or("command of a client"))
    });
    ours.chain(theirs).collect::<Vec<_>>().join("\n")
}

fn model(view: &View) -> String {
    match &view.session.durable.facts.model {
        Some(model) => format!("This session uses {model}."),
        None => "This session uses the server's default model.".into(),
    }
}

fn permissions(view: &View) -> String {
    match view.session.durable.facts.permissions {
        PermissionMode::AllowAll => "All tools run without asking.".into(),
        _ => "Tools need permission.".into(),
    }
}

fn usage(view: &View) -> String {
    let totals = &view.session.durable.totals;
    let counted = |number: u64, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let mut lines = vec![counted(totals.prompts, "prompt")];
    lines.extend(totals.models.iter().map(|(model, (calls, tokens))| {
        let (calls, input, output) = (counted(*calls, "call"), tokens.input, tokens.output);
        format!("{model}: {calls}, {input} tokens in, {output} tokens out")
    }));
    lines.join("\n")
}
