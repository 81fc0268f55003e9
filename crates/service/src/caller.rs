//! Who asks for an operation, and whether that is allowed: authorisation happens here and nowhere else.

use std::sync::Arc;

use baton_people::{Identity, Role};
use baton_protocol::Author;

use crate::Operation;

/// A client, as its door has identified it. Cheap to clone: each request does, more than once.
#[derive(Debug, Clone)]
pub struct Caller(Arc<Identified>);

#[derive(Debug)]
struct Identified {
    identity: Identity,
    /// The owner's client, as the history names it. Other people are named themselves.
    client: Author,
}

impl Caller {
    /// Creates a caller. Doors call this once they have authenticated a client.
    #[must_use]
    pub fn new(identity: Identity, client: Author) -> Self {
        Self(Arc::new(Identified { identity, client }))
    }

    /// Names the owner's client, for a door that is mounted on another one.
    #[must_use]
    pub fn as_client(&self, client: Author) -> Self {
        Self::new(self.0.identity.clone(), client)
    }

    /// Returns who it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Returns the person; `None` for the owner.
    #[must_use]
    pub fn person(&self) -> Option<Author> {
        self.0.identity.person()
    }

    /// Returns the author for events.
    #[must_use]
    pub fn author(&self) -> Author {
        self.0.identity.author(self.0.client.clone())
    }

    /// Checks that the caller may perform an operation. Doors ask this before they read large parameters; when the operation
    /// is performed, it is checked again.
    ///
    /// # Errors
    /// When the caller's role is too weak.
    pub fn permit(&self, operation: Operation) -> Result<(), Denied> {
        self.require(operation.role())
    }

    /// Checks that the caller may learn which operations a door lacks. This needs the strongest role, so that a door that is
    /// probed says nothing.
    ///
    /// # Errors
    /// When the caller's role is too weak.
    pub fn permit_unknown(&self) -> Result<(), Denied> {
        self.require(Role::Admin)
    }

    fn require(&self, needed: Role) -> Result<(), Denied> {
        let role = self.0.identity.role();
        if role >= needed { Ok(()) } else { Err(Denied { role, needed }) }
    }
}

/// Why a caller may not perform an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("your role is {role}; this needs {needed}")]
pub struct Denied {
    /// The caller's role.
    pub role: Role,
    /// The weakest role that may.
    pub needed: Role,
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_people::{Digest, Proof};

    #[test]
    fn roles_decide() {
        let caller = |role| {
            let (name, proof) = ("ada".parse().unwrap(), Proof::Token(Digest::of("t")));
            Caller::new(Identity::Person { name, role, proof }, Author::http())
        };
        for role in Role::ALL {
            for &operation in Operation::ALL {
                assert_eq!(
                    caller(role).permit(operation).is_ok(),
                    role >= operation.role(),
                    "{role} {operation:?}"
                );
            }
            assert_eq!(caller(role).permit_unknown().is_ok(), role == Role::Admin);
        }
        let owner = Caller::new(Identity::Owner, Author::http());
        assert!(Operation::ALL.iter().all(|operation| owner.permit(*operation).is_ok()));
        let denied = caller(Role::Viewer).permit(Operation::SendPrompt).unwrap_err();
        assert_eq!(denied.to_string(), "your role is viewer; this needs driver");
    }

    #[test]
    fn people_are_authors_and_the_owner_is_the_client() {
        let proof = Proof::Token(Digest::of("t"));
        let ada = Identity::Person { name: "ada".parse().unwrap(), role: Role::Driver, proof };
        assert_eq!(Caller::new(ada, Author::http()).author(), Author("ada".into()));
        assert_eq!(Caller::new(Identity::Owner, Author::http()).author(), Author::http());
    }
}
