//! Queued slash commands. A command is in the inbox like a prompt, and has one outcome like a prompt (P5); it is run
//! between turns, and is no part of the conversation.
//!
//! Who runs a command is decided when it is accepted: clients, if one of them has the command or is registered as a
//! runner; otherwise the server, which has a few commands. While clients run it, it stays in the inbox, and its id is the
//! id of the request. So it is still pending under the same id after a crash (P3), and any client may answer it, through
//! any door.
//!
//! Clients are asked once, because each event that asks makes an SDK run its handler (P4). They are asked again only when
//! all clients that were asked have detached and a capable one attaches; until then, the command can be withdrawn. A client
//! that outlived the server which asked it says so when it attaches again, and is not asked again.

use std::collections::BTreeSet;

use baton_protocol::event::{
    CommandCompleted, CommandExecute, CommandQueued, Hold, Outcome, PendingMessagesModified, Prompt,
    QueueHeld, Runner, SendMode, SessionInfo, SessionWarning,
};
use baton_protocol::{ClientId, PromptId, RequestId};

use super::Step;
use crate::ask::{
    AnswerOutcome, AnswerRequest, EnqueueCommand, RegisterRunner, ReplyTo, RequestAnswer, Serve, Withdraw,
};
use crate::input::Profile;
use crate::output::Work;
use crate::state::{Live, Session};

/// Type of messages about commands.
const COMMAND: &str = "command";

impl Serve<EnqueueCommand> for Step<'_> {
    /// Accepts a command into the queue.
    fn handle(&mut self, to: ReplyTo<EnqueueCommand>, ask: EnqueueCommand) {
        self.continue_work();
        let (name, _) = split(&ask.command);
        let runner = match capable_clients(&self.session.live, name).is_empty() {
            true => Runner::Server,
            false => Runner::Clients,
        };
        let (text, by, mode) = (ask.command, ask.by, SendMode::Command(runner));
        self.accept(to, Prompt { text, by, mode, ..Prompt::default() });
    }
}

impl Serve<RegisterRunner> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<RegisterRunner>, ask: RegisterRunner) {
        let RegisterRunner { client, handle, registered } = ask;
        if !registered {
            self.session.live.runners.remove(&handle);
        } else if self.session.live.clients.contains_key(&client) {
            self.session.live.runners.insert(handle, client);
            self.show_command();
        }
        self.reply(to, ());
    }
}

impl Step<'_> {
    /// Starts the command at the head of the queue.
    pub(super) fn start_command(&mut self, command: PromptId, runner: Runner) {
        match runner {
            Runner::Server => self.start(Work::RunCommand { command }),
            Runner::Clients => {
                self.session.live.client_command = Some(command);
                self.session.live.asked_runners.clear();
                self.show_command();
            }
        }
    }

    /// Asks clients to run the current command, unless one that was asked is still attached.
    pub(super) fn show_command(&mut self) {
        let Some((id, command)) = self.session.command_of_clients() else { return };
        if !self.session.is_abandoned(id) {
            return;
        }
        let (command, request_id) = (command.to_owned(), request_of(id));
        let (name, args) = split(&command);
        let live = &mut self.session.live;
        live.asked_runners = asked_before(live, name, &request_id);
        if !live.asked_runners.is_empty() {
            return;
        }
        live.asked_runners = owners(live, name);
        if !live.asked_runners.is_empty() {
            let (command_name, args) = (name.to_owned(), args.to_owned());
            self.show(CommandExecute { request_id, command, command_name, args });
        } else if !live.runners.is_empty() {
            live.asked_runners = live.runners.values().copied().collect();
            self.show(CommandQueued { request_id, command });
        }
    }

    /// Handles the result of the current command from a client.
    pub(super) fn answer_command(&mut self, to: ReplyTo<AnswerRequest>, answer: &RequestAnswer) {
        if is_from_unasked_client(&self.session.remaining_runners(), answer) {
            return self.reply(to, AnswerOutcome::TooLate);
        }
        let (outcome, reason, stop) = match answer {
            RequestAnswer::QueuedCommand { handled: true, stop } => {
                (Outcome::Completed, "run by a client", *stop)
            }
            RequestAnswer::QueuedCommand { handled: false, .. } => {
                (Outcome::Failed, "no client ran it", false)
            }
            RequestAnswer::Command { error: None, .. } => (Outcome::Completed, "run by a client", false),
            RequestAnswer::Command { error: Some(error), .. } => (Outcome::Failed, error.as_str(), false),
            _ => return self.reply(to, AnswerOutcome::Mismatch),
        };
        let Some(command) = self.close_command_request() else { return };
        self.settle(vec![command], outcome, reason);
        if stop && self.session.durable.hold == Hold::Open {
            self.record(QueueHeld { hold: Hold::UntilNext });
        }
        self.reply(to, AnswerOutcome::Counted);
        self.continue_after_command();
    }

    /// Withdraws the current command, although it was started: all clients that were asked to run it have detached.
    pub(super) fn withdraw_abandoned(&mut self, to: ReplyTo<Withdraw>) {
        let Some(command) = self.close_command_request() else { return };
        self.settle(vec![command], Outcome::Cancelled, "withdrawn: its runner disconnected");
        self.show(PendingMessagesModified {});
        self.reply(to, 1);
        self.continue_after_command();
    }

    /// Ends the current command for clients.
    pub(super) fn close_command_request(&mut self) -> Option<PromptId> {
        let command = self.session.live.client_command.take()?;
        self.show(CommandCompleted { request_id: request_of(command) });
        self.remember_closed(&request_of(command));
        Some(command)
    }

    /// Records the result of a command of the server.
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
        self.continue_after_command();
    }

    /// Continues with the queue. A turn that was opened meanwhile does so when it ends.
    fn continue_after_command(&mut self) {
        match self.turn() {
            None => self.start_next_or_idle(),
            Some(_) => self.continue_queue(),
        }
    }
}

