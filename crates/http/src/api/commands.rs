//! Slash commands of a session: the server's own, those of skills, and those of attached clients.

use axum::Json;
use axum::extract::State;
use baton_ask::skills::{ListSkills, SkillEntry};
use baton_core::Session;
use baton_core::ask::{EnqueueCommand, InvokeCommand};
use baton_runtime::session::Failure;
use baton_runtime::work::own_command::{NotRun, OWN, Ran};
use baton_service::{AskError, Caller, LiveSession, Operation, OperationError};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{By, JsonBody, PathParams, session_id};
use super::types::AcceptedPrompt;
use crate::Shared;
use crate::error::{ApiError, ErrorBody};

/// A slash command.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CommandView {
    /// Its name, without the slash.
    name: String,
    description: String,
    /// What its arguments are.
    hint: Option<String>,
    kind: CommandKind,
}

/// Who runs a slash command.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum CommandKind {
    /// The server.
    Builtin,
    /// The model, with the text of a skill.
    Skill,
    /// An attached client.
    Client,
}

impl CommandView {
    fn all(session: &Session, skills: &[SkillEntry]) -> Vec<Self> {
        let own = OWN.iter().map(|(name, hint, description)| Self {
            name: (*name).to_owned(),
            description: (*description).to_owned(),
            hint: Some(*hint).filter(|hint| !hint.is_empty()).map(ToOwned::to_owned),
            kind: CommandKind::Builtin,
        });
        let invocable = skills.iter().filter(|skill| skill.user_invocable && skill.enabled);
        let of_skills = invocable.map(|skill| Self {
            name: skill.command_name.clone(),
            description: skill.description.clone(),
            hint: skill.argument_hint.clone(),
            kind: CommandKind::Skill,
        });
        let of_clients = session.live.clients.values().flat_map(|client| &client.commands);
        let of_clients = of_clients.map(|command| Self {
            name: command.name.clone(),
            description: command.description.clone().unwrap_or_default(),
            hint: None,
            kind: CommandKind::Client,
        });
        own.chain(of_skills).chain(of_clients).collect()
    }
}

/// Slash commands of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CommandList {
    commands: Vec<CommandView>,
}

/// List the slash commands of a session.
#[utoipa::path(get, path = "/api/sessions/{id}/commands", operation_id = "listCommands", tag = "prompts", params(("id" = String, Path, description = "Session id")),
    responses((status = 200, description = "The commands", body = CommandList),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody)))]
pub(super) async fn list(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<Json<CommandList>, ApiError> {
    let session = door.service.open(&caller, &session_id(&id)?).await?;
    let skills = session.ask(ListSkills {}).await?.skills;
    let view = session.inspect().await?;
    Ok(Json(CommandList { commands: CommandView::all(&view.session, &skills) }))
}

/// A slash command for the queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCommand {
    /// The command line, such as `/compact keep the plan`.
    command: String,
}

/// Add a slash command to the queue.
///
/// It runs between turns, in its order among the prompts. Its output and its errors are events of the session.
#[utoipa::path(post, path = "/api/sessions/{id}/commands", operation_id = "enqueueCommand", tag = "prompts", request_body = NewCommand,
    params(("id" = String, Path, description = "Session id")),
    responses((status = 202, description = "Accepted", body = AcceptedPrompt),
        (status = 400, description = "Malformed request body, or no command", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "A different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "Request body does not match the schema", body = ErrorBody)))]
pub(super) async fn enqueue(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
    JsonBody(NewCommand { command }): JsonBody<NewCommand>,
) -> Result<(StatusCode, Json<AcceptedPrompt>), ApiError> {
    if command.trim_matches(|c: char| c == '/' || c.is_whitespace()).is_empty() {
        return Err(ApiError::bad_request("`command` must name a command, such as /compact"));
    }
    let by = Some(caller.author());
    let id = door.service.ask(&caller, &session_id(&id)?, EnqueueCommand { command, by }).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedPrompt { prompt_id: id.to_string() })))
}

/// Arguments of a slash command.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CommandInput {
    /// The text after the name.
    input: String,
}

/// Result of a slash command.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub(super) enum CommandResult {
    /// It has no output.
    Completed,
    /// Its output.
    Text { text: String },
    /// The prompt of a skill. It was not sent.
    Prompt {
        prompt: String,
        /// The text to show to people in place of the prompt.
        display: String,
    },
}

/// Run a slash command at once, beside the queue.
#[utoipa::path(post, path = "/api/sessions/{id}/commands/{name}", operation_id = "runCommand", tag = "prompts", request_body = CommandInput,
    params(("id" = String, Path, description = "Session id"), ("name" = String, Path, description = "Name of the command, without its slash")),
    responses((status = 200, description = "It has run", body = CommandResult),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "No such session", body = ErrorBody),
        (status = 409, description = "The session refuses it, or a different server holds the session", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "No such command, or its arguments are invalid", body = ErrorBody)))]
pub(super) async fn run(
    State(door): State<Shared>,
    By(caller): By,
    PathParams((id, name)): PathParams<(String, String)>,
    JsonBody(CommandInput { input }): JsonBody<CommandInput>,
) -> Result<Json<CommandResult>, ApiError> {
    let session = door.service.open(&caller, &session_id(&id)?).await?;
    if is_of_client(&session, &name).await? {
        return run_at_client(&session, &caller, name, input).await.map(Json);
    }
    match session.run_command(&name, &input).await {
        Ok(Ran::Done) => Ok(Json(CommandResult::Completed)),
        Ok(Ran::Text(text)) => Ok(Json(CommandResult::Text { text })),
        Ok(Ran::Prompt { prompt, display }) => Ok(Json(CommandResult::Prompt { prompt, display })),
        Err(OperationError::Failed(NotRun::Wrong(why))) => Err(invalid(why)),
        Err(OperationError::Failed(NotRun::Failed(failure))) => Err(failure.into()),
        Err(OperationError::Denied(denied)) => Err(OperationError::<Failure>::Denied(denied).into()),
    }
}

/// Whether an attached client has a command of this name, and the server has none.
async fn is_of_client(session: &LiveSession, name: &str) -> Result<bool, AskError> {
    if OWN.iter().any(|(own, ..)| own.eq_ignore_ascii_case(name)) {
        return Ok(false);
    }
    let clients = session.inspect().await?.session.live.clients;
    Ok(clients.values().flat_map(|client| &client.commands).any(|command| command.name == name))
}

async fn run_at_client(
    session: &LiveSession,
    caller: &Caller,
    name: String,
    args: String,
) -> Result<CommandResult, ApiError> {
    caller.permit(Operation::RunCommand).map_err(OperationError::<Failure>::from)?;
    match session.ask(InvokeCommand { name, args }).await? {
        None => Ok(CommandResult::Completed),
        Some(error) => Err(invalid(error)),
    }
}

fn invalid(why: impl Into<String>) -> ApiError {
    ApiError::unprocessable("invalid_command", why)
}
