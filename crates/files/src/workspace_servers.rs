//! MCP servers that the files of a workspace declare, and the user's approvals of them.
//!
//! A server of a workspace is a program that the author of the repository chose. It counts only if the user trusts the
//! folder, or has approved the file with exactly these declarations: an approval is for a digest, so a file that changes
//! afterwards is asked about again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use baton_disk::blocking;
use baton_disk::untrusted::{Unreadable, UntrustedDirectory};
use baton_mcp::files::{self, LARGEST, WORKSPACE};
use baton_mcp::{Declared, Origin};
use serde::{Deserialize, Serialize};

use crate::json_file::JsonFile;
use crate::locations::{Location, Locations};

/// Files that are looked at for one session.
const MOST_FILES: usize = 30;

/// A file of a workspace that declares servers.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkspaceFile {
    /// The file.
    pub path: PathBuf,
    /// Its declarations. A file that cannot be parsed declares one unusable server, under its own name.
    pub servers: Vec<Declared>,
    /// Digest of its content.
    pub digest: String,
}

/// Reads the files of a workspace: those of a directory and of its parents up to the root of the repository, the nearest
/// first.
///
/// # Errors
/// When the file system does not respond in time.
pub async fn read(cwd: &Path) -> Result<Vec<WorkspaceFile>, String> {
    let Location { key, .. } = Location::of(cwd.to_owned()).await?;
    let (root, start) = (PathBuf::from(key), cwd.to_owned());
    blocking::run(move || scan(&start, &root)).await.map_err(|error| error.to_string())
}

#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn scan(start: &Path, root: &Path) -> Vec<WorkspaceFile> {
    let start = start.canonicalize().unwrap_or_else(|_| start.to_owned());
    let directories = start.ancestors().take_while(|parent| parent.starts_with(root));
    let mut found = Vec::new();
    for directory in directories {
        let Ok(directory) = UntrustedDirectory::open(directory) else { continue };
        for name in WORKSPACE {
            found.extend(read_one(&directory, name));
            if found.len() >= MOST_FILES {
                return found;
            }
        }
    }
    found
}

fn read_one(directory: &UntrustedDirectory, name: &str) -> Option<WorkspaceFile> {
    let path = directory.path().join(name);
    let origin = Origin::Workspace { file: path.clone(), root: directory.path().to_owned() };
    let (text, problem) = match directory.read(name, LARGEST) {
        Err(Unreadable::Absent) => return None,
        Err(error) => (String::new(), Some(format!("cannot be read: {error}"))),
        Ok(excerpt) if excerpt.is_cut => (String::new(), Some(format!("is larger than {LARGEST} bytes"))),
        Ok(excerpt) => match excerpt.into_text() {
            Ok(text) => (text, None),
            Err(error) => (String::new(), Some(format!("cannot be read: {error}"))),
        },
    };
    let digest = digest(&text);
    let parsed = match problem {
        Some(problem) => Err(problem),
        None => files::parse(&text, &origin),
    };
    let servers = parsed.unwrap_or_else(|problem| {
        let problem = format!("{} cannot be used: {problem}", path.display());
        vec![Declared::unusable(name, problem, origin)]
    });
    (!servers.is_empty()).then_some(WorkspaceFile { path, servers, digest })
}

fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Content of the file with approvals.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    /// Digests of approved files, by path.
    approved: BTreeMap<PathBuf, String>,
}

/// The user's approvals of workspace files, in `mcp-approvals.json` of Baton's home.
pub struct WorkspaceApprovals {
    file: JsonFile,
}

