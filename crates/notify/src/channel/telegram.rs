//! Telegram's bot API: messages with buttons, their changes, and the buttons that people press.
//!
//! Messages are plain text without a parse mode, so that nothing in them is markup. The token is in the path of every URL, which
//! is therefore never logged.

use std::time::Duration;

use baton_model::http::{Transport, TransportError, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Attempt;
use crate::exchange::{TIME_LIMIT, post};
use crate::notification::{Notification, NotificationId, Subject};
use crate::outbox::JobAction;

/// How long a poll for pressed buttons waits.
const POLL_TIME: Duration = Duration::from_secs(20);

/// A configured bot.
#[derive(Clone)]
pub struct Telegram {
    api: Url,
    token: String,
    chats: Vec<i64>,
    users: Vec<i64>,
}

impl std::fmt::Debug for Telegram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telegram").field("chats", &self.chats).finish_non_exhaustive()
    }
}

/// A pressed button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Press {
    /// Id with which the press is acknowledged.
    pub(crate) query: String,
    /// Who pressed it.
    pub(crate) user: i64,
    pub(crate) button: Button,
    pub(crate) notification: String,
}

/// What a button answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Button {
    Allow,
    Deny,
}

/// Failure of a call.
#[derive(Debug)]
pub(crate) struct BotError {
    text: String,
    status: Option<u16>,
    pause: Option<Duration>,
}

impl std::fmt::Display for BotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl BotError {
    fn attempt(self) -> Attempt {
        match self.status {
            // The chat does not exist, or has blocked the bot. A wrong token (401, 404) can be corrected.
            Some(400 | 403) => Attempt::refused(self.text),
            _ => Attempt::failed(self.text, self.pause),
        }
    }
}

impl Telegram {
    /// Creates a bot that writes to these chats. In a private chat, the person may answer; in a group, only the listed users.
    ///
    /// # Errors
    /// When the token does not look like one, or there is no chat.
    pub fn new(api: Url, token: &str, chats: Vec<i64>, users: Vec<i64>) -> Result<Self, String> {
        let is_plain = token.bytes().all(|b| b.is_ascii_alphanumeric() || b":_-".contains(&b));
        if token.is_empty() || !is_plain {
            return Err("the token of the bot has characters that no token has".to_owned());
        }
        if chats.is_empty() {
            return Err("chats is empty: list the ids of the chats to write to".to_owned());
        }
        Ok(Self { api, token: token.to_owned(), chats, users })
    }

    /// Returns the chats.
    #[must_use]
    pub fn chats(&self) -> &[i64] {
        &self.chats
    }

    /// Whether a user may answer in a chat. Ids of groups are negative, so that a listed group is no user.
    fn may_answer(&self, chat: i64, user: i64) -> bool {
        self.chats.contains(&chat) && (self.chats.contains(&user) || self.users.contains(&user))
    }

    async fn call<T: DeserializeOwned>(
        &self,
        transport: &dyn Transport,
        method: &str,
        body: Value,
        time: Duration,
    ) -> Result<T, BotError> {
        #[derive(Deserialize)]
        struct BotResponse<T> {
            result: Option<T>,
            description: Option<String>,
            parameters: Option<Parameters>,
        }
        #[derive(Deserialize)]
        struct Parameters {
            retry_after: Option<u64>,
        }
        let url = self.api.below(&format!("bot{}/{method}", self.token));
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let response = post(transport, url, headers, body.to_string().into(), time).await;
        let response = response.map_err(|error: TransportError| BotError {
            text: format!("{method}: {error}"),
            status: None,
            pause: None,
        })?;
        let status = response.status;
        let reply: Option<BotResponse<T>> = baton_json::from_slice(&response.body).ok();
        match reply {
            Some(BotResponse { result: Some(result), .. }) if status == 200 => Ok(result),
            reply => {
                let said = reply.as_ref().and_then(|reply| reply.description.clone());
                let pause = reply.and_then(|reply| reply.parameters?.retry_after).map(Duration::from_secs);
                let text = format!("{method}: status {status}: {}", said.unwrap_or_default());
                Err(BotError { text, status: Some(status), pause: pause.or(response.pause) })
            }
        }
    }

    /// Returns the name of the bot, to check the token.
    pub(crate) async fn name(&self, transport: &dyn Transport) -> Result<String, BotError> {
        let me: Value = self.call(transport, "getMe", json!({}), TIME_LIMIT).await?;
        Ok(me.get("username").and_then(Value::as_str).unwrap_or("unnamed").to_owned())
    }

    pub(crate) async fn send(
        &self,
        transport: &dyn Transport,
        chat: i64,
        notification: &Notification,
        action: &JobAction,
        link: Option<&str>,
    ) -> Attempt {
        match action {
            JobAction::Send => self.write(transport, chat, notification, link).await,
            JobAction::Retract { receipt: Some(message), reason } => {
                self.change(transport, chat, message, notification, reason).await
            }
            // Whether the message arrived is not known, and neither is its id.
            JobAction::Retract { receipt: None, .. } => Attempt::delivered(None),
        }
    }

