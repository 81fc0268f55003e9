//! Connecting a server: the attempt, its authorization, its end, and the pause before the next one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Server, ServerStatus, Slot};
use crate::client::{AuthReason, Notice};
use crate::config::ServerConfig;
use crate::lock;
use crate::outcome::ToolCallError;
use crate::shared::SessionConnection;
use crate::tool::RemoteTool;
use crate::wire::{Challenge, ConnectError, Connection};

/// Maximum number of tools of a server.
const MAX_TOOLS: usize = 1000;
/// Maximum pause before a server is connected again.
const MAX_PAUSE: Duration = Duration::from_secs(60);

impl Server {
    /// Returns the connection, connecting if there is none. Connecting continues if the caller is dropped.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<SessionConnection, ToolCallError> {
        let server = self.clone();
        let connecting = self.options.tasks.spawn(async move { server.connect().await });
        connecting.await.unwrap_or_else(|_| Err(ToolCallError::Unavailable("internal error".into())))
    }

    pub(super) async fn connect(self: &Arc<Self>) -> Result<SessionConnection, ToolCallError> {
        let mut slot = self.slot.lock().await;
        if let Some(connection) = slot.connection.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        let status = self.status();
        if matches!(status, ServerStatus::Disabled | ServerStatus::Stopped) {
            return Err(ToolCallError::Unavailable(status.as_str().to_owned()));
        }
        if slot.not_before.is_some_and(|time| Instant::now() < time) {
            return Err(ToolCallError::Unavailable(status.error().unwrap_or("failed").to_owned()));
        }
        let attempt = CancellationToken::new();
        *lock(&self.attempt) = attempt.clone();
        self.settled.send_replace(false);
        let result = tokio::select! {
            result = self.open() => result,
            () = attempt.cancelled() => Err(None),
        };
        let result = match result {
            Ok(connection) => {
                slot.connection = Some(connection.clone());
                slot.not_before = None;
                self.set_status(ServerStatus::Connected);
                self.watch(connection.clone());
                Ok(connection)
            }
            Err(status) => {
                // Without a status, somebody else has set it.
                if let Some(status) = status {
                    self.note_failure(&mut slot, &status);
                    self.set_status(status);
                }
                let status = self.status();
                Err(ToolCallError::Unavailable(status.error().unwrap_or(status.as_str()).to_owned()))
            }
        };
        self.settled.send_replace(true);
        result
    }

    /// Opens a connection and lists its tools. Asks for a token if the server requires one.
    async fn open(self: &Arc<Self>) -> Result<SessionConnection, Option<ServerStatus>> {
        let config = self.config.as_ref().map_err(|problem| Some(ServerStatus::Failed(problem.clone())))?;
        // Every attempt is reported, the first one too.
        self.status.send_replace(ServerStatus::Pending);
        self.options.client.notice(&self.name, Notice::Status(ServerStatus::Pending));
        let protected = self.protected();
        if let Some(protected) = &protected
            && !self.access.has_token()
            && let Some(token) = self.options.client.token(protected).await
        {
            self.use_token(token);
        }
        let (mut is_renewed, mut is_asked) = (false, false);
        loop {
            match self.open_or_join(config).await {
                Ok(connection) => match self.list_tools(&connection).await {
                    Ok(tools) => {
                        *lock(&self.tools) = Arc::new(tools);
                        return Ok(connection);
                    }
                    Err(error) => {
                        connection.close().await;
                        return Err(Some(ServerStatus::Failed(format!("tools/list failed: {error}"))));
                    }
                },
                Err(ConnectError::Failed(problem) | ConnectError::NoHandshake(problem)) => {
                    self.log.add(&problem);
                    return Err(Some(ServerStatus::Failed(problem)));
                }
                Err(ConnectError::Unauthorized(_)) if is_asked => return Err(Some(ServerStatus::NeedsAuth)),
                Err(ConnectError::Unauthorized(challenge)) => {
                    // A token that is not accepted must not hide one that a later login brings.
                    let reason =
                        if self.access.forget_token() { AuthReason::Refresh } else { AuthReason::Initial };
                    let Some(protected) = &protected else { return Err(Some(ServerStatus::NeedsAuth)) };
                    // Once: a token that was renewed and is rejected again needs a person.
                    if !is_renewed {
                        is_renewed = true;
                        if let Some(token) = self.options.client.renew(protected, &challenge, reason).await {
                            self.use_token(token);
                            continue;
                        }
                    }
                    is_asked = true;
                    // From here on a person is waited for, and nobody else waits.
                    self.set_status(ServerStatus::NeedsAuth);
                    self.settled.send_replace(true);
                    self.set_status(ServerStatus::Pending);
                    match self.options.client.authorize(protected, *challenge, reason).await {
                        Some(token) => self.use_token(token),
                        None => return Err(Some(ServerStatus::NeedsAuth)),
                    }
                }
            }
        }
    }

    /// Opens a connection, or joins a shared one.
    async fn open_or_join(&self, config: &ServerConfig) -> Result<SessionConnection, ConnectError> {
        match &self.shared {
            None => {
                let target = self.placed_target(config).await.map_err(ConnectError::Failed)?;
                Connection::open(target, self.context()).await.map(SessionConnection::own)
            }
            Some(shared) => {
                let tag = self.options.pool.tag(&self.options.ledger).await;
                let target = self.shared_target(config, tag).map_err(ConnectError::Failed)?;
                shared.join(self.context(), |context| Connection::open(target, context)).await
            }
        }
    }

    /// Gets a new token during a call, and connects again with it.
    pub(super) async fn authorized(
        self: &Arc<Self>,
        challenge: Option<Challenge>,
    ) -> Result<SessionConnection, ToolCallError> {
        let Some(challenge) = challenge else { return Err(ToolCallError::Unauthorized) };
        let client = &self.options.client;
        let reason = if challenge.status == 403 { AuthReason::Upscope } else { AuthReason::Refresh };
        let Some(protected) = self.protected() else { return Err(ToolCallError::Unauthorized) };
        let mut token = client.renew(&protected, &challenge, reason).await;
        if token.is_none() {
            token = client.authorize(&protected, challenge.clone(), reason).await;
        }
        if token.is_none() && reason == AuthReason::Refresh {
            token = client.authorize(&protected, challenge, AuthReason::Reauth).await;
        }
        let Some(token) = token else {
            // The token still opens the rest of the server.
            if reason == AuthReason::Upscope {
                return Err(ToolCallError::Unauthorized);
            }
            self.access.forget_token();
            self.stop(ServerStatus::NeedsAuth).await;
            return Err(ToolCallError::Unauthorized);
        };
        self.use_token(token);
        client.notice(&self.name, Notice::Removed);
        self.stop(ServerStatus::NotConfigured).await;
        self.connection().await
    }

    /// Authenticates with a token from now on. It must not be shown, wherever it comes from.
    fn use_token(&self, token: String) {
        self.options.client.keep_secret(vec![token.clone()]);
        self.access.set_token(token);
    }

    fn note_failure(&self, slot: &mut Slot, status: &ServerStatus) {
        if matches!(status, ServerStatus::Failed(_)) {
            slot.not_before = (slot.failures > 0).then(|| {
                let pause = Duration::from_secs(1 << slot.failures.min(6).saturating_sub(1));
                Instant::now() + pause.min(MAX_PAUSE)
            });
            slot.failures += 1;
        }
    }

    /// Notices the end of a connection.
    fn watch(self: &Arc<Self>, connection: SessionConnection) {
        let server = Arc::downgrade(self);
        self.options.tasks.spawn(async move {
            let reason = connection.ended().await;
            if let Some(server) = server.upgrade() {
                let mut slot = server.slot.lock().await;
                if slot.connection.as_ref().is_some_and(|current| current.is(&connection)) {
                    slot.connection = None;
                    *lock(&server.tools) = Arc::default();
                    server.log.add(&reason);
                    let status = ServerStatus::Failed(reason);
                    server.note_failure(&mut slot, &status);
                    server.set_status(status);
                }
            }
            connection.close().await;
        });
    }

    pub(super) async fn list_tools(
        &self,
        connection: &Connection,
    ) -> Result<Vec<Arc<RemoteTool>>, ToolCallError> {
        let entries = match connection.list("tools/list", "tools", MAX_TOOLS).await {
            Ok(entries) => entries,
            // A server without tools.
            Err(ToolCallError::Refused { code: -32601, .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut tools: Vec<Arc<RemoteTool>> = Vec::with_capacity(entries.len());
        for entry in &entries {
            match RemoteTool::parse(entry) {
                Ok(tool) if tools.iter().any(|known| known.name == tool.name) => {
                    self.log.add(&format!("lists the tool {} twice; the first one is used", tool.name));
                }
                Ok(tool) => tools.push(Arc::new(tool)),
                Err(problem) => self.log.add(&format!("lists a tool that cannot be offered: {problem}")),
            }
        }
        Ok(tools)
    }
}
