//! Notifications of browsers: what is set up, and subscriptions of Web Push.

use std::sync::Arc;
use std::time::Duration;

use baton_notify::target::Target;
use baton_notify::{Courier, NewSubscription, NotifyError};
use baton_people::{CredentialRef, Identity};

use crate::{Action, Caller, Operation, Permitted, Service};

/// Error of an operation on notifications.
#[derive(Debug, thiserror::Error)]
pub enum NotificationError {
    /// The server sends none.
    #[error("this server sends no notifications")]
    Off,
    /// The caller has no such subscription.
    #[error("you have no such subscription: {0}")]
    Unknown(String),
    /// The push service has not accepted a test.
    #[error("{0}")]
    NotAccepted(String),
    /// The subscription cannot be used, or the store failed.
    #[error(transparent)]
    Failed(#[from] NotifyError),
}

/// Notifications that are set up.
#[derive(Debug, Clone)]
pub struct NotificationSetup {
    /// Key with which a browser subscribes; none if Web Push is turned off.
    pub public_key: Option<String>,
    /// Whether a webhook is configured.
    pub webhook: bool,
    /// Whether a bot of Telegram is configured.
    pub telegram: bool,
    /// How long a request waits before people are notified.
    pub delay: Duration,
}

/// Says which notifications are set up.
#[derive(Debug, Clone, Copy)]
pub struct ShowNotifications;

impl Action for ShowNotifications {
    const OPERATION: Operation = Operation::ShowNotifications;
    type Reply = NotificationSetup;
    type Error = NotificationError;

    async fn run(self, permitted: Permitted<'_>) -> Result<NotificationSetup, NotificationError> {
        let courier = courier(permitted.service)?;
        let options = courier.options();
        Ok(NotificationSetup {
            public_key: courier.public_key().await?,
            webhook: options.webhook.is_some(),
            telegram: options.telegram.is_some(),
            delay: options.delay,
        })
    }
}

/// Subscribes a browser. Replies with the id of the subscription.
pub struct Subscribe {
    /// The credential that the subscription ends with.
    pub standing: CredentialRef,
    /// The subscription.
    pub subscription: NewSubscription,
}

impl Action for Subscribe {
    const OPERATION: Operation = Operation::Subscribe;
    type Reply = String;
    type Error = NotificationError;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<String, NotificationError> {
        let courier = courier(service)?;
        Ok(courier.subscribe(name_of(caller), self.standing, &self.subscription).await?)
    }
}

/// Unsubscribes a browser of the caller.
#[derive(Debug, Clone)]
pub struct Unsubscribe {
    /// Id of the subscription.
    pub id: String,
}

impl Action for Unsubscribe {
    const OPERATION: Operation = Operation::Unsubscribe;
    type Reply = ();
    type Error = NotificationError;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<(), NotificationError> {
        match courier(service)?.forget(&self.id, Some(name_of(caller))).await? {
            true => Ok(()),
            false => Err(NotificationError::Unknown(self.id)),
        }
    }
}

/// Sends a test to a browser of the caller.
#[derive(Debug, Clone)]
pub struct TestSubscription {
    /// Id of the subscription.
    pub id: String,
}

impl Action for TestSubscription {
    const OPERATION: Operation = Operation::TestSubscription;
    type Reply = ();
    type Error = NotificationError;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<(), NotificationError> {
        let courier = courier(service)?;
        if !courier.has(&self.id, name_of(caller)).await? {
            return Err(NotificationError::Unknown(self.id));
        }
        match courier.test_one(&Target::Push(self.id)).await {
            None => Ok(()),
            Some(problem) => Err(NotificationError::NotAccepted(problem)),
        }
    }
}

fn courier(service: &Service) -> Result<&Arc<Courier>, NotificationError> {
    service.notifier().map(|notifier| notifier.courier()).ok_or(NotificationError::Off)
}

fn name_of(caller: &Caller) -> &str {
    match caller.identity() {
        Identity::Owner | Identity::OwnerBrowser { .. } => "owner",
        Identity::Person { name, .. } => name.as_str(),
    }
}
