//! The terminal's stay at a session: events come, lines are typed, connections break and are made again.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use baton_protocol::event::{Body, Outcome};
use baton_protocol::{Event, SessionId};
use serde::Deserialize;
use serde_json::json;

use super::client::{Client, Failure, Piece};
use super::questions::{Waiting, WaitingList};
use super::screen::Screen;
use super::{Finder, Listed};
use crate::signals::{Interrupts, Meaning};
use crate::terminal::{self, Keyboard, Typed};

/// How long to wait before the server is looked for again: longer each time, up to the last.
const PATIENCE: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(3)];

/// How often a prompt or an answer is sent again whose connection broke.
const TRIES: usize = 5;

/// What follows from something: staying, or leaving with a code.
type Next = Result<Option<ExitCode>, Failure>;

/// See the module.
pub(super) struct Watch<'a> {
    finder: Finder<'a>,
    client: Client,
    session: String,
    screen: Screen,
    keyboard: Keyboard,
    interrupts: Interrupts,
    connected: bool,
    /// The last durable event that was seen.
    cursor: u64,
    /// Where the session stood when the connection was made: what comes until then is history.
    head: u64,
    busy: bool,
    cancelling: bool,
    /// What the person is asked.
    asked: Option<Waiting>,
    /// Prompts typed here that have no outcome yet.
    sent: BTreeSet<String>,
    /// How the last of them ended.
    last_outcome: Option<Outcome>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accepted {
    prompt_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled {
    had_work: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(finder: Finder<'a>, client: Client, session: &Listed) -> anyhow::Result<Self> {
        let args = finder.args;
        Ok(Self {
            client,
            session: session.id.clone(),
            screen: Screen::new(args.json),
            keyboard: if args.read_only { Keyboard::none() } else { Keyboard::listen() },
            interrupts: Interrupts::listen(Meaning::Ask)?,
            connected: false,
            cursor: session.head.saturating_sub(args.history),
            head: session.head,
            busy: session.busy,
            cancelling: false,
            asked: None,
            sent: BTreeSet::new(),
            last_outcome: None,
            finder,
        })
    }

    /// Stays until the person leaves, or the session is gone.
    pub(super) async fn run(mut self) -> anyhow::Result<ExitCode> {
        let mut tries = 0;
        loop {
            match self.stay().await {
                Ok(code) => return Ok(code),
                Err(Failure::Unreachable(why)) => {
                    if std::mem::take(&mut self.connected) {
                        tries = 0;
                        self.screen.note(&format!("the connection is lost ({why}); trying again"));
                    }
                }
                Err(refused) => return Err(refused.into()),
            }
            tokio::select! {
                () = tokio::time::sleep(PATIENCE[tries.min(PATIENCE.len() - 1)]) => tries += 1,
                () = self.interrupts.next() => return Ok(ExitCode::SUCCESS),
            }
            self.look_again();
        }
    }

    /// The next server may listen somewhere else. Until there is one, the old one is asked.
    fn look_again(&mut self) {
        if let Ok(client) = self.finder.find() {
            self.client = client;
        }
    }

    /// Stays for as long as one connection lasts.
    async fn stay(&mut self) -> Result<ExitCode, Failure> {
        let seen: Listed = self.client.get(&self.path("")).await?;
        (self.head, self.busy) = (seen.head, seen.busy);
        let mut stream = self.client.stream(&self.session, self.cursor).await?;
        self.connected = true;
        if self.is_up_to_date() {
            self.ask_person().await?;
        }
        loop {
            let next = tokio::select! {
                piece = stream.next() => match piece? {
                    Some(piece) => self.take(&piece).await?,
                    None => return Err(Failure::Unreachable("the server ended the stream".into())),
                },
                typed = self.keyboard.next() => self.typed(typed).await?,
                () = self.interrupts.next() => self.interrupted().await?,
            };
            if let Some(code) = next {
                return Ok(code);
            }
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/sessions/{}{rest}", self.session)
    }

    fn is_up_to_date(&self) -> bool {
        self.cursor >= self.head
    }

    /// An event has come.
    async fn take(&mut self, piece: &Piece) -> Next {
        let was_history = !self.is_up_to_date();
        self.cursor = piece.seq.unwrap_or(self.cursor);
        if self.screen.json {
            terminal::json_line(&piece.json);
        }
        // An event that cannot be read is one of a newer server; there is nothing to show for it.
        let Ok(event) = Event::parse(&piece.json) else { return Ok(None) };
        self.follow(&event.body);
        if !self.screen.json {
            let own = matches!(&event.body, Body::UserMessage(message)
                if message.message_id.is_some_and(|id| self.sent.contains(&id.to_string())));
            self.screen.show(&event.body, own && self.keyboard.is_terminal());
        }
        if self.is_up_to_date() && (was_history || is_about_requests(&event.body)) {
            self.ask_person().await?;
        }
        Ok(self.done())
    }

    /// Keeps account of what goes on.
    fn follow(&mut self, body: &Body) {
        match body {
            Body::PromptAccepted(_) => self.busy = true,
            Body::SessionIdle(_) => (self.busy, self.cancelling) = (false, false),
            Body::TurnSettled(settled) => {
                for id in &settled.prompt_ids {
                    if self.sent.remove(&id.to_string()) {
                        self.last_outcome = Some(settled.outcome);
                    }
                }
            }
            _ => {}
        }
    }

    /// With nobody at the keyboard any more, the stay ends with the last prompt that came from there.
    fn done(&self) -> Option<ExitCode> {
        if self.keyboard.is_open() || !self.sent.is_empty() {
            return None;
        }
        self.last_outcome.map(|outcome| match outcome {
            Outcome::Completed => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::FAILURE,
            Outcome::Cancelled | Outcome::Interrupted => ExitCode::from(130),
        })
    }

    /// Asks the person what waits for an answer, one thing at a time. The server knows best what that is: it may have been
    /// answered elsewhere.
    async fn ask_person(&mut self) -> Result<(), Failure> {
        let waiting = match self.client.get::<WaitingList>(&self.path("/requests")).await {
            Ok(list) => list.requests,
            // Another server holds the session: what waits there is answered there.
            Err(Failure::Refused { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let still = |asked: &Waiting| waiting.iter().any(|other| other.request_id == asked.request_id);
        if self.asked.as_ref().is_some_and(still) {
            return Ok(());
        }
        if self.asked.take().is_some() {
            self.screen.note("that is settled");
        }
        let Some(next) = waiting.into_iter().find(Waiting::is_for_people) else { return Ok(()) };
        let hint = if self.finder.args.read_only { "(waiting for an answer)" } else { next.hint() };
        self.screen.pose(&next.describe(), hint);
        self.asked = Some(next);
        Ok(())
    }

    /// A line was typed: an answer if something was asked, else a prompt.
    async fn typed(&mut self, typed: Typed) -> Next {
        let line = match typed {
            Typed::Line(line) => line,
            Typed::End if self.keyboard.is_terminal() => return Ok(Some(ExitCode::SUCCESS)),
            Typed::End => return Ok(self.done()),
        };
        match self.asked.take() {
            Some(asked) => self.answer(asked, &line).await?,
            None if line.trim().is_empty() => {}
            None => self.prompt(&line).await?,
        }
        Ok(None)
    }

    /// Sends a prompt; while a turn runs, it steers that.
    async fn prompt(&mut self, text: &str) -> Result<(), Failure> {
        let key = SessionId::random();
        let body = json!({ "text": text, "immediate": self.busy });
        let path = self.path("/prompts");
        for remaining in (0..TRIES).rev() {
            match self.client.post::<Accepted>(&path, &body, Some(key.as_str())).await {
                Ok(accepted) => {
                    self.busy = true;
                    self.sent.insert(accepted.prompt_id);
                    return Ok(());
                }
                // The same key: should it have been accepted, it is not accepted twice.
                Err(Failure::Unreachable(_)) if remaining > 0 => {
                    tokio::time::sleep(PATIENCE[2]).await;
                    self.look_again();
                }
                Err(Failure::Refused { message, .. }) => {
                    self.screen.note(&format!("! {message}"));
                    return Ok(());
                }
                Err(lost) => {
                    self.screen.note("! the prompt could not be sent; type it again");
                    return Err(lost);
                }
            }
        }
        Ok(())
    }

    async fn answer(&mut self, asked: Waiting, line: &str) -> Result<(), Failure> {
        let Some(answer) = asked.answer(line) else {
            self.screen.note(&format!("that is no answer; {}", asked.hint()));
            self.asked = Some(asked);
            return Ok(());
        };
        let path = self.path(&format!("/requests/{}", asked.request_id));
        match self.client.post::<serde_json::Value>(&path, &answer, None).await {
            Ok(_) => {}
            Err(Failure::Refused { message, .. }) => self.screen.note(&format!("! {message}")),
            // Asked again with the next connection, if it still waits.
            Err(lost) => return Err(lost),
        }
        self.ask_person().await
    }

    /// Ctrl-C: cancels what runs; where nothing runs, or it was pressed before, it leaves.
    async fn interrupted(&mut self) -> Next {
        if self.finder.args.read_only || self.cancelling {
            return Ok(Some(ExitCode::SUCCESS));
        }
        let cancelled: Cancelled = self.client.post(&self.path("/cancel"), &json!({}), None).await?;
        if !cancelled.had_work {
            return Ok(Some(ExitCode::SUCCESS));
        }
        self.cancelling = true;
        self.screen.note("cancelled; press Ctrl-C again to leave");
        Ok(None)
    }
}

fn is_about_requests(body: &Body) -> bool {
    matches!(
        body,
        Body::PermissionRequested(_)
            | Body::PermissionCompleted(_)
            | Body::ExternalToolRequested(_)
            | Body::ExternalToolCompleted(_)
            | Body::RequestOpened(_)
            | Body::RequestClosed(_)
            | Body::SwitchOffered(_)
            | Body::AutoModeSwitchCompleted(_)
    )
}
