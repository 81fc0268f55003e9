//! Notifications of browsers: what is set up, and subscriptions of Web Push.

use axum::Json;
use axum::extract::State;
use baton_notify::target::Target;
use baton_notify::{Courier, NewSubscription, NotifyError};
use baton_people::{CredentialRef, Digest, Identity};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{Caller, JsonBody, PathParams};
use crate::error::{ApiError, ErrorBody};
use crate::guard::{LOGIN_COOKIE, cookies, unreadable};
use crate::{Door, Shared};

/// Notifications that are set up.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotificationSetup {
    /// Key with which a browser subscribes (`applicationServerKey`, base64url); absent if Web Push is turned off.
    public_key: Option<String>,
    /// Whether a webhook is configured.
    webhook: bool,
    /// Whether a bot of Telegram is configured.
    telegram: bool,
    /// How many seconds a request waits before people are notified.
    delay_seconds: u64,
}

/// Subscription of a browser, as `PushSubscription.toJSON()` returns it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PushSubscription {
    /// Address at the push service: public and `https`, unless the server is configured otherwise.
    endpoint: String,
    keys: PushKeys,
}

/// Keys of a browser.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct PushKeys {
    /// Public key, base64url.
    p256dh: String,
    /// Shared secret, base64url.
    auth: String,
}

/// A stored subscription.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Subscribed {
    id: String,
}

/// Show which notifications are set up.
#[utoipa::path(get, path = "/api/notifications", operation_id = "showNotifications", tag = "notifications",
    responses((status = 200, description = "What is set up", body = NotificationSetup),
        (status = 404, description = "This server sends no notifications", body = ErrorBody)))]
pub(super) async fn show(State(door): State<Shared>) -> Result<Json<NotificationSetup>, ApiError> {
    let courier = courier(&door)?;
    let options = courier.options();
    Ok(Json(NotificationSetup {
        public_key: courier.public_key().await.map_err(failed)?,
        webhook: options.webhook.is_some(),
        telegram: options.telegram.is_some(),
        delay_seconds: options.delay.as_secs(),
    }))
}

/// Subscribe a browser to notifications.
///
/// The subscription ends with the login or token that it was made with.
#[utoipa::path(post, path = "/api/notifications/subscriptions", operation_id = "subscribe", tag = "notifications", request_body = PushSubscription,
    responses((status = 201, description = "Subscribed", body = Subscribed),
        (status = 400, description = "Malformed request body", body = ErrorBody),
        (status = 404, description = "This server sends no notifications", body = ErrorBody),
        (status = 415, description = "Request body is not JSON", body = ErrorBody),
        (status = 422, description = "The address or the keys cannot be used", body = ErrorBody)))]
pub(super) async fn subscribe(
    State(door): State<Shared>,
    Caller { identity, .. }: Caller,
    headers: HeaderMap,
    JsonBody(subscription): JsonBody<PushSubscription>,
) -> Result<(StatusCode, Json<Subscribed>), ApiError> {
    let new = NewSubscription {
        endpoint: subscription.endpoint,
        p256dh: subscription.keys.p256dh,
        auth: subscription.keys.auth,
    };
    let standing = standing(&door, &identity, &headers).await?;
    let id = courier(&door)?.subscribe(name(&identity), standing, &new).await.map_err(failed)?;
    Ok((StatusCode::CREATED, Json(Subscribed { id })))
}

/// Unsubscribe a browser.
#[utoipa::path(delete, path = "/api/notifications/subscriptions/{id}", operation_id = "unsubscribe", tag = "notifications",
    params(("id" = String, Path, description = "Subscription id")),
    responses((status = 204, description = "Unsubscribed"),
        (status = 404, description = "You have no such subscription", body = ErrorBody)))]
pub(super) async fn unsubscribe(
    State(door): State<Shared>,
    Caller { identity, .. }: Caller,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    let removed = courier(&door)?.forget(&id, Some(name(&identity))).await.map_err(failed)?;
    removed.then_some(StatusCode::NO_CONTENT).ok_or_else(|| unknown(&id))
}

/// Send a test to a subscribed browser.
#[utoipa::path(post, path = "/api/notifications/subscriptions/{id}/test", operation_id = "testSubscription", tag = "notifications",
    params(("id" = String, Path, description = "Subscription id")),
    responses((status = 204, description = "The push service has accepted the test"),
        (status = 404, description = "You have no such subscription", body = ErrorBody),
        (status = 502, description = "The push service has not accepted it", body = ErrorBody)))]
pub(super) async fn test(
    State(door): State<Shared>,
    Caller { identity, .. }: Caller,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    let courier = courier(&door)?;
    if !courier.has(&id, name(&identity)).await.map_err(failed)? {
        return Err(unknown(&id));
    }
    match courier.test_one(&Target::Push(id)).await {
        None => Ok(StatusCode::NO_CONTENT),
        Some(problem) => Err(ApiError::new(StatusCode::BAD_GATEWAY, "push", problem)),
    }
}

fn courier(door: &Door) -> Result<&Courier, ApiError> {
    let notifier = door.notifier.get().map(|notifier| &**notifier.courier());
    notifier.ok_or_else(|| ApiError::not_found("this server sends no notifications"))
}

fn name(identity: &Identity) -> &str {
    match identity {
        Identity::Owner | Identity::OwnerBrowser { .. } => "owner",
        Identity::Person { name, .. } => name.as_str(),
    }
}

/// Returns the credential that a subscription depends on: the login of the browser, else that of the request.
async fn standing(door: &Door, identity: &Identity, headers: &HeaderMap) -> Result<CredentialRef, ApiError> {
    let owner = Digest::of(door.options.token.as_deref().unwrap_or_default());
    let Some(people) = &door.people else { return Ok(identity.standing(owner)) };
    for login in cookies(headers, LOGIN_COOKIE) {
        let found = people.of_login(login, owner).await.map_err(unreadable)?;
        if found.is_some_and(|found| name(&found) == name(identity)) {
            return Ok(CredentialRef::Login(Digest::of(login)));
        }
    }
    Ok(identity.standing(owner))
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("you have no such subscription: {id}"))
}

fn failed(error: NotifyError) -> ApiError {
    match error {
        NotifyError::Store(error) => error.into(),
        NotifyError::Unusable(_) => ApiError::unprocessable("unusable", error.to_string()),
        error => ApiError::internal(error.to_string()),
    }
}
