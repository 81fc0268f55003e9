//! What the API takes and gives.

use baton_core::{Call, CallStage, Session, policy};
use baton_protocol::event::{AgentMode, Outcome, PermissionMode, PlanAction, Question, SwitchOffered};
use baton_protocol::permission::Approval;
use baton_protocol::{PromptId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::metadata;

/// A session, as the API shows it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionView {
    pub(super) id: String,
    /// The name somebody gave it, or the beginning of its first prompt.
    pub(super) title: Option<String>,
    /// The directory it works in.
    pub(super) cwd: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) branch: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub(super) created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub(super) updated_at: Timestamp,
    /// The sequence number of its last event.
    pub(super) head: u64,
    /// Whether a turn runs or a prompt waits. True also of one that a stopped server has left in the middle.
    pub(super) busy: bool,
    /// Which process holds it, if another server does.
    pub(super) held_by: Option<Holder>,
    /// What of it cannot be read, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) damage: Option<String>,
}

/// Another server that holds a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Holder {
    pub(super) host: String,
    pub(super) pid: u32,
}

impl SessionView {
    pub(super) fn of(summary: &baton_store::Summary, me: &baton_store::Owner) -> Self {
        let shown = metadata::of(summary);
        let context = shown.context.unwrap_or_default();
        let others = summary
            .holder
            .as_ref()
            .filter(|holder| holder.owner.server != me.server && crate::owner::is_alive(&holder.owner));
        Self {
            id: summary.session.to_string(),
            title: shown.summary,
            cwd: Some(context.cwd).filter(|cwd| !cwd.is_empty()),
            repository: context.repository,
            branch: context.branch,
            created_at: summary.created,
            updated_at: summary.modified,
            head: summary.head.0,
            busy: summary.holder.as_ref().is_some_and(|holder| holder.busy),
            held_by: others.map(|holder| Holder { host: holder.owner.host.clone(), pid: holder.owner.pid }),
            damage: summary.damage.clone(),
        }
    }
}

/// All sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionList {
    pub(super) sessions: Vec<SessionView>,
}

/// Which sessions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only sessions of this directory.
    pub(super) cwd: Option<String>,
    /// At most so many.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 10000)]
    pub(super) limit: Option<Limit<10_000>>,
}

/// How many of something: at least one, at most so many.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "usize")]
pub(super) struct Limit<const MOST: usize>(usize);

impl<const MOST: usize> Limit<MOST> {
    pub(super) fn get(self) -> usize {
        self.0
    }
}

impl<const MOST: usize> TryFrom<usize> for Limit<MOST> {
    type Error = String;

    fn try_from(wanted: usize) -> Result<Self, String> {
        let fits = (1..=MOST).contains(&wanted);
        fits.then_some(Self(wanted)).ok_or_else(|| format!("the limit must be between 1 and {MOST}"))
    }
}

/// A place in a session's sequence, as clients name it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Cursor(u64);

impl Cursor {
    pub(super) fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Cursor {
    type Error = &'static str;

    fn try_from(place: u64) -> Result<Self, &'static str> {
        i64::try_from(place).map(|_| Self(place)).map_err(|_| "no session has so many events")
    }
}

/// A session to be made.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct NewSession {
    /// Its name: letters, digits and any of - _ . : @ + ~; made up if not given.
    #[schema(max_length = 128, pattern = "^[A-Za-z0-9_:@+~-][A-Za-z0-9_.:@+~-]*$")]
    pub(super) id: Option<String>,
    /// The directory to work in; by default the server's.
    pub(super) cwd: Option<String>,
    pub(super) model: Option<String>,
    pub(super) reasoning_effort: Option<String>,
    /// Added to the system prompt.
    pub(super) instructions: Option<String>,
    /// Only these tools.
    pub(super) available_tools: Option<Vec<String>>,
    /// Not these tools.
    pub(super) excluded_tools: Option<Vec<String>>,
    /// Whether tools run without asking anybody.
    pub(super) allow_all_tools: bool,
    /// Whether the model may ask the user: questions, and in plan mode for approval of its plan. They wait until somebody
    /// answers.
    pub(super) questions: bool,
}

/// What is to change about a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct SessionChange {
    #[schema(pattern = "\\S")]
    pub(super) name: Option<String>,
    pub(super) model: Option<String>,
    pub(super) reasoning_effort: Option<String>,
    /// How much the agent may do on its own.
    #[schema(value_type = Option<ModeName>)]
    pub(super) mode: Option<AgentMode>,
    /// Whether tools are asked for, or allowed at once.
    #[schema(value_type = Option<PermissionModeName>)]
    pub(super) permissions: Option<PermissionMode>,
}

