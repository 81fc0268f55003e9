//! The user's own settings, kept in `settings.json` of the server's directory.
//!
//! Two of them have an effect here; whatever else clients keep there is given back as it is. The file is read when it is
//! first needed, and again when a client says that it has changed.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::kept::Kept;

type Settings = Map<String, Value>;

/// See the module.
pub(crate) struct Preferences {
    file: Kept,
    known: Mutex<Option<Arc<Settings>>>,
}

/// What the user's settings mean for a session.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// The model of sessions that name none.
    pub(crate) model: Option<String>,
    /// Whether the model may not ask the user.
    pub(crate) no_questions: bool,
}

impl Preferences {
    pub(crate) fn at(file: Kept) -> Self {
        Self { file, known: Mutex::default() }
    }

    /// A file that cannot be read is no reason to refuse a session: then there are no wishes.
    pub(crate) async fn wishes(&self) -> Wishes {
        let settings = self.settings().await.unwrap_or_default();
        Wishes {
            model: settings.get("model").and_then(Value::as_str).map(str::to_owned),
            no_questions: settings.get("askUser") == Some(&Value::Bool(false)),
        }
    }

    /// Every setting that is known or set: its value, what holds where nothing is set, and whether that holds.
    pub(crate) async fn described(&self) -> Result<Map<String, Value>, String> {
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

    /// Sets what has a value, and clears what has none.
    pub(crate) async fn set(&self, changes: Settings) -> Result<(), String> {
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

    /// Reads the file again when it is needed next.
    pub(crate) fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn settings(&self) -> Result<Arc<Settings>, String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let read = Arc::new(self.file.read::<Settings>().await?);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(read.clone());
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Keep;

    #[tokio::test]
    async fn settings_are_kept_and_mean_something() {
        let dir = tempfile::tempdir().unwrap();
        let preferences = || Preferences::at(Keep::at(dir.path()).file("settings.json"));
        let here = preferences();
        assert_eq!(here.wishes().await, Wishes::default());
        let set = json!({"askUser": false, "model": "m", "theirs": [1]});
        here.set(set.as_object().unwrap().clone()).await.unwrap();
        for preferences in [here, preferences()] {
            assert_eq!(preferences.wishes().await, Wishes { model: Some("m".into()), no_questions: true });
            let all = preferences.described().await.unwrap();
            assert_eq!(all["theirs"]["value"], json!([1]), "what others keep there is left alone");
            assert_eq!(all["askUser"], json!({"value": false, "default": true, "isDefault": false}));
        }
        let there = preferences();
        there.set(json!({"askUser": null}).as_object().unwrap().clone()).await.unwrap();
        assert_eq!(there.described().await.unwrap()["askUser"]["isDefault"], true);
    }

    #[tokio::test]
    async fn a_broken_file_costs_no_session() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("settings.json"), "// not ours").unwrap();
        let preferences = Preferences::at(Keep::at(dir.path()).file("settings.json"));
        assert_eq!(preferences.wishes().await, Wishes::default());
        assert!(preferences.described().await.is_err(), "whoever asks is told");
    }
}
