//! Slash commands that wait for their turn among the prompts. A command is in the inbox like a prompt, and has one outcome
//! like a prompt (P5); it is run between turns, and is no part of the conversation.
//!
//! Who runs it is settled when it is accepted: clients, if one of them has that command or has offered to run whatever
//! comes; otherwise the server, which knows a few. While clients are to run it, it stays in the inbox, and its own name is
//! the name of the request: so it is still pending under the same name after a crash (P3), and any client may answer it.

use baton_protocol::event::{
    CommandCompleted, CommandExecute, CommandQueued, Hold, Outcome, Prompt, QueueHeld, Runner, SendMode,
    SessionInfo, SessionWarning,
};
use baton_protocol::{ClientId, PromptId, RequestId};

use super::Step;
use crate::input::Answer;
use crate::output::{Reply, ReplyTo, Work};
use crate::state::Live;

/// What the messages of commands are filed under.
const COMMAND: &str = "command";

impl Step<'_> {
    /// Accepts a command. Its way to its turn is that of a prompt.
    pub(super) fn enqueue(&mut self, reply: ReplyTo, command: String) {
        let live = &self.session.live;
        let (name, _) = parts(&command);
        let runner = match has_command(live, name) || !live.hosts.is_empty() {
            true => Runner::Clients,
            false => Runner::Server,
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
                self.show_command();
            }
        }
    }

    /// Asks clients to run the command whose turn it is; again, when one comes who might not have heard of it.
    pub(super) fn show_command(&mut self) {
        let Some(id) = self.session.live.command else { return };
        let Some(waiting) = self.session.durable.inbox.iter().find(|waiting| waiting.id == id) else {
            return;
        };
        let (command, request_id) = (waiting.prompt.text.clone(), request_of(id));
        let (name, args) = parts(&command);
        if has_command(&self.session.live, name) {
            let (command_name, args) = (name.to_owned(), args.to_owned());
            self.show(CommandExecute { request_id, command, command_name, args });
        } else {
            self.show(CommandQueued { request_id, command });
        }
    }

    /// A client says what came of the command that it was asked to run.
    pub(super) fn answer_command(&mut self, reply: ReplyTo, answer: &Answer) {
        let (outcome, reason, stop) = match answer {
            Answer::QueuedCommand { handled: true, stop } => (Outcome::Completed, "run by a client", *stop),
            Answer::QueuedCommand { handled: false, .. } => (Outcome::Failed, "no client has run it", false),
            Answer::Command(None) => (Outcome::Completed, "run by a client", false),
            Answer::Command(Some(error)) => (Outcome::Failed, error.as_str(), false),
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

/// The name under which clients answer a command.
pub(super) fn request_of(command: PromptId) -> RequestId {
    RequestId(command.to_string())
}

/// The name of a command as it is typed, and what follows it.
fn parts(command: &str) -> (&str, &str) {
    let command = command.trim().trim_start_matches('/');
    command.split_once(char::is_whitespace).map_or((command, ""), |(name, args)| (name, args.trim_start()))
}

fn has_command(live: &Live, name: &str) -> bool {
    live.clients.values().flat_map(|client| &client.commands).any(|command| command.name == name)
}
