//! Id newtypes, so that a request id cannot be passed in place of a tool call id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Timestamp;

/// The author of a prompt, a decision, a grant or a rule, as text for people: the API used, and the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Author(pub String);

impl Author {
    /// Returns the author for a client of the SDK protocol.
    #[must_use]
    pub fn sdk(client: ClientId) -> Self {
        Self(format!("SDK client {client}"))
    }

    /// Whether this is the author for a client of the SDK protocol.
    #[must_use]
    pub fn is_sdk(&self) -> bool {
        self.0.strip_prefix("SDK client ").is_some_and(|number| number.parse::<u64>().is_ok())
    }

    /// Returns the author for clients of the HTTP API. All holders of the token count as one author.
    #[must_use]
    pub fn http() -> Self {
        Self("HTTP API".into())
    }

    /// Returns the author for clients of crush's API.
    #[must_use]
    pub fn crush() -> Self {
        Self("crush".into())
    }

    /// Returns the author for Baton itself, when it imports a session.
    #[must_use]
    pub fn import() -> Self {
        Self("import".into())
    }

    /// Returns the author for Baton itself, when it forks a session.
    #[must_use]
    pub fn fork() -> Self {
        Self("fork".into())
    }

    /// Returns the author for the user of `baton grants`.
    #[must_use]
    pub fn operator() -> Self {
        Self("baton grants".into())
    }

    /// Returns the author for a client of this author that approves without asking.
    #[must_use]
    pub fn approving_everything(&self) -> Self {
        Self(format!("{self}, approves everything"))
    }

    /// Returns the author for a client of nobody in particular that approves without asking.
    #[must_use]
    pub fn unattended() -> Self {
        Self("client that approves everything".into())
    }

    /// Returns the author for the user of a terminal: of `baton run` and `baton attach`. The name of the user is left out if
    /// it could be mistaken for something else.
    #[must_use]
    pub fn terminal(user: &str) -> Self {
        let is_plain = user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_@+".contains(&byte));
        match user.is_empty() || user.len() > 64 || !is_plain {
            true => Self("terminal".into()),
            false => Self(format!("terminal ({user})")),
        }
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a session, chosen by the client that creates it.
///
/// A session id becomes a directory name and part of a URL. It is validated once, here, and is safe for both
/// from then on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SessionId(String);

/// Error for an invalid session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSessionId {
    /// The id is empty.
    #[error("a session id must not be empty")]
    Empty,
    /// The id is longer than [`SessionId::MAX_LEN`].
    #[error("a session id has at most {max} characters, this one has {len}", max = SessionId::MAX_LEN)]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// The id contains a character that could escape the session's directory or break a URL.
    #[error(
        "the session id {id:?} contains {found:?}: use letters, digits and any of - _ . : @ + ~, not starting with a dot"
    )]
    Character {
        /// The whole id, as given.
        id: String,
        /// The first invalid character.
        found: char,
    },
}

impl SessionId {
    /// Maximum length; file systems allow 255 bytes for a name.
    pub const MAX_LEN: usize = 128;

    /// Generates an id for a session created without one.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = InvalidSessionId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(InvalidSessionId::Empty);
        }
        if text.len() > Self::MAX_LEN {
            return Err(InvalidSessionId::TooLong { len: text.len() });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:@+~".contains(c);
        let bad = text.chars().find(|c| !allowed(*c)).or_else(|| text.starts_with('.').then_some('.'));
        match bad {
            Some(found) => Err(InvalidSessionId::Character { id: text.chars().take(200).collect(), found }),
            None => Ok(Self(text.to_owned())),
        }
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

uuid_id! {
    /// An event of a session's history.
    EventId
}
uuid_id! {
    /// An accepted prompt; returned by `session.send` as `messageId`.
    PromptId
}
text_id! {
    /// A request that waits for a client: a permission, a client tool, an answer of the user.
    RequestId
}
impl RequestId {
    /// Returns when the request was opened: Baton's ids contain it.
    #[must_use]
    pub fn opened(&self) -> Option<Timestamp> {
        let (seconds, nanos) = Uuid::parse_str(&self.0).ok()?.get_timestamp()?.to_unix();
        let millis = i64::try_from(seconds).ok()?.checked_mul(1000)?;
        Some(Timestamp(millis + i64::from(nanos / 1_000_000)))
    }
}

text_id! {
    /// A tool call, named by the model that makes it. Unique only within a session's current turn.
    ToolCallId
}
text_id! {
    /// A sub-agent of a session. Events of the main conversation carry none.
    AgentId
}

/// A connection attached to sessions of this server. Never stored: connections do not outlive the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(pub u64);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client-{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_contain_the_time_of_the_request() {
        let id = RequestId::from("0190c2f0-0000-7000-8000-000000000001");
        assert_eq!(id.opened(), Some(Timestamp(0x0190_c2f0_0000)));
        assert_eq!(RequestId::from("toolu_1").opened(), None);
        assert_eq!(RequestId::from("550e8400-e29b-41d4-a716-446655440000").opened(), None, "version 4");
    }

    #[test]
    fn session_ids_are_valid_file_names() {
        for good in ["a", "550e8400-e29b-41d4-a716-446655440000", "team@repo:main+1", "x.y~z"] {
            assert_eq!(good.parse::<SessionId>().unwrap().as_str(), good);
        }
        for bad in
            ["", ".", "..", ".hidden", "a/b", "a\\b", "../etc", "a b", "a\0", "ü", "a\n", &"x".repeat(129)]
        {
            assert!(bad.parse::<SessionId>().is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn error_names_the_invalid_character() {
        let error = "a/b".parse::<SessionId>().unwrap_err().to_string();
        assert!(error.contains("'/'") && error.contains("\"a/b\""), "{error}");
    }
}
