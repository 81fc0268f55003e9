//! Slash commands that wait for their turn among the prompts. A command is in the inbox like a prompt, and has one outcome
//! like a prompt (P5); it is run between turns, and is no part of the conversation.
//!
//! Who runs it is settled when it is accepted: clients, if one of them has that command or has offered to run whatever
//! comes; otherwise the server, which knows a few. While clients are to run it, it stays in the inbox, and its own name is
//! the name of the request: so it is still pending under the same name after a crash (P3), and any client may
//! answer it, through any door.
//!
//! Clients are asked once, because each event that asks has an SDK run its handler (P4). They are asked again only when
//! all who were asked have left and somebody comes who can run it; until then, it can be taken back.

use std::collections::BTreeSet;

use baton_protocol::event::{
    CommandCompleted, CommandExecute, CommandQueued, Hold, Outcome, PendingMessagesModified, Prompt,
    QueueHeld, Runner, SendMode, SessionInfo, SessionWarning,
};
use baton_protocol::{ClientId, PromptId, RequestId};

use super::Step;
use crate::input::{Answer, Profile};
use crate::output::{Reply, ReplyTo, Work};
use crate::state::{Live, Session};

/// What the messages of commands are filed under.
const COMMAND: &str = "command";

impl Step<'_> {
    /// Accepts a command. Its way to its turn is that of a prompt.
    pub(super) fn enqueue(&mut self, reply: ReplyTo, command: String) {
        let live = &self.session.live;
        let (name, _) = parts(&command);
        let runner = match able(live, name).is_empty() {
            true => Runner::Server,
            false => Runner::Clients,
        };
        self.accept(reply, Prompt { text: command, mode: SendMode::Command(runner), ..Prompt::default() });
    }

    /// A client offers to run whatever commands come to their turn, or takes the offer back.
    pub(super) fn host(&mut self, client: ClientId, handle: String, offers: bool) {
        if !offers {
            self.session.live.hosts.remove(&handle);
        } else if self.session.live.clients.contains_key(&client) {
            self.session.live.hosts.insert(handle, client);
            self.show_command();
        }
    }

    pub(super) fn begin_command(&mut self, command: PromptId, runner: Runner) {
        match runner {
            Runner::Server => self.start(Work::RunCommand { command }),
            Runner::Clients => {
                self.session.live.command = Some(command);
                self.session.live.runners.clear();
                self.show_command();
            }
        }
    }

    /// Asks those who can to run the command whose turn it is, unless somebody has been asked and is still there.
    pub(super) fn show_command(&mut self) {
        let Some((id, command)) = self.session.command_of_clients() else { return };
        if !self.session.is_abandoned(id) {
            return;
        }
        let (command, request_id) = (command.to_owned(), request_of(id));
        let (name, args) = parts(&command);
        let live = &mut self.session.live;
        live.runners = owners(live, name);
        if !live.runners.is_empty() {
            let (command_name, args) = (name.to_owned(), args.to_owned());
            self.show(CommandExecute { request_id, command, command_name, args });
        } else if !live.hosts.is_empty() {
            live.runners = live.hosts.values().copied().collect();
            self.show(CommandQueued { request_id, command });
        }
    }

    /// A client says what came of the command that it was asked to run.
    pub(super) fn answer_command(&mut self, reply: ReplyTo, answer: &Answer) {
        if is_beside_the_point(&self.session.runners_left(), answer) {
            return self.reply(reply, Reply::TooLate);
        }
        let (outcome, reason, stop) = match answer {
            Answer::QueuedCommand { handled: true, stop } => (Outcome::Completed, "run by a client", *stop),
            Answer::QueuedCommand { handled: false, .. } => (Outcome::Failed, "no client has run it", false),
            Answer::Command { error: None, .. } => (Outcome::Completed, "run by a client", false),
            Answer::Command { error: Some(error), .. } => (Outcome::Failed, error.as_str(), false),
            _ => return self.reply(reply, Reply::Mismatch),
        };
        let Some(command) = self.dismiss_command() else { return };
        self.settle(vec![command], outcome, reason);
        if stop && self.session.durable.hold == Hold::Open {
            self.record(QueueHeld { hold: Hold::UntilNext });
        }
        self.reply(reply, Reply::Counted);
        self.command_is_over();
    }

    /// Takes back the command whose turn it is, although it has been begun with: who was to run it has left.
    pub(super) fn withdraw_abandoned(&mut self, reply: ReplyTo) {
        let Some(command) = self.dismiss_command() else { return };
        self.settle(vec![command], Outcome::Cancelled, "taken back: who was to run it has left");
        self.show(PendingMessagesModified {});
        self.reply(reply, Reply::Withdrew(1));
        self.command_is_over();
    }

    /// Clients need not run the command any more.
    pub(super) fn dismiss_command(&mut self) -> Option<PromptId> {
        let command = self.session.live.command.take()?;
        self.show(CommandCompleted { request_id: request_of(command) });
        self.settled(&request_of(command));
        Some(command)
    }

    /// The server has run one of its own commands: people are told what it says.
    pub(super) fn command_ran(&mut self, command: PromptId, ran: Result<Option<String>, String>) {
        match ran {
            Ok(said) => {
                if let Some(message) = said {
                    self.record(SessionInfo { info_type: COMMAND.into(), message, url: None, tip: None });
                }
                self.settle(vec![command], Outcome::Completed, "run by the server");
            }
            Err(why) => {
                let (warning_type, message) = (COMMAND.into(), why.clone());
                self.record(SessionWarning { warning_type, message, url: None });
                self.settle(vec![command], Outcome::Failed, why);
            }
        }
        self.command_is_over();
    }

    /// What waits goes on. A turn that somebody has begun meanwhile does so by itself.
    fn command_is_over(&mut self) {
        match self.turn() {
            None => self.go_on_or_rest(),
            Some(_) => self.look_at_inbox(),
        }
    }
}

