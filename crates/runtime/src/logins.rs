//! Logins at MCP servers that a browser has returned from.

use std::sync::Arc;

use baton_addons::mcp::logins::LoggedIn;
use baton_ask::mcp::ConnectAfterMcpLogin;
use baton_protocol::SessionId;

use crate::Runtime;

impl Runtime {
    /// Finishes the login that a browser returned from with the query of its address, and connects the server.
    ///
    /// # Errors
    /// With a message for people, when there is no token.
    pub async fn finish_login(self: &Arc<Self>, query: &str) -> Result<LoggedIn, String> {
        let done = self.addons.logins.finish_returned(query).await?;
        if let Ok(LoggedIn { session: Some(session), server }) = &done {
            self.connect_after(session, server).await;
        }
        // Nobody waits, unless a command does.
        self.addons.logins.announce(done.clone());
        done
    }

    /// Lets the session use its server.
    async fn connect_after(self: &Arc<Self>, session: &SessionId, server: &str) {
        let handle = self.registry.open(self, session);
        if let Err(error) = handle.ask(ConnectAfterMcpLogin { server: server.to_owned() }).await {
            // The token is stored: the next use of the server has it.
            tracing::warn!(%session, %error, "failed to connect to an MCP server after a login");
        }
    }
}
