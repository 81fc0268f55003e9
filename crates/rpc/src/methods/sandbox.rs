//! The sandbox of a session, in the words of SDKs.
//!
//! Sessions of this door run programs outside unless their client or the server's configuration asks for a sandbox: an
//! application has its own ideas of what its tools may touch.

use baton_ask::View;
use baton_core::ask::AnswerRequest;
use baton_core::{AnswerOutcome, CallStage, Change, RequestAnswer};
use baton_protocol::event::Body;
use baton_protocol::params::{SandboxConfig, SessionParams};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::sandbox::{SandboxChoice, SandboxLevel, SandboxPolicy};
use baton_protocol::{Event, RequestId};
use baton_service::sessions::ReadEvents;
use baton_service::{Caller, LiveSession, Service};
use baton_store::{Seq, Span};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled, amend};
use crate::errors::CallError;

/// Returns the sandbox that a client asks for; none if it asks for none.
///
/// # Errors
/// If a path is not absolute.
pub(super) fn asked_for(config: Option<&SandboxConfig>) -> Result<Option<Box<SandboxChoice>>, CallError> {
    let Some(choice) = config.and_then(SandboxConfig::choice) else { return Ok(None) };
    match choice.policy.relative_path() {
        Some(path) => {
            Err(CallError::invalid(format_args!("sandboxConfig: {path:?} is not an absolute path")))
        }
        None => Ok(Some(Box::new(choice))),
    }
}

/// Returns the sandbox of a session whose client asks for this, which may be none.
///
/// # Errors
/// If a path is not absolute.
pub(super) fn of_config(config: &SandboxConfig) -> Result<Box<SandboxChoice>, CallError> {
    Ok(asked_for(Some(config))?.unwrap_or_else(|| Box::new(SandboxChoice::of_applications())))
}

/// Returns the sandbox of a session that a client creates.
///
/// # Errors
/// If a path is not absolute.
pub(super) fn of_new_session(params: &SessionParams) -> Result<Box<SandboxChoice>, CallError> {
    of_config(params.sandbox_config.as_ref().unwrap_or(&SandboxConfig::default()))
}

/// Sets the sandbox of a session that a client resumes, if the client asks for another one, or if an application created the
/// session with an older version, which recorded none.
pub(super) async fn settle(
    service: &Service,
    caller: &Caller,
    session: &LiveSession,
    asked: Option<Box<SandboxChoice>>,
) -> Result<(), CallError> {
    let view = session.inspect().await?;
    let own = view.session.durable.facts.sandbox.as_ref();
    let choice = match asked {
        Some(asked) if own == Some(&*asked) => return Ok(()),
        Some(asked) => asked,
        None if own.is_some() || !is_of_application(service, caller, session).await => return Ok(()),
        None => Box::new(SandboxChoice::of_applications()),
    };
    Ok(amend(session, caller.author(), Change::Sandbox(Some(choice))).await?)
}

/// Whether a client of this door created a session: its first event says so.
async fn is_of_application(service: &Service, caller: &Caller, session: &LiveSession) -> bool {
    let span = Span::After { after: Seq::ZERO, limit: 1 };
    let first = ReadEvents { id: session.id().clone(), span, max_bytes: usize::MAX };
    let Ok(page) = service.perform(caller, first).await else { return false };
    let event =
        page.records.first().and_then(|record| Event::parse(std::str::from_utf8(&record.body).ok()?).ok());
    match event.map(|event| event.body) {
        Some(Body::SessionStart(start)) => start.by.is_some_and(|by| by.is_sdk()),
        _ => false,
    }
}

/// Returns what to warn a client of that asked for a sandbox.
pub(super) async fn warning(session: &LiveSession) -> Option<String> {
    let view = session.inspect().await.ok()?;
    let (choice, missing) = (view.session.sandbox(), view.session.live.sandbox.missing.as_ref()?);
    let is_wanted = choice.chosen && choice.policy.level.is_inside();
    is_wanted.then(|| format!("There is no sandbox, and commands that need it are refused: {missing}."))
}

/// Returns whether this system has a sandbox. Nothing of it varies between systems that do.
pub(super) fn host_support(call: &Call<'_>) -> Handled {
    let service = call.service().clone();
    call.later(async move {
        let missing = service.missing_sandbox().await;
        let mut support = json!({ "supported": missing.is_none(), "capabilities": [] });
        if let Some(reason) = missing {
            support["reason"] = json!(reason);
        }
        Ok(support)
    })
}

/// Returns whether commands are refused because the system has no sandbox.
pub(super) fn enforcement(call: &Call<'_>) -> Handled {
    call.inspect(|view| {
        let choice = view.session.sandbox();
        let required = choice.chosen && choice.policy.level.is_inside();
        let missing = view.session.live.sandbox.missing.as_ref().filter(|_| required);
        let mut status = json!({ "blocked": missing.is_some(), "required": required });
        if let Some(reason) = missing {
            status["reason"] = json!(reason);
        }
        status
    })
}

/// Returns credentials to pass into the sandbox: none are found or passed.
pub(super) fn credential_suggestions(call: &Call<'_>) -> Handled {
    call.session()?;
    call.now(json!({ "suggestions": [] }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfRequest {
    request_id: RequestId,
}

/// Approves a command that leaves the sandbox, and turns the sandbox off for the session.
pub(super) fn disable(call: &Call<'_>) -> Handled {
    let (session, OfRequest { request_id: request }) = call.parse_for_session()?;
    let by = call.author();
    call.later(async move {
        let view = session.inspect().await?;
        let mut success = leaves_sandbox(&view, &request);
        if success {
            let off = SandboxChoice::of_user(SandboxPolicy::of(SandboxLevel::Off));
            amend(&session, by.clone(), Change::Sandbox(Some(Box::new(off)))).await?;
            let answer = Box::new(RequestAnswer::Permission(Verdict::ApproveOnce, by.clone()));
            let answered = session.ask(AnswerRequest { request, answer, by: Some(by) }).await?;
            success = answered == AnswerOutcome::Counted;
        }
        let level = session.inspect().await?.session.sandbox().policy.level;
        Ok(json!({ "success": success, "enabled": level.is_inside() }))
    })
}

/// Whether a pending request is for a command that would run outside the sandbox.
fn leaves_sandbox(view: &View, request: &RequestId) -> bool {
    let mut calls = view.session.durable.turn.iter().flat_map(|turn| &turn.calls);
    calls.any(|call| match &call.stage {
        CallStage::AwaitingPermission { request: pending, wants, .. } => {
            let leaves =
                matches!(&**wants, PermissionRequest::Shell { request_sandbox_bypass: Some(true), .. });
            leaves && pending == request
        }
        _ => false,
    })
}

/// Accepts the offer of a path for a request. No request of this server has such an offer.
pub(super) fn grant_path(call: &Call<'_>) -> Handled {
    let (_, OfRequest { .. }) = call.parse_for_session()?;
    call.now(json!({ "success": false }))
}

/// Refuses methods of a certificate authority: the sandbox's proxy does not look into encrypted connections.
pub(super) fn no_authority(_: &Call<'_>) -> Handled {
    Err(CallError::failed(
        "The sandbox of this server has no certificate authority: its proxy decrypts nothing.",
    ))
}