impl Session {
    /// Whether this is a command whose turn it is, and nobody who was asked to run it is there any more.
    #[must_use]
    pub fn is_abandoned(&self, command: PromptId) -> bool {
        self.live.command == Some(command) && self.runners_left().is_empty()
    }

    /// Those who were asked to run the command whose turn it is, and still can.
    fn runners_left(&self) -> BTreeSet<ClientId> {
        let Some((_, command)) = self.command_of_clients() else { return BTreeSet::new() };
        &self.live.runners & &able(&self.live, parts(command).0)
    }

    /// The command whose turn it is, and that clients run.
    #[must_use]
    pub fn command_of_clients(&self) -> Option<(PromptId, &str)> {
        let id = self.live.command?;
        let command = self.durable.inbox.iter().find(|waiting| waiting.id == id)?;
        Some((id, &command.prompt.text))
    }
}

/// Whether somebody who was not asked says that it went wrong: SDKs do so whenever a command is not theirs. It fails
/// nothing as long as others may be running it.
pub(super) fn is_beside_the_point(runners: &BTreeSet<ClientId>, answer: &Answer) -> bool {
    let is_others = |by| !runners.is_empty() && !runners.contains(by);
    matches!(answer, Answer::Command { by, error: Some(_) } if is_others(by))
}

/// The name under which clients answer a command.
pub(super) fn request_of(command: PromptId) -> RequestId {
    RequestId(command.to_string())
}

/// The name of a command as it is typed, and what follows it.
fn parts(command: &str) -> (&str, &str) {
    let command = command.trim().trim_start_matches('/');
    command.split_once(char::is_whitespace).map_or((command, ""), |(name, args)| (name, args.trim_start()))
}

/// The clients that have a command of this name.
pub(super) fn owners(live: &Live, name: &str) -> BTreeSet<ClientId> {
    let has = |client: &Profile| client.commands.iter().any(|command| command.name == name);
    live.clients.iter().filter(|(_, client)| has(client)).map(|(id, _)| *id).collect()
}

/// The clients that can run it: those, and the ones that run whatever comes.
fn able(live: &Live, name: &str) -> BTreeSet<ClientId> {
    owners(live, name).into_iter().chain(live.hosts.values().copied()).collect()
}
