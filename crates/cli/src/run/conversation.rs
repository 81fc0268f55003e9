//! A prompt on its way to its outcome: events are shown, requests are put to the user, Ctrl-C cancels.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use baton_protocol::Event;
use baton_protocol::event::{Body, Outcome, TurnSettled};
use serde_json::json;

use super::place::{Arrived, Leaving, SessionHost};
use crate::client::{Activity, Detail, PendingRequest, Screen, exit_code, id_for_people, is_about_requests};
use crate::signals::{FirstSignal, Interrupts};
use crate::terminal::{self, Keyboard, Typed};
use baton_args::RunArgs;

/// Exit codes of answers that are not what they should be. Documented in the help of `baton run`.
const TRUNCATED: u8 = 3;
const FILTERED: u8 = 4;
const REJECTED: u8 = 5;
/// Exit code of a cancelled prompt, as shells use it for Ctrl-C.
const CANCELLED: u8 = 130;

/// A prompt and its session.
pub(super) struct Conversation<'a> {
    args: &'a RunArgs,
    place: SessionHost,
    screen: Screen,
    interrupts: Interrupts,
    /// The terminal, once the user has been asked something.
    keyboard: Option<Keyboard>,
    /// The request that the user is asked about.
    asked: Option<PendingRequest>,
    progress: Progress,
    activity: Activity,
}

/// What has happened to the prompt.
#[derive(Default)]
struct Progress {
    /// Its id.
    prompt: String,
    is_cancelled: bool,
    /// Whether a tool call was rejected here.
    is_rejected: bool,
    /// Whether the model answered or acted.
    has_answer: bool,
    /// Why the model's last answer ended.
    finish: Option<String>,
    /// The last error event: the reason, should the session end without an outcome.
    last_error: Option<String>,
    /// Whether the provider's content filter blocked the request.
    is_blocked: bool,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(args: &'a RunArgs, place: SessionHost) -> anyhow::Result<Self> {
        let detail = match () {
            () if args.json => Detail::Json,
            () if args.quiet => Detail::Answers,
            () => Detail::Full,
        };
        Ok(Self {
            args,
            place,
            screen: Screen::new(detail),
            interrupts: Interrupts::listen(FirstSignal::IsForwarded)?,
            keyboard: None,
            asked: None,
            progress: Progress::default(),
            activity: Activity::of_prompt(Instant::now()),
        })
    }

    /// Sends the prompt, and follows it to its outcome.
    pub(super) async fn run(mut self, text: String) -> anyhow::Result<ExitCode> {
        let id = id_for_people(self.place.id());
        self.screen.note(&format!("session {id} · {}", self.place.describe()));
        let settled = self.converse(&text).await;
        self.screen.end_line();
        let is_failed_start = match &settled {
            Ok(Some(settled)) => settled.outcome == Outcome::Failed && !self.progress.has_answer,
            Ok(None) => false,
            // The prompt was not accepted.
            Err(_) => self.progress.prompt.is_empty(),
        };
        let leaving = if is_failed_start { Leaving::FailedStart } else { Leaving::Kept };
        let left = self.place.leave(leaving).await;
        let settled = settled?;
        left?;
        let Some(settled) = settled else { return Ok(ExitCode::from(CANCELLED)) };
        // Whoever pressed Ctrl-C knows why the prompt ended.
        if settled.outcome != Outcome::Completed && !self.progress.is_cancelled {
            terminal::error(&settled.reason);
        }
        Ok(ExitCode::from(self.progress.exit_code(settled.outcome)))
    }

