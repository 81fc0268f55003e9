//! The courier: the stored outbox and subscriptions, and the channels. It knows no session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use baton_model::http::{HttpClient, Url};
use baton_people::{CredentialRef, Digest, People};
use baton_protocol::{SessionId, Timestamp};
use baton_store::Store;

use crate::channel::Attempt;
use crate::channel::push::{Push, PushOptions, VapidKey, decode_key};
use crate::channel::telegram::Telegram;
use crate::channel::webhook::Webhook;
use crate::documents::{NotifyError, edit, read};
use crate::notification::{Notification, NotificationId, Subject};
use crate::outbox::{Job, JobAction, Outbox, Settlement};
use crate::subscriptions::{BrowserSubscription, Subscriptions};
use crate::target::Target;

/// Name of the document with the outbox.
const OUTBOX: &str = "notifications";
/// Name of the document with the subscriptions.
const SUBSCRIPTIONS: &str = "push_subscriptions";

/// What is notified about, how, and to whom.
#[derive(Debug, Clone)]
pub struct NotifyOptions {
    /// How long a request waits before people are notified.
    pub delay: Duration,
    /// Whether the ends of turns are notified about.
    pub turns: bool,
    /// How much notifications tell.
    pub details: Details,
    /// URL of the page, for links.
    pub page: Option<Url>,
    /// The webhook.
    pub webhook: Option<Webhook>,
    /// The bot.
    pub telegram: Option<Telegram>,
    /// Web Push; none if it is turned off.
    pub push: Option<PushOptions>,
}

/// How much notifications tell about a session. Each value includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Details {
    /// Nothing that was written in the session: its directory, or the name that a person gave it, and the kind of a request.
    None,
    /// The title of the session, which comes from its first prompt.
    Title,
    /// What a request asks for.
    Full,
}

/// A browser's subscription, as the page sends it.
#[derive(Debug, Clone)]
pub struct NewSubscription {
    /// Address at the push service.
    pub endpoint: String,
    /// Public key of the browser, base64url.
    pub p256dh: String,
    /// Shared secret of the browser, base64url.
    pub auth: String,
}

/// Counters of deliveries.
#[derive(Debug, Default)]
pub(crate) struct DeliveryCounters {
    pub(crate) sent: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) withdrawn: AtomicU64,
}

