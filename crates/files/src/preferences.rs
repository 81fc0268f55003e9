//! Settings of the user, stored in `settings.json` in the home or in a store that servers share.
//!
//! The server uses two of them; others, which clients store there, are returned as they are. The file is read on first use,
//! and again after a client reports that it has changed.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use baton_store::Store;
use serde_json::{Map, Value, json};

use crate::json_file::JsonFile;

type Settings = Map<String, Value>;

/// Settings of the user.
pub struct Preferences {
    file: JsonFile,
    cached: Mutex<Option<Arc<Settings>>>,
}

/// Settings that apply to sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SessionDefaults {
    /// Model of sessions that name none.
    pub model: Option<String>,
    /// Whether the model must not ask the user questions.
    pub no_questions: bool,
}

impl Preferences {
    /// Names the file in a home; nothing is read yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { file: JsonFile::new(home, "settings.json"), cached: Mutex::default() }
    }

    /// Names the file in a home, or the document of a store that servers share; nothing is read yet.
    #[must_use]
    pub fn of(home: &Path, store: &Arc<dyn Store>) -> Self {
        match store.members() {
            Some(_) => Self { file: JsonFile::shared(store, "settings"), cached: Mutex::default() },
            None => Self::new(home),
        }
    }

    /// Returns the settings that apply to sessions. If the file cannot be read they are the defaults: sessions must not fail
    /// because of it.
    pub async fn session_defaults(&self) -> SessionDefaults {
        let settings = self.settings().await.unwrap_or_default();
        SessionDefaults {
            model: settings.get("model").and_then(Value::as_str).map(str::to_owned),
            no_questions: settings.get("askUser") == Some(&Value::Bool(false)),
        }
    }

    /// Returns a stored setting.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn get(&self, name: &str) -> Result<Option<Value>, String> {
        Ok(self.settings().await?.get(name).cloned())
    }

    /// Returns every known or stored setting, with its value, its default, and whether the default applies.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn described(&self) -> Result<Map<String, Value>, String> {
        let set = self.settings().await?;
        let mut all = Map::new();
        for (name, default) in [("askUser", json!(true)), ("model", Value::Null)] {
            let value = set.get(name).unwrap_or(&default);
            let is_default = !set.contains_key(name);
            all.insert(name.into(), json!({ "value": value, "default": default, "isDefault": is_default }));
        }
        for (name, value) in set.iter().filter(|(name, _)| !matches!(name.as_str(), "askUser" | "model")) {
            all.insert(name.clone(), json!({ "value": value, "default": null, "isDefault": false }));
        }
        Ok(all)
    }

    /// Stores settings, and removes those whose value is null.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn set(&self, changes: Settings) -> Result<(), String> {
        let edit = move |set: &mut Settings| {
            for (name, value) in changes {
                if value.is_null() {
                    set.remove(&name);
                } else {
                    set.insert(name, value);
                }
            }
        };
        self.file.edit(edit).await?;
        self.forget();
        Ok(())
    }

    /// Drops the cached settings, so that the next use reads the file.
    pub fn forget(&self) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn settings(&self) -> Result<Arc<Settings>, String> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let read = Arc::new(self.file.read::<Settings>().await?);
        if !self.file.is_shared() {
            *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some(read.clone());
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settings_are_stored_and_applied() {
        let dir = tempfile::tempdir().unwrap();
        let preferences = || Preferences::new(dir.path());
        let here = preferences();
        assert_eq!(here.session_defaults().await, SessionDefaults::default());
        let set = json!({"askUser": false, "model": "m", "theirs": [1]});
        here.set(set.as_object().unwrap().clone()).await.unwrap();
        for preferences in [here, preferences()] {
            assert_eq!(
                preferences.session_defaults().await,
                SessionDefaults { model: Some("m".into()), no_questions: true }
            );
            let all = preferences.described().await.unwrap();
            assert_eq!(all["theirs"]["value"], json!([1]), "unknown settings are preserved");
            assert_eq!(all["askUser"], json!({"value": false, "default": true, "isDefault": false}));
        }
        let there = preferences();
        there.set(json!({"askUser": null}).as_object().unwrap().clone()).await.unwrap();
        assert_eq!(there.described().await.unwrap()["askUser"]["isDefault"], true);
    }

    #[tokio::test]
    async fn sessions_get_defaults_when_the_file_is_malformed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("settings.json"), "// not ours").unwrap();
        let preferences = Preferences::new(dir.path());
        assert_eq!(preferences.session_defaults().await, SessionDefaults::default());
        assert!(preferences.described().await.is_err(), "reading the settings reports the error");
    }
}
