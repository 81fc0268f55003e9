//! MCP servers: those of a session, by name, and those outside of sessions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_addons::mcp::{CatalogueEntry, UserServerError};
use baton_ask::mcp::{
    DescribeMcpServers, DisableMcpServer, EnableMcpServer, McpServerOverview, ReadMcpLog, SendToMcpServer,
    StartMcpServer,
};
use baton_protocol::{Json, SessionId};
use baton_runtime::session::Failure;
use serde_json::{Map, Value};

use crate::{
    Action, AskError, Caller, ClientAsk, LiveSession, Operation, OperationError, Permitted, Service,
};

/// Error of an operation on an MCP server of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionMcpError {
    /// The session has no such server.
    #[error("no such MCP server: {0}")]
    Unknown(String),
    /// The server is disabled.
    #[error("{0} is disabled; enable it first")]
    Disabled(String),
    /// The server is not connected, or answered with an error.
    #[error("{0}")]
    Server(String),
    /// The session failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Result of an operation on an MCP server of a session.
pub type SessionMcpResult<T> = Result<T, OperationError<SessionMcpError>>;

/// An MCP server of a session, as one caller sees it.
pub struct SessionMcpServer {
    session: LiveSession,
    name: String,
}

impl Service {
    /// Finds an MCP server of a session.
    ///
    /// # Errors
    /// When the caller may not, or there is no such session or server.
    pub async fn mcp_server(
        &self,
        caller: &Caller,
        id: &SessionId,
        name: &str,
    ) -> SessionMcpResult<SessionMcpServer> {
        let session = self.open(caller, id).await.map_err(failed)?;
        let server = SessionMcpServer { session, name: name.to_owned() };
        server.show().await?;
        Ok(server)
    }
}

impl SessionMcpServer {
    /// Returns its status and tools.
    ///
    /// # Errors
    /// When the session has no such server any more.
    pub async fn show(&self) -> SessionMcpResult<McpServerOverview> {
        let all = self.ask(DescribeMcpServers {}).await?;
        let found = all.into_iter().find(|known| known.name == self.name);
        found.ok_or_else(|| OperationError::Failed(self.unknown()))
    }

    /// Uses it again, and connects to it.
    ///
    /// # Errors
    /// When the session fails. A failed connection is a status.
    pub async fn enable(&self) -> SessionMcpResult<McpServerOverview> {
        self.ask(EnableMcpServer { server: self.name.clone() }).await?;
        self.show().await
    }

    /// Stops using it.
    ///
    /// # Errors
    /// When the session fails.
    pub async fn disable(&self) -> SessionMcpResult<McpServerOverview> {
        self.ask(DisableMcpServer { server: self.name.clone() }).await?;
        self.show().await
    }

    /// Ends the connection, and connects again.
    ///
    /// # Errors
    /// When it is disabled, or the session fails.
    pub async fn restart(&self) -> SessionMcpResult<McpServerOverview> {
        if !self.show().await?.enabled {
            return Err(OperationError::Failed(SessionMcpError::Disabled(self.name.clone())));
        }
        self.ask(StartMcpServer { server: self.name.clone(), config: None, restart: true }).await?;
        self.show().await
    }

    /// Reads the newest lines of its log, oldest first.
    ///
    /// # Errors
    /// When the session fails.
    pub async fn log(&self) -> SessionMcpResult<Vec<String>> {
        let read = self.session.ask(ReadMcpLog { server: self.name.clone() }).await;
        read.map_err(|error| {
            error.map(|failure| match failure {
                Failure::Refused(_) => self.unknown(),
                other => other.into(),
            })
        })
    }

    /// Sends it a request, and returns its result as it is.
    ///
    /// # Errors
    /// When it is not connected, answers with an error, or the session fails.
    pub async fn send(&self, method: &str, params: Value) -> SessionMcpResult<Value> {
        let (server, method) = (self.name.clone(), method.to_owned());
        let sent = self.session.ask(SendToMcpServer { server, method, params: Json::from(params) }).await;
        sent.map_err(|error| {
            error.map(|failure| match failure {
                Failure::Refused(why) => SessionMcpError::Server(why),
                other => other.into(),
            })
        })
    }

    async fn ask<A: ClientAsk>(&self, ask: A) -> SessionMcpResult<A::Reply> {
        self.session.ask(ask).await.map_err(failed)
    }

    fn unknown(&self) -> SessionMcpError {
        SessionMcpError::Unknown(self.name.clone())
    }
}

fn failed(error: AskError) -> OperationError<SessionMcpError> {
    error.map(SessionMcpError::from)
}

/// Lists the servers outside of sessions: those of the user, the configuration file and a directory.
#[derive(Debug, Clone, Default)]
pub struct ListMcpServers {
    /// The directory.
    pub cwd: Option<PathBuf>,
}

impl Action for ListMcpServers {
    const OPERATION: Operation = Operation::ListMcpServers;
    type Reply = BTreeMap<String, CatalogueEntry>;
    type Error = std::convert::Infallible;

    async fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, Self::Error> {
        Ok(permitted.service.runtime().addons.catalogue.entries(self.cwd.as_deref()).await)
    }
}

/// Lists the servers of the user, as they are written.
#[derive(Debug, Clone, Copy)]
pub struct ListUserMcpServers;

impl Action for ListUserMcpServers {
    const OPERATION: Operation = Operation::ListMcpServers;
    type Reply = Map<String, Value>;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, String> {
        permitted.service.runtime().addons.catalogue.user().list().await
    }
}

/// Adds a server for all sessions of the user.
#[derive(Debug, Clone)]
pub struct AddMcpServer {
    /// Its name.
    pub name: String,
    /// Its configuration, as files have it.
    pub config: Value,
}

impl Action for AddMcpServer {
    const OPERATION: Operation = Operation::AddMcpServer;
    type Reply = ();
    type Error = UserServerError;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), UserServerError> {
        permitted.service.runtime().addons.catalogue.user().add(self.name, self.config).await
    }
}

/// Changes a server of the user.
#[derive(Debug, Clone)]
pub struct UpdateMcpServer {
    /// Its name.
    pub name: String,
    /// Its configuration, as files have it.
    pub config: Value,
}

impl Action for UpdateMcpServer {
    const OPERATION: Operation = Operation::AddMcpServer;
    type Reply = ();
    type Error = UserServerError;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), UserServerError> {
        permitted.service.runtime().addons.catalogue.user().update(self.name, self.config).await
    }
}

/// Removes a server of the user.
#[derive(Debug, Clone)]
pub struct RemoveMcpServer {
    /// Its name.
    pub name: String,
}

impl Action for RemoveMcpServer {
    const OPERATION: Operation = Operation::RemoveMcpServer;
    type Reply = ();
    type Error = UserServerError;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), UserServerError> {
        permitted.service.runtime().addons.catalogue.user().remove(self.name).await
    }
}

/// Uses servers in new sessions again.
#[derive(Debug, Clone)]
pub struct EnableMcpServers {
    /// Their names.
    pub names: Vec<String>,
}

impl Action for EnableMcpServers {
    const OPERATION: Operation = Operation::EnableMcpServer;
    type Reply = ();
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), String> {
        permitted.service.runtime().addons.catalogue.enable(self.names, true).await
    }
}

/// Uses servers in no new session.
#[derive(Debug, Clone)]
pub struct DisableMcpServers {
    /// Their names.
    pub names: Vec<String>,
}

impl Action for DisableMcpServers {
    const OPERATION: Operation = Operation::DisableMcpServer;
    type Reply = ();
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), String> {
        permitted.service.runtime().addons.catalogue.enable(self.names, false).await
    }
}
