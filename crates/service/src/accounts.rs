//! Accounts at GitHub: logging in and out, and what a client's token says.

use std::convert::Infallible;

use baton_files::preferences::SessionDefaults;
use baton_protocol::params::SessionParams;
use baton_providers::accounts::Account;
use baton_providers::github;
use baton_providers::github::GithubIdentity;
use baton_settings::SettingsEdit;

use crate::{Action, ImmediateAction, Operation, Permitted, Service};

/// Logs in with a token, for sessions whose client sends none. The token is verified if there is an API to verify it with.
#[derive(Debug, Clone)]
pub struct LogIn {
    /// URL of the GitHub host.
    pub host: String,
    /// The token.
    pub token: String,
    /// Login name, if the API does not say it.
    pub login: Option<String>,
}

impl Action for LogIn {
    const OPERATION: Operation = Operation::ChangeAccounts;
    type Reply = ();
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<(), String> {
        let Self { host, token, login } = self;
        let found = permitted.service.identify(&token).await?;
        let login = found.login.clone().or(login);
        let identity = GithubIdentity { kind: "user".into(), host, login, ..found };
        permitted.service.runtime().accounts.with(|accounts| {
            accounts.retain(|account| !account.is(&identity.host, identity.login.as_deref()));
            accounts.push(Account { identity, token });
        });
        Ok(())
    }
}

/// Logs out of an account. Replies how many are left.
#[derive(Debug, Clone, Default)]
pub struct LogOut {
    /// Host and login of the account; the current one if none is named.
    pub account: Option<(String, Option<String>)>,
}

impl ImmediateAction for LogOut {
    const OPERATION: Operation = Operation::ChangeAccounts;
    type Reply = usize;
    type Error = Infallible;

    fn run(self, permitted: Permitted<'_>) -> Result<usize, Infallible> {
        Ok(permitted.service.runtime().accounts.with(|accounts| {
            match self.account {
                None => drop(accounts.pop()),
                Some((host, login)) => accounts.retain(|account| !account.is(&host, login.as_deref())),
            }
            accounts.len()
        }))
    }
}

/// Returns the account that is logged in.
#[derive(Debug, Clone, Copy)]
pub struct ShowAccount;

impl ImmediateAction for ShowAccount {
    const OPERATION: Operation = Operation::ReadAccounts;
    type Reply = Option<Account>;
    type Error = Infallible;

    fn run(self, permitted: Permitted<'_>) -> Result<Option<Account>, Infallible> {
        Ok(permitted.service.runtime().accounts.current())
    }
}

/// Looks an account up at GitHub, with its quota. Replies `None` without an API.
#[derive(Debug, Clone)]
pub struct LookUpAccount {
    /// Its token.
    pub token: String,
}

impl Action for LookUpAccount {
    const OPERATION: Operation = Operation::ReadAccounts;
    type Reply = Option<GithubIdentity>;
    type Error = String;

    async fn run(self, permitted: Permitted<'_>) -> Result<Option<GithubIdentity>, String> {
        let runtime = permitted.service.runtime();
        let Some(api) = &runtime.options.github_api else { return Ok(None) };
        github::identify(&runtime.models.network(), api, &self.token).await.map(Some)
    }
}

/// Adds texts that are redacted from all that models see.
#[derive(Debug, Clone)]
pub struct HideSecrets {
    /// The texts.
    pub values: Vec<String>,
}

impl ImmediateAction for HideSecrets {
    const OPERATION: Operation = Operation::HideSecrets;
    type Reply = ();
    type Error = Infallible;

    fn run(self, permitted: Permitted<'_>) -> Result<(), Infallible> {
        permitted.service.runtime().secrets.add(self.values);
        Ok(())
    }
}

/// Settings of a session that come from its client's account and the user's preferences, not from its parameters.
#[derive(Debug)]
pub struct Introduction {
    /// The account that the session acts for, and its token, if the client did not send it.
    identity: Option<(GithubIdentity, Option<String>)>,
    preferences: SessionDefaults,
}

impl Introduction {
    /// Returns the model that the user prefers.
    #[must_use]
    pub fn model(&self) -> Option<&String> {
        self.preferences.model.as_ref()
    }

    /// Returns the change of the session's settings; none if it would change nothing.
    #[must_use]
    pub fn into_edit(self) -> Option<SettingsEdit> {
        let (identity, no_questions) = (self.identity, self.preferences.no_questions);
        (identity.is_some() || no_questions).then_some(SettingsEdit::Introduce { identity, no_questions })
    }
}

impl Service {
    /// Looks up what sessions of a client start with.
    ///
    /// # Errors
    /// When GitHub cannot be asked who the client is.
    pub async fn introduce(&self, params: &SessionParams) -> Result<Introduction, String> {
        let runtime = self.runtime();
        let sent = match &params.git_hub_token {
            Some(token) => Some((self.identify(token).await?, None)),
            None => None,
        };
        let logged_in = || runtime.accounts.current().map(|account| (account.identity, Some(account.token)));
        Ok(Introduction {
            identity: sent.or_else(logged_in),
            preferences: runtime.preferences.session_defaults().await,
        })
    }

    /// Identifies the account of a token, if there is an API to ask.
    async fn identify(&self, token: &str) -> Result<GithubIdentity, String> {
        let runtime = self.runtime();
        match &runtime.options.github_api {
            None => Ok(GithubIdentity::unnamed()),
            Some(api) => github::identify(&runtime.models.network(), api, token).await,
        }
    }
}
