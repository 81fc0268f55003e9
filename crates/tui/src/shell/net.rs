//! The network: follows the session, reconnects, and carries out what the interface asks of the server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use baton_client::{Attempts, Client, RequestFailure};
use baton_protocol::event::Event as SessionEvent;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::{Found, Servers, Start};
use crate::event::{Asked, Effect, Net};
use crate::wire::{Models, Page, Requests, Session, SessionState, Sessions, Skills};

/// Events that are read at once.
const PAGE: usize = 200;
/// How often a prompt is sent when the connection breaks.
const SEND_ATTEMPTS: usize = 20;

/// News of a session that was opened at some time; older ones are dropped.
pub(super) type News = (u64, Net);

/// The connection to the server, shared by all that ask it.
pub(super) struct Network {
    servers: Arc<dyn Servers>,
    client: Arc<Mutex<Option<Client>>>,
    news: mpsc::Sender<News>,
    generation: u64,
    session: Arc<Mutex<Option<String>>>,
    following: Option<AbortHandle>,
    tasks: JoinSet<()>,
    cwd: PathBuf,
    /// Variables for the commands of sessions that are created here.
    variables: Arc<BTreeMap<String, String>>,
    /// Reads of the state and of the requests that are on their way: a later one replaces them.
    reading: [Option<AbortHandle>; 2],
    /// Feeds that wake up when other sessions change.
    feed: Option<AbortHandle>,
}

impl Network {
    pub(super) fn new(
        servers: Arc<dyn Servers>,
        news: mpsc::Sender<News>,
        cwd: PathBuf,
        variables: BTreeMap<String, String>,
    ) -> Self {
        Self {
            variables: Arc::new(variables),
            reading: [None, None],
            servers,
            client: Arc::default(),
            news,
            generation: 0,
            session: Arc::default(),
            following: None,
            tasks: JoinSet::new(),
            cwd,
            feed: None,
        }
    }

    /// Returns which news are current.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Opens a session, and follows it from now on.
    pub(super) fn open(&mut self, start: Start) {
        if let Some(following) = self.following.take() {
            following.abort();
        }
        self.generation += 1;
        let follower = Follower {
            servers: self.servers.clone(),
            client: self.client.clone(),
            shared: self.session.clone(),
            news: self.news.clone(),
            generation: self.generation,
            cwd: self.cwd.clone(),
            variables: self.variables.clone(),
        };
        self.following = Some(self.tasks.spawn(follower.run(start)));
    }

    fn client(&self) -> Option<Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Follows the changes of all sessions.
    pub(super) fn watch_all(&mut self) {
        let is_watching = self.feed.as_ref().is_some_and(|feed| !feed.is_finished());
        let Some(client) = self.client().filter(|_| !is_watching) else { return };
        let (news, generation) = (self.news.clone(), self.generation);
        self.feed = Some(self.tasks.spawn(async move {
            let Ok(mut stream) = client.feed().await else { return };
            while let Ok(Some(event)) = stream.next().await {
                let concerns = event.json.contains("\"requests\"") || event.json.contains("\"id\"");
                if concerns && let Ok(list) = client.get::<Requests>("/api/requests").await {
                    let _ = news.send((generation, Net::AllRequests(list.requests))).await;
                }
            }
        }));
    }

    /// Asks something of the server, and reports what came of it.
    fn ask(&mut self, work: impl Future<Output = Option<Net>> + Send + 'static) {
        drop(self.spawn(work));
    }

    fn spawn(&mut self, work: impl Future<Output = Option<Net>> + Send + 'static) -> AbortHandle {
        let (news, generation) = (self.news.clone(), self.generation);
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(async move {
            if let Some(result) = work.await {
                let _ = news.send((generation, result)).await;
            }
        })
    }

    /// Reads something that a later read replaces.
    fn read(&mut self, which: usize, work: impl Future<Output = Option<Net>> + Send + 'static) {
        let reading = self.spawn(work);
        if let Some(before) = self.reading[which].replace(reading) {
            before.abort();
        }
    }

