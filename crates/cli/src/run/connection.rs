//! The connection to the process that holds a session: a task that reads the event stream, and reconnects when it breaks.
//!
//! It is a task because its reader also waits for other things: a read that has begun is not lost when the reader stops
//! waiting for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::Event;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::place::Arrived;
use crate::client::{Attempts, Client, EventStream, RequestFailure, ServerLocator};

/// How long a server is waited for: enough to restart it by hand.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time after which a connection counts as made, and the next loss has all attempts again.
const STABLE: Duration = Duration::from_secs(1);

/// Number of events that are read ahead.
const READ_AHEAD: usize = 64;

/// The place to look for a restarted server, which may listen at another address.
pub(super) struct Home {
    pub(super) path: PathBuf,
    pub(super) token: Option<String>,
}

impl Home {
    pub(super) fn of(locator: &ServerLocator<'_>) -> Self {
        Self { path: locator.home.to_owned(), token: locator.token.map(str::to_owned) }
    }

    /// The process that serves a session now.
    fn locate(&self, session: &str) -> Option<Client> {
        let locator = ServerLocator {
            url: None,
            socket: None,
            token_file: None,
            ca: None,
            home: &self.path,
            token: self.token.as_deref(),
        };
        locator.connect_for(session).ok()
    }
}

/// A connection that is kept.
pub(super) struct Connection {
    messages: mpsc::Receiver<anyhow::Result<Message>>,
    is_connected: bool,
    reader: JoinHandle<()>,
}

enum Message {
    Event(Box<Event>, String),
    Lost(String),
    Reconnected(Arc<Client>),
}

impl Connection {
    /// Keeps a connection: the stream of a session's events after this position.
    pub(super) fn keep(
        client: Arc<Client>,
        home: Home,
        session: String,
        cursor: u64,
        stream: EventStream,
    ) -> Self {
        let (stream, connected) = (Some(stream), Some(Instant::now()));
        Self::start(Reader {
            client,
            home,
            session,
            cursor,
            stream,
            connected,
            attempts: Attempts::default(),
            retry: None,
        })
    }

    fn start(reader: Reader) -> Self {
        let (sender, messages) = mpsc::channel(READ_AHEAD);
        let is_connected = reader.stream.is_some();
        Self { messages, is_connected, reader: tokio::spawn(reader.run(sender)) }
    }

