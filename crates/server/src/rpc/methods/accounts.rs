//! Logging in and out, and values that nobody is to see.

use serde::Deserialize;
use serde_json::json;

use super::{Call, Handling};
use crate::accounts::Account;
use crate::github::{self, Identity};
use crate::rpc::errors;

#[derive(Deserialize)]
struct Login {
    host: String,
    token: String,
    login: Option<String>,
}

/// Checks a token where it can be checked, and takes it for the sessions that bring none.
pub(super) fn login(call: &Call<'_>) -> Handling {
    let Login { host, token, login } = call.parse()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let found = match &server.options.github_api {
            None => Identity::unnamed(),
            Some(api) => github::identify(&server.models.network(), api, &token)
                .await
                .map_err(|why| errors::failed(&method, why))?,
        };
        let login = found.login.clone().or(login);
        let identity = Identity { kind: "user".into(), host, login, ..found };
        server.accounts.with(|known| {
            known.retain(|account| !account.is(&identity.host, identity.login.as_deref()));
            known.push(Account { identity, token });
        });
        Ok(json!({ "storedInVault": false }))
    })
}

pub(super) fn current(call: &Call<'_>) -> Handling {
    let current = call.connection.server.accounts.current();
    call.now(current.map_or_else(|| json!({}), |account| json!({ "authInfo": account.described() })))
}

/// The accounts that are stored. None are: they are held in memory, and their tokens are shown to nobody.
pub(super) fn stored(call: &Call<'_>) -> Handling {
    call.now(json!([]))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logout {
    auth_info: Option<Who>,
}

#[derive(Deserialize)]
struct Who {
    host: Option<String>,
    login: Option<String>,
}

/// Forgets an account; the current one, if nobody is named.
pub(super) fn logout(call: &Call<'_>) -> Handling {
    let Logout { auth_info } = call.parse()?;
    let left = call.connection.server.accounts.with(|known| {
        match auth_info {
            None => drop(known.pop()),
            Some(Who { host, login }) => {
                let host = host.unwrap_or_else(|| Identity::GITHUB.into());
                known.retain(|account| !account.is(&host, login.as_deref()));
            }
        }
        known.len()
    });
    call.now(json!({ "hasMoreUsers": left > 0 }))
}

#[derive(Deserialize)]
struct FilterValues {
    values: Vec<String>,
}

/// Values that nobody is to see from here on.
pub(super) fn add_secrets(call: &Call<'_>) -> Handling {
    let FilterValues { values } = call.parse()?;
    call.connection.server.secrets.add(values);
    call.now(json!({ "ok": true }))
}