    /// Carries out an effect that concerns the server. Returns it if it does not.
    pub(super) fn perform(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Open(id) => {
                self.open(Start::Existing(id));
                return None;
            }
            Effect::Create => {
                self.open(Start::New);
                return None;
            }
            _ => {}
        }
        let (Some(client), Some(id)) = (self.client(), self.session()) else {
            return is_local(&effect).then_some(effect);
        };
        let base = format!("/api/sessions/{id}");
        match effect {
            Effect::Send { text, files, immediate } => {
                let shared = self.client.clone();
                self.ask(async move { Some(send(&shared, &base, text, &files, immediate).await) });
            }
            Effect::Answer { session, request, body } => {
                let path = format!("/api/sessions/{}/requests/{request}", session.unwrap_or(id));
                self.ask(async move {
                    let sent = client.post::<Value>(&path, &body, None).await;
                    Some(Net::Done(Asked::Answer(request), result(sent)))
                });
            }
            Effect::Cancel(turn) => self.ask(async move {
                let body = match turn {
                    Some(turn) => json!({ "queue": "hold", "turn": turn }),
                    None => json!({ "queue": "hold" }),
                };
                let sent = client.post::<Value>(&format!("{base}/cancel"), &body, None).await;
                Some(Net::Done(Asked::Cancel, result(sent)))
            }),
            Effect::Release => self.ask(async move {
                let body = json!({ "paused": false });
                let sent = client.patch::<Value>(&format!("{base}/queue"), &body).await;
                Some(Net::Done(Asked::Change("queue released".into()), result(sent)))
            }),
            Effect::FetchState => self.read(0, async move {
                let state = client.get::<SessionState>(&format!("{base}/state")).await.ok()?;
                Some(Net::State(Box::new(state)))
            }),
            Effect::FetchRequests => self.read(1, async move {
                let list = client.get::<Requests>(&format!("{base}/requests")).await.ok()?;
                Some(Net::Requests(list.requests))
            }),
            Effect::FetchEarlier(before) => self.ask(async move {
                let path = format!("{base}/events?before={before}&limit={PAGE}");
                let page = client.get::<Page>(&path).await.ok()?;
                Some(Net::Earlier(events(&page), page.has_more))
            }),
            Effect::FetchAllRequests => {
                self.ask(async move {
                    let list = client.get::<Requests>("/api/requests").await.ok()?;
                    Some(Net::AllRequests(list.requests))
                });
                self.watch_all();
            }
            Effect::FetchSessions => self.ask(async move {
                let list = client.get::<Sessions>("/api/sessions?limit=500").await.ok()?;
                Some(Net::Sessions(list.sessions))
            }),
            Effect::FetchModels => self.ask(async move {
                let models = client.get::<Models>("/api/models").await.ok()?;
                Some(Net::Models(models))
            }),
            Effect::FetchSkills => self.ask(async move {
                let list = client.get::<Skills>(&format!("{base}/skills")).await.ok()?;
                Some(Net::Skills(list.skills))
            }),
            Effect::Patch(body, said) => self.ask(async move {
                let sent = client.patch::<Value>(&base, &body).await;
                Some(Net::Done(Asked::Change(said), result(sent)))
            }),
            Effect::Fork => {
                self.ask(async move {
                    let sent = client.post::<Session>(&format!("{base}/fork"), &json!({}), None).await;
                    Some(match sent {
                        Ok(copy) => Net::Done(
                            Asked::Change(format!("copied as {}; Ctrl-S opens it", copy.id)),
                            Ok(Value::Null),
                        ),
                        Err(failure) => Net::Done(Asked::Change(String::new()), Err(failure.to_string())),
                    })
                });
            }
            Effect::Amend(prompt, text) => self.ask(async move {
                let path = format!("{base}/queue/{prompt}");
                let sent = client.patch::<Value>(&path, &json!({ "text": text })).await;
                Some(Net::Done(Asked::Change("changed".into()), result(sent)))
            }),
            Effect::Withdraw(prompt) => self.ask(async move {
                let sent = client.delete(&format!("{base}/queue/{prompt}")).await;
                Some(Net::Done(Asked::Change("withdrawn".into()), result(sent.map(|()| Value::Null))))
            }),
            Effect::Rewind(event, text) => self.ask(async move {
                let sent =
                    client.post::<Value>(&format!("{base}/rewind"), &json!({ "event": event }), None).await;
                Some(Net::Done(Asked::Rewind(text), result(sent)))
            }),
            Effect::Command(typed) => self.ask(async move {
                let sent = match typed.as_str() {
                    "/resume" => client.post::<Value>(&format!("{base}/resume"), &json!({}), None).await,
                    _ => {
                        let body = json!({ "command": typed });
                        client.post::<Value>(&format!("{base}/commands"), &body, None).await
                    }
                };
                Some(Net::Done(Asked::Change(String::new()), result(sent)))
            }),
            other => return Some(other),
        }
        None
    }

    /// Lists files of the session that begin with a prefix.
    pub(super) fn files(&mut self, prefix: String, found: mpsc::Sender<(String, Vec<String>)>) {
        let (Some(client), Some(id)) = (self.client(), self.session()) else { return };
        let query: String = prefix.bytes().map(|byte| format!("%{byte:02x}")).collect();
        self.tasks.spawn(async move {
            let path = format!("/api/sessions/{id}/files?query={query}&limit=8");
            let Ok(reply) = client.get::<Value>(&path).await else { return };
            let name = |file: &Value| {
                let path = file["path"].as_str()?;
                let end = if file["directory"] == true { "/" } else { "" };
                Some(format!("{path}{end}"))
            };
            let files = reply["files"].as_array().into_iter().flatten().filter_map(name).collect();
            let _ = found.send((prefix, files)).await;
        });
    }

    /// Deletes the session, if nothing was said in it.
    pub(super) async fn forget(&self) {
        if let (Some(client), Some(id)) = (self.client(), self.session()) {
            let _ = client.delete(&format!("/api/sessions/{id}")).await;
        }
    }
}

