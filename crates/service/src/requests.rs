//! Pending requests: those of all sessions, and logins at MCP servers.

use baton_addons::mcp::logins::LoggedIn;
use baton_ask::View;
use baton_ask::mcp::{FinishMcpLogin, LogInAtMcpServer, McpLogin};
use baton_history::metadata;
use baton_protocol::{RequestId, SessionId};
use baton_runtime::session::Failure;
use baton_store::{StoreError, Summary};

use crate::remote_logins::RemoteLogin;
use crate::{Action, AskError, LiveSession, Operation, OperationError, Permitted, Service};

/// Lists the sessions that may have pending requests, including those of a stopped server.
#[derive(Debug, Clone, Copy)]
pub struct ListRequests;

impl Action for ListRequests {
    const OPERATION: Operation = Operation::ListRequests;
    type Reply = Vec<View>;
    type Error = StoreError;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<Vec<View>, StoreError> {
        let runtime = service.runtime();
        let all = runtime.store.list().await?;
        // Requests of MCP servers are only in memory, also in an idle session.
        let may_wait = |summary: &Summary| {
            metadata::may_have_requests(summary) || runtime.registry.get(&summary.session).is_some()
        };
        let mut views = Vec::new();
        for summary in all.into_iter().filter(may_wait) {
            // Fails if a different server holds the session; that server lists its requests.
            views.extend(service.open_existing(caller, &summary.session).inspect().await.ok());
        }
        Ok(views)
    }
}

/// Makes a fresh link for a pending login.
#[derive(Debug, Clone)]
pub struct LinkRequest {
    /// The session.
    pub session: SessionId,
    /// The request.
    pub request: RequestId,
    /// The address that the browser returns to; none if the client cannot name one.
    pub redirect: Option<String>,
}

/// Finishes a login with the address that the browser returned to.
#[derive(Debug, Clone)]
pub struct PasteLogin {
    /// The session.
    pub session: SessionId,
    /// The request.
    pub request: RequestId,
    /// The address.
    pub pasted: String,
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// No such login is pending.
    #[error("no such pending login: {0}")]
    NotPending(RequestId),
    /// The session failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<AskError> for LoginError {
    fn from(error: AskError) -> Self {
        match error {
            OperationError::Failed(failure) => Self::Failed(failure),
            // Whoever may log in may read the state.
            OperationError::Denied(denied) => Self::Failed(Failure::Refused(denied.to_string())),
        }
    }
}

impl Action for LinkRequest {
    const OPERATION: Operation = Operation::LinkRequest;
    type Reply = McpLogin;
    type Error = LoginError;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<McpLogin, LoginError> {
        let session = service.open(caller, &self.session).await?;
        let server = server_of(&session, self.request).await?;
        let log_in = LogInAtMcpServer { server: server.clone(), redirect: self.redirect, again: true };
        let login = session.ask(log_in).await?;
        if session.hub().is_elsewhere()
            && let Some(address) = &login.authorization_url
        {
            service.shared.remote_logins.remember(address, session.id(), &server);
        }
        Ok(login)
    }
}

impl Action for PasteLogin {
    const OPERATION: Operation = Operation::AnswerRequest;
    type Reply = ();
    type Error = LoginError;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<(), LoginError> {
        let session = service.open(caller, &self.session).await?;
        let server = server_of(&session, self.request).await?;
        session.ask(FinishMcpLogin { server, pasted: self.pasted }).await?;
        Ok(())
    }
}

/// Returns the server of a pending login.
async fn server_of(session: &LiveSession, request: RequestId) -> Result<String, LoginError> {
    let state = session.inspect().await?.session;
    let mut logins = state.durable.logins.iter();
    let login = logins.find(|login| login.request_id == request);
    login.map(|login| login.server_name.clone()).ok_or(LoginError::NotPending(request))
}

impl Service {
    /// Finishes the login of a browser that returned to the path `callback` with a query. The state in the query is the
    /// authority: 256 random bits, for one login, once. So this is no operation of a role.
    ///
    /// # Errors
    /// With a message for people, when there is no token.
    pub async fn finish_login(&self, callback: &str, query: &str) -> Result<LoggedIn, String> {
        match self.shared.remote_logins.take(query) {
            Some(login) => self.finish_elsewhere(login, callback, query).await,
            None => self.runtime().finish_login(query).await,
        }
    }

    /// Finishes a login for a session that another server holds.
    async fn finish_elsewhere(
        &self,
        login: RemoteLogin,
        callback: &str,
        query: &str,
    ) -> Result<LoggedIn, String> {
        let RemoteLogin { session, server, .. } = login;
        let handle = self.runtime().registry.open(self.runtime(), &session);
        let pasted = format!("http://localhost{callback}?{query}");
        let finish = FinishMcpLogin { server: server.clone(), pasted };
        handle.ask(finish).await.map_err(|failure| failure.to_string())?;
        Ok(LoggedIn { session: Some(session), server })
    }
}
