//! Connections that sessions share (`shared` in a configuration): one process for all of them.
//!
//! Sessions share a connection if the program, its arguments, its environment and its directory are the same. What the server
//! asks goes to the session whose call is running. While calls of several sessions are running, nobody can tell whose question
//! it is, and it is refused.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex, Weak};

use baton_process::Ledger;
use baton_sandbox::Place;
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};
use tokio_util::sync::CancellationToken;

use crate::client::{McpClient, Notice, ServerQuestion};
use crate::config::{Reach, ServerConfig};
use crate::log::ServerLog;
use crate::outcome::ToolCallError;
use crate::wire::{ConnectError, Connection, Context, ServerCall};
use crate::{Working, lock};

impl ServerConfig {
    /// Whether sessions share the server. Remote servers have no process to share, and a foreign declaration must not join
    /// a process of the user, which may have been started with secrets.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        let is_own_program = matches!(self.reach, Reach::Local(_)) && !self.origin.is_foreign();
        is_own_program && self.raw.get("shared") == Some(&Value::Bool(true))
    }
}

/// The shared connections of all sessions.
pub struct Pool {
    /// Tags of the processes begin with this.
    tag: String,
    noted: OnceCell<()>,
    connections: Mutex<HashMap<String, Weak<SharedConnection>>>,
}

impl Default for Pool {
    fn default() -> Self {
        let tag = format!("{}/", uuid::Uuid::new_v4());
        Self { tag, noted: OnceCell::new(), connections: Mutex::default() }
    }
}

impl Pool {
    /// Returns the connection to a program, by everything that makes it the same for two sessions.
    pub(crate) fn connection(&self, key: String) -> Arc<SharedConnection> {
        let mut connections = lock(&self.connections);
        connections.retain(|_, connection| connection.strong_count() > 0);
        if let Some(connection) = connections.get(&key).and_then(Weak::upgrade) {
            return connection;
        }
        let connection = Arc::new(SharedConnection::default());
        connections.insert(key, Arc::downgrade(&connection));
        connection
    }

    /// Returns the prefix of the tags of processes. It is in the ledger before the first one starts.
    pub(crate) async fn tag(&self, ledger: &Ledger) -> &str {
        let note = async {
            let (ledger, tag) = (ledger.clone(), self.tag.clone());
            drop(tokio::task::spawn_blocking(move || ledger.note(&tag)).await);
        };
        self.noted.get_or_init(|| note).await;
        &self.tag
    }
}

/// One shared connection, and the sessions that use it.
#[derive(Default)]
pub(crate) struct SharedConnection {
    pub(crate) log: ServerLog,
    connection: AsyncMutex<Option<Arc<Connection>>>,
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    last: u64,
    all: BTreeMap<u64, Member>,
}

/// A session that uses a shared connection.
struct Member {
    name: String,
    client: Arc<dyn McpClient>,
    tools_changed: Arc<dyn Fn() + Send + Sync>,
    /// Its running calls.
    calls: usize,
}

impl SharedConnection {
    /// Joins the connection for a session, opening it if there is none.
    pub(crate) async fn join<F>(
        self: &Arc<Self>,
        context: Context,
        open: impl FnOnce(Context) -> F,
    ) -> Result<SessionConnection, ConnectError>
    where
        F: Future<Output = Result<Connection, ConnectError>>,
    {
        let mut slot = self.connection.lock().await;
        let Context { server: name, client, root, tasks, tools_changed, .. } = context;
        let server = name.clone();
        let member = self.add(Member { name, client, tools_changed, calls: 0 });
        // Opening may fail, or be cancelled with the session's attempt.
        let joining = Joining { connection: self, member: Some(member) };
        let share = Arc::new(Share { connection: self.clone(), member, left: CancellationToken::new() });
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_open()) {
            joining.done();
            return Ok(SessionConnection { connection: connection.clone(), share: Some(share) });
        }
        let connection = self.clone();
        let context = Context {
            server,
            client: self.clone(),
            log: self.log.clone(),
            tasks,
            root,
            tools_changed: Arc::new(move || connection.tools_changed()),
        };
        let connection = Arc::new(open(context).await?);
        *slot = Some(connection.clone());
        joining.done();
        Ok(SessionConnection { connection, share: Some(share) })
    }

    fn add(&self, member: Member) -> u64 {
        let mut members = lock(&self.members);
        members.last += 1;
        let id = members.last;
        members.all.insert(id, member);
        id
    }

    /// Removes a session; the last one closes the connection.
    async fn leave(&self, member: u64) {
        let is_last = {
            let mut members = lock(&self.members);
            members.all.remove(&member).is_some() && members.all.is_empty()
        };
        if is_last {
            let mut slot = self.connection.lock().await;
            // Another session may have joined while this one waited.
            if lock(&self.members).all.is_empty()
                && let Some(connection) = slot.take()
            {
                connection.close().await;
            }
        }
    }

    fn tools_changed(&self) {
        let told: Vec<_> =
            lock(&self.members).all.values().map(|member| member.tools_changed.clone()).collect();
        told.iter().for_each(|tell| tell());
    }

    /// Returns the one session whose call is running.
    fn caller(&self) -> Option<(String, Arc<dyn McpClient>)> {
        let members = lock(&self.members);
        let mut callers = members.all.values().filter(|member| member.calls > 0);
        let caller = callers.next()?;
        callers.next().is_none().then(|| (caller.name.clone(), caller.client.clone()))
    }

    fn count(&self, member: u64, change: impl Fn(usize) -> usize) {
        if let Some(member) = lock(&self.members).all.get_mut(&member) {
            member.calls = change(member.calls);
        }
    }
}

