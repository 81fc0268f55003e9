//! Grants for locations and trusted folders, in `permissions.json` of Baton's home. They outlive sessions; a session follows
//! them once a client applies the location to it.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use baton_agent::blocking;
use baton_protocol::permission::Approval;
use baton_protocol::rules::{Rule, RuleListEdit};
use baton_protocol::{Author, Timestamp};
use serde::{Deserialize, Serialize};

use crate::git;
use crate::kept::{Keep, Kept};

/// A directory for which grants are kept: a repository, wherever in it one is, or a directory of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) key: String,
    pub(crate) kind: &'static str,
}

impl Location {
    /// Finds the location of a directory. Fails when the file system does not answer.
    pub(crate) async fn of(directory: PathBuf) -> Result<Self, String> {
        let named = directory.display().to_string();
        let looked = blocking::run(move || Self::around(&directory)).await;
        looked.map_err(|error| format!("cannot look at {named}: {error}"))
    }

    fn around(directory: &Path) -> Self {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let (root, kind) = match git::around(&directory) {
            Some(repository) => (repository.root, "repo"),
            None => (directory, "dir"),
        };
        Self { key: root.to_string_lossy().into_owned(), kind }
    }
}

/// A rule of a location, with who gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocationGrant {
    #[serde(flatten)]
    pub(crate) rule: Rule,
    /// None for grants that older versions stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<Author>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Timestamp>,
}

/// The file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Permissions {
    /// What is allowed, by the key of the location.
    locations: BTreeMap<String, Vec<LocationGrant>>,
    trusted: BTreeSet<PathBuf>,
}

/// Grants for locations and trusted folders.
pub(crate) struct Locations {
    file: Kept,
}

impl Locations {
    pub(crate) fn at(keep: &Keep) -> Self {
        Self { file: keep.file("permissions.json") }
    }

    /// All grants, by the key of their location.
    pub(crate) async fn all(&self) -> Result<BTreeMap<String, Vec<LocationGrant>>, String> {
        self.file.read().await.map(|file: Permissions| file.locations)
    }

    /// The rules of a location.
    pub(crate) async fn rules(&self, key: &str) -> Result<Vec<Rule>, String> {
        let mut all = self.all().await?;
        Ok(all.remove(key).into_iter().flatten().map(|grant| grant.rule).collect())
    }

    /// Stores a grant. It is durable when this returns.
    pub(crate) async fn grant(&self, key: String, approval: &Approval, by: Author) -> Result<(), String> {
        let add = RuleListEdit { add: Rule::of(approval), ..RuleListEdit::default() };
        self.edit(key, add, by).await.map(drop)
    }

    /// Changes the rules of a location, and returns them.
    pub(crate) async fn edit(
        &self,
        key: String,
        edit: RuleListEdit,
        by: Author,
    ) -> Result<Vec<Rule>, String> {
        let change = move |file: &mut Permissions| {
            let grants = file.locations.entry(key.clone()).or_default();
            let mut rules: Vec<Rule> = grants.iter().map(|grant| grant.rule.clone()).collect();
            edit.apply(&mut rules);
            let known = std::mem::take(grants);
            *grants = rules
                .iter()
                .map(|rule| {
                    let same = known.iter().find(|grant| grant.rule == *rule).cloned();
                    let at = Some(Timestamp::now());
                    same.unwrap_or_else(|| LocationGrant { rule: rule.clone(), by: Some(by.clone()), at })
                })
                .collect();
            if grants.is_empty() {
                file.locations.remove(&key);
            }
            rules
        };
        self.file.edit(change).await
    }

    /// Whether a folder, or one around it, was declared to be trusted.
    pub(crate) async fn is_trusted(&self, folder: PathBuf) -> Result<bool, String> {
        let file: Permissions = self.file.read().await?;
        let folder = resolved(folder).await;
        Ok(folder.ancestors().any(|ancestor| file.trusted.contains(ancestor)))
    }

    /// Declares a folder to be trusted.
    pub(crate) async fn trust(&self, folder: PathBuf) -> Result<(), String> {
        self.file.edit(move |file: &mut Permissions| file.trusted.insert(folder)).await.map(drop)
    }
}

/// A path with its links resolved, as far as it exists.
pub(crate) async fn resolved(path: PathBuf) -> PathBuf {
    let named = path.clone();
    tokio::task::spawn_blocking(move || resolve(&path)).await.unwrap_or(named)
}

fn resolve(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match existing {
        Some((ancestor, real)) => match path.strip_prefix(ancestor) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::rules::RuleKind;

    use super::*;

    #[tokio::test]
    async fn grants_remember_who_gave_them_and_older_files_still_open() {
        let home = tempfile::tempdir().unwrap();
        let old = r#"{"locations":{"/w":[{"kind":"write","argument":null}]},"trusted":[]}"#;
        std::fs::write(home.path().join("permissions.json"), old).unwrap();
        let locations = Locations::at(&Keep::at(home.path()));
        let shell = Approval::Commands { command_identifiers: vec!["ls".into()] };
        locations.grant("/w".into(), &shell, Author::http()).await.unwrap();
        let all = locations.all().await.unwrap();
        assert_eq!(
            all["/w"][0],
            LocationGrant { rule: Rule::new(RuleKind::Write, None), by: None, at: None }
        );
        assert_eq!(all["/w"][1].by, Some(Author::http()));
        let everything = RuleListEdit { remove_all: true, ..RuleListEdit::default() };
        locations.edit("/w".into(), everything, Author::http()).await.unwrap();
        assert!(locations.all().await.unwrap().is_empty());
    }
}
