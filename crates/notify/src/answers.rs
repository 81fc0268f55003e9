//! Answers from Telegram: a pressed button becomes an answer to the session's request.
//!
//! A bot's updates can be read by one server only. On a shared store the servers agree by a lease in a document; without
//! messages that wait for an answer, nobody reads.

use std::sync::Arc;
use std::time::Duration;

use baton_core::ask::AnswerRequest;
use baton_core::{AnswerOutcome, RequestAnswer};
use baton_protocol::permission::Verdict;
use baton_protocol::{Author, Timestamp};
use baton_runtime::session::Failure;
use baton_store::StoreError;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::channel::telegram::{Button, Press};
use crate::documents::{self, NotifyError};
use crate::notification::{Notification, Subject};
use crate::notifier::Notifier;
use crate::outbox::later;

/// Name of the document with the lease.
const LEASE: &str = "telegram_reader";
/// How long a lease lasts. Longer than a poll.
const LEASE_TIME: Duration = Duration::from_secs(60);
/// Pause after a failure, and while another server reads.
const PAUSE: Duration = Duration::from_secs(3);

/// Who reads the updates of the bot.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Lease {
    server: String,
    until: Timestamp,
}

/// Reads pressed buttons for as long as messages wait for an answer.
pub(crate) async fn poll(notifier: Arc<Notifier>, mut awaits: watch::Receiver<bool>) {
    let courier = notifier.courier().clone();
    let Some(telegram) = courier.options.telegram.clone() else { return };
    let mut offset = 0;
    while awaits.wait_for(|awaits| *awaits).await.is_ok() {
        match take_lease(&notifier).await {
            Ok(true) => {}
            Ok(false) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot agree on the server that reads Telegram's updates");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        }
        match telegram.poll(courier.client(), offset).await {
            Ok((presses, next)) => {
                for press in presses {
                    let text = answer(&notifier, &press).await;
                    telegram.acknowledge(courier.client(), &press, &text).await;
                }
                // Only now: a press that was not answered is read again after a crash.
                offset = next;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read answers from Telegram; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Takes or renews the lease. A store of one machine needs none.
async fn take_lease(notifier: &Notifier) -> Result<bool, NotifyError> {
    let store = notifier.courier().store();
    if store.members().is_none() {
        return Ok(true);
    }
    let server = notifier.runtime().owner.server.clone();
    let take = |lease: &mut Lease| {
        let now = Timestamp::now();
        let is_ours = lease.server == server;
        if !is_ours && lease.until > now {
            return false;
        }
        lease.server.clone_from(&server);
        lease.until = later(now, LEASE_TIME);
        true
    };
    Ok(documents::edit(store, LEASE, take).await?.0)
}

/// Answers the request of a pressed button. Returns the text for the person who pressed it.
async fn answer(notifier: &Notifier, press: &Press) -> String {
    let outbox = match notifier.courier().outbox().await {
        Ok(outbox) => outbox,
        Err(error) => {
            tracing::warn!(%error, "cannot read the notification of a pressed button");
            return "Not answered: the server cannot read its store.".to_owned();
        }
    };
    let notification = match outbox.named(&press.notification) {
        Some((notification, false)) => notification,
        Some((_, true)) => return "Already answered.".to_owned(),
        // Of a message from long ago, only the session knows what became of its request.
        None => return "Not answered: this message is too old. Open the page.".to_owned(),
    };
    // The button of a message that did not show what it would allow does not exist; a forged one has no effect.
    if press.button == Button::Allow && !notification.can_be_allowed() {
        return "Not answered: open the page to see what is asked.".to_owned();
    }
    let (verdict, done) = match press.button {
        Button::Allow => (Verdict::ApproveOnce, "Allowed once"),
        Button::Deny => (Verdict::Reject { feedback: None }, "Denied"),
    };
    let author = Author(format!("telegram:{}", press.user));
    match ask(notifier, notification, verdict, author).await {
        // The message itself changes when the answer is recorded.
        Ok(AnswerOutcome::Counted) => format!("{done}."),
        Ok(AnswerOutcome::TooLate | AnswerOutcome::NoSuchRequest) => "Already answered.".to_owned(),
        Ok(AnswerOutcome::Mismatch) => "Not answered: this request needs the page.".to_owned(),
        Ok(AnswerOutcome::NotOffered(why) | AnswerOutcome::Refused(why)) => format!("Not answered: {why}"),
        Err(error) => {
            tracing::warn!(%error, "cannot answer a request from Telegram");
            "Not answered: open the page.".to_owned()
        }
    }
}

/// Sends the answer to the session, again if the session was handed over meanwhile.
async fn ask(
    notifier: &Notifier,
    notification: &Notification,
    verdict: Verdict,
    author: Author,
) -> Result<AnswerOutcome, Failure> {
    let (Some(session), Subject::Request { request, .. }) = (&notification.session, &notification.subject)
    else {
        return Ok(AnswerOutcome::NoSuchRequest);
    };
    let runtime = notifier.runtime();
    let answer = Box::new(RequestAnswer::Permission(verdict, author.clone()));
    let ask = AnswerRequest { request: request.clone(), answer, by: Some(author) };
    match runtime.registry.open(runtime, session).ask(ask.clone()).await {
        Err(Failure::Store(StoreError::Fenced(_))) => runtime.registry.open(runtime, session).ask(ask).await,
        reply => reply,
    }
}
