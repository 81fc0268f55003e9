//! Receivers of notifications.

use serde::{Deserialize, Serialize};

/// A receiver. Its text form is the key of a delivery in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// The configured webhook.
    Webhook,
    /// A chat of Telegram, by its id.
    Telegram(i64),
    /// A browser, by the id of its subscription.
    Push(String),
}

impl Target {
    /// Returns the name of the channel.
    #[must_use]
    pub fn channel(&self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Telegram(_) => "telegram",
            Self::Push(_) => "push",
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Webhook => f.write_str("webhook"),
            Self::Telegram(chat) => write!(f, "telegram:{chat}"),
            Self::Push(id) => write!(f, "push:{id}"),
        }
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let unknown = || format!("unknown receiver {text:?}");
        match text.split_once(':') {
            None if text == "webhook" => Ok(Self::Webhook),
            Some(("telegram", chat)) => chat.parse().map(Self::Telegram).map_err(|_| unknown()),
            Some(("push", id)) => Ok(Self::Push(id.to_owned())),
            _ => Err(unknown()),
        }
    }
}
