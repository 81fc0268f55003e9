//! Grants of locations and trusted folders, in `permissions.json` of Baton's home or in a store that servers share. They
//! outlive sessions; they apply to a session once a client selects the location for it.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_disk::beneath;
use baton_disk::blocking;
use baton_protocol::permission::Approval;
use baton_protocol::rules::{Rule, RuleListEdit};
use baton_protocol::{Author, Timestamp};
use baton_store::Store;
use serde::{Deserialize, Serialize};

use crate::json_file::JsonFile;

/// A directory for which grants are kept: the root of the repository around a directory, or the directory itself where
/// there is no repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Path of the directory, which identifies the location.
    pub key: String,
    /// `repo` or `dir`.
    pub kind: &'static str,
}

impl Location {
    /// Finds the location of a directory.
    ///
    /// # Errors
    /// When the file system does not respond in time.
    pub async fn of(directory: PathBuf) -> Result<Self, String> {
        let shown = directory.display().to_string();
        let found = blocking::run(move || Self::around(&directory)).await;
        found.map_err(|error| format!("cannot read {shown}: {error}"))
    }

    fn around(directory: &Path) -> Self {
        let directory = beneath::resolve(directory);
        let (root, kind) = match baton_git::around(&directory) {
            Some(repository) => (repository.root, "repo"),
            None => (directory, "dir"),
        };
        Self { key: root.to_string_lossy().into_owned(), kind }
    }
}

/// A rule of a location, with its author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationGrant {
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// Author of the grant; none for grants that older versions stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
    /// Time of the grant; none for grants that older versions stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// A grant to store for a location.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// What is granted.
    pub approval: Approval,
    /// Author of the grant.
    pub by: Author,
    /// Digests of the MCP server and tool that the user was shown; none if the grant goes by names.
    pub binding: Option<String>,
}

/// Content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Permissions {
    /// Grants, by the key of their location.
    locations: BTreeMap<String, Vec<LocationGrant>>,
    /// Trusted folders, without links.
    trusted: BTreeSet<PathBuf>,
}

/// Grants of locations and trusted folders.
pub struct Locations {
    file: JsonFile,
}

impl Locations {
    /// Names the file in a home; nothing is read yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { file: JsonFile::new(home, "permissions.json") }
    }

    /// Names the file in a home, or the document of a store that servers share; nothing is read yet. Paths mean something at
    /// one place only, so each place has a document.
    #[must_use]
    pub fn of(home: &Path, store: &Arc<dyn Store>) -> Self {
        match store.members() {
            Some(members) => {
                Self { file: JsonFile::shared(store, &format!("permissions at {}", members.place())) }
            }
            None => Self::new(home),
        }
    }

    /// Reads all grants, by the key of their location.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn all(&self) -> Result<BTreeMap<String, Vec<LocationGrant>>, String> {
        self.file.read().await.map(|file: Permissions| file.locations)
    }

    /// Reads the rules of a location.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn rules(&self, key: &str) -> Result<Vec<Rule>, String> {
        let mut all = self.all().await?;
        Ok(all.remove(key).into_iter().flatten().map(|grant| grant.rule).collect())
    }

    /// Stores a grant. It is durable when this returns.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub async fn grant(&self, key: String, grant: NewGrant) -> Result<(), String> {
        let rules = Rule::of(&grant.approval, grant.binding.as_deref());
        let add = RuleListEdit { add: rules, ..RuleListEdit::default() };
        self.edit(key, add, grant.by).await.map(drop)
    }

    /// Changes the rules of a location, and returns them. Unchanged rules keep their authors.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub async fn edit(&self, key: String, edit: RuleListEdit, by: Author) -> Result<Vec<Rule>, String> {
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

    /// Whether a folder, or a folder that contains it, is trusted.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn is_trusted(&self, folder: PathBuf) -> Result<bool, String> {
        let file: Permissions = self.file.read().await?;
        let folder = resolved(folder).await;
        Ok(folder.ancestors().any(|ancestor| file.trusted.contains(ancestor)))
    }

    /// Trusts a folder. Its path must be without links, as [`resolved`] returns it.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub async fn trust(&self, folder: PathBuf) -> Result<(), String> {
        self.file.edit(move |file: &mut Permissions| file.trusted.insert(folder)).await.map(drop)
    }
}

/// Returns the real path of an absolute path, with all links followed as far as it exists. Waits for as long as the file
/// system takes: decisions about permissions must not fall back to a path with links.
pub async fn resolved(path: PathBuf) -> PathBuf {
    let unresolved = path.clone();
    tokio::task::spawn_blocking(move || beneath::resolve(&path)).await.unwrap_or(unresolved)
}

#[cfg(test)]
mod tests {
    use baton_protocol::rules::RuleKind;

    use super::*;

    #[tokio::test]
    async fn grants_have_authors_and_older_files_still_open() {
        let home = tempfile::tempdir().unwrap();
        let old = r#"{"locations":{"/w":[{"kind":"write","argument":null}]},"trusted":[]}"#;
        std::fs::write(home.path().join("permissions.json"), old).unwrap();
        let locations = Locations::new(home.path());
        let shell = Approval::Commands { command_identifiers: vec!["ls".into()] };
        let grant =
            |approval: Approval| NewGrant { approval, by: Author::http(), binding: Some("c:d".into()) };
        locations.grant("/w".into(), grant(shell)).await.unwrap();
        let all = locations.all().await.unwrap();
        assert_eq!(
            all["/w"][0],
            LocationGrant { rule: Rule::new(RuleKind::Write, None), by: None, at: None }
        );
        assert_eq!(all["/w"][1].by, Some(Author::http()));
        assert_eq!(all["/w"][1].rule.binding, None, "a shell line is what it says");
        let tool = Approval::Mcp { server_name: "s".into(), tool_name: Some("t".into()) };
        locations.grant("/w".into(), grant(tool)).await.unwrap();
        let reopened = Locations::new(home.path()).rules("/w").await.unwrap();
        assert_eq!(reopened[2].binding.as_deref(), Some("c:d"));
        let everything = RuleListEdit { remove_all: true, ..RuleListEdit::default() };
        locations.edit("/w".into(), everything, Author::http()).await.unwrap();
        assert!(locations.all().await.unwrap().is_empty());
    }
}
