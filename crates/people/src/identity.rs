//! The identity of a caller, and the proof that it rests on. [`super::list`] identifies callers.

use baton_protocol::Author;
use serde::{Deserialize, Serialize};

use crate::{Digest, PersonName, Role};

/// Identity of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The owner of the server: a holder of its token, or of its socket file.
    Owner,
    /// A browser in which the owner has logged in. The identity ends with the login.
    OwnerBrowser {
        /// Digest of the login's secret.
        login: Digest,
        /// Digest of the server's token.
        owner: Digest,
    },
    /// A person of the list.
    Person {
        /// Name.
        name: PersonName,
        /// What the person may do.
        role: Role,
        /// The credential that identified the person. The identity ends when it is revoked.
        proof: Proof,
    },
}

/// Digest of a secret with which a person has logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The person's token.
    Token(Digest),
    /// A login of a browser.
    Login(Digest),
}

/// The credential on which a right depends that outlives a request, such as a push subscription. The right ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CredentialRef {
    /// The token of the server, by its digest.
    Owner(Digest),
    /// The token of a person.
    Token(Digest),
    /// A login of a browser, the owner's or a person's.
    Login(Digest),
}

impl Identity {
    /// Returns the credential of this identity. `owner` is the digest of the server's token.
    #[must_use]
    pub fn standing(&self, owner: Digest) -> CredentialRef {
        match self {
            Self::Owner => CredentialRef::Owner(owner),
            Self::Person { proof: Proof::Token(token), .. } => CredentialRef::Token(*token),
            Self::OwnerBrowser { login, .. } | Self::Person { proof: Proof::Login(login), .. } => {
                CredentialRef::Login(*login)
            }
        }
    }

    /// Returns the role: the owner may do everything.
    #[must_use]
    pub fn role(&self) -> Role {
        match self {
            Self::Owner | Self::OwnerBrowser { .. } => Role::Admin,
            Self::Person { role, .. } => *role,
        }
    }

    /// Returns the person by name; `None` for the owner.
    #[must_use]
    pub fn person(&self) -> Option<Author> {
        match self {
            Self::Owner | Self::OwnerBrowser { .. } => None,
            Self::Person { name, .. } => Some(Author(name.to_string())),
        }
    }

    /// Returns the name for events and the audit; `owner` for a client of the owner, as the door calls it.
    #[must_use]
    pub fn author(&self, owner: Author) -> Author {
        self.person().unwrap_or(owner)
    }
}