impl DeliveryCounters {
    fn count(&self, job: &Job, result: &Settlement) {
        let counter = match (result, &job.action) {
            (Settlement::Delivered { .. }, JobAction::Send) => &self.sent,
            (Settlement::Delivered { .. }, JobAction::Retract { .. }) => &self.withdrawn,
            (Settlement::Failed { .. }, _) => &self.retried,
            (Settlement::Refused, _) => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The courier of a store.
pub struct Courier {
    store: Arc<dyn Store>,
    people: Arc<People>,
    /// Digest of the server's token, on which the owner's subscriptions hang.
    owner: Digest,
    pub(crate) options: NotifyOptions,
    client: HttpClient,
    push: Option<Push>,
    /// URL of the page, if it is known only after the start.
    page: OnceLock<Url>,
    pub(crate) counters: DeliveryCounters,
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Courier")
    }
}

impl Courier {
    /// Creates a courier. Reads nothing yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, people: Arc<People>, owner: Digest, options: NotifyOptions) -> Self {
        let push = options.push.clone().map(Push::new);
        Self {
            store,
            people,
            owner,
            options,
            client: HttpClient::new(),
            push,
            page: OnceLock::new(),
            counters: DeliveryCounters::default(),
        }
    }

    /// Sets the URL of the page, if the configuration names none.
    pub fn set_page(&self, url: &str) {
        if let Ok(url) = Url::parse(url) {
            // Set once, at the start.
            let _ = self.page.set(url);
        }
    }

    /// Returns the link to a session, or to the page.
    fn link(&self, notification: &Notification) -> Option<String> {
        let base = self.options.page.as_ref().or_else(|| self.page.get())?;
        let fragment = notification.session.as_ref().map_or_else(String::new, link_fragment);
        Some(format!("{}{fragment}", base.as_str()))
    }

    /// Reads the outbox.
    ///
    /// # Errors
    /// When the store fails, or the outbox is damaged.
    pub async fn outbox(&self) -> Result<Outbox, NotifyError> {
        Ok(read(&self.store, OUTBOX).await?.0)
    }

    /// Changes the outbox.
    pub(crate) async fn edit<R>(
        &self,
        change: impl FnMut(&mut Outbox) -> R,
    ) -> Result<(R, Outbox), NotifyError> {
        edit(&self.store, OUTBOX, change).await
    }

    /// Whether this server is configured for a target.
    pub(crate) fn serves(&self, target: &Target) -> bool {
        match target {
            Target::Webhook => self.options.webhook.is_some(),
            Target::Telegram(chat) => {
                self.options.telegram.as_ref().is_some_and(|telegram| telegram.chats().contains(chat))
            }
            Target::Push(_) => self.push.is_some(),
        }
    }

    /// Returns all receivers.
    ///
    /// # Errors
    /// When the subscriptions cannot be read.
    pub async fn targets(&self) -> Result<Vec<Target>, NotifyError> {
        let mut targets: Vec<Target> = self.options.webhook.iter().map(|_| Target::Webhook).collect();
        let chats = self.options.telegram.iter().flat_map(Telegram::chats);
        targets.extend(chats.map(|chat| Target::Telegram(*chat)));
        if self.push.is_some() {
            let stored = read::<Subscriptions>(&self.store, SUBSCRIPTIONS).await?.0;
            targets.extend(stored.list.into_iter().map(|subscription| Target::Push(subscription.id)));
        }
        Ok(targets)
    }

    /// Makes one attempt. A failure is logged.
    pub(crate) async fn attempt(&self, job: &Job) -> Attempt {
        let attempt = self.try_once(job).await;
        self.counters.count(job, &attempt.settlement);
        if let Some(problem) = &attempt.problem {
            let (id, channel) = (&job.notification.id, job.target.channel());
            tracing::warn!(notification = %id, channel, problem, "a notification was not delivered");
        }
        if let (true, Target::Push(id)) = (attempt.is_gone, &job.target)
            && let Err(error) = self.forget(id, None).await
        {
            tracing::warn!(%error, "cannot remove a subscription that has ended");
        }
        attempt
    }

    async fn try_once(&self, job: &Job) -> Attempt {
        let Job { notification, target, action, .. } = job;
        let (now, link) = (Timestamp::now(), self.link(notification));
        match target {
            Target::Webhook => match &self.options.webhook {
                Some(webhook) => webhook.send(&self.client, notification, action, link.as_deref(), now).await,
                None => Attempt::refused("no webhook is configured"),
            },
            Target::Telegram(chat) => match &self.options.telegram {
                Some(telegram) => {
                    telegram.send(&self.client, *chat, notification, action, link.as_deref()).await
                }
                None => Attempt::refused("no bot of Telegram is configured"),
            },
            Target::Push(id) => match self.push_to(id, notification, action, now).await {
                Ok(attempt) => attempt,
                Err(error) => Attempt::failed(error.to_string(), None),
            },
        }
    }

    async fn push_to(
        &self,
        id: &str,
        notification: &Notification,
        action: &JobAction,
        now: Timestamp,
    ) -> Result<Attempt, NotifyError> {
        let Some(push) = &self.push else { return Ok(Attempt::refused("Web Push is turned off")) };
        let stored = read::<Subscriptions>(&self.store, SUBSCRIPTIONS).await?.0;
        let Some(subscription) = stored.list.iter().find(|subscription| subscription.id == id) else {
            return Ok(Attempt::refused("the browser has unsubscribed"));
        };
        // A removed person must not learn what happens from now on.
        match self.people.holds(&subscription.standing, self.owner).await {
            Ok(true) => {}
            Ok(false) => return Ok(Attempt::gone("the access of its person has ended")),
            Err(error) => return Ok(Attempt::failed(error.to_string(), None)),
        }
        let Some(key) = VapidKey::read(&stored.key) else {
            return Ok(Attempt::refused("the server's key cannot be read"));
        };
        Ok(push.send(&key, subscription, notification, action, now).await)
    }

    /// Returns the public key with which browsers subscribe; none if Web Push is turned off. Makes the key if there is none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn public_key(&self) -> Result<Option<String>, NotifyError> {
        if self.push.is_none() {
            return Ok(None);
        }
        let stored = read::<Subscriptions>(&self.store, SUBSCRIPTIONS).await?.0;
        if let Some(key) = VapidKey::read(&stored.key) {
            return Ok(Some(key.public()));
        }
        let new = VapidKey::generate().ok_or(NotifyError::NoRandom)?;
        let add = |all: &mut Subscriptions| {
            // Another server may have been faster.
            if all.key.is_empty() {
                all.key = new.document().to_vec();
            }
        };
        let ((), stored) = edit(&self.store, SUBSCRIPTIONS, add).await?;
        let damaged = || NotifyError::Damaged(SUBSCRIPTIONS, "the key is damaged".to_owned());
        VapidKey::read(&stored.key).map(|key| Some(key.public())).ok_or_else(damaged)
    }