/// Whether an effect needs no server.
fn is_local(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Edit(_)
            | Effect::Suspend
            | Effect::Redraw
            | Effect::Copy(_)
            | Effect::Notify(_)
            | Effect::Remember(_)
            | Effect::Highlight(..)
            | Effect::ListFiles(_)
            | Effect::Export
            | Effect::Quit
    )
}

fn result(sent: Result<Value, RequestFailure>) -> Result<Value, String> {
    sent.map_err(|failure| failure.to_string())
}

fn events(page: &Page) -> Vec<(u64, SessionEvent)> {
    // An event that cannot be parsed comes from a newer server.
    let parse = |value: &Value| SessionEvent::parse(&value.to_string()).ok();
    page.events.iter().filter_map(|numbered| Some((numbered.seq, parse(&numbered.event)?))).collect()
}

/// Sends a prompt. It has a key, so that it can be sent again until the server has it.
async fn send(
    client: &Mutex<Option<Client>>,
    base: &str,
    text: String,
    files: &[String],
    immediate: bool,
) -> Net {
    let attachment = |file: &String| json!({ "type": "file", "path": file });
    let mut body = json!({ "text": text, "immediate": immediate });
    if !files.is_empty() {
        body["attachments"] = files.iter().map(attachment).collect();
    }
    let (key, mut attempts) = (uuid::Uuid::new_v4().to_string(), Attempts::default());
    let mut last = String::new();
    for _ in 0..SEND_ATTEMPTS {
        let current = client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(current) = current else { break };
        match current.post::<Value>(&format!("{base}/prompts"), &body, Some(&key)).await {
            Ok(reply) => return Net::Done(Asked::Prompt(text), Ok(reply)),
            Err(RequestFailure::Unreachable(why)) => last = why,
            Err(refused) => return Net::Done(Asked::Prompt(text), Err(refused.to_string())),
        }
        tokio::time::sleep(attempts.fail()).await;
    }
    Net::Done(Asked::Prompt(text), Err(last))
}

/// Follows one session for as long as it is open.
struct Follower {
    servers: Arc<dyn Servers>,
    client: Arc<Mutex<Option<Client>>>,
    shared: Arc<Mutex<Option<String>>>,
    news: mpsc::Sender<News>,
    generation: u64,
    cwd: PathBuf,
    variables: Arc<BTreeMap<String, String>>,
}

impl Follower {
    async fn run(self, start: Start) {
        let mut attempts = Attempts::default();
        let (mut session, mut cursor): (Option<String>, Option<u64>) = (None, None);
        loop {
            let failure = match self.connect(&start, &mut session, &mut cursor).await {
                Ok(()) => "the server ended the stream".to_owned(),
                Err(Failure::Fatal(why)) => {
                    self.tell(Net::Fatal(why)).await;
                    return;
                }
                Err(Failure::Passing(why, was_connected)) => {
                    if was_connected {
                        attempts = Attempts::default();
                    }
                    why
                }
            };
            self.tell(Net::Lost(failure)).await;
            tokio::time::sleep(attempts.fail()).await;
        }
    }

    async fn tell(&self, net: Net) {
        let _ = self.news.send((self.generation, net)).await;
    }

