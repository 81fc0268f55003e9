//! Web Push: encrypted messages to browsers that have subscribed (RFC 8030, 8291, 8292).
//!
//! The subscriber names the address of a subscription. It must be `https` and public, unless the configuration allows
//! other ones; names are checked when they are resolved for the connection.

mod encrypt;
mod vapid;

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use baton_core::policy::address::is_public;
use baton_model::http::{HttpClient, Url};
use baton_protocol::Timestamp;
use serde_json::json;

pub(crate) use self::vapid::VapidKey;
use super::Attempt;
use crate::exchange::{TIME_LIMIT, post};
use crate::notification::{Notification, Subject};
use crate::outbox::JobAction;
use crate::subscriptions::BrowserSubscription;

/// How long a push service keeps a message for a browser that is not reachable.
const TTL_SECONDS: u32 = 24 * 3600;
/// Maximum length of the text of a message, in bytes: escaped as JSON, it must fit into one record.
const MAX_TEXT: usize = 1500;
/// Maximum length of an address, in bytes.
const MAX_ENDPOINT: usize = 1024;

/// Options of Web Push.
#[derive(Debug, Clone)]
pub struct PushOptions {
    /// Contact for operators of push services: a `mailto:` or `https:` URL.
    pub contact: String,
    /// Whether addresses may be private or without TLS. For push services of your own, and for tests.
    pub allow_private: bool,
}

/// Sends messages to push services.
pub(crate) struct Push {
    options: PushOptions,
    client: HttpClient,
}

impl Push {
    pub(crate) fn new(options: PushOptions) -> Self {
        let client = if options.allow_private { HttpClient::new() } else { HttpClient::confined(is_public) };
        Self { options, client }
    }

