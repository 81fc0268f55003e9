//! `.mcp.json` in the root of a repository, as `baton mcp add --scope project` edits it.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use baton_files::locations::Location;
use serde_json::{Map, Value, json};

use super::Surroundings;

/// Key of the servers.
const SERVERS: &str = "mcpServers";

/// Largest file that is edited.
const LARGEST: u64 = 1024 * 1024;

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
        let found = read_regular(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = found.unwrap_or_else(|| "{}".to_owned());
        let content: Value = baton_json::from_str(&text)
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
        baton_disk::private::replace_public(&self.path, text)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Reads a file of a repository, whose author is a stranger: links are not followed, and a FIFO is not waited for. `None` if
/// there is no file.
fn read_regular(path: &Path) -> anyhow::Result<Option<String>> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            anyhow::bail!("it is a link; replace it by a file, then try again")
        }
        Err(error) => return Err(error.into()),
    };
    anyhow::ensure!(file.metadata()?.is_file(), "it is not a regular file");
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text)?;
    anyhow::ensure!(text.len() as u64 <= LARGEST, "it has more than {LARGEST} bytes");
    Ok(Some(text))
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
        let text: Value = baton_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(text, json!({ "other": 1, "mcpServers": { "b": { "command": "y" } } }));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no scratch file stays");
    }

    #[test]
    fn link_and_fifo_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (path, secret) = (dir.path().join(".mcp.json"), dir.path().join("secret.json"));
        std::fs::write(&secret, "{}").unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        let problem = |path: &Path| format!("{:#}", ProjectFile::read(path.to_owned()).err().unwrap());
        assert!(problem(&path).contains("link"));
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert!(problem(&path).contains("regular"));
    }

    #[test]
    fn link_in_the_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ProjectFile::read(dir.path().join(".mcp.json")).unwrap();
        let precious = dir.path().join("precious");
        std::fs::write(&precious, "kept").unwrap();
        // The repository changed after the file was read.
        std::os::unix::fs::symlink(&precious, dir.path().join(".mcp.json")).unwrap();
        file.set("a", json!({ "command": "x" })).unwrap();
        assert_eq!(std::fs::read_to_string(precious).unwrap(), "kept");
        assert!(ProjectFile::read(dir.path().join(".mcp.json")).unwrap().contains("a"));
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