/// The names of [`AgentMode`], for the description of the API.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase", as = Mode)]
#[allow(dead_code, reason = "only described, never made")]
pub(super) enum ModeName {
    Interactive,
    Plan,
    Autopilot,
    Shell,
}

/// The names of [`PermissionMode`], for the description of the API.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case", as = Permissions)]
#[allow(dead_code, reason = "only described, never made")]
pub(super) enum PermissionModeName {
    Manual,
    Assisted,
    AllowAll,
}

/// A prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewPrompt {
    #[schema(pattern = "\\S")]
    pub(super) text: String,
    /// Whether to join the running turn at its next model call, instead of waiting for its end.
    #[serde(default)]
    pub(super) immediate: bool,
    /// Files, directories, selections, blobs: as in `session.send` of the SDKs.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub(super) attachments: Vec<serde_json::Map<String, serde_json::Value>>,
}

/// A prompt that was accepted for good.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AcceptedPrompt {
    pub(super) prompt_id: String,
}

/// Where a prompt stands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptView {
    pub(super) prompt_id: String,
    /// `queued`, `running`, `completed`, `failed`, `cancelled` or `interrupted`.
    pub(super) state: &'static str,
    /// Why it ended as it did.
    pub(super) reason: Option<String>,
}

impl PromptView {
    pub(super) fn state_of(outcome: Outcome) -> &'static str {
        match outcome {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Interrupted => "interrupted",
        }
    }
}

/// What a cancel did.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cancelled {
    /// Whether there was anything to cancel.
    pub(super) had_work: bool,
}

/// Something that waits for an answer.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestView {
    pub(super) request_id: String,
    /// `permission`, `tool`, `question`, `plan`, `switch` or `command`.
    pub(super) kind: &'static str,
    /// The call that it is about; none for a switch to another model and for a command.
    pub(super) tool_call_id: Option<String>,
    pub(super) tool_name: Option<String>,
    /// What exactly: the permission that is wanted, the arguments of the tool, the question, the plan, the
    /// other model and why, the command.
    #[schema(value_type = Object)]
    pub(super) detail: serde_json::Value,
    /// For a permission: the grants that can be given with the answer, the default first. None means: once only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) offers: Vec<OfferView>,
}

/// The forms of [`Approval`], for the description of the API.
#[derive(ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[schema(as = Grant)]
#[allow(dead_code, reason = "only described, never made")]
pub(super) enum GrantName {
    /// Commands by identifier, `program:*` for everything a program can do, or one exact line.
    Commands {
        #[schema(rename = "commandIdentifiers")]
        command_identifiers: Vec<String>,
    },
    /// Changes of files in the working directory.
    Write {},
    /// Reading files.
    Read {},
    /// An MCP server, or one tool of it.
    Mcp {
        #[schema(rename = "serverName")]
        server_name: String,
        #[schema(rename = "toolName")]
        tool_name: Option<String>,
    },
    /// An origin: scheme, host and port.
    Url { domain: String },
    /// Remembering facts.
    Memory {},
    /// A client tool.
    CustomTool {
        #[schema(rename = "toolName")]
        tool_name: String,
    },
}

/// The names of [`RuleKind`](baton_protocol::rules::RuleKind), for the description of the API.
#[derive(ToSchema)]
#[schema(rename_all = "kebab-case", as = RuleKind)]
#[allow(dead_code, reason = "only described, never made")]
pub(super) enum RuleKindName {
    Shell,
    Read,
    Write,
    Memory,
    Url,
    CustomTool,
    Mcp,
}

/// A grant that can be given, and what it means.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OfferView {
    /// To be sent back as `grant`.
    #[schema(value_type = GrantName)]
    pub(super) grant: Approval,
    /// What it covers, for the person who decides.
    pub(super) meaning: String,
}

impl RequestView {
    /// Everything in a session that waits.
    pub(super) fn all(session: &Session) -> Vec<Self> {
        let turn = session.durable.turn.iter();
        let calls = turn.clone().flat_map(|turn| &turn.calls).filter_map(|call| Self::of_call(session, call));
        let offers = turn.filter_map(|turn| turn.offer.as_ref()).map(Self::of_offer);
        calls.chain(offers).chain(session.command_of_clients().map(Self::of_command)).collect()
    }

    fn of_call(session: &Session, call: &Call) -> Option<Self> {
        let (kind, detail) = match &call.stage {
            CallStage::AwaitingPermission { wants, .. } => ("permission", serde_json::to_value(wants)),
            CallStage::AwaitingClient { .. } => ("tool", serde_json::to_value(&call.arguments)),
            CallStage::AwaitingAnswer { question: question @ Question::UserInput(_), .. } => {
                ("question", serde_json::to_value(question))
            }
            CallStage::AwaitingAnswer { question: Question::Plan(plan), .. } => {
                ("plan", serde_json::to_value(plan))
            }
            CallStage::Started | CallStage::Done { .. } => return None,
        };
        Some(Self {
            request_id: call.stage.request()?.to_string(),
            kind,
            tool_call_id: Some(call.id.to_string()),
            tool_name: Some(call.tool.clone()),
            detail: detail.unwrap_or_default(),
            offers: offers_of(session, call),
        })
    }

