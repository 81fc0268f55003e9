//! People who may use a server: their roles, tokens, logins and one-time links.
//!
//! The list is one document of the store ([`PeopleDirectory`]), so that it is as durable as the sessions, and shared by all
//! servers on it. Secrets are stored as digests only. [`People`] reads the list, parses it when it has changed, and changes
//! it. [`access`] is the one table that says which role a request needs. This crate knows no wire: doors ask it who the
//! caller is, and refuse what the role does not allow.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod access;
mod directory;
mod identity;
mod list;
mod name;
mod role;
mod secret;

pub use self::directory::{PeopleDirectory, Person};
pub use self::identity::{CredentialRef, Identity, Proof};
pub use self::list::{LINK_TIME, LOGIN_TIME, People, PeopleError};
pub use self::name::PersonName;
pub use self::role::Role;
pub use self::secret::{Digest, NewSecret};
