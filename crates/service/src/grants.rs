//! Grants of locations, and of sessions as a whole.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_core::Change;
use baton_core::ask::Amend;
use baton_files::locations::{LocationGrant, NewGrant};
use baton_protocol::SessionId;
use baton_protocol::permission::Approval;
use baton_protocol::rules::{Rule, RuleKind, RuleListEdit, RulesEdit};
use baton_runtime::session::Failure;
use baton_store::StoreError;

use crate::{Action, Operation, Permitted, Service};

/// Revokes all grants and allow rules of a session. Deny rules stay.
#[derive(Debug, Clone)]
pub struct RevokeAllGrants {
    /// The session.
    pub session: SessionId,
}

impl Action for RevokeAllGrants {
    const OPERATION: Operation = Operation::RevokeAllGrants;
    type Reply = ();
    type Error = Failure;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<(), Failure> {
        let edit = Box::new(RulesEdit {
            approved: RuleListEdit { remove_all: true, ..RuleListEdit::default() },
            location: Some(None),
            ..RulesEdit::default()
        });
        let by = caller.author();
        for change in [Change::Rules { edit, by: by.clone() }, Change::Revoke { grant: None, by: by.clone() }]
        {
            amend(service, &self.session, Amend::by(by.clone(), change)).await?;
        }
        Ok(())
    }
}

/// Changes a session, also if another server has used it since its last prompt here. Removing rules needs a weaker role than
/// adding some, so this is not an ask of the caller's.
async fn amend(service: &Service, id: &SessionId, change: Amend) -> Result<(), Failure> {
    let runtime = service.runtime();
    runtime.store.summary(id).await?.ok_or_else(|| Failure::NotFound(id.clone()))?;
    let ask = || runtime.registry.open(runtime, id).ask(change.clone());
    match ask().await {
        Err(Failure::Store(StoreError::Fenced(_))) => ask().await.map(drop),
        reply => reply.map(drop),
    }
}

/// Lists the grants of all locations.
#[derive(Debug, Clone, Copy)]
pub struct ListLocations;

impl Action for ListLocations {
    const OPERATION: Operation = Operation::ListLocations;
    type Reply = BTreeMap<String, Vec<LocationGrant>>;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, String> {
        permitted.service.runtime().locations.all().await
    }
}

/// Revokes grants of a location: all of them, of a kind, or one.
#[derive(Debug, Clone)]
pub struct RevokeLocationGrants {
    /// The location.
    pub location: String,
    /// Kind of the grants; none means all.
    pub kind: Option<RuleKind>,
    /// Argument of the grant; none means all.
    pub argument: Option<String>,
}

/// Why no grant of a location was revoked.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    /// The location has no such grant.
    #[error("no such grant for location {}", .0.display())]
    NoSuchGrant(PathBuf),
    /// The file of grants failed.
    #[error("{0}")]
    Failed(String),
}

impl Action for RevokeLocationGrants {
    const OPERATION: Operation = Operation::RevokeLocationGrants;
    type Reply = ();
    type Error = RevokeError;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<(), RevokeError> {
        let Self { location, kind, argument } = self;
        let locations = &service.runtime().locations;
        let stored = locations.rules(&location).await.map_err(RevokeError::Failed)?;
        let is_selected = |rule: &Rule| {
            kind.is_none_or(|kind| kind == rule.kind) && (argument.is_none() || argument == rule.argument)
        };
        let remove: Vec<Rule> = stored.into_iter().filter(is_selected).collect();
        if remove.is_empty() {
            return Err(RevokeError::NoSuchGrant(location.into()));
        }
        let edit = RuleListEdit { remove, ..RuleListEdit::default() };
        locations.edit(location, edit, caller.author()).await.map_err(RevokeError::Failed).map(drop)
    }
}

/// Returns the rules of a location.
#[derive(Debug, Clone)]
pub struct ReadLocationRules {
    /// The location.
    pub location: String,
}

impl Action for ReadLocationRules {
    const OPERATION: Operation = Operation::ListLocations;
    type Reply = Vec<Rule>;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<Vec<Rule>, String> {
        permitted.service.runtime().locations.rules(&self.location).await
    }
}

/// Adds a grant to a location.
#[derive(Debug, Clone)]
pub struct GrantAtLocation {
    /// The location.
    pub location: String,
    /// What is granted.
    pub approval: Approval,
}

impl Action for GrantAtLocation {
    const OPERATION: Operation = Operation::GrantAtLocation;
    type Reply = ();
    type Error = String;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<(), String> {
        // The client names a server and a tool, and has not been shown either.
        let grant = NewGrant { approval: self.approval, by: caller.author(), binding: None };
        service.runtime().locations.grant(self.location, grant).await
    }
}

/// Edits the rules of a location. Replies with the new ones.
#[derive(Debug, Clone)]
pub struct EditLocationRules {
    /// The location.
    pub location: String,
    /// The edit.
    pub edit: RuleListEdit,
}

impl Action for EditLocationRules {
    const OPERATION: Operation = Operation::GrantAtLocation;
    type Reply = Vec<Rule>;
    type Error = String;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<Vec<Rule>, String> {
        service.runtime().locations.edit(self.location, self.edit, caller.author()).await
    }
}

/// Whether a directory is trusted.
#[derive(Debug, Clone)]
pub struct IsTrusted {
    /// The directory.
    pub folder: PathBuf,
}

impl Action for IsTrusted {
    const OPERATION: Operation = Operation::ListLocations;
    type Reply = bool;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<bool, String> {
        permitted.service.runtime().locations.is_trusted(self.folder).await
    }
}

/// Trusts a directory.
#[derive(Debug, Clone)]
pub struct Trust {
    /// The directory, with all links resolved.
    pub folder: PathBuf,
}

impl Action for Trust {
    const OPERATION: Operation = Operation::GrantAtLocation;
    type Reply = ();
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), String> {
        permitted.service.runtime().locations.trust(self.folder).await
    }
}