    /// Adds the subscription of a person. Returns its id.
    ///
    /// # Errors
    /// When its address or keys cannot be used, or the store fails.
    pub async fn subscribe(
        &self,
        name: &str,
        standing: CredentialRef,
        new: &NewSubscription,
    ) -> Result<String, NotifyError> {
        let push = self.push.as_ref();
        let push = push.ok_or_else(|| NotifyError::Unusable("Web Push is turned off".to_owned()))?;
        push.check(&new.endpoint).map_err(NotifyError::Unusable)?;
        let (p256dh, auth) = (decode_key(&new.p256dh), decode_key(&new.auth));
        let (Some(p256dh), Some(auth)) =
            (p256dh.filter(|key| key.len() == 65), auth.filter(|secret| secret.len() == 16))
        else {
            return Err(NotifyError::Unusable("its keys are not those of a browser".to_owned()));
        };
        let subscription = BrowserSubscription {
            id: BrowserSubscription::id_of(&new.endpoint),
            name: name.to_owned(),
            standing,
            endpoint: new.endpoint.clone(),
            p256dh,
            auth,
            added: Timestamp::now(),
        };
        let id = subscription.id.clone();
        edit(&self.store, SUBSCRIPTIONS, |all: &mut Subscriptions| all.add(subscription.clone())).await?;
        Ok(id)
    }

    /// Removes a subscription, of this person only if one is named. Returns whether there was one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget(&self, id: &str, of: Option<&str>) -> Result<bool, NotifyError> {
        let remove = |all: &mut Subscriptions| all.remove(id, of);
        Ok(edit(&self.store, SUBSCRIPTIONS, remove).await?.0)
    }

    /// Sends one test to each receiver at once, without the outbox. Returns each receiver with the problem, if there was one.
    ///
    /// # Errors
    /// When the receivers cannot be read.
    pub async fn test(&self) -> Result<Vec<(Target, Option<String>)>, NotifyError> {
        let mut results = Vec::new();
        for target in self.targets().await? {
            let problem = self.test_one(&target).await;
            results.push((target, problem));
        }
        Ok(results)
    }

    /// Sends one test to a receiver. Returns the problem, if there was one.
    pub async fn test_one(&self, target: &Target) -> Option<String> {
        let now = Timestamp::now();
        let id = NotificationId::of_test(now);
        let notification =
            Notification { id, session: None, title: None, created: now, subject: Subject::Test };
        self.attempt(&Job { notification, target: target.clone(), action: JobAction::Send, attempt: 1 })
            .await
            .problem
    }

    /// Returns the name of the bot of Telegram, to check its token; none if no bot is configured.
    pub async fn telegram_name(&self) -> Option<Result<String, String>> {
        let telegram = self.options.telegram.as_ref()?;
        Some(telegram.name(&self.client).await.map_err(|error| error.to_string()))
    }

    /// Whether a person has this subscription.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn has(&self, id: &str, name: &str) -> Result<bool, NotifyError> {
        let stored = read::<Subscriptions>(&self.store, SUBSCRIPTIONS).await?.0;
        Ok(stored.list.iter().any(|subscription| subscription.id == id && subscription.name == name))
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &NotifyOptions {
        &self.options
    }

    pub(crate) fn client(&self) -> &HttpClient {
        &self.client
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

/// Returns the fragment of the page's URL that shows a session.
pub(crate) fn link_fragment(session: &SessionId) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    let escaped: String = session.to_string().bytes().map(escape).collect();
    format!("#/s/{escaped}")
}
