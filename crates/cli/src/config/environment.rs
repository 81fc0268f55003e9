//! The environment variables that settings are read from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Environment variables, without empty ones. A map, so that tests need not change the process.
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process. Those that are not UTF-8 hold no setting of ours.
    pub(crate) fn of_process() -> Self {
        let text =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        std::env::vars_os().filter_map(text).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the name and value of the first of these variables that is set.
    pub(crate) fn first(&self, names: &[&str]) -> Option<(String, String)> {
        names.iter().find_map(|name| Some(((*name).to_owned(), self.get(name)?.to_owned())))
    }

    /// Returns the directory in a variable, otherwise one below the user's home.
    pub(crate) fn directory(&self, variable: &str, below_home: &str) -> PathBuf {
        match self.get(variable) {
            Some(directory) => PathBuf::from(directory),
            None => Path::new(self.get("HOME").unwrap_or("/")).join(below_home),
        }
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(variables: T) -> Self {
        Self(variables.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }
}