    /// Connects, opens the session at the first time, and follows it until the connection breaks.
    async fn connect(
        &self,
        start: &Start,
        session: &mut Option<String>,
        cursor: &mut Option<u64>,
    ) -> Result<(), Failure> {
        let found = self.servers.connect(session.as_deref()).await;
        let client = match found {
            Ok(Found { client, note }) => {
                if let Some(note) = note {
                    self.tell(Net::Note(note)).await;
                }
                client
            }
            // At the first time, nothing is lost yet: the reason is shown, and the program ends.
            Err(error) if session.is_none() => return Err(Failure::Fatal(format!("{error:#}"))),
            Err(error) => return Err(Failure::Passing(format!("{error:#}"), false)),
        };
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        let id = match session {
            Some(id) => {
                // A restarted server continues what it finds when a client asks for it.
                if *start == Start::New && client.is_on_socket() {
                    let body = json!({ "environment": *self.variables });
                    // It has forgotten them. A server that does not know the field uses its own.
                    let _ = client.patch::<Value>(&format!("/api/sessions/{id}"), &body).await;
                }
                client.resume(id).await.map_err(|failure| passing(&failure))?;
                id.clone()
            }
            None => {
                let id = self
                    .choose(&client, start)
                    .await
                    .map_err(|error| Failure::Fatal(format!("{error:#}")))?;
                *session = Some(id.clone());
                id
            }
        };
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.clone());
        let after = match cursor {
            Some(cursor) => *cursor,
            None => {
                let after = self.open(&client, &id).await.map_err(|failure| passing(&failure))?;
                *cursor = Some(after);
                after
            }
        };
        let mut stream = match client.stream(&id, after).await {
            Err(RequestFailure::Refused { code, .. }) if code == "cursor_ahead" => {
                // The history is another one than that which was shown: from the beginning.
                *cursor = None;
                return Err(Failure::Passing("the history has changed".into(), true));
            }
            Err(RequestFailure::Refused { message, .. }) => return Err(Failure::Fatal(message)),
            other => other.map_err(|failure| passing(&failure))?,
        };
        self.tell(Net::Connected).await;
        loop {
            match stream.next().await {
                Ok(Some(event)) => {
                    *cursor = event.seq.or(*cursor);
                    if let Ok(parsed) = SessionEvent::parse(&event.json) {
                        self.tell(Net::Event(event.seq, Box::new(parsed))).await;
                    }
                }
                Ok(None) => return Err(Failure::Passing("the server ended the stream".into(), true)),
                Err(failure) => return Err(Failure::Passing(failure.to_string(), true)),
            }
        }
    }

    /// Finds or creates the session.
    async fn choose(&self, client: &Client, start: &Start) -> anyhow::Result<String> {
        match start {
            Start::New => {
                let body = json!({ "cwd": self.cwd, "questions": true, "trackFiles": true });
                let mut with_variables = body.clone();
                with_variables["environment"] = json!(*self.variables);
                if !client.is_on_socket() {
                    return Ok(client.post::<Session>("/api/sessions", &body, None).await?.id);
                }
                match client.post::<Session>("/api/sessions", &with_variables, None).await {
                    Ok(new) => Ok(new.id),
                    // A server that does not know the field uses its own variables.
                    Err(RequestFailure::Refused { .. }) => {
                        Ok(client.post::<Session>("/api/sessions", &body, None).await?.id)
                    }
                    Err(failure) => Err(failure.into()),
                }
            }
            Start::Existing(wanted) => Ok(client.find(wanted).await?.id),
            Start::Newest => {
                let newest = client.sessions().await?.into_iter().next();
                Ok(newest.context("no sessions yet; `baton` alone creates one")?.id)
            }
        }
    }

    /// Reads the state and the end of the history. Returns the last event that was read.
    async fn open(&self, client: &Client, id: &str) -> Result<u64, RequestFailure> {
        let state: SessionState = client.get(&format!("/api/sessions/{id}/state")).await?;
        let before = i64::MAX;
        let page: Page =
            client.get(&format!("/api/sessions/{id}/events?before={before}&limit={PAGE}")).await?;
        let last = page.events.last().map_or(0, |numbered| numbered.seq);
        self.tell(Net::Opened(Box::new(state), events(&page), page.has_more)).await;
        Ok(last)
    }
}

enum Failure {
    /// Trying again makes no difference.
    Fatal(String),
    /// It may pass; whether there was a connection.
    Passing(String, bool),
}

fn passing(failure: &RequestFailure) -> Failure {
    match failure {
        RequestFailure::Unreachable(why) => Failure::Passing(why.clone(), false),
        other => Failure::Fatal(other.to_string()),
    }
}
