//! `.mcp.json` in the root of a repository, as `baton mcp add --scope project` edits it.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use baton_runtime::locations::Location;
use serde_json::{Map, Value, json};

use super::Surroundings;

/// Key of the servers.
const SERVERS: &str = "mcpServers";

/// The file, with everything in it.
pub(super) struct ProjectFile {
    path: PathBuf,
    content: Map<String, Value>,
}

impl ProjectFile {
    /// Reads the file of the repository around the working directory. A missing one is empty.
    pub(super) async fn open(around: &Surroundings) -> anyhow::Result<Self> {
        let root = Location::of(around.cwd.clone()).await.map_err(anyhow::Error::msg)?;
        Self::read(PathBuf::from(root.key).join(".mcp.json"))
    }

    fn read(path: PathBuf) -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "{}".to_owned(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let content: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is not JSON; fix it, then try again", path.display()))?;
        let Value::Object(content) = content else {
            anyhow::bail!("{} is not a JSON object; fix it, then try again", path.display())
        };
        anyhow::ensure!(
            content.get(SERVERS).is_none_or(Value::is_object),
            "{SERVERS} in {} is not an object; fix it, then try again",
            path.display()
        );
        Ok(Self { path, content })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.content.get(SERVERS).is_some_and(|servers| servers.get(name).is_some())
    }

    pub(super) fn set(&mut self, name: &str, config: Value) -> anyhow::Result<()> {
        let servers = self.content.entry(SERVERS).or_insert_with(|| json!({}));
        if let Some(servers) = servers.as_object_mut() {
            servers.insert(name.to_owned(), config);
        }
        self.write()
    }

    pub(super) fn remove(&mut self, name: &str) -> anyhow::Result<()> {
        if let Some(servers) = self.content.get_mut(SERVERS).and_then(Value::as_object_mut) {
            servers.shift_remove(name);
        }
        self.write()
    }

    /// Replaces the file at once: a reader sees the old content or the new one.
    fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.content)? + "\n";
        let scratch = self.scratch();
        // A new file: the directory is a stranger's, and may have a link of this name.
        let created = std::fs::OpenOptions::new().write(true).create_new(true).open(&scratch);
        let mut file = created.with_context(|| format!("cannot create {}", scratch.display()))?;
        let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&scratch, &self.path));
        if written.is_err() {
            let _ = std::fs::remove_file(&scratch);
        }
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn scratch(&self) -> PathBuf {
        self.path.with_extension(format!("json.{}", std::process::id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_content_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".mcp.json");
        std::fs::write(&path, r#"{"other":1,"mcpServers":{"a":{"command":"x"}}}"#).unwrap();
        let mut file = ProjectFile::read(path.clone()).unwrap();
        file.set("b", json!({ "command": "y" })).unwrap();
        file.remove("a").unwrap();
        let text: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(text, json!({ "other": 1, "mcpServers": { "b": { "command": "y" } } }));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no scratch file stays");
    }

    #[test]
    fn link_in_the_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ProjectFile::read(dir.path().join(".mcp.json")).unwrap();
        let precious = dir.path().join("precious");
        std::fs::write(&precious, "kept").unwrap();
        std::os::unix::fs::symlink(&precious, file.scratch()).unwrap();
        assert!(file.set("a", json!({ "command": "x" })).is_err());
        assert_eq!(std::fs::read_to_string(precious).unwrap(), "kept");
    }

    #[test]
    fn file_that_is_not_understood_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".mcp.json");
        for text in ["{ // comment\n}", "[]", r#"{"mcpServers":[]}"#] {
            std::fs::write(&path, text).unwrap();
            assert!(ProjectFile::read(path.clone()).is_err_and(|error| error.to_string().contains("fix it")));
        }
    }
}
