//! The main loop of `baton attach`: prints events, sends typed lines, and reconnects.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use baton_protocol::event::{Body, Outcome};
use baton_protocol::{Event, SessionId};
use serde::Deserialize;
use serde_json::json;

use crate::args::AttachArgs;
use crate::client::{
    AcceptedPrompt, Activity, Attempts, Client, Detail, EventStream, PendingList, PendingRequest, Reply,
    RequestFailure, Screen, ServerLocator, SessionView, StreamedEvent, exit_code, is_about_requests,
};
use crate::signals::{FirstSignal, Interrupts};
use crate::terminal::{self, Keyboard, Typed};

/// Time without an event after which the stream of a lost server is empty.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// How often a prompt is sent when the connection breaks, and the pause between two attempts.
const SEND_ATTEMPTS: usize = 5;
const SEND_PAUSE: Duration = Duration::from_secs(1);

/// The exit code if the program is to end, none to continue.
type Next = Result<Option<ExitCode>, RequestFailure>;

/// A terminal that is attached to a session.
pub(super) struct AttachedSession<'a> {
    args: &'a AttachArgs,
    locator: ServerLocator<'a>,
    client: Client,
    session: String,
    screen: Screen,
    keyboard: Keyboard,
    interrupts: Interrupts,
    connected: bool,
    /// Whether there was a connection before.
    was_connected: bool,
    /// Says on the status line for how long the server is away.
    activity: Activity,
    /// Whether a `baton run` holds the session: it ends with its turn.
    is_of_run: bool,
    /// Position of the last durable event received.
    cursor: u64,
    /// Head of the session when the connection was made: events up to it are history.
    head: u64,
    busy: bool,
    cancelling: bool,
    /// The request that the user is asked about.
    asked: Option<PendingRequest>,
    /// Prompts sent from here that have no outcome yet.
    sent: BTreeSet<String>,
    /// Outcome of the last of them.
    last_outcome: Option<Outcome>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled {
    had_work: bool,
}