    /// Checks the address of a subscription, as far as that is possible without resolving its name.
    pub(crate) fn check(&self, endpoint: &str) -> Result<(), String> {
        if endpoint.len() > MAX_ENDPOINT {
            return Err(format!("the address is longer than {MAX_ENDPOINT} bytes"));
        }
        let parsed = url::Url::parse(endpoint).map_err(|_| "the address is not a URL".to_owned())?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("the address contains credentials".to_owned());
        }
        if self.options.allow_private {
            return match parsed.scheme() {
                "http" | "https" => Ok(()),
                _ => Err("the address is neither http nor https".to_owned()),
            };
        }
        if parsed.scheme() != "https" {
            return Err("the address is not https".to_owned());
        }
        let literal = match parsed.host() {
            Some(url::Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(url::Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(url::Host::Domain(_)) => None,
            None => return Err("the address has no host".to_owned()),
        };
        match literal {
            Some(address) if !is_public(address) => Err("the address is private".to_owned()),
            _ => Ok(()),
        }
    }

    pub(crate) async fn send(
        &self,
        key: &VapidKey,
        subscription: &BrowserSubscription,
        notification: &Notification,
        action: &JobAction,
        now: Timestamp,
    ) -> Attempt {
        // Checked again: the configuration may have changed since.
        if let Err(problem) = self.check(&subscription.endpoint) {
            return Attempt::gone(problem);
        }
        let Ok(url) = Url::parse(&subscription.endpoint) else {
            return Attempt::gone("the address is not a URL");
        };
        let message = message(notification, action).to_string();
        let sealed = encrypt::seal(&subscription.p256dh, &subscription.auth, message.as_bytes());
        let (Some(body), Some(proof)) =
            (sealed, key.proof(&origin(&subscription.endpoint), &self.options.contact, now))
        else {
            return Attempt::gone("the keys of the subscription cannot be used");
        };
        let urgency = if matches!(notification.subject, Subject::Turn { .. }) { "normal" } else { "high" };
        let headers = [
            ("authorization", proof),
            ("content-encoding", "aes128gcm".to_owned()),
            ("content-type", "application/octet-stream".to_owned()),
            ("ttl", TTL_SECONDS.to_string()),
            ("urgency", urgency.to_owned()),
            // A withdrawal replaces a message that has not been delivered yet.
            ("topic", notification.id.to_string()),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
        match post(&self.client, url, headers, body.into(), TIME_LIMIT).await {
            Ok(response) if matches!(response.status, 404 | 410) => {
                Attempt::gone("the browser has ended its subscription")
            }
            response => Attempt::of(response),
        }
    }
}

/// Returns what the service worker of the page receives. The link is relative to the page.
fn message(notification: &Notification, action: &JobAction) -> serde_json::Value {
    if let JobAction::Retract { reason, .. } = action {
        return json!({ "id": notification.id, "withdrawn": true, "body": reason });
    }
    let link = notification.session.as_ref().map(crate::link_fragment);
    let details = match &notification.subject {
        Subject::Request { details: Some(details), .. } => Some(details),
        _ => None,
    };
    let lines = [Some(notification.title_line()), details.cloned()];
    let body: Vec<String> = lines.into_iter().flatten().filter(|line| !line.is_empty()).collect();
    json!({
        "id": notification.id,
        "title": notification.headline(),
        "body": shortened(&body.join("\n")),
        "link": link,
        "waits": matches!(notification.subject, Subject::Request { .. }),
    })
}

/// Cuts a text that is too long. Nothing can be allowed by a message, so that it may show a part.
fn shortened(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Returns the origin of an address, for which a proof is valid.
fn origin(endpoint: &str) -> String {
    url::Url::parse(endpoint).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}

/// Decodes a key as browsers send it.
pub(crate) fn decode_key(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_https_addresses_are_accepted_unless_configured() {
        let push = |allow_private| Push::new(PushOptions { contact: String::new(), allow_private });
        for good in ["https://push.example/x", "https://93.184.216.34/x"] {
            assert_eq!(push(false).check(good), Ok(()), "{good}");
        }
        for bad in [
            "http://push.example/x",
            "https://127.0.0.1/x",
            "https://[::1]/x",
            "https://10.0.0.1/x",
            "https://2130706433/x",
            "https://169.254.169.254/latest",
            "https://user:pw@push.example/x",
            "file:///etc/passwd",
            "x",
        ] {
            assert!(push(false).check(bad).is_err(), "{bad}");
        }
        assert_eq!(push(true).check("http://127.0.0.1:9/x"), Ok(()));
        assert!(push(true).check("file:///etc/passwd").is_err());
    }

    #[test]
    fn longest_message_fits_into_a_record() {
        let receiver = encrypt::Receiver::new();
        for text in ["\"\\\n".repeat(2000), "😀".repeat(1000)] {
            let subject = Subject::Request {
                request: baton_protocol::RequestId("r".into()),
                kind: crate::notification::RequestKind::Permission,
                tool: Some("t".repeat(64)),
                details: Some(text.clone()),
            };
            let notification = Notification {
                id: crate::notification::NotificationId::of_test(Timestamp(0)),
                session: Some("s".parse().unwrap()),
                title: Some(text),
                created: Timestamp(0),
                subject,
            };
            let message = message(&notification, &JobAction::Send).to_string();
            assert!(encrypt::seal(&receiver.public, &receiver.auth, message.as_bytes()).is_some());
        }
    }

    /// A name is checked when it is resolved: it may lead to a private address.
    #[tokio::test]
    async fn name_of_a_private_address_is_not_reached() {
        let push = Push::new(PushOptions { contact: String::new(), allow_private: false });
        let receiver = encrypt::Receiver::new();
        let subscription =
            BrowserSubscription::for_tests("https://localhost:9/x", &receiver.public, &receiver.auth);
        assert_eq!(push.check(&subscription.endpoint), Ok(()), "a name");
        let now = Timestamp(0);
        let notification = Notification {
            id: crate::notification::NotificationId::of_test(now),
            session: None,
            title: None,
            created: now,
            subject: Subject::Test,
        };
        let key = VapidKey::generate().unwrap();
        let attempt = push.send(&key, &subscription, &notification, &JobAction::Send, now).await;
        assert_eq!(attempt.settlement, crate::outbox::Settlement::Refused, "{attempt:?}");
        assert!(attempt.problem.unwrap().contains("not allowed"));
    }
}
