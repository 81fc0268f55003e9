//! People who may use a server: their roles, tokens, logins and one-time links.
//!
//! The list is one document of the store ([`PeopleDirectory`]), so that it is as durable as the sessions, and shared by all
//! servers on it. Secrets are stored as digests only. [`People`] reads the list, parses it when it has changed, and changes
//! it. This crate knows no wire and no operation: doors ask it who the caller is, and `baton-service` decides what that role
//! may do.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

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