impl<'a> AttachedSession<'a> {
    pub(super) fn new(
        args: &'a AttachArgs,
        locator: ServerLocator<'a>,
        client: Client,
        session: &SessionView,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            args,
            client,
            session: session.id.clone(),
            screen: Screen::new(if args.json { Detail::Json } else { Detail::Full }),
            keyboard: if args.read_only { Keyboard::none() } else { Keyboard::listen() },
            interrupts: Interrupts::listen(FirstSignal::IsForwarded)?,
            connected: false,
            was_connected: false,
            activity: Activity::of_prompt(Instant::now()),
            is_of_run: locator.is_run(&session.id),
            cursor: session.head.saturating_sub(args.history()),
            head: session.head,
            busy: session.busy,
            cancelling: false,
            asked: None,
            sent: BTreeSet::new(),
            last_outcome: None,
            locator,
        })
    }

    /// Runs until the user leaves or the session is gone.
    pub(super) async fn run(mut self) -> anyhow::Result<ExitCode> {
        let mut attempts = Attempts::default();
        loop {
            let followed = match self.connect().await {
                Some(Ok(stream)) => self.follow(stream).await,
                Some(Err(failure)) => Err(failure),
                None => return Ok(ExitCode::SUCCESS),
            };
            match followed {
                Ok(code) => return Ok(code),
                Err(RequestFailure::Unreachable(why)) => {
                    if std::mem::take(&mut self.connected) {
                        attempts = Attempts::default();
                        self.lose(&why);
                    }
                }
                Err(refused) => return Err(refused.into()),
            }
            if self.offline(tokio::time::sleep(attempts.fail())).await.is_none() {
                return Ok(ExitCode::SUCCESS);
            }
            if !self.locate_again() && self.is_of_run {
                self.screen.note("the run that held the session has ended");
                return Ok(ExitCode::from(self.last_outcome.map_or(0, exit_code)));
            }
        }
    }

    fn lose(&mut self, why: &str) {
        self.screen.lose();
        self.activity.lose(Instant::now());
        // A run that has ended is the usual end, and noted later.
        if !self.is_of_run {
            self.screen.note(&format!("connection lost ({why}); reconnecting"));
        }
    }

    /// Waits for something without a connection. Returns none if the user leaves. A line that is typed meanwhile is not kept: the
    /// question that it answers may be closed by then. Lines from a pipe wait.
    async fn offline<T>(&mut self, awaited: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(awaited);
        let is_typed = self.keyboard.is_terminal();
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        let done = loop {
            tokio::select! {
                done = &mut awaited => break Some(done),
                _ = seconds.tick() => self.screen.show_activity(&self.activity, Instant::now()),
                () = self.interrupts.next() => break None,
                typed = self.keyboard.next(), if is_typed => match typed {
                    Typed::Line(line) if line.trim().is_empty() => {}
                    Typed::Line(_) => self.screen.note("not connected; type it again after the reconnect"),
                    Typed::End => break None,
                },
            }
        };
        if done.is_none() {
            self.screen.key_was_pressed();
        }
        done
    }

    /// Continues after a lost connection. A restarted server continues pending work when a client asks for it.
    async fn reconnected(&mut self) -> Result<(), RequestFailure> {
        if !self.args.read_only {
            self.client.resume(&self.session).await?;
        }
        self.activity.reconnect();
        self.screen.note("connected again");
        // An open question is asked again, if it is still pending.
        self.asked = None;
        Ok(())
    }

    /// Looks for the server again: a restarted one may listen at another address, and the session of an ended run is served
    /// by the server of the home. Until one is found, the old address is used. Returns whether one was found.
    fn locate_again(&mut self) -> bool {
        match self.locator.connect_for(&self.session) {
            Ok(client) => {
                self.client = client;
                true
            }
            Err(_) => false,
        }
    }

    /// Opens the event stream. Returns none if the user leaves before it is open.
    async fn connect(&mut self) -> Option<Result<EventStream, RequestFailure>> {
        let (client, path) = (self.client.clone(), self.path(""));
        let (session, cursor) = (self.session.clone(), self.cursor);
        let connecting = async move {
            let info: SessionView = client.get(&path).await?;
            Ok((info, client.stream(&session, cursor).await?))
        };
        let connected = match self.was_connected {
            true => self.offline(connecting).await?,
            false => connecting.await,
        };
        Some(connected.map(|(info, stream)| {
            (self.head, self.busy) = (info.head, info.busy);
            stream
        }))
    }

    /// Follows the session for as long as one connection lasts.
    async fn follow(&mut self, mut stream: EventStream) -> Result<ExitCode, RequestFailure> {
        self.connected = true;
        if std::mem::replace(&mut self.was_connected, true) {
            self.reconnected().await?;
        }
        if self.is_up_to_date() {
            self.ask_user(None).await?;
        }
        loop {
            let next = tokio::select! {
                event = stream.next() => match event {
                    Ok(Some(event)) => self.receive(&event).await,
                    Ok(None) => Err(RequestFailure::Unreachable("the server ended the stream".into())),
                    Err(lost) => Err(lost),
                },
                typed = self.keyboard.next() => self.typed(typed).await,
                () = self.interrupts.next() => self.interrupted().await,
            };
            if let Err(RequestFailure::Unreachable(_)) = &next {
                self.drain(&mut stream).await;
            }
            let next = next?;
            if let Some(code) = next {
                return Ok(code);
            }
        }
    }

    /// Shows the events that a lost server has sent: it may have ended regularly, with the session's last turn.
    async fn drain(&mut self, stream: &mut EventStream) {
        while let Ok(Ok(Some(event))) = tokio::time::timeout(DRAIN_LIMIT, stream.next()).await {
            self.accept(&event);
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/sessions/{}{rest}", self.session)
    }

    fn is_up_to_date(&self) -> bool {
        self.cursor >= self.head
    }

    /// Handles an event.
    async fn receive(&mut self, streamed: &StreamedEvent) -> Next {
        let was_history = !self.is_up_to_date();
        let event = self.accept(streamed).filter(|event| is_about_requests(&event.body));
        if self.is_up_to_date() && (was_history || event.is_some()) {
            self.ask_user(event.as_ref().map(|event| &event.body)).await?;
        }
        Ok(self.done())
    }

    /// Shows and tracks an event. Returns none for one that cannot be parsed: it comes from a newer server.
    fn accept(&mut self, streamed: &StreamedEvent) -> Option<Event> {
        self.cursor = streamed.seq.unwrap_or(self.cursor);
        if self.screen.is_json() {
            terminal::json_line(&streamed.json);
        }
        let event = Event::parse(&streamed.json).ok()?;
        self.track(&event.body);
        self.show(&event);
        Some(event)
    }

    fn show(&mut self, event: &Event) {
        match &event.body {
            Body::UserMessage(message) => {
                let typed_here = self.keyboard.is_terminal()
                    && message.message_id.is_some_and(|id| self.sent.contains(&id.to_string()));
                if !typed_here {
                    self.screen.prompt(&message.content);
                }
            }
            Body::SessionError(error) => self.screen.note(&format!("! {}", error.message)),
            Body::TurnSettled(settled) => self.screen.show_outcome(settled.outcome, &settled.reason),
            Body::SessionIdle(_) => self.screen.end_line(),
            _ => self.screen.show(event),
        }
    }

    /// Keeps track of what is running, and of outcomes.
    fn track(&mut self, body: &Body) {
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

    /// Returns the exit code once input has ended and every prompt from it has an outcome.
    fn done(&self) -> Option<ExitCode> {
        if self.keyboard.is_open() || !self.sent.is_empty() {
            return None;
        }
        self.last_outcome.map(|outcome| ExitCode::from(exit_code(outcome)))
    }

    /// Asks the user about the next pending request. The list is fetched each time, because another client may have
    /// answered; then this event says who.
    async fn ask_user(&mut self, event: Option<&Body>) -> Result<(), RequestFailure> {
        let pending = match self.client.get::<PendingList>(&self.path("/requests")).await {
            Ok(list) => list.requests,
            // Another server holds the session, and its clients answer.
            Err(RequestFailure::Refused { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let still = |asked: &PendingRequest| pending.iter().any(|other| other.request_id == asked.request_id);
        if self.asked.as_ref().is_some_and(still) {
            return Ok(());
        }
        if let Some(closed) = self.asked.take().and_then(|asked| asked.closed_by(event)) {
            self.screen.note(&closed);
        }
        let Some(next) = pending.into_iter().find(PendingRequest::is_for_user) else { return Ok(()) };
        let hint = if self.args.read_only { "(waiting for an answer)" } else { next.hint() };
        self.screen.ask(&next, hint);
        self.asked = Some(next);
        Ok(())
    }

    /// Handles a typed line: an answer if a request is open, else a prompt.
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

    /// Sends a prompt; during a turn it steers the turn.
    async fn prompt(&mut self, text: &str) -> Result<(), RequestFailure> {
        let key = SessionId::random();
        let body = json!({ "text": text, "immediate": self.busy });
        let path = self.path("/prompts");
        for remaining in (0..SEND_ATTEMPTS).rev() {
            match self.client.post::<AcceptedPrompt>(&path, &body, Some(key.as_str())).await {
                Ok(accepted) => {
                    self.busy = true;
                    self.sent.insert(accepted.prompt_id);
                    return Ok(());
                }
                // The same idempotency key: the prompt is not accepted twice.
                Err(RequestFailure::Unreachable(_)) if remaining > 0 => {
                    tokio::time::sleep(SEND_PAUSE).await;
                    self.locate_again();
                }
                Err(RequestFailure::Refused { message, .. }) => {
                    self.screen.note(&format!("! {message}"));
                    return Ok(());
                }
                Err(lost) => {
                    self.screen.note("! the prompt was not sent; type it again");
                    return Err(lost);
                }
            }
        }
        Ok(())
    }

    async fn answer(&mut self, mut asked: PendingRequest, line: &str) -> Result<(), RequestFailure> {
        let answer = match asked.reply(line, self.keyboard.is_terminal()) {
            Reply::Answer(answer) => answer,
            next => {
                match next {
                    Reply::AskMore(hint) => self.screen.note(hint),
                    _ => self.screen.note(&format!("not an answer; {}", asked.hint())),
                }
                self.asked = Some(asked);
                return Ok(());
            }
        };
        let path = self.path(&format!("/requests/{}", asked.request_id));
        match self.client.post::<serde_json::Value>(&path, &answer, None).await {
            Ok(_) => {}
            Err(RequestFailure::Refused { message, .. }) => self.screen.note(&format!("! {message}")),
            // Asked again on the next connection, if it is still pending.
            Err(lost) => {
                self.screen
                    .note("! the server did not confirm the answer; you are asked again if it still waits");
                return Err(lost);
            }
        }
        self.ask_user(None).await
    }

    /// Handles Ctrl-C: cancels the running turn; leaves if nothing runs or it was pressed before.
    async fn interrupted(&mut self) -> Next {
        if self.args.read_only || self.cancelling {
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