    /// Returns the outcome; none if the user does not wait for it.
    async fn converse(&mut self, text: &str) -> anyhow::Result<Option<TurnSettled>> {
        self.progress.prompt = self.place.prompt(text).await?;
        let mut outcome = None;
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                arrived = self.place.next_event() => {
                    let arrived = arrived?.with_context(|| {
                        self.progress.last_error.take().unwrap_or("the session has ended".into())
                    })?;
                    let is_idle =
                        matches!(&arrived, Arrived::Event(event, _) if matches!(event.body, Body::SessionIdle(_)));
                    if let Some(settled) = self.receive(arrived).await? {
                        outcome = Some(settled);
                    }
                    // Prompts that others sent to a session in this process end with it, so they are waited for.
                    if outcome.is_some() && (is_idle || !self.place.ends_with_command()) {
                        return Ok(outcome);
                    }
                }
                typed = typed(&mut self.keyboard) => self.typed(typed).await?,
                _ = seconds.tick() => self.screen.show_activity(&self.activity, Instant::now()),
                () = self.interrupts.next() => {
                    if self.progress.is_cancelled {
                        return Ok(None);
                    }
                    self.cancel().await?;
                }
            }
        }
    }

    async fn cancel(&mut self) -> anyhow::Result<()> {
        self.progress.is_cancelled = true;
        self.screen.note("cancelling; press Ctrl-C again to quit at once");
        self.place.cancel().await
    }

    /// Handles what the session sent. Returns the outcome of the prompt.
    async fn receive(&mut self, arrived: Arrived) -> anyhow::Result<Option<TurnSettled>> {
        match arrived {
            Arrived::Event(event, json) => self.receive_event(&event, &json).await,
            Arrived::Lost(why) => {
                self.screen.warn(&format!("connection to the server lost ({why}); reconnecting"));
                Ok(None)
            }
            Arrived::Reconnected => {
                self.screen.warn("connected again");
                // An open question is asked again, if it is still pending.
                self.asked = None;
                self.ask_user().await.map(|()| None)
            }
        }
    }

    /// Handles an event. Returns the outcome of the prompt.
    async fn receive_event(&mut self, event: &Event, json: &str) -> anyhow::Result<Option<TurnSettled>> {
        if self.args.json {
            terminal::json_line(json);
        }
        self.progress.track(event);
        self.activity.track(event, Instant::now());
        match &event.body {
            Body::TurnSettled(settled)
                if settled.prompt_ids.iter().any(|id| id.to_string() == self.progress.prompt) =>
            {
                return Ok(Some(settled.clone()));
            }
            Body::UserMessage(message) => {
                let own = message.message_id.is_some_and(|id| id.to_string() == self.progress.prompt);
                if own {
                    self.activity.begin_turn(Instant::now());
                } else {
                    self.screen.note(&format!("> {}", message.content));
                }
            }
            _ => self.screen.show(event),
        }
        if is_about_requests(&event.body) {
            self.ask_user().await?;
        }
        Ok(None)
    }

    /// Puts the next pending request to the user. Another client may answer it first.
    async fn ask_user(&mut self) -> anyhow::Result<()> {
        loop {
            let pending = self.place.requests().await?;
            let still =
                |asked: &PendingRequest| pending.iter().any(|other| other.request_id == asked.request_id);
            if self.asked.as_ref().is_some_and(still) {
                return Ok(());
            }
            if self.asked.take().is_some() && !self.progress.is_cancelled {
                self.screen.note("answered elsewhere");
            }
            let Some(next) = pending.into_iter().find(PendingRequest::is_for_user) else { return Ok(()) };
            if self.args.yes && next.is_permission() && self.approve_unattended(&next).await? {
                continue;
            }
            if self.keyboard.is_none() {
                self.keyboard = Keyboard::of_terminal();
            }
            if self.keyboard.is_some() {
                self.screen.question(&next.describe(), next.hint());
                self.asked = Some(next);
                return Ok(());
            }
            if !next.is_permission() {
                self.screen
                    .warn(&format!("waiting for an answer; give it with `baton attach {}`", self.place.id()));
                self.asked = Some(next);
                return Ok(());
            }
            if next.is_about_trust() {
                self.screen.warn(
                    "cannot ask whether to trust the workspace without a terminal; see `baton mcp trust`",
                );
            } else {
                self.screen.warn("cannot ask for permission without a terminal; use --yes to approve tools");
                self.progress.is_rejected = true;
            }
            let nobody = json!({ "kind": "permission", "decision": "user-not-available" });
            // Answered by another client meanwhile: its answer counts.
            let _ = self.place.answer(&next.request_id, &nobody).await?;
        }
    }

    /// Approves a request without asking. Returns whether the user need not be asked.
    async fn approve_unattended(&mut self, request: &PendingRequest) -> anyhow::Result<bool> {
        let answer = json!({ "kind": "permission", "decision": "approve-unattended" });
        Ok(self.place.answer(&request.request_id, &answer).await?.is_ok())
    }

    /// Handles a typed line: the answer to the open request.
    async fn typed(&mut self, typed: Typed) -> anyhow::Result<()> {
        let Typed::Line(line) = typed else {
            // The terminal is gone: no user can answer.
            return self.cancel().await;
        };
        self.screen.line_was_typed();
        if !self.place.is_connected() {
            self.screen.warn("not connected; answer again after the reconnect");
            return Ok(());
        }
        let Some(asked) = self.asked.take() else { return Ok(()) };
        let Some(answer) = asked.answer(&line) else {
            self.screen.ask_again(asked.hint());
            self.asked = Some(asked);
            return Ok(());
        };
        match self.place.answer(&asked.request_id, &answer).await? {
            Ok(()) => {
                self.progress.is_rejected |= answer["decision"] == "reject" && !asked.is_about_trust();
            }
            Err(why) => self.screen.warn(&format!("! {why}")),
        }
        self.ask_user().await
    }
}

/// Waits for a typed line; forever if nothing was asked yet.
async fn typed(keyboard: &mut Option<Keyboard>) -> Typed {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}

impl Progress {
    /// Keeps track of the main conversation.
    fn track(&mut self, event: &Event) {
        match &event.body {
            _ if event.agent_id.is_some() => {}
            Body::AssistantMessage(_) | Body::ToolStart(_) => self.has_answer = true,
            Body::AssistantUsage(usage) => self.finish.clone_from(&usage.finish_reason),
            Body::SessionError(error) => {
                self.is_blocked =
                    error.error_code.as_deref().is_some_and(|code| code.contains("content_filter"));
                self.last_error = Some(error.message.clone());
            }
            _ => {}
        }
    }

    fn exit_code(&self, outcome: Outcome) -> u8 {
        match (outcome, self.finish.as_deref()) {
            (Outcome::Failed, _) if self.is_blocked => FILTERED,
            (Outcome::Completed, Some("length")) => TRUNCATED,
            (Outcome::Completed, Some("content_filter")) => FILTERED,
            (Outcome::Completed, _) if self.is_rejected => REJECTED,
            (outcome, _) => exit_code(outcome),
        }
    }
}
