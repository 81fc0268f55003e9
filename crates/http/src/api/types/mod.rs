//! Request and response bodies of the API. Their doc comments are the descriptions in `docs/openapi.json`.

mod events;
mod extend;
mod grants;
mod mcp;
mod prompts;
mod provider;
mod requests;
mod sessions;

use serde::Deserialize;

pub(super) use self::events::{EventPage, EventsQuery, NumberedEvent};
pub(super) use self::extend::{
    MarketplaceList, MarketplaceView, NewMarketplace, NewPlugin, OfferedPluginList, OfferedPluginView,
    PluginList, PluginView, RemoveMarketplaceQuery, SkillList, SkillView, SkillsQuery,
};
pub(super) use self::grants::{
    GrantView, LocationGrantView, LocationList, LocationView, RevokeQuery, SessionGrants,
};
pub(super) use self::mcp::{
    McpCatalogue, McpCatalogueQuery, McpEntryView, McpListQuery, McpLog, McpPageQuery, McpPromptArguments,
    McpResourceQuery, McpServerList, McpServerView, NewMcpServer,
};
pub(super) use self::prompts::{
    AcceptedPrompt, CancelBody, Cancelled, NewPrompt, PromptView, QueueFate, WaitQuery,
};
pub(crate) use self::requests::RequestView;
pub(super) use self::requests::{
    Counted, Decision, LoginLink, RequestAnswer, RequestList, RequestOverview, SessionRequest, SwitchResponse,
};
pub(super) use self::sessions::{
    ListQuery, ModeName, NewSession, PermissionModeName, SessionChange, SessionList, SessionView,
};

/// Number of items per page, from 1 to `MAX`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "usize")]
pub(super) struct Limit<const MAX: usize>(usize);

impl<const MAX: usize> Limit<MAX> {
    pub(super) fn get(self) -> usize {
        self.0
    }
}

impl<const MAX: usize> TryFrom<usize> for Limit<MAX> {
    type Error = String;

    fn try_from(limit: usize) -> Result<Self, String> {
        let is_valid = (1..=MAX).contains(&limit);
        is_valid.then_some(Self(limit)).ok_or_else(|| format!("the limit must be between 1 and {MAX}"))
    }
}

/// Sequence number after which a client continues reading.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Cursor(u64);

impl Cursor {
    pub(super) fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Cursor {
    type Error = String;

    fn try_from(seq: u64) -> Result<Self, String> {
        i64::try_from(seq).map(|_| Self(seq)).map_err(|_| format!("the cursor must be at most {}", i64::MAX))
    }
}
