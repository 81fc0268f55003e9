//! OAuth 2.1 for remote servers: discovery, registration, logins with PKCE, and tokens that are refreshed.
//!
//! * [`discover`] finds the authorization server of an MCP server (RFC 9728, RFC 8414, OpenID Connect).
//! * [`ClientIdentity`] is a client of that server: configured, or registered for us (RFC 7591).
//! * [`Login`] is a login in a browser (RFC 7636, RFC 8707, RFC 9207), and [`Tokens`] what it ends with.
//!
//! Every address in here was named by a stranger. Only `https` is followed, and `http` on this machine if the MCP server
//! itself is there; redirects are not followed; responses are small; whatever does not match is an error. Nothing here
//! stores a token, or decides that somebody logs in.

mod config;
mod discovery;
mod fetch;
mod identity;
mod login;
mod token;

pub use self::config::{GrantType, OAuthConfig};
pub use self::discovery::{LoginTarget, discover};
pub use self::fetch::is_on_this_machine;
pub use self::identity::{Authentication, ClientIdentity, register};
pub use self::login::{Login, Returned, parse_returned};
pub use self::token::{TokenOrigin, Tokens, client_credentials, exchange, refresh};

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// An address that is not followed.
    #[error("{what} is not an address that can be used: {why}")]
    Address {
        /// What it is the address of.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The server could not be reached, or its response cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The authorization server registers no clients.
    #[error(
        "Client registration failed: Authorization server does not support dynamic client registration; set oauthClientId"
    )]
    NoRegistration,
    /// The authorization server refused, with its error code.
    #[error("the authorization server refused: {code}{}", describe(.description))]
    Refused {
        /// `invalid_grant`, `access_denied` and so on.
        code: String,
        /// Its explanation.
        description: String,
    },
    /// What came back from the browser does not belong to the login.
    #[error("the response does not belong to this login: {0}")]
    Mismatch(&'static str),
}

fn describe(description: &str) -> String {
    if description.is_empty() { String::new() } else { format!(" ({description})") }
}