    /// Whether the last message left a connection.
    pub(super) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Waits for the next message; a new connection replaces the client. Cancel-safe.
    pub(super) async fn next(&mut self, client: &mut Arc<Client>) -> anyhow::Result<Arrived> {
        let ended = || Err(anyhow::anyhow!("the connection has ended"));
        match self.messages.recv().await.unwrap_or_else(ended)? {
            Message::Event(event, json) => Ok(Arrived::Event(event, json)),
            Message::Lost(why) => {
                self.is_connected = false;
                Ok(Arrived::Lost(why))
            }
            Message::Reconnected(connected) => {
                self.is_connected = true;
                *client = connected;
                Ok(Arrived::Reconnected)
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The task's end of a connection.
struct Reader {
    client: Arc<Client>,
    home: Home,
    session: String,
    /// Position of the last durable event received.
    cursor: u64,
    stream: Option<EventStream>,
    /// When the connection was made; none if its loss is known.
    connected: Option<Instant>,
    attempts: Attempts,
    /// When to connect again.
    retry: Option<Instant>,
}

impl Reader {
    /// Reads until the connection cannot be made again, or nobody receives the messages.
    async fn run(mut self, messages: mpsc::Sender<anyhow::Result<Message>>) {
        loop {
            let message = match self.next_message().await {
                Err(RequestFailure::Unreachable(why)) => self.failed(why).transpose(),
                other => Some(other.map_err(anyhow::Error::from)),
            };
            let Some(message) = message else { continue };
            let is_last = message.is_err();
            if messages.send(message).await.is_err() || is_last {
                return;
            }
        }
    }

    /// Plans the next attempt. Returns the message for a connection that was lost, and an error after the last attempt.
    fn failed(&mut self, why: String) -> anyhow::Result<Option<Message>> {
        self.stream = None;
        let connected = self.connected.take();
        if connected.is_some_and(|since| since.elapsed() >= STABLE) {
            self.attempts = Attempts::default();
        }
        anyhow::ensure!(
            self.attempts.duration() < PATIENCE,
            "lost the server: {why}; when it runs again, continue with `baton attach {}`; without a server, with `baton run --continue`",
            self.session
        );
        self.retry = Some(Instant::now() + self.attempts.fail());
        Ok(connected.map(|_| Message::Lost(why)))
    }

    async fn next_message(&mut self) -> Result<Message, RequestFailure> {
        loop {
            let Some(stream) = &mut self.stream else {
                self.connect().await?;
                return Ok(Message::Reconnected(Arc::clone(&self.client)));
            };
            let ended = || RequestFailure::Unreachable("the server ended the stream".into());
            let streamed = stream.next().await?.ok_or_else(ended)?;
            self.cursor = streamed.seq.unwrap_or(self.cursor);
            // An event that cannot be parsed comes from a newer server.
            if let Ok(event) = Event::parse(&streamed.json) {
                return Ok(Message::Event(Box::new(event), streamed.json));
            }
        }
    }

    async fn connect(&mut self) -> Result<(), RequestFailure> {
        if let Some(retry) = self.retry.take() {
            tokio::time::sleep_until(retry).await;
            if let Some(found) = self.home.locate(&self.session) {
                self.client = Arc::new(found);
            }
        }
        let stream = self.client.stream(&self.session, self.cursor).await?;
        self.client.resume(&self.session).await?;
        (self.stream, self.connected) = (Some(stream), Some(Instant::now()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::UnixListener;

    use super::*;
    use crate::client::Address;

    /// How long the command waits for the next message before it does something else.
    const TICK: Duration = Duration::from_secs(1);

    struct Kept {
        home: tempfile::TempDir,
        client: Arc<Client>,
        connection: Connection,
    }

    impl Kept {
        /// A connection whose server is away.
        fn to_nowhere() -> Self {
            let home = tempfile::tempdir().unwrap();
            let address = Address::Socket(home.path().join("server.sock"));
            let client = Arc::new(Client::new(address, None, None).unwrap());
            let found = Home { path: home.path().to_owned(), token: None };
            let connection = Connection::start(Reader {
                client: Arc::clone(&client),
                home: found,
                session: "s".into(),
                cursor: 0,
                stream: None,
                connected: Some(Instant::now()),
                attempts: Attempts::default(),
                retry: None,
            });
            Self { home, client, connection }
        }

        /// Waits for a message as the command does: it stops waiting every second, and waits again.
        async fn next(&mut self) -> anyhow::Result<Arrived> {
            for _ in 0..60 {
                if let Ok(next) = tokio::time::timeout(TICK, self.connection.next(&mut self.client)).await {
                    return next;
                }
            }
            panic!("no message within a minute");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lost_server_is_given_up_after_half_a_minute() {
        let mut kept = Kept::to_nowhere();
        let begun = Instant::now();
        assert!(matches!(kept.next().await.unwrap(), Arrived::Lost(_)));
        let given_up = kept.next().await.err().unwrap().to_string();
        assert!(given_up.contains("continue with `baton attach s`"), "{given_up}");
        let seconds = begun.elapsed().as_secs();
        assert!((28..35).contains(&seconds), "{seconds} s");
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_is_back_after_a_while_is_connected_again() {
        let mut kept = Kept::to_nowhere();
        assert!(matches!(kept.next().await.unwrap(), Arrived::Lost(_)));
        assert!(!kept.connection.is_connected());
        let away = tokio::time::timeout(Duration::from_secs(10), kept.next()).await;
        assert!(away.is_err(), "nothing is told while the server is away");
        tokio::spawn(answer_everything(UnixListener::bind(kept.home.path().join("server.sock")).unwrap()));
        assert!(matches!(kept.next().await.unwrap(), Arrived::Reconnected));
        assert!(kept.connection.is_connected());
    }

    /// A server that accepts every request.
    async fn answer_everything(listener: UnixListener) {
        loop {
            let (connection, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut connection = BufReader::new(connection);
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    if connection.read_line(&mut line).await.unwrap() == 0 {
                        return;
                    }
                }
                let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
                let _ = connection.write_all(answer.as_bytes()).await;
            });
        }
    }
}
