//! Grants and offers.

use baton_protocol::Timestamp;
use baton_protocol::permission::Approval;
use baton_protocol::rules::{RuleKind, Rules};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Grants and rules of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionGrants {
    pub(crate) grants: Vec<GrantView>,
    /// Standing rules that clients set: `approved`, `denied`, directories, URLs.
    #[schema(value_type = Object)]
    pub(crate) rules: Rules,
}

/// A grant of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrantView {
    /// Id, used to revoke the grant.
    pub(crate) id: Option<String>,
    /// What the grant covers.
    #[schema(value_type = GrantName)]
    pub(crate) grant: Approval,
    /// Client that gave the grant.
    pub(crate) by: Option<String>,
    /// Time of the grant.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) at: Option<Timestamp>,
}

/// Grants of all locations.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LocationList {
    pub(crate) locations: Vec<LocationView>,
}

/// Grants of a location.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LocationView {
    /// Root of a repository, or a directory.
    pub(crate) location: String,
    pub(crate) grants: Vec<LocationGrantView>,
}

/// A grant that every session at its location can apply.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LocationGrantView {
    #[schema(value_type = RuleKindName)]
    pub(crate) kind: RuleKind,
    /// Subject of the grant; without one, it covers everything of its kind.
    pub(crate) argument: Option<String>,
    /// Client that gave the grant.
    pub(crate) by: Option<String>,
    /// Time of the grant.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) at: Option<Timestamp>,
}

/// Which grants of a location to revoke.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RevokeQuery {
    /// Location, as listed.
    pub(crate) location: String,
    /// Only grants of this kind.
    #[param(value_type = Option<RuleKindName>)]
    pub(crate) kind: Option<RuleKind>,
    /// Only the grant with this argument; requires `kind`.
    pub(crate) argument: Option<String>,
}

/// A grant that an answer can give, with its meaning.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OfferView {
    /// Value for `grant` in the answer.
    #[schema(value_type = GrantName)]
    pub(crate) grant: Approval,
    /// What the grant covers, in plain text for the user.
    pub(crate) meaning: String,
}

/// Coverage of a grant.
// The forms of `Approval`.
#[derive(ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schema(as = Grant)]
#[allow(dead_code, reason = "only described in the OpenAPI document")]
pub(crate) enum GrantName {
    /// Commands by identifier, `program:*` for every use of a program, or one exact line.
    Commands {
        #[schema(rename = "commandIdentifiers")]
        command_identifiers: Vec<String>,
    },
    /// Changes of files in the working directory.
    Write {},
    /// Reading files.
    Read {},
    /// An MCP server, or one of its tools.
    Mcp {
        #[schema(rename = "serverName")]
        server_name: String,
        #[schema(rename = "toolName")]
        tool_name: Option<String>,
    },
    /// An origin: scheme, host and port.
    Url { domain: String },
    /// Storing facts in memory.
    Memory {},
    /// A client tool.
    CustomTool {
        #[schema(rename = "toolName")]
        tool_name: String,
    },
}

/// Kind of a rule.
// The names of `RuleKind`.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case", as = RuleKind)]
#[allow(dead_code, reason = "only described in the OpenAPI document")]
pub(crate) enum RuleKindName {
    Shell,
    Read,
    Write,
    Memory,
    Url,
    CustomTool,
    Mcp,
}
