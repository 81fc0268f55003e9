//! Who is logged in at this server. Accounts are held in memory and never stored: who starts the server again logs in
//! again.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::github::Identity;

/// The accounts, the current one last.
#[derive(Default)]
pub(crate) struct Accounts {
    known: Mutex<Vec<Account>>,
}

/// Somebody who has logged in.
#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) identity: Identity,
    pub(crate) token: String,
}

impl Account {
    pub(crate) fn is(&self, host: &str, login: Option<&str>) -> bool {
        self.identity.host == host && self.identity.login.as_deref() == login
    }

    pub(crate) fn described(&self) -> Value {
        let Identity { kind, host, login, account } = &self.identity;
        let mut told = json!({ "type": kind, "host": host, "login": login.as_deref().unwrap_or_default() });
        if !account.is_null() {
            told["copilotUser"] = account.clone();
        }
        told
    }
}

impl Accounts {
    pub(crate) fn current(&self) -> Option<Account> {
        self.with(|known| known.last().cloned())
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Vec<Account>) -> T) -> T {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
