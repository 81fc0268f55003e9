//! Agents in files: a prompt with front matter, `<name>.agent.md` or `<name>.md` in a directory of agents.

use std::path::{Path, PathBuf};

use baton_disk::front_matter::split;
use baton_disk::untrusted::{Excerpt, UntrustedDirectory};
use baton_protocol::agent::CustomAgent;

use crate::scan::{Problem, SkillScan, list};

/// Largest file of an agent, in bytes.
const MAX_BYTES: usize = 128 * 1024;

/// An agent that was found in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentFile {
    /// The agent.
    pub agent: CustomAgent,
    /// The file, as the user knows it.
    pub path: PathBuf,
    /// Whether users can select it.
    pub user_invocable: bool,
}

/// Finds the agents in a directory. Blocks.
#[must_use]
pub fn scan_agents(root: &Path, prefix: Option<&str>) -> (Vec<AgentFile>, Vec<Problem>) {
    scan_agents_below(root, Path::new(""), prefix)
}

/// Finds the agents in a directory below a root, which no link may leave. With a prefix, an agent `a` is named `prefix:a`.
/// Blocks.
pub(crate) fn scan_agents_below(
    root: &Path,
    inside: &Path,
    prefix: Option<&str>,
) -> (Vec<AgentFile>, Vec<Problem>) {
    let (mut agents, mut found) = (Vec::new(), SkillScan::default());
    let Some((directory, names)) = list(root, inside, &mut found) else {
        return (agents, found.problems);
    };
    for name in names {
        let name = name.to_string_lossy();
        let Some(stem) = name.strip_suffix(".agent.md").or_else(|| name.strip_suffix(".md")) else {
            continue;
        };
        let file = inside.join(&*name);
        let path = root.join(&file);
        match read(&directory, &file, stem, prefix) {
            Ok((agent, user_invocable)) => agents.push(AgentFile { agent, path, user_invocable }),
            Err(why) => found.refuse(path, why),
        }
    }
    (agents, found.problems)
}

fn read(
    directory: &UntrustedDirectory,
    file: &Path,
    stem: &str,
    prefix: Option<&str>,
) -> Result<(CustomAgent, bool), String> {
    let text = match directory.read(file, MAX_BYTES) {
        Ok(Excerpt { is_cut: true, .. }) => return Err(format!("it is larger than {MAX_BYTES} bytes")),
        read => read.and_then(Excerpt::into_text).map_err(|error| error.to_string())?,
    };
    let (matter, body) = split(&text).map_err(|error| error.to_string())?;
    let matter = matter.unwrap_or_default();
    let name = matter.text("name").unwrap_or_else(|| stem.to_owned());
    if name.contains(['<', '>', '"', '\n']) {
        return Err("its name must not have quotes, angle brackets and line breaks".into());
    }
    let agent = CustomAgent {
        name: prefix.map_or_else(|| name.clone(), |prefix| format!("{prefix}:{name}")),
        display_name: Some(name),
        description: matter.text("description"),
        prompt: body.trim().to_owned(),
        tools: matter.list("tools"),
        model: matter.text("model"),
        reasoning_effort: None,
        infer: matter.flag("infer").or_else(|| matter.flag("disable-model-invocation").map(|hidden| !hidden)),
        // Servers of an agent come from clients and from a plugin's own file, where the user sees them.
        mcp_servers: None,
        skills: matter.list("skills"),
    };
    Ok((agent, matter.flag("user-invocable").unwrap_or(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_read_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(
            "a.agent.md",
            "---\nname: reviewer\ndescription: Reviews.\ntools: ['view', 'grep']\n---\nYou review.\n",
        );
        write("b.md", "You build.");
        write("c.txt", "no agent");
        write("d.md", "---\nname: [\n---\n");
        let (agents, problems) = scan_agents(dir.path(), Some("kit"));
        let names: Vec<&str> = agents.iter().map(|found| found.agent.name.as_str()).collect();
        assert_eq!(names, ["kit:reviewer", "kit:b"]);
        assert_eq!(agents[0].agent.tools.as_deref().unwrap(), ["view", "grep"]);
        assert_eq!(agents[0].agent.prompt, "You review.");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(scan_agents(&dir.path().join("none"), None).0.is_empty());
    }
}
