//! Plugins that clients name for all sessions of the process: built-in ones, and additional ones. They count without a
//! question, like directories that a client names for its session, and are forgotten when the process ends.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Directories of plugins for all sessions.
#[derive(Default)]
pub struct ServerPlugins {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    built_in: Vec<PathBuf>,
    additional: Vec<PathBuf>,
}

impl ServerPlugins {
    /// Replaces the built-in plugins.
    ///
    /// # Errors
    /// When a path is not absolute.
    pub fn set_built_in(&self, paths: Vec<PathBuf>) -> Result<(), String> {
        self.lock().built_in = absolute(paths)?;
        Ok(())
    }

    /// Replaces the additional plugins. Sessions use them from their next start or reload on.
    ///
    /// # Errors
    /// When a path is not absolute.
    pub fn set_additional(&self, paths: Vec<PathBuf>) -> Result<(), String> {
        self.lock().additional = absolute(paths)?;
        Ok(())
    }

    /// Returns all directories.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let state = self.lock();
        state.built_in.iter().chain(&state.additional).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn absolute(paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    match paths.iter().find(|path| !path.is_absolute()) {
        Some(path) => Err(format!("{} is not an absolute path", path.display())),
        None => Ok(paths),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_replaced_and_relative_paths_are_refused() {
        let plugins = ServerPlugins::default();
        plugins.set_built_in(vec!["/a".into()]).unwrap();
        plugins.set_additional(vec!["/b".into(), "/c".into()]).unwrap();
        plugins.set_additional(vec!["/d".into()]).unwrap();
        assert!(plugins.set_built_in(vec!["/x".into(), "y".into()]).is_err());
        assert_eq!(plugins.directories(), [PathBuf::from("/a"), PathBuf::from("/d")]);
    }
}
