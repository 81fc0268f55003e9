//! Requests and their answers.

use std::collections::BTreeMap;

use baton_core::{Call, CallStage, ClientRequest, Session, WallRequest, policy};
use baton_protocol::event::{LoginRequested, PlanAction, Question, SwitchOffered};
use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::{PromptId, RequestId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::grants::{GrantName, OfferView};

/// A pending request.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestView {
    pub(crate) request_id: String,
    /// `permission`, `tool`, `question`, `plan`, `switch`, `command`, `login`, `elicitation` or `sampling`.
    pub(crate) kind: &'static str,
    /// When it was opened.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) opened_at: Option<Timestamp>,
    /// Tool call that the request is about; absent for fallback models (`switch`), commands, and requests of programs in the
    /// sandbox, which a call does not wait for.
    pub(crate) tool_call_id: Option<String>,
    pub(crate) tool_name: Option<String>,
    /// Subject of the request: the permission, the arguments of the client tool, the question, the plan, the fallback model
    /// and the reason, or the command.
    #[schema(value_type = Object)]
    pub(crate) detail: serde_json::Value,
    /// For a permission: grants that the answer can give, the default first. Without any, only a single approval is possible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) offers: Vec<OfferView>,
}

impl RequestView {
    /// Returns the pending requests of a session.
    pub(crate) fn all(session: &Session) -> Vec<Self> {
        let turn = session.durable.turn.iter();
        let calls = turn.clone().flat_map(|turn| &turn.calls).filter_map(|call| Self::of_call(session, call));
        let fallbacks = turn.filter_map(|turn| turn.fallback_request.as_ref()).map(Self::of_fallback);
        let commands = session.command_of_clients().map(Self::of_command);
        let logins = session.durable.logins.iter().map(|login| Self::of_login(login));
        let walls = session.durable.walls.iter().map(|wall| Self::of_wall(session, wall));
        let asks = session.live.asks.iter().filter_map(|(id, ask)| Self::of_ask(id, ask));
        calls.chain(fallbacks).chain(commands).chain(logins).chain(walls).chain(asks).collect()
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
            tool_call_id: Some(call.id.to_string()),
            tool_name: Some(call.tool.clone()),
            offers: offers_of_call(session, call),
            ..Self::beside(call.stage.request()?, kind, detail.unwrap_or_default())
        })
    }

    /// Returns the request to run a queued command.
    fn of_command((id, command): (PromptId, &str)) -> Self {
        Self::beside(&RequestId(id.to_string()), "command", json!({ "command": command }))
    }

    /// Returns the request to log in to an MCP server. Its link is made when it is needed.
    fn of_login(login: &LoginRequested) -> Self {
        let detail = json!({
            "serverName": login.server_name,
            "serverUrl": login.server_url,
            "reason": login.reason,
        });
        Self::beside(&login.request_id, "login", detail)
    }

    /// Returns the request of a program in the sandbox. No call waits for it, so it names none.
    fn of_wall(session: &Session, wall: &WallRequest) -> Self {
        let detail = serde_json::to_value(&wall.wants).unwrap_or_default();
        let offers = offers_of(session, &wall.wants);
        Self {
            tool_name: Some("sandbox".into()),
            offers,
            ..Self::beside(&wall.request, "permission", detail)
        }
    }

    /// Returns a request of an MCP server, or a form of a client.
    fn of_ask(id: &RequestId, ask: &ClientRequest) -> Option<Self> {
        let (kind, detail) = match ask {
            ClientRequest::Elicit(_, form) => (
                "elicitation",
                json!({
                    "message": form.message,
                    "requestedSchema": form.schema,
                    "source": form.source,
                    "url": form.url,
                }),
            ),
            ClientRequest::Sample(_, sample) => {
                ("sampling", json!({ "serverName": sample.server, "request": sample.request }))
            }
            // Any client can answer it as a form, whatever its event was.
            ClientRequest::Consent(_, consent, _) => {
                ("elicitation", json!({ "message": consent.message, "requestedSchema": consent.schema() }))
            }
            ClientRequest::InvokeCommand(..) => return None,
        };
        Some(Self::beside(id, kind, detail))
    }

    /// Returns a request that belongs to no call.
    fn beside(request: &RequestId, kind: &'static str, detail: serde_json::Value) -> Self {
        let (request_id, opened_at) = (request.to_string(), request.opened());
        let (tool_call_id, tool_name, offers) = Default::default();
        Self { request_id, kind, tool_call_id, tool_name, detail, opened_at, offers }
    }

    /// Returns the request to continue with a fallback model.
    fn of_fallback(request: &SwitchOffered) -> Self {
        let detail = json!({
            "model": request.model,
            "retryAfterSeconds": request.retry_after_seconds,
            "reason": request.error.message,
        });
        Self::beside(&request.request_id, "switch", detail)
    }
}

