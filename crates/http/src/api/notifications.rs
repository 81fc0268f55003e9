//! Notifications of browsers: what is set up, and subscriptions of Web Push.

use axum::Json;
use axum::extract::State;
use baton_notify::NewSubscription;
use baton_people::{CredentialRef, Digest, Identity};
use baton_service::notifications::{ShowNotifications, Subscribe, TestSubscription, Unsubscribe};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{By, JsonBody, PathParams};
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
pub(super) async fn show(
    State(door): State<Shared>,
    By(caller): By,
) -> Result<Json<NotificationSetup>, ApiError> {
    let setup = door.service.perform(&caller, ShowNotifications).await?;
    Ok(Json(NotificationSetup {
        public_key: setup.public_key,
        webhook: setup.webhook,
        telegram: setup.telegram,
        delay_seconds: setup.delay.as_secs(),
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
    By(caller): By,
    headers: HeaderMap,
    JsonBody(subscription): JsonBody<PushSubscription>,
) -> Result<(StatusCode, Json<Subscribed>), ApiError> {
    let subscription = NewSubscription {
        endpoint: subscription.endpoint,
        p256dh: subscription.keys.p256dh,
        auth: subscription.keys.auth,
    };
    let standing = standing(&door, caller.identity(), &headers).await?;
    let id = door.service.perform(&caller, Subscribe { standing, subscription }).await?;
    Ok((StatusCode::CREATED, Json(Subscribed { id })))
}

/// Unsubscribe a browser.
#[utoipa::path(delete, path = "/api/notifications/subscriptions/{id}", operation_id = "unsubscribe", tag = "notifications",
    params(("id" = String, Path, description = "Subscription id")),
    responses((status = 204, description = "Unsubscribed"),
        (status = 404, description = "You have no such subscription", body = ErrorBody)))]
pub(super) async fn unsubscribe(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    door.service.perform(&caller, Unsubscribe { id }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send a test to a subscribed browser.
#[utoipa::path(post, path = "/api/notifications/subscriptions/{id}/test", operation_id = "testSubscription", tag = "notifications",
    params(("id" = String, Path, description = "Subscription id")),
    responses((status = 204, description = "The push service has accepted the test"),
        (status = 404, description = "You have no such subscription", body = ErrorBody),
        (status = 502, description = "The push service has not accepted it", body = ErrorBody)))]
pub(super) async fn test(
    State(door): State<Shared>,
    By(caller): By,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    door.service.perform(&caller, TestSubscription { id }).await?;
    Ok(StatusCode::NO_CONTENT)
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
