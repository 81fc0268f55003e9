//! Notifications: `[notifications]` of the configuration file.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use baton_model::http::Url;
use baton_notify::{Details, NotifyOptions, PushOptions, Telegram, Webhook};
use serde::Deserialize;

use super::Environment;
use super::show::TableRows;

/// Contact for push services if none is configured.
const CONTACT: &str = "https://github.com/baton-dev/baton";

/// How long a request is pending before its notification is sent.
const DELAY_SECONDS: u64 = 20;

/// The `[notifications]` table. Missing keys have defaults.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NotificationsTable {
    delay_seconds: Option<u64>,
    turns: Option<bool>,
    details: Option<Told>,
    page: Option<String>,
    webhook: Option<WebhookTable>,
    telegram: Option<TelegramTable>,
    push: PushTable,
}

/// How much a notification tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Told {
    None,
    Title,
    Full,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookTable {
    url: String,
    secret_env: Option<String>,
    secret_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TelegramTable {
    token_env: Option<String>,
    token_file: Option<PathBuf>,
    chats: Vec<i64>,
    #[serde(default)]
    users: Vec<i64>,
    api: Option<String>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PushTable {
    enabled: Option<bool>,
    contact: Option<String>,
    allow_private: bool,
}

impl NotificationsTable {
    /// Adds the values in force to those that `baton config` shows. The addresses of channels can hold secrets.
    pub(super) fn show(&self, mut rows: TableRows<'_>) {
        let Self { delay_seconds, turns, details, page, webhook, telegram, push } = self;
        let PushTable { enabled, contact, allow_private } = push;
        let details = details.map(|details| match details {
            Told::None => "none",
            Told::Title => "title",
            Told::Full => "full",
        });
        let host =
            |webhook: &WebhookTable| Url::parse(&webhook.url).map(|url| url.host()).unwrap_or_default();
        let chats = telegram.as_ref().map(|telegram| format!("{} chats", telegram.chats.len()));
        rows.add("delay_seconds", *delay_seconds, &DELAY_SECONDS);
        rows.add("turns", *turns, &true);
        rows.add("details", details, &"none");
        rows.add("page", page.as_ref(), &"the address that `baton serve` listens on");
        rows.add("webhook.url", webhook.as_ref().map(host), &"none");
        rows.add("telegram", chats, &"none");
        rows.add("push.enabled", *enabled, &true);
        rows.add("push.contact", contact.as_ref(), &CONTACT);
        rows.add("push.allow_private", allow_private.then_some(true), &false);
    }

    /// Returns the configured URL of the page.
    pub(crate) fn page(&self) -> anyhow::Result<Option<String>> {
        Ok(self.page.as_deref().map(page_url).transpose()?.map(|url| url.as_str().to_owned()))
    }

    /// Returns the names of variables that hold secrets.
    pub(crate) fn secret_variables(&self) -> Vec<String> {
        let webhook = self.webhook.iter().filter_map(|webhook| webhook.secret_env.clone());
        let telegram = self.telegram.iter().filter_map(|telegram| telegram.token_env.clone());
        webhook.chain(telegram).collect()
    }

    /// Checks the table, and reads its secrets.
    pub(crate) fn options(&self, environment: &Environment) -> anyhow::Result<NotifyOptions> {
        let seconds = self.delay_seconds.unwrap_or(DELAY_SECONDS);
        ensure!(seconds <= 24 * 3600, "[notifications] delay_seconds is {seconds}; use at most 86400");
        let page = self.page.as_deref().map(page_url).transpose()?;
        let webhook = self.webhook.as_ref().map(|table| table.read(environment)).transpose();
        let telegram = self.telegram.as_ref().map(|table| table.read(environment)).transpose();
        Ok(NotifyOptions {
            delay: Duration::from_secs(seconds),
            turns: self.turns.unwrap_or(true),
            details: match self.details {
                None | Some(Told::None) => Details::None,
                Some(Told::Title) => Details::Title,
                Some(Told::Full) => Details::Full,
            },
            page,
            webhook: webhook.context("in [notifications.webhook]")?,
            telegram: telegram.context("in [notifications.telegram]")?,
            push: self.push.options()?,
        })
    }
}

/// Reads the URL of the page. It ends with a slash: links add a fragment.
fn page_url(text: &str) -> anyhow::Result<Url> {
    ensure!(
        !text.contains(['#', '?']),
        "[notifications] page is {text:?}; leave out everything after the path"
    );
    let slash = if text.ends_with('/') { "" } else { "/" };
    Url::parse(&format!("{text}{slash}")).context("in [notifications] page")
}

impl WebhookTable {
    fn read(&self, environment: &Environment) -> anyhow::Result<Webhook> {
        let secret = secret("secret", self.secret_env.as_deref(), self.secret_file.as_deref(), environment)?;
        Webhook::new(Url::parse(&self.url)?, &secret).map_err(anyhow::Error::msg)
    }
}

impl TelegramTable {
    fn read(&self, environment: &Environment) -> anyhow::Result<Telegram> {
        let token = secret("token", self.token_env.as_deref(), self.token_file.as_deref(), environment)?;
        let api = Url::parse(self.api.as_deref().unwrap_or("https://api.telegram.org"))?;
        Telegram::new(api, &token, self.chats.clone(), self.users.clone()).map_err(anyhow::Error::msg)
    }
}

impl PushTable {
    fn options(&self) -> anyhow::Result<Option<PushOptions>> {
        let contact = self.contact.clone().unwrap_or_else(|| CONTACT.to_owned());
        ensure!(
            contact.starts_with("mailto:") || contact.starts_with("https://"),
            "[notifications.push] contact is {contact:?}; use mailto:you@example.com or an https:// URL"
        );
        let options = PushOptions { contact, allow_private: self.allow_private };
        Ok(self.enabled.unwrap_or(true).then_some(options))
    }
}

/// Reads a secret from a variable or a file. Secrets themselves do not belong into a file that people share.
fn secret(
    name: &str,
    variable: Option<&str>,
    file: Option<&Path>,
    environment: &Environment,
) -> anyhow::Result<String> {
    let text = match (variable, file) {
        (Some(variable), None) => {
            let value = environment.get(variable).map(str::to_owned);
            value.with_context(|| format!("the variable {variable} of {name}_env is not set"))?
        }
        (None, Some(file)) => std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {} of {name}_file", file.display()))?,
        (Some(_), Some(_)) => anyhow::bail!("{name}_env and {name}_file are both set; use one of them"),
        (None, None) => anyhow::bail!("set {name}_env to the name of a variable, or {name}_file to a file"),
    };
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> anyhow::Result<NotifyOptions> {
        let table: NotificationsTable = toml::from_str(text)?;
        let variables = [("SECRET", "0123456789abcdef"), ("TOKEN", "1:abc")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        table.options(&Environment::from_iter(variables))
    }

    #[test]
    fn defaults_have_push_only_and_no_details() {
        let options = options("").unwrap();
        assert_eq!((options.delay, options.turns), (Duration::from_secs(20), true));
        assert_eq!(options.details, Details::None);
        assert!(options.webhook.is_none() && options.telegram.is_none());
        assert!(!options.push.unwrap().allow_private);
    }

    #[test]
    fn complete_table_is_read() {
        let text = "delay_seconds = 5\nturns = false\ndetails = \"full\"\npage = \"https://x.example/baton\"\n\
            [webhook]\nurl = \"https://hooks.example/x\"\nsecret_env = \"SECRET\"\n\
            [telegram]\ntoken_env = \"TOKEN\"\nchats = [5]\n[push]\nenabled = false";
        let options = options(text).unwrap();
        assert_eq!(options.page.unwrap().as_str(), "https://x.example/baton/");
        assert_eq!(options.details, Details::Full);
        assert!(options.webhook.is_some() && options.push.is_none());
        assert_eq!(options.telegram.unwrap().chats(), [5]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("delay = 5", "delay"),
            ("delay_seconds = 100000", "86400"),
            ("details = \"some\"", "some"),
            ("page = \"x.example\"", "page"),
            ("page = \"https://x.example/#/s\"", "path"),
            ("[webhook]\nurl = \"https://x.example\"", "secret_env"),
            ("[webhook]\nurl = \"https://x.example\"\nsecret_env = \"MISSING\"", "MISSING"),
            ("[webhook]\nurl = \"https://x.example\"\nsecret_env = \"TOKEN\"", "16 bytes"),
            ("[telegram]\ntoken_env = \"TOKEN\"\nchats = []", "chats"),
            ("[telegram]\ntoken_file = \"/nowhere\"\nchats = [1]", "/nowhere"),
            ("[push]\ncontact = \"me\"", "mailto"),
        ] {
            let error = format!("{:#}", options(text).unwrap_err());
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