    async fn write(
        &self,
        transport: &dyn Transport,
        chat: i64,
        notification: &Notification,
        link: Option<&str>,
    ) -> Attempt {
        #[derive(Deserialize)]
        struct Message {
            message_id: i64,
        }
        let mut body = json!({
            "chat_id": chat,
            "text": text(notification, link),
            "link_preview_options": { "is_disabled": true },
        });
        let buttons = buttons(notification);
        if !buttons.is_empty() {
            body["reply_markup"] = json!({ "inline_keyboard": [buttons] });
        }
        match self.call::<Message>(transport, "sendMessage", body, TIME_LIMIT).await {
            Ok(message) => Attempt::delivered(Some(message.message_id.to_string())),
            Err(failure) => failure.attempt(),
        }
    }

    /// Says in a message that it was answered, and removes its buttons.
    async fn change(
        &self,
        transport: &dyn Transport,
        chat: i64,
        message: &str,
        notification: &Notification,
        reason: &str,
    ) -> Attempt {
        let Ok(message) = message.parse::<i64>() else { return Attempt::refused("no id of a message") };
        let text = format!("{}\n\n{reason}", text(notification, None));
        let body = json!({ "chat_id": chat, "message_id": message, "text": text });
        match self.call::<Value>(transport, "editMessageText", body, TIME_LIMIT).await {
            Ok(_) => Attempt::delivered(None),
            Err(failure) => failure.attempt(),
        }
    }

    /// Waits for pressed buttons after `offset`. Returns those of people who may answer, and the next offset.
    pub(crate) async fn poll(
        &self,
        transport: &dyn Transport,
        offset: i64,
    ) -> Result<(Vec<Press>, i64), BotError> {
        let body = json!({
            "offset": offset,
            "timeout": POLL_TIME.as_secs(),
            "allowed_updates": ["callback_query"],
        });
        let updates: Vec<Value> = self.call(transport, "getUpdates", body, POLL_TIME + TIME_LIMIT).await?;
        let numbers = updates.iter().filter_map(|update| update.get("update_id")?.as_i64());
        let next = numbers.max().map_or(offset, |last| last.saturating_add(1));
        Ok((updates.iter().filter_map(|update| self.read(update)).collect(), next))
    }

    fn read(&self, update: &Value) -> Option<Press> {
        let query = update.get("callback_query")?;
        let chat = query.pointer("/message/chat/id")?.as_i64()?;
        let user = query.pointer("/from/id")?.as_i64()?;
        if !self.may_answer(chat, user) {
            tracing::warn!(chat, user, "ignored a button of Telegram: the user may not answer");
            return None;
        }
        let (button, notification) = query.get("data")?.as_str()?.split_once(':')?;
        let button = match button {
            "allow" => Button::Allow,
            "deny" => Button::Deny,
            _ => return None,
        };
        let query = query.get("id")?.as_str()?.to_owned();
        Some(Press { query, user, button, notification: notification.to_owned() })
    }

    /// Shows a text to the person who pressed a button.
    pub(crate) async fn acknowledge(&self, transport: &dyn Transport, press: &Press, text: &str) {
        let body = json!({ "callback_query_id": press.query, "text": text });
        // The message itself says the same within moments.
        if let Err(error) = self.call::<Value>(transport, "answerCallbackQuery", body, TIME_LIMIT).await {
            tracing::info!(%error, "cannot acknowledge a button of Telegram");
        }
    }
}

fn text(notification: &Notification, link: Option<&str>) -> String {
    let details = match &notification.subject {
        Subject::Request { details, .. } => details.clone(),
        Subject::Turn { .. } | Subject::Test => None,
    };
    let lines = [
        Some(notification.headline()),
        Some(notification.title_line()).filter(|title| !title.is_empty()),
        details,
        link.map(str::to_owned),
    ];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// Returns the buttons of a message. Without all details in it, nobody can know what would be allowed.
fn buttons(notification: &Notification) -> Vec<Value> {
    let button = |text: &str, name: &str, id: &NotificationId| json!({ "text": text, "callback_data": format!("{name}:{id}") });
    let allow = notification.can_be_allowed().then(|| button("Allow once", "allow", &notification.id));
    let deny = notification.can_be_denied().then(|| button("Deny", "deny", &notification.id));
    allow.into_iter().chain(deny).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bot(chats: &[i64], users: &[i64]) -> Telegram {
        let api = Url::parse("http://127.0.0.1/").unwrap();
        Telegram::new(api, "1:a", chats.to_vec(), users.to_vec()).unwrap()
    }

    fn press(chat: i64, user: i64, data: &str) -> Value {
        json!({"update_id": 1, "callback_query":
            {"id": "q", "from": {"id": user}, "message": {"chat": {"id": chat}}, "data": data}})
    }

    #[test]
    fn only_listed_people_answer_in_listed_chats() {
        let bot = bot(&[5, -100], &[6]);
        assert!(bot.read(&press(5, 5, "allow:x")).is_some());
        assert!(bot.read(&press(-100, 6, "deny:x")).is_some());
        assert!(bot.read(&press(-100, 5, "allow:x")).is_some());
        for (chat, user, data) in
            [(7, 7, "allow:x"), (-100, 7, "allow:x"), (7, 5, "allow:x"), (5, 5, "grant:x"), (5, 5, "allow")]
        {
            assert_eq!(bot.read(&press(chat, user, data)), None, "{chat} {user} {data}");
        }
        assert_eq!(bot.read(&json!({"message": {"text": "allow:x"}})), None);
    }
}
