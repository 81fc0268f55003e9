//! A prompt on its way to its outcome: events are shown, requests are put to the user, Ctrl-C cancels.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use baton_protocol::Event;
use baton_protocol::event::{Body, Outcome};
use serde_json::json;

use super::place::{Answered, Arrived, Leaving, SessionHost};
use super::progress::Progress;
use crate::args::RunArgs;
use crate::client::{Activity, Detail, PendingRequest, Reply, Screen, id_for_people, is_about_requests};
use crate::signals::{FirstSignal, Interrupts};
use crate::terminal::{self, Keyboard, Typed};

/// Exit code of a cancelled prompt, as shells use it for Ctrl-C.
const CANCELLED: u8 = 130;

/// What is said to a line that cannot be sent.
const NOT_CONNECTED: &str = "not connected; answer again after the reconnect";

/// What is said if the connection was lost with an answer on its way.
const NOT_CONFIRMED: &str = "the server did not confirm the answer; you are asked again if it still waits";

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
    /// Whether the user knows which model answers.
    has_model: bool,
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
            has_model: place.describe().has_model,
            place,
            screen: Screen::new(detail),
            interrupts: Interrupts::listen(FirstSignal::IsForwarded)?,
            keyboard: None,
            asked: None,
            progress: Progress::default(),
            activity: Activity::of_prompt(Instant::now()),
        })
    }

    /// Sends the prompt, and follows it to its outcome. Without a prompt, the session's pending work is followed.
    pub(super) async fn run(mut self, text: Option<String>) -> anyhow::Result<ExitCode> {
        self.introduce();
        let conversed = self.converse(text.as_deref()).await;
        self.screen.end_line();
        let is_failed_start = match &conversed {
            Ok(true) => {
                let failed = self.progress.outcome.as_ref();
                failed.is_some_and(|settled| settled.outcome == Outcome::Failed) && !self.progress.has_answer
            }
            Ok(false) => false,
            // The prompt was not accepted.
            Err(_) => self.progress.prompt.is_none(),
        };
        let leaving = if is_failed_start { Leaving::FailedStart } else { Leaving::Kept };
        let left = self.place.leave(leaving).await;
        let is_over = conversed?;
        left?;
        let Some(settled) = self.progress.outcome.take().filter(|_| is_over) else {
            return Ok(ExitCode::from(CANCELLED));
        };
        // Whoever pressed Ctrl-C knows why the prompt ended.
        if settled.outcome != Outcome::Completed && !self.progress.is_cancelled {
            terminal::error(&settled.reason);
        }
        Ok(ExitCode::from(self.progress.exit_code(settled.outcome)))
    }

    /// Says which session it is, and what answers.
    fn introduce(&mut self) {
        let (id, answers) = (id_for_people(self.place.id()), self.place.describe());
        let is_brief = self.args.quiet || self.args.json;
        match is_brief {
            false => self.screen.note(&format!("session {id} · {}", answers.text())),
            // Else a script whose key is lost would take its text for an answer.
            true if answers.is_demo && !self.args.model.demo => self.screen.always(answers.text()),
            true => {}
        }
    }

    /// Returns whether the prompt has its outcome; not if the user does not wait for it.
    async fn converse(&mut self, text: Option<&str>) -> anyhow::Result<bool> {
        match text {
            Some(text) => self.progress.prompt = Some(self.place.prompt(text).await?),
            None => self.place.resume().await?,
        }
        if self.place.may_have_requests() {
            let pending = self.place.requests().await?.unwrap_or_default();
            if text.is_some() && pending.iter().any(PendingRequest::is_for_user) {
                self.screen.note("an earlier prompt waits for an answer; yours comes after it");
            }
            self.ask_user(None).await?;
        }
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                arrived = self.place.next_event() => {
                    let arrived = arrived?.with_context(|| {
                        self.progress.last_error.take().unwrap_or("the session has ended".into())
                    })?;
                    let is_idle =
                        matches!(&arrived, Arrived::Event(event, _) if matches!(event.body, Body::SessionIdle(_)));
                    self.receive(arrived).await?;
                    // Prompts that others sent to a session in this process end with it, so they are waited for.
                    let is_over = self.progress.is_over() && !self.place.ends_with_command();
                    if is_over || (is_idle && self.progress.outcome.is_some()) {
                        return Ok(true);
                    }
                }
                typed = typed(&mut self.keyboard) => self.typed(typed).await?,
                _ = seconds.tick() => {
                    let now = Instant::now();
                    self.activity.ask(self.asked.is_some(), now);
                    self.screen.show_activity(&self.activity, now);
                }
                () = self.interrupts.next() => {
                    self.screen.key_was_pressed();
                    if self.progress.is_cancelled {
                        return Ok(false);
                    }
                    self.screen.note("cancelling; press Ctrl-C again to quit at once");
                    self.cancel().await?;
                }
            }
        }
    }

    /// Cancels the turn; after the reconnect, if the server is away.
    async fn cancel(&mut self) -> anyhow::Result<()> {
        self.progress.is_cancelled = true;
        if !self.place.cancel().await? {
            self.screen.note("the server is away; it is told after the reconnect");
        }
        Ok(())
    }

    /// Handles what the session sent.
    async fn receive(&mut self, arrived: Arrived) -> anyhow::Result<()> {
        match arrived {
            Arrived::Event(event, json) => self.receive_event(&event, &json).await,
            Arrived::Lost(why) => {
                self.screen.warn(&format!("connection to the server lost ({why}); reconnecting"));
                self.screen.lose();
                self.activity.lose(Instant::now());
                Ok(())
            }
            Arrived::Reconnected => {
                self.screen.warn("connected again");
                self.activity.reconnect();
                if self.progress.is_cancelled {
                    self.cancel().await?;
                }
                // An open question is asked again, if it is still pending.
                self.asked = None;
                self.ask_user(None).await
            }
        }
    }

    /// Handles an event.
    async fn receive_event(&mut self, event: &Event, json: &str) -> anyhow::Result<()> {
        if self.args.json {
            terminal::json_line(json);
        }
        self.progress.track(event);
        self.activity.track(event, Instant::now());
        match &event.body {
            Body::UserMessage(message) => {
                if message.message_id.is_some_and(|id| self.progress.is_own(id)) {
                    self.activity.begin_turn(Instant::now());
                } else {
                    self.screen.note(&format!("> {}", message.content));
                }
            }
            _ => self.screen.show(event),
        }
        if let Body::AssistantMessage(message) = &event.body
            && event.agent_id.is_none()
        {
            self.name_model(message.model.as_deref());
        }
        if is_about_requests(&event.body) {
            self.ask_user(Some(&event.body)).await?;
        }
        Ok(())
    }

    /// Names the model that answered, once, if it was not known before.
    fn name_model(&mut self, model: Option<&str>) {
        if let Some(model) = model.filter(|_| !self.has_model) {
            self.has_model = true;
            self.screen.note(&format!("answered by {model}"));
        }
    }

    /// Puts the next pending request to the user. Another client may answer it first; then this event says who.
    async fn ask_user(&mut self, event: Option<&Body>) -> anyhow::Result<()> {
        loop {
            // If the server is away, they are asked after the reconnect.
            let Some(pending) = self.place.requests().await? else { return Ok(()) };
            let still =
                |asked: &PendingRequest| pending.iter().any(|other| other.request_id == asked.request_id);
            if self.asked.as_ref().is_some_and(still) {
                return Ok(());
            }
            if let Some(closed) = self.asked.take().and_then(|asked| asked.closed_by(event))
                && !self.progress.is_cancelled
            {
                self.screen.note(&closed);
            }
            let Some(next) = pending.into_iter().find(PendingRequest::is_for_user) else { return Ok(()) };
            if self.args.yes && next.is_permission() {
                let answer = json!({ "kind": "permission", "decision": "approve-unattended" });
                match self.place.answer(&next.request_id, &answer).await? {
                    Answered::Accepted | Answered::TooLate(_) => continue,
                    Answered::Lost => return Ok(()),
                    // A person has to decide.
                    Answered::Refused(_) => {}
                }
            }
            if self.keyboard.is_none() {
                self.keyboard = Keyboard::of_terminal();
            }
            if self.keyboard.is_some() {
                self.screen.question(&next);
                self.asked = Some(next);
                return Ok(());
            }
            if !next.is_permission() {
                self.screen
                    .warn(&format!("waiting for an answer; give it with `baton attach {}`", self.place.id()));
                self.asked = Some(next);
                return Ok(());
            }
            let nobody = json!({ "kind": "permission", "decision": "user-not-available" });
            match self.place.answer(&next.request_id, &nobody).await? {
                Answered::Accepted => self.reject_unasked(&next),
                // Answered by another client meanwhile: its answer counts.
                Answered::TooLate(_) => {}
                Answered::Refused(why) => {
                    self.screen.warn(&format!("! {why}"));
                    return Ok(());
                }
                Answered::Lost => return Ok(()),
            }
        }
    }

    /// Says that a permission was rejected because there is nobody to ask.
    fn reject_unasked(&mut self, request: &PendingRequest) {
        if request.is_about_trust() {
            self.screen
                .warn("cannot ask whether to trust the workspace without a terminal; see `baton mcp trust`");
        } else {
            self.screen.warn("cannot ask for permission without a terminal; use --yes to approve tools");
            self.progress.is_rejected = true;
        }
    }

    /// Handles a typed line: the answer to the open request.
    async fn typed(&mut self, typed: Typed) -> anyhow::Result<()> {
        let Typed::Line(line) = typed else {
            // The terminal is gone: no user can answer.
            self.screen.key_was_pressed();
            self.screen.note("cancelling: the input has ended");
            return self.cancel().await;
        };
        self.screen.line_was_typed();
        if !self.place.is_connected() {
            self.screen.warn(NOT_CONNECTED);
            return Ok(());
        }
        let Some(mut asked) = self.asked.take() else { return Ok(()) };
        let answer = match asked.reply(&line, true) {
            Reply::Answer(answer) => answer,
            next => {
                match next {
                    Reply::AskMore(hint) => self.screen.ask_more(hint),
                    _ => self.screen.ask_again(asked.hint()),
                }
                self.asked = Some(asked);
                return Ok(());
            }
        };
        match self.place.answer(&asked.request_id, &answer).await? {
            Answered::Accepted => {
                self.progress.is_rejected |= answer["decision"] == "reject" && !asked.is_about_trust();
            }
            Answered::TooLate(why) | Answered::Refused(why) => self.screen.warn(&format!("! {why}")),
            Answered::Lost => self.screen.warn(NOT_CONFIRMED),
        }
        self.ask_user(None).await
    }
}

/// Waits for a typed line; forever if nothing was asked yet.
async fn typed(keyboard: &mut Option<Keyboard>) -> Typed {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}