fn offers_of_call(session: &Session, call: &Call) -> Vec<OfferView> {
    let CallStage::AwaitingPermission { wants, .. } = &call.stage else { return Vec::new() };
    offers_of(session, wants)
}

fn offers_of(session: &Session, wants: &PermissionRequest) -> Vec<OfferView> {
    let territory = session.durable.territory(&session.live, None);
    let offers = policy::offers(wants, territory).into_iter();
    offers.map(|offer| OfferView { grant: offer.approval, meaning: offer.meaning }).collect()
}

/// Pending requests of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestList {
    pub(crate) requests: Vec<RequestView>,
}

/// Pending requests of all sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestOverview {
    pub(crate) requests: Vec<SessionRequest>,
    /// Heads of the sessions that were read. A change of the feed with a smaller head is older than this list.
    pub(crate) heads: BTreeMap<String, u64>,
}

/// A pending request with its session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRequest {
    pub(crate) session_id: String,
    #[serde(flatten)]
    pub(crate) request: RequestView,
}

/// Answer to a request, of the same kind as the request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub(crate) enum RequestAnswer {
    /// Decision on a permission.
    Permission {
        decision: Decision,
        /// Grant to give, one of the request's `offers`; default: the first.
        #[schema(value_type = Option<GrantName>)]
        grant: Option<Approval>,
        /// Feedback for the model on a rejection.
        feedback: Option<String>,
    },
    /// Result of a client tool.
    Tool {
        text: String,
        #[serde(default)]
        failed: bool,
    },
    /// Answer to a question.
    Question {
        answer: String,
        #[serde(default)]
        chosen: bool,
    },
    /// Decision on a plan.
    Plan {
        response: PlanResponse,
        /// Feedback for the model on a rejection.
        feedback: Option<String>,
    },
    /// Decision on a fallback model.
    Switch { response: SwitchResponse },
    /// Whether a queued command was run.
    Command { handled: bool },
    /// Ends a login: with the address that the browser was sent to, or by declining it. Not needed if the browser can reach this
    /// server.
    Login {
        /// Address that the browser was sent to, or the code in it.
        pasted: Option<String>,
        #[serde(default)]
        decline: bool,
    },
    /// Result of a form, or of a page that was opened.
    Elicitation {
        action: FormAction,
        /// Values of the form, for `accept`.
        #[schema(value_type = Option<Object>)]
        content: Option<serde_json::Value>,
    },
    /// Whether the session's model may answer an MCP server.
    Sampling { approve: bool },
}

/// What was done with a form.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FormAction {
    Accept,
    Decline,
    Cancel,
}

impl FormAction {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

/// A link for a login.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginLink {
    /// Address to open in a browser; absent if the server could be connected without a login.
    pub(crate) authorization_url: Option<String>,
    /// Address that the browser returns to.
    pub(crate) redirect_uri: Option<String>,
    pub(crate) request_id: Option<String>,
}

/// Answer to a plan: the mode to continue in, or `reject`.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PlanResponse {
    Interactive,
    Autopilot,
    AutopilotFleet,
    /// Leave plan mode without starting on the plan.
    ExitOnly,
    Reject,
}

impl PlanResponse {
    /// Returns the action of an approval; none for a rejection.
    pub(crate) fn action(self) -> Option<PlanAction> {
        match self {
            Self::Interactive => Some(PlanAction::Interactive),
            Self::Autopilot => Some(PlanAction::Autopilot),
            Self::AutopilotFleet => Some(PlanAction::AutopilotFleet),
            Self::ExitOnly => Some(PlanAction::ExitOnly),
            Self::Reject => None,
        }
    }
}

/// Whether to continue with the fallback model.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SwitchResponse {
    Yes,
    /// Continue, also later without a request.
    YesAlways,
    No,
}

/// Decision on a permission.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Decision {
    Approve,
    /// Approve, and give the session the grant until it is revoked.
    ApproveForSession,
    /// Approve, and store the grant for the session's location.
    ApproveForLocation,
    /// Approve without a person who decides. Gets 422 if a deny rule may apply; the request then stays pending.
    ApproveUnattended,
    Reject,
    /// Reject, because nobody is there to decide.
    UserNotAvailable,
}
/// Whether the answer counts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counted {
    pub(crate) counted: bool,
}
