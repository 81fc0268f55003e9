//! Newtype ids, so that a request id can never be passed where a tool call id is meant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Who gave a grant, set a rule or revoked one, in words for people: the door it came through, and the client there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Author(pub String);

impl Author {
    /// A client of the SDKs' protocol.
    #[must_use]
    pub fn sdk(client: ClientId) -> Self {
        Self(format!("SDK client {client}"))
    }

    /// A client of the HTTP API. Whoever has the token is one person, as far as we know.
    #[must_use]
    pub fn http() -> Self {
        Self("HTTP API".into())
    }

    /// A client of crush's API.
    #[must_use]
    pub fn crush() -> Self {
        Self("crush".into())
    }

    /// Baton itself, when it imports a session.
    #[must_use]
    pub fn import() -> Self {
        Self("import".into())
    }

    /// Baton itself, when it forks a session.
    #[must_use]
    pub fn fork() -> Self {
        Self("fork".into())
    }

    /// The person in front of `baton run`.
    #[must_use]
    pub fn terminal() -> Self {
        Self("baton run".into())
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a session, chosen by the client that creates it.
///
/// A session id becomes a directory name and part of a URL, so it is checked once, here, and is safe for both from
/// then on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SessionId(String);

/// Why a string is not a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSessionId {
    /// Nothing at all.
    #[error("a session id must not be empty")]
    Empty,
    /// Longer than [`SessionId::MAX_LEN`].
    #[error("a session id has at most {max} characters, this one has {len}", max = SessionId::MAX_LEN)]
    TooLong {
        /// How long it is.
        len: usize,
    },
    /// A character that could leave the session's directory or confuse a URL.
    #[error(
        "the session id {id:?} contains {found:?}: use letters, digits and any of - _ . : @ + ~, not starting with a dot"
    )]
    Character {
        /// The whole id, as given.
        id: String,
        /// The first character that is not allowed.
        found: char,
    },
}

impl SessionId {
    /// The longest id accepted; file systems allow 255 bytes for a name.
    pub const MAX_LEN: usize = 128;

    /// A fresh id for a session whose creator did not name it.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    /// The id as text.
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
            /// The id as text.
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
    /// One event of a session's history.
    EventId
}
uuid_id! {
    /// One accepted prompt; what `session.send` answers as `messageId`.
    PromptId
}
text_id! {
    /// Something that waits for the outside: a permission, a client's tool, an answer of the user.
    RequestId
}
text_id! {
    /// One tool call, named by the model that makes it. Unique within a session's current turn, not for ever.
    ToolCallId
}
text_id! {
    /// A sub-agent inside a session. Events of the main conversation carry none.
    AgentId
}

/// One connection attached to sessions of this server. Never stored: a connection does not outlive the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    fn session_ids_are_safe_as_a_file_name() {
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
    fn a_refused_id_says_which_character() {
        let error = "a/b".parse::<SessionId>().unwrap_err().to_string();
        assert!(error.contains("'/'") && error.contains("\"a/b\""), "{error}");
    }
}
