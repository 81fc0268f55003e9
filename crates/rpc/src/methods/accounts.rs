//! Logging in and out, and secret values.

use baton_providers::accounts::Account;
use baton_providers::github::{self, GithubIdentity};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled};
use crate::errors::CallError;

#[derive(Deserialize)]
struct Login {
    host: String,
    token: String,
    login: Option<String>,
}

/// Logs in with a token, for sessions whose client sends none. The token is verified if there is an API to verify it with.
pub(super) fn login(call: &Call<'_>) -> Handled {
    let Login { host, token, login } = call.parse()?;
    let runtime = call.runtime().clone();
    call.later(async move {
        let found = match &runtime.options.github_api {
            None => GithubIdentity::unnamed(),
            Some(api) => {
                github::identify(&runtime.models.network(), api, &token).await.map_err(CallError::failed)?
            }
        };
        let login = found.login.clone().or(login);
        let identity = GithubIdentity { kind: "user".into(), host, login, ..found };
        runtime.accounts.with(|accounts| {
            accounts.retain(|account| !account.is(&identity.host, identity.login.as_deref()));
            accounts.push(Account { identity, token });
        });
        Ok(json!({ "storedInVault": false }))
    })
}

pub(super) fn current(call: &Call<'_>) -> Handled {
    let current = call.runtime().accounts.current();
    call.now(current.map_or_else(|| json!({}), |account| json!({ "authInfo": account.described() })))
}

/// Lists stored accounts. There are none: accounts are in memory only, and their tokens are not disclosed.
pub(super) fn list_stored(call: &Call<'_>) -> Handled {
    call.now(json!([]))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logout {
    auth_info: Option<AccountName>,
}

#[derive(Deserialize)]
struct AccountName {
    host: Option<String>,
    login: Option<String>,
}

/// Logs out of an account; of the current one if none is named.
pub(super) fn logout(call: &Call<'_>) -> Handled {
    let Logout { auth_info } = call.parse()?;
    let remaining = call.runtime().accounts.with(|accounts| {
        match auth_info {
            None => drop(accounts.pop()),
            Some(AccountName { host, login }) => {
                let host = host.unwrap_or_else(|| GithubIdentity::GITHUB.into());
                accounts.retain(|account| !account.is(&host, login.as_deref()));
            }
        }
        accounts.len()
    });
    call.now(json!({ "hasMoreUsers": remaining > 0 }))
}

#[derive(Deserialize)]
struct FilterValues {
    values: Vec<String>,
}

/// Adds secret values, which are redacted from the output of tools from now on.
pub(super) fn add_secrets(call: &Call<'_>) -> Handled {
    let FilterValues { values } = call.parse()?;
    call.runtime().secrets.add(values);
    call.now(json!({ "ok": true }))
}