impl WorkspaceApprovals {
    /// Names the file in a home; nothing is read yet.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { file: JsonFile::new(home, "mcp-approvals.json") }
    }

    /// Splits files into those that count and those that the user has to be asked about. A file without a usable server
    /// runs nothing, and needs no approval. Contents in `also` count without one.
    pub async fn sort(
        &self,
        files: Vec<WorkspaceFile>,
        locations: &Locations,
        also: &BTreeSet<(PathBuf, String)>,
    ) -> (Vec<WorkspaceFile>, Vec<WorkspaceFile>) {
        if files.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let approved = self.file.read::<Content>().await.unwrap_or_default().approved;
        let (mut trusted, mut pending) = (Vec::new(), Vec::new());
        for file in files {
            let is_inert = file.servers.iter().all(|server| server.config.is_err());
            let folder = file.path.parent().unwrap_or(&file.path).to_owned();
            let counts = is_inert
                || approved.get(&file.path) == Some(&file.digest)
                || also.contains(&(file.path.clone(), file.digest.clone()))
                || locations.is_trusted(folder).await == Ok(true);
            if counts { trusted.push(file) } else { pending.push(file) }
        }
        (trusted, pending)
    }

    /// Approves files with exactly these contents: paths and digests.
    ///
    /// # Errors
    /// When the approvals cannot be stored.
    pub async fn approve(&self, files: Vec<(PathBuf, String)>) -> Result<(), String> {
        self.file.edit(move |content: &mut Content| content.approved.extend(files)).await
    }

    /// Withdraws the approval of a file. Returns whether there was one.
    ///
    /// # Errors
    /// When the approvals cannot be stored.
    pub async fn withdraw(&self, path: PathBuf) -> Result<bool, String> {
        self.file.edit(move |content: &mut Content| content.approved.remove(&path).is_some()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn none() -> BTreeSet<(PathBuf, String)> {
        BTreeSet::new()
    }

    fn names(files: &[WorkspaceFile]) -> Vec<&str> {
        files.iter().flat_map(|file| &file.servers).map(|server| server.name.as_str()).collect()
    }

    #[test]
    fn files_are_found_up_to_the_root_and_the_nearest_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("repo");
        write(&root.parent().unwrap().join(".mcp.json"), r#"{"mcpServers":{"outside":{"command":"x"}}}"#);
        write(&root.join(".mcp.json"), r#"{"mcpServers":{"root":{"command":"x"}}}"#);
        write(&root.join(".vscode/mcp.json"), r#"{"servers":{"editor":{"command":"x"}}}"#);
        write(&root.join("a/.github/mcp.json"), r#"{"mcpServers":{"near":{"command":"x"}}}"#);
        std::os::unix::fs::symlink("/etc/passwd", root.join("a/.mcp.json")).unwrap();
        let found = scan(&root.join("a"), &root);
        assert_eq!(names(&found), [".mcp.json", "near", "root", "editor"]);
        assert!(found[0].servers[0].config.is_err(), "a link out of the workspace");
    }

    #[test]
    fn unusable_files_have_a_status_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".mcp.json");
        let problem = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            let found = scan(dir.path(), &dir.path().canonicalize().unwrap());
            found[0].servers[0].config.clone().unwrap_err().problem
        };
        assert!(problem(b"{\n oops").contains("line 2"));
        assert!(problem(&vec![b' '; LARGEST + 1]).contains("larger"));
        assert!(problem(b"{\"a\":\"\xff\"}").contains("cannot be read"));
    }

    #[tokio::test]
    async fn approval_is_for_one_content() {
        let (home, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (approvals, locations) = (WorkspaceApprovals::new(home.path()), Locations::new(home.path()));
        let path = dir.path().canonicalize().unwrap().join(".mcp.json");
        write(&path, r#"{"mcpServers":{"a":{"command":"x"}}}"#);
        let (trusted, pending) = approvals.sort(read(dir.path()).await.unwrap(), &locations, &none()).await;
        assert_eq!((trusted.len(), pending.len()), (0, 1));
        approvals.approve(vec![(path.clone(), pending[0].digest.clone())]).await.unwrap();
        let (trusted, pending) = approvals.sort(read(dir.path()).await.unwrap(), &locations, &none()).await;
        assert_eq!((trusted.len(), pending.len()), (1, 0));

        write(&path, r#"{"mcpServers":{"a":{"command":"evil"}}}"#);
        let (trusted, pending) = approvals.sort(read(dir.path()).await.unwrap(), &locations, &none()).await;
        assert_eq!((trusted.len(), pending.len()), (0, 1), "the file has changed");
        locations.trust(path.parent().unwrap().to_owned()).await.unwrap();
        let (trusted, _) = approvals.sort(read(dir.path()).await.unwrap(), &locations, &none()).await;
        assert_eq!(trusted.len(), 1, "the folder is trusted");
    }

    #[tokio::test]
    async fn content_that_is_trusted_elsewhere_counts_until_it_changes() {
        let (home, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (approvals, locations) = (WorkspaceApprovals::new(home.path()), Locations::new(home.path()));
        let path = dir.path().canonicalize().unwrap().join(".mcp.json");
        write(&path, r#"{"mcpServers":{"a":{"command":"x"}}}"#);
        let files = read(dir.path()).await.unwrap();
        let also = BTreeSet::from([(path.clone(), files[0].digest.clone())]);
        assert_eq!(approvals.sort(files.clone(), &locations, &also).await.0.len(), 1);
        assert_eq!(approvals.sort(files, &locations, &none()).await.0.len(), 0, "nothing is stored");
        write(&path, r#"{"mcpServers":{"a":{"command":"evil"}}}"#);
        assert_eq!(approvals.sort(read(dir.path()).await.unwrap(), &locations, &also).await.0.len(), 0);
    }

    #[tokio::test]
    async fn file_without_usable_servers_needs_no_approval() {
        let (home, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(&dir.path().join(".mcp.json"), "{");
        let approvals = WorkspaceApprovals::new(home.path());
        let (trusted, pending) =
            approvals.sort(read(dir.path()).await.unwrap(), &Locations::new(home.path()), &none()).await;
        assert_eq!((trusted.len(), pending.len()), (1, 0));
    }
}
