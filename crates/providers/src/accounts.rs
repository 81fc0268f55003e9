//! Accounts that are logged in at this server. They are in memory only: after a restart, users log in again.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::github::GithubIdentity;

/// Logged-in accounts, the current one last.
#[derive(Default)]
pub struct Accounts {
    list: Mutex<Vec<Account>>,
}

/// A logged-in account.
#[derive(Clone)]
pub struct Account {
    /// Account at GitHub.
    pub identity: GithubIdentity,
    /// Its token.
    pub token: String,
}

impl Account {
    /// Returns whether this is the account of `login` at `host`.
    #[must_use]
    pub fn is(&self, host: &str, login: Option<&str>) -> bool {
        self.identity.host == host && self.identity.login.as_deref() == login
    }

    /// Returns the account in the form for SDKs, without its token.
    #[must_use]
    pub fn described(&self) -> Value {
        let GithubIdentity { kind, host, login, account } = &self.identity;
        let mut description =
            json!({ "type": kind, "host": host, "login": login.as_deref().unwrap_or_default() });
        if !account.is_null() {
            description["copilotUser"] = account.clone();
        }
        description
    }
}

impl Accounts {
    /// Returns the current account.
    pub fn current(&self) -> Option<Account> {
        self.with(|accounts| accounts.last().cloned())
    }

    /// Runs a closure on the list of accounts, under its lock.
    pub fn with<T>(&self, work: impl FnOnce(&mut Vec<Account>) -> T) -> T {
        work(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