    /// Clients are to run a queued command.
    fn of_command((id, command): (PromptId, &str)) -> Self {
        Self {
            request_id: id.to_string(),
            kind: "command",
            tool_call_id: None,
            tool_name: None,
            detail: json!({ "command": command }),
            offers: Vec::new(),
        }
    }

    /// A model may not be asked for a while: whether to go on with another.
    fn of_offer(offer: &SwitchOffered) -> Self {
        Self {
            request_id: offer.request_id.to_string(),
            kind: "switch",
            tool_call_id: None,
            tool_name: None,
            detail: json!({
                "model": offer.model,
                "retryAfterSeconds": offer.retry_after_seconds,
                "reason": offer.error.message,
            }),
            offers: Vec::new(),
        }
    }
}

fn offers_of(session: &Session, call: &Call) -> Vec<OfferView> {
    let CallStage::AwaitingPermission { wants, .. } = &call.stage else { return Vec::new() };
    let territory = session.durable.territory(&session.live, None);
    let offers = policy::offers(wants, &territory).into_iter();
    offers.map(|offer| OfferView { grant: offer.approval, meaning: offer.meaning }).collect()
}

/// All that waits in a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RequestList {
    pub(super) requests: Vec<RequestView>,
}

/// All that waits anywhere.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RequestOverview {
    pub(super) requests: Vec<SessionRequest>,
}

/// Something that waits, and where.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionRequest {
    pub(super) session_id: String,
    #[serde(flatten)]
    pub(super) request: RequestView,
}

/// An answer to something that waits. One of the six, according to what was asked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub(super) enum RequestAnswer {
    /// To a permission.
    Permission {
        decision: Decision,
        /// The grant to give, one of the request's `offers`; by default the first.
        #[schema(value_type = Option<GrantName>)]
        grant: Option<Approval>,
        /// What the model is told, if it is a no.
        feedback: Option<String>,
    },
    /// To a tool: its result.
    Tool {
        text: String,
        #[serde(default)]
        failed: bool,
    },
    /// To a question.
    Question {
        answer: String,
        #[serde(default)]
        chosen: bool,
    },
    /// To a plan.
    Plan {
        response: PlanResponse,
        /// What the model is told, if it is a no.
        feedback: Option<String>,
    },
    /// To an offer to go on with another model.
    Switch { response: SwitchResponse },
    /// To a queued command: whether it was run.
    Command { handled: bool },
}

/// What is said about a plan: how to go on with it, or that it is not good yet.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PlanResponse {
    Interactive,
    Autopilot,
    AutopilotFleet,
    /// Leave plan mode, and do nothing about the plan yet.
    ExitOnly,
    Reject,
}

impl PlanResponse {
    /// How to go on; none if the plan is not good yet.
    pub(super) fn action(self) -> Option<PlanAction> {
        match self {
            Self::Interactive => Some(PlanAction::Interactive),
            Self::Autopilot => Some(PlanAction::Autopilot),
            Self::AutopilotFleet => Some(PlanAction::AutopilotFleet),
            Self::ExitOnly => Some(PlanAction::ExitOnly),
            Self::Reject => None,
        }
    }
}

/// Whether to go on with another model.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SwitchResponse {
    Yes,
    /// Now, and from now on without being asked.
    YesAlways,
    No,
}

/// What is decided about a permission.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Decision {
    Approve,
    /// Approve, and grant what is offered until the session is deleted.
    ApproveForSession,
    /// Approve, and store the grant for the location where the session works.
    ApproveForLocation,
    Reject,
}

/// That an answer counts.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Counted {
    pub(super) counted: bool,
}

/// Which events to read.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Events after this sequence number; 0 for all. In a stream, `Last-Event-ID` goes before it.
    #[param(value_type = Option<i64>, minimum = 0)]
    pub(super) after: Option<Cursor>,
    /// At most so many in one answer.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    pub(super) limit: Option<Limit<1000>>,
}

/// Some events of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventPage {
    pub(super) events: Vec<NumberedEvent>,
    /// What to give as `after` for the next page.
    pub(super) next: u64,
    pub(super) has_more: bool,
}

/// An event with its place in the session's sequence.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NumberedEvent {
    pub(super) seq: u64,
    #[schema(value_type = Object)]
    pub(super) event: Box<serde_json::value::RawValue>,
}
