//! The signed webhook, as the Standard Webhooks specification describes it: an id, a timestamp, and a signature of both and
//! the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use baton_model::http::{Transport, Url};
use baton_protocol::Timestamp;
use ring::hmac;
use serde_json::json;

use super::Attempt;
use crate::exchange::{TIME_LIMIT, post};
use crate::notification::{Notification, Subject};
use crate::outbox::JobAction;

/// Prefix of a secret whose rest is base64.
const PREFIX: &str = "whsec_";

/// A configured webhook.
#[derive(Clone)]
pub struct Webhook {
    url: Url,
    key: hmac::Key,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Creates a webhook that signs with this secret.
    ///
    /// # Errors
    /// When the secret is too short to protect anything, or starts with `whsec_` and is not base64.
    pub fn new(url: Url, secret: &str) -> Result<Self, String> {
        let bytes = match secret.strip_prefix(PREFIX) {
            Some(rest) => {
                STANDARD.decode(rest).map_err(|_| format!("the secret after {PREFIX} is not base64"))?
            }
            None => secret.as_bytes().to_vec(),
        };
        if bytes.len() < 16 {
            return Err("the secret is shorter than 16 bytes; `openssl rand -hex 32` makes one".to_owned());
        }
        Ok(Self { url, key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    /// Returns the host, for people.
    #[must_use]
    pub fn host(&self) -> String {
        self.url.host()
    }

    fn signature(&self, id: &str, seconds: i64, body: &str) -> String {
        let tag = hmac::sign(&self.key, format!("{id}.{seconds}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(tag))
    }

    pub(crate) async fn send(
        &self,
        transport: &dyn Transport,
        notification: &Notification,
        action: &JobAction,
        link: Option<&str>,
        now: Timestamp,
    ) -> Attempt {
        let body = body(notification, action, link).to_string();
        let seconds = now.0 / 1000;
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("user-agent", "baton".to_owned()),
            ("webhook-id", message_id(notification, action)),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", self.signature(&message_id(notification, action), seconds, &body)),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Attempt::of(post(transport, self.url.clone(), headers, body.into(), TIME_LIMIT).await)
    }
}

/// Returns the id of a message: the notification's, with a suffix for its withdrawal. Receivers that drop ids they know drop
/// repeated attempts, and not the withdrawal.
fn message_id(notification: &Notification, action: &JobAction) -> String {
    match action {
        JobAction::Send => notification.id.to_string(),
        JobAction::Retract { .. } => format!("{}.withdrawn", notification.id),
    }
}

fn body(notification: &Notification, action: &JobAction, link: Option<&str>) -> serde_json::Value {
    let kind = match (action, &notification.subject) {
        (JobAction::Retract { .. }, _) => "notification.withdrawn",
        (JobAction::Send, Subject::Request { .. }) => "request.waiting",
        (JobAction::Send, Subject::Turn { .. }) => "turn.ended",
        (JobAction::Send, Subject::Test) => "test",
    };
    let mut data = json!({ "id": notification.id, "headline": notification.headline() });
    if let Some(session) = &notification.session {
        data["session"] = json!({ "id": session, "title": notification.title });
    }
    match &notification.subject {
        Subject::Request { request, kind, tool, details } => {
            data["request"] = json!({ "id": request, "kind": kind, "tool": tool });
            if let Some(details) = details {
                data["request"]["details"] = json!(details);
            }
        }
        Subject::Turn { outcome } => data["turn"] = json!({ "outcome": outcome }),
        Subject::Test => {}
    }
    if let Some(link) = link {
        data["link"] = json!(link);
    }
    if let JobAction::Retract { reason, .. } = action {
        data["reason"] = json!(reason);
    }
    json!({ "type": kind, "timestamp": notification.created, "data": data })
}

#[cfg(test)]
mod tests {
    use baton_model::http::HttpClient;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::notification::NotificationId;
    use crate::outbox::Settlement;

    /// Starts a server that answers every request with this head, and returns its port.
    async fn answering(head: String) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                drop(stream.read(&mut [0; 4096]).await);
                drop(
                    stream
                        .write_all(format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n").as_bytes())
                        .await,
                );
            }
        });
        port
    }

    /// The URL of the configuration may be private. A redirect would let that host choose another one.
    #[tokio::test]
    async fn private_url_is_reached_and_its_redirects_are_not_followed() {
        let receiver = answering("204 No Content".into()).await;
        let redirecting =
            answering(format!("307 Temporary Redirect\r\nLocation: http://localhost:{receiver}/")).await;
        let now = Timestamp(0);
        let notification = Notification {
            id: NotificationId::of_test(now),
            session: None,
            title: None,
            created: now,
            subject: Subject::Test,
        };
        let send = async |port: u16| {
            let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
            let webhook = Webhook::new(url, "a secret with 16 bytes").unwrap();
            webhook.send(&HttpClient::new(), &notification, &JobAction::Send, None, now).await.settlement
        };
        assert_eq!(send(receiver).await, Settlement::Delivered { receipt: None });
        assert_eq!(send(redirecting).await, Settlement::Refused);
    }

    /// The example of the specification's reference libraries.
    #[test]
    fn signature_matches_the_reference() {
        let url = Url::parse("http://127.0.0.1/").unwrap();
        let webhook = Webhook::new(url, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = r#"{"test": 2432232314}"#;
        assert_eq!(
            webhook.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn weak_secrets_are_refused() {
        let url = || Url::parse("http://127.0.0.1/").unwrap();
        for bad in ["", "short", "whsec_!!", "whsec_MfKQ"] {
            assert!(Webhook::new(url(), bad).is_err(), "{bad}");
        }
    }
}
