//! Model calls that failed: the error for clients, the partial response, and the fallback model.

use std::time::{Duration, Instant};

use baton_core::{FailedModelCall, FallbackModel, WorkResult};
use baton_model::{ErrorKind, ModelError};
use baton_protocol::event::{ModelCallFailure, SessionError};
use baton_providers::ChosenModel;
use serde_json::json;

use super::{WorkScope, hooks, model_call};

/// Builds the event that shows a failed attempt.
pub(super) fn attempt(
    error: &ModelError,
    chosen: &ChosenModel,
    begun: Instant,
    source: &str,
    pause: Option<Duration>,
) -> ModelCallFailure {
    ModelCallFailure {
        source: source.into(),
        model: Some(chosen.wire_name.clone()),
        status_code: error.status,
        error_code: error.code.as_deref().map(str::to_owned),
        error_message: Some(error.message.clone()),
        duration_ms: Some(begun.elapsed().as_millis() as u64),
        api_endpoint: Some(chosen.model.endpoint().to_owned()),
        is_byok: Some(chosen.byok),
        retry_in_ms: pause.map(|pause| pause.as_millis() as u64),
    }
}

/// Builds the result of a failed call, which ends the turn unless a fallback model continues it. Invokes the
/// `errorOccurred` hook first.
pub(super) async fn result(
    scope: &WorkScope,
    error: &ModelError,
    partial: Option<(String, String)>,
) -> WorkResult {
    let input = json!({
        "error": { "name": error.kind.as_str(), "message": error.message },
        "errorContext": "model_call",
        "recoverable": false,
    });
    hooks::invoke(scope, "errorOccurred", input).await;
    let fallback = fallback(scope, error).await;
    let error = SessionError {
        error_type: error_type(error).into(),
        message: error.message.clone(),
        error_code: error.code.as_deref().map(str::to_owned),
        status_code: error.status,
        provider_call_id: error.request_id.as_deref().map(str::to_owned),
        ..SessionError::default()
    };
    WorkResult::CallModelFailed(Box::new(FailedModelCall { error, partial, fallback }))
}

/// Finds a fallback for a model that is rate limited.
async fn fallback(scope: &WorkScope, error: &ModelError) -> Option<FallbackModel> {
    let (live, facts) = (&scope.session.live, &scope.session.durable.facts);
    let agrees = facts.switches_always || live.can_agree_to_switch();
    // A custom agent that names its model would use that again.
    let can_change = scope.settings.agent_in_charge().is_none_or(|agent| agent.model.is_none());
    if error.kind != ErrorKind::RateLimited || scope.agent.is_some() || !agrees || !can_change {
        return None;
    }
    let model = scope.runtime.models.fallback(&model_call::caller(scope)).await?;
    Some(FallbackModel { model, retry_after_seconds: error.retry_after.map(|wait| wait.as_secs()) })
}

/// Returns the partial response of the latest attempt that has one, with the id of the message that shows it.
pub(super) fn partial(failures: &[ModelError], shown: &str) -> Option<(String, String)> {
    let (last, earlier) = failures.split_last()?;
    if !last.partial.is_empty() {
        return Some((shown.to_owned(), last.partial.to_string()));
    }
    let text = earlier.iter().rev().map(|failure| &failure.partial).find(|text| !text.is_empty())?;
    Some((uuid::Uuid::new_v4().to_string(), text.to_string()))
}

/// Returns the error type that SDKs know for a failure.
fn error_type(error: &ModelError) -> &'static str {
    use baton_model::ErrorKind::{Auth, ContextTooLong, Quota, RateLimited};
    match error.kind {
        Auth => "authentication",
        RateLimited => "rate_limit",
        Quota => "quota",
        ContextTooLong => "context_limit",
        _ => "query",
    }
}