impl Session {
    /// Whether this is the current command, and all clients that were asked to run it have detached.
    #[must_use]
    pub fn is_abandoned(&self, command: PromptId) -> bool {
        self.live.client_command == Some(command) && self.remaining_runners().is_empty()
    }

    /// Returns the clients that were asked to run the current command, and still can.
    fn remaining_runners(&self) -> BTreeSet<ClientId> {
        let Some((_, command)) = self.command_of_clients() else { return BTreeSet::new() };
        &self.live.asked_runners & &capable_clients(&self.live, split(command).0)
    }

    /// Returns the current command, if clients run it.
    #[must_use]
    pub fn command_of_clients(&self) -> Option<(PromptId, &str)> {
        let id = self.live.client_command?;
        let command = self.durable.inbox.iter().find(|item| item.id == id)?;
        Some((id, &command.prompt.text))
    }
}

/// Whether an answer is the error of a client that was not asked. SDKs report an error for every command that they do not
/// have. It does not fail a command that other clients may be running.
pub(super) fn is_from_unasked_client(runners: &BTreeSet<ClientId>, answer: &RequestAnswer) -> bool {
    let is_bystander = |by| !runners.is_empty() && !runners.contains(by);
    matches!(answer, RequestAnswer::Command { by, error: Some(_) } if is_bystander(by))
}

/// Returns the id of the request to run a command.
pub(super) fn request_of(command: PromptId) -> RequestId {
    RequestId(command.to_string())
}

/// Splits a command line into name and arguments.
fn split(command: &str) -> (&str, &str) {
    let command = command.trim().trim_start_matches('/');
    command.split_once(char::is_whitespace).map_or((command, ""), |(name, args)| (name, args.trim_start()))
}

/// Returns the clients that have a command of this name.
pub(super) fn owners(live: &Live, name: &str) -> BTreeSet<ClientId> {
    let has = |client: &Profile| client.commands.iter().any(|command| command.name == name);
    live.clients.iter().filter(|(_, client)| has(client)).map(|(id, _)| *id).collect()
}

/// Returns the clients that can run a command, and that an earlier server of the session asked to.
fn asked_before(live: &Live, name: &str, request: &RequestId) -> BTreeSet<ClientId> {
    let was_asked = |client: &ClientId| {
        let profile = live.clients.get(client);
        profile.is_some_and(|profile| profile.registered.asked_command.as_ref() == Some(request))
    };
    capable_clients(live, name).into_iter().filter(was_asked).collect()
}

/// Returns the clients that can run a command: those that have it, and runners.
fn capable_clients(live: &Live, name: &str) -> BTreeSet<ClientId> {
    owners(live, name).into_iter().chain(live.runners.values().copied()).collect()
}
