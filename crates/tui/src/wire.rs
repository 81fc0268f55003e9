//! What the interface reads from the HTTP API. Unknown fields are ignored, and missing ones have defaults: the server may be
//! older or newer.

use serde::Deserialize;
use serde_json::Value;

/// A session, as lists and its own resource show it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Session {
    /// Id.
    pub id: String,
    /// Name, or the beginning of the first prompt.
    pub title: Option<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Branch of the repository there.
    pub branch: Option<String>,
    /// Model or engine.
    pub model: Option<String>,
    /// Cost in US dollars.
    pub cost: Option<f64>,
    /// Whether a turn runs or a prompt is queued.
    pub busy: bool,
    /// Sequence number of the last event.
    pub head: u64,
    /// Number of clients that receive its events.
    pub watching: u64,
    /// When it changed last, as RFC 3339.
    pub updated_at: String,
}

/// State of a session: what `GET /api/sessions/ID/state` returns.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionState {
    /// The session.
    pub session: Session,
    /// Agent mode.
    pub mode: String,
    /// Permission mode.
    pub permissions: String,
    /// Effort of reasoning.
    pub reasoning_effort: Option<String>,
    /// Whether a turn runs.
    pub running: bool,
    /// Whether a stopped server left work that continues when the session is resumed.
    pub left: bool,
    /// Whether the queue is paused.
    pub paused: bool,
    /// Prompts and commands that have not started.
    pub queue: Vec<Queued>,
    /// Pending requests.
    pub requests: Vec<Request>,
    /// Number of clients that receive the session's events.
    pub watching: u64,
    /// Who receives the events.
    pub attached: Vec<Attached>,
    /// The running turn.
    pub turn: Option<TurnView>,
}

/// Somebody who receives the events of a session.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Attached {
    /// How: `http` or `sdk`.
    pub door: String,
    /// Who.
    pub user: Option<String>,
    /// With what.
    pub program: Option<String>,
}

/// The running turn.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TurnView {
    /// Its id.
    pub id: String,
}

/// A prompt or command that has not started.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Queued {
    /// Its id.
    #[serde(alias = "id")]
    pub prompt_id: String,
    /// Its text.
    pub text: String,
    /// Whether it joins the running turn.
    #[serde(alias = "steers")]
    pub immediate: bool,
    /// Whether it waits for a release, because the turn before it was cancelled.
    pub held: bool,
}

/// A pending request.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    /// The session, in lists of all sessions.
    pub session_id: Option<String>,
    /// Its id.
    pub request_id: String,
    /// `permission`, `question`, `plan` and so on.
    pub kind: String,
    /// The tool call that waits.
    pub tool_call_id: Option<String>,
    /// The tool.
    pub tool_name: Option<String>,
    /// What is asked.
    pub detail: Value,
    /// Grants that an answer can give, the default first.
    pub offers: Vec<Offer>,
}

/// A grant that an answer can give.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Offer {
    /// Its name on the wire.
    pub grant: Value,
    /// What it covers, for people.
    pub meaning: String,
}

/// A numbered event of a page.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Numbered {
    /// Its sequence number.
    pub seq: u64,
    /// The event.
    pub event: Value,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Page {
    /// The events, in their order.
    pub events: Vec<Numbered>,
    /// Whether there are earlier ones.
    pub has_more: bool,
}

/// A list of sessions.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Sessions {
    /// The sessions, last changed first.
    pub sessions: Vec<Session>,
}

/// A list of requests.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// The requests.
    pub requests: Vec<Request>,
}

/// A list of models.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Models {
    /// The models; engines are among them.
    pub models: Vec<Model>,
    /// Why the server has no models of its own.
    pub endpoint_error: Option<String>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Model {
    /// Its id.
    pub id: String,
    /// Its name, for people.
    pub name: Option<String>,
}

/// A list of skills.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Skills {
    /// The skills.
    pub skills: Vec<Skill>,
}

/// A skill.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
}
