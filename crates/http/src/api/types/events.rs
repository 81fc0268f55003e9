//! Events.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Cursor, Limit};

/// Which events to read.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Cursor: read events after this sequence number; 0 for all. In a stream, `Last-Event-ID` takes precedence.
    #[param(value_type = Option<i64>, minimum = 0)]
    pub(crate) after: Option<Cursor>,
    /// Read the last events before this sequence number, instead of those after a cursor.
    #[param(value_type = Option<i64>, minimum = 0)]
    pub(crate) before: Option<Cursor>,
    /// Add the messages of models as HTML (`html`), without scripts and with harmless links only.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    pub(crate) rendered: bool,
    /// Maximum number of events per page.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<Limit<1000>>,
}

/// Page of events.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventPage {
    pub(crate) events: Vec<NumberedEvent>,
    /// Value of `after` for the next page: the last event of this one.
    pub(crate) next: u64,
    /// Whether there may be more events: later ones, or earlier ones if the page was read with `before`.
    pub(crate) has_more: bool,
}

/// An event with its sequence number.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberedEvent {
    pub(crate) seq: u64,
    #[schema(value_type = Object)]
    pub(crate) event: Box<serde_json::value::RawValue>,
    /// Message of the model as HTML, if that was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) html: Option<String>,
}
