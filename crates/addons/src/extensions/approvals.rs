//! The user's approvals of extensions, in `extensions.json` of the home.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use baton_files::json_file::JsonFile;
use baton_files::locations::Locations;
use baton_skills::Extension;
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    approved: BTreeMap<PathBuf, Approved>,
    /// Ids of extensions that are switched off.
    disabled: BTreeSet<String>,
}

/// An approval of one code.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Approved {
    digest: String,
    /// Whether it is approved only that the code reads the variables, and not that it is started.
    variables_only: bool,
    /// Sets of variables that it may read.
    variables: BTreeSet<Vec<String>>,
}

/// Approvals of extensions.
pub(super) struct Approvals {
    file: JsonFile,
    locations: Locations,
}

impl Approvals {
    pub(super) fn new(home: &Path) -> Self {
        Self { file: JsonFile::new(home, "extensions.json"), locations: Locations::new(home) }
    }

    /// Whether exactly this code is approved, or its folder is trusted.
    pub(super) async fn covers(&self, extension: &Extension) -> Result<bool, String> {
        let content: Content = self.file.read().await?;
        let approved = content.approved.get(&extension.root);
        let covers = |approved: &Approved| approved.digest == extension.digest && !approved.variables_only;
        Ok(approved.is_some_and(covers) || self.locations.is_trusted(extension.root.clone()).await?)
    }

    /// Approves exactly this code. What an earlier code was allowed is forgotten.
    pub(super) async fn approve(&self, extension: &Extension) -> Result<(), String> {
        let Extension { root, digest, .. } = extension.clone();
        let approve = move |content: &mut Content| {
            content.of(root, digest).variables_only = false;
        };
        self.file.edit(approve).await
    }

    pub(super) async fn may_read(&self, extension: &Extension, names: &[String]) -> Result<bool, String> {
        let content: Content = self.file.read().await?;
        let approved = content.approved.get(&extension.root);
        let approved = approved.filter(|approved| approved.digest == extension.digest);
        Ok(approved.is_some_and(|approved| approved.variables.contains(names)))
    }

    pub(super) async fn let_read(&self, extension: &Extension, names: Vec<String>) -> Result<(), String> {
        let Extension { root, digest, .. } = extension.clone();
        let approve = move |content: &mut Content| content.of(root, digest).variables.insert(names);
        self.file.edit(approve).await.map(drop)
    }

    pub(super) async fn is_disabled(&self, id: &str) -> Result<bool, String> {
        let content: Content = self.file.read().await?;
        Ok(content.disabled.contains(id))
    }

    pub(super) async fn set_enabled(&self, id: String, enabled: bool) -> Result<(), String> {
        let change = move |content: &mut Content| match enabled {
            true => content.disabled.remove(&id),
            false => content.disabled.insert(id),
        };
        self.file.edit(change).await.map(drop)
    }
}

impl Content {
    /// Returns the approval of a code. A new one is for variables only.
    fn of(&mut self, root: PathBuf, digest: String) -> &mut Approved {
        let approved = self.approved.entry(root).or_default();
        if approved.digest != digest {
            *approved = Approved { digest, variables_only: true, variables: BTreeSet::new() };
        }
        approved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(digest: &str) -> Extension {
        let root = PathBuf::from("/work/.github/extensions/a");
        Extension { name: "a".into(), entry: root.join("extension.mjs"), root, digest: digest.into() }
    }

    #[tokio::test]
    async fn approval_is_for_one_code_and_one_set_of_variables() {
        let home = tempfile::tempdir().unwrap();
        let approvals = Approvals::new(home.path());
        assert!(!approvals.covers(&extension("1")).await.unwrap());
        approvals.approve(&extension("1")).await.unwrap();
        assert!(approvals.covers(&extension("1")).await.unwrap());
        assert!(!approvals.covers(&extension("2")).await.unwrap());

        let names = vec!["A_TOKEN".to_owned()];
        approvals.let_read(&extension("1"), names.clone()).await.unwrap();
        assert!(approvals.may_read(&extension("1"), &names).await.unwrap());
        let more = ["A_TOKEN".to_owned(), "B_TOKEN".to_owned()];
        assert!(!approvals.may_read(&extension("1"), &more).await.unwrap());
        approvals.approve(&extension("2")).await.unwrap();
        assert!(!approvals.may_read(&extension("2"), &names).await.unwrap(), "another code");
        assert!(!approvals.covers(&extension("1")).await.unwrap(), "the later approval replaces it");
    }

    #[tokio::test]
    async fn approval_of_variables_does_not_approve_the_start() {
        let home = tempfile::tempdir().unwrap();
        let approvals = Approvals::new(home.path());
        let names = vec!["A_TOKEN".to_owned()];
        approvals.let_read(&extension("1"), names.clone()).await.unwrap();
        assert!(approvals.may_read(&extension("1"), &names).await.unwrap());
        assert!(!approvals.covers(&extension("1")).await.unwrap());
        approvals.approve(&extension("1")).await.unwrap();
        assert!(approvals.covers(&extension("1")).await.unwrap());
        assert!(approvals.may_read(&extension("1"), &names).await.unwrap());
    }

    #[tokio::test]
    async fn trusted_folder_covers_its_extensions() {
        let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = work.path().canonicalize().unwrap();
        Locations::new(home.path()).trust(root.clone()).await.unwrap();
        let inside = Extension { root: root.join(".github/extensions/a"), ..extension("1") };
        assert!(Approvals::new(home.path()).covers(&inside).await.unwrap());
    }

    #[tokio::test]
    async fn extension_can_be_switched_off_and_on() {
        let home = tempfile::tempdir().unwrap();
        let approvals = Approvals::new(home.path());
        approvals.set_enabled("project:a".into(), false).await.unwrap();
        assert!(approvals.is_disabled("project:a").await.unwrap());
        assert!(!approvals.is_disabled("user:a").await.unwrap());
        approvals.set_enabled("project:a".into(), true).await.unwrap();
        assert!(!approvals.is_disabled("project:a").await.unwrap());
    }
}