/// A session that joins a connection. It is removed again if it gets none.
struct Joining<'a> {
    connection: &'a SharedConnection,
    member: Option<u64>,
}

impl Joining<'_> {
    fn done(mut self) {
        self.member = None;
    }
}

impl Drop for Joining<'_> {
    fn drop(&mut self) {
        if let Some(member) = self.member {
            lock(&self.connection.members).all.remove(&member);
        }
    }
}

impl McpClient for SharedConnection {
    /// A repository has no shared server.
    fn place(&self) -> Working<'_, Result<Place, String>> {
        Box::pin(async { Err("a server of a repository is never shared".to_owned()) })
    }

    fn notice(&self, _: &str, notice: Notice) {
        let told: Vec<_> = {
            let members = lock(&self.members);
            members.all.values().map(|member| (member.name.clone(), member.client.clone())).collect()
        };
        for (name, client) in told {
            client.notice(&name, notice.clone());
        }
    }

    fn answer(&self, _: &str, question: ServerQuestion) -> Working<'_, Result<Value, String>> {
        let caller = self.caller();
        Box::pin(async move {
            let (name, client) = caller
                .ok_or("the server is shared, and it is unclear which session the request belongs to")?;
            client.answer(&name, question).await
        })
    }

    fn samples(&self) -> bool {
        true
    }

    fn elicits(&self) -> bool {
        let client = lock(&self.members).all.values().next().map(|member| member.client.clone());
        client.is_some_and(|client| client.elicits())
    }
}

/// A connection of a session: its own, or its part of a shared one.
#[derive(Clone)]
pub(crate) struct SessionConnection {
    connection: Arc<Connection>,
    share: Option<Arc<Share>>,
}

struct Share {
    connection: Arc<SharedConnection>,
    member: u64,
    /// Cancelled when the session has released the connection.
    left: CancellationToken,
}

impl Deref for SessionConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl SessionConnection {
    pub(crate) fn own(connection: Connection) -> Self {
        Self { connection: Arc::new(connection), share: None }
    }

    /// Whether both are the same part of the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let member = |lease: &Self| lease.share.as_ref().map(|share| share.member);
        Arc::ptr_eq(&self.connection, &other.connection) && member(self) == member(other)
    }

    /// Whether requests can be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.is_open() && self.share.as_ref().is_none_or(|share| !share.left.is_cancelled())
    }

    /// Calls a tool and returns its `CallToolResult`.
    pub(crate) async fn call(&self, call: ServerCall) -> Result<Value, ToolCallError> {
        let _running = self.share.as_ref().map(|share| Running::new(share));
        self.connection.call(call).await
    }

    /// Waits until the connection ends by itself, or is released. Returns why.
    pub(crate) async fn ended(&self) -> String {
        match &self.share {
            None => self.connection.ended().await,
            Some(share) => tokio::select! {
                reason = self.connection.ended() => reason,
                () = share.left.cancelled() => "closed".into(),
            },
        }
    }

    /// Closes the connection, or releases a shared one.
    pub(crate) async fn close(&self) {
        match &self.share {
            None => self.connection.close().await,
            Some(share) => {
                share.left.cancel();
                share.connection.leave(share.member).await;
            }
        }
    }
}

/// A running call of a session.
struct Running<'a>(&'a Share);

impl<'a> Running<'a> {
    fn new(share: &'a Share) -> Self {
        share.connection.count(share.member, |calls| calls + 1);
        Self(share)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.connection.count(self.0.member, |calls| calls.saturating_sub(1));
    }
}
