//! A skill: instructions for the model, in a directory with a `SKILL.md`.

use std::path::{Path, PathBuf};

use baton_disk::front_matter::{FrontMatter, MalformedFrontMatter, printable, split};
use baton_disk::untrusted::{Unreadable, UntrustedDirectory};
use serde::{Deserialize, Serialize};

/// Name of the file.
pub(crate) const FILE: &str = "SKILL.md";
/// Largest `SKILL.md`, in bytes. More would crowd out the conversation.
pub(crate) const MAX_BYTES: usize = 256 * 1024;
/// Longest name, in characters.
const LONGEST_NAME: usize = 128;
/// Longest description, in characters: all descriptions are part of every request to the model.
const LONGEST_DESCRIPTION: usize = 1024;

/// Where a skill comes from, as SDKs name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkillSource {
    /// A directory that a client named.
    Custom,
    /// The project of the working directory.
    Project,
    /// A directory above the working directory, in the same repository.
    Inherited,
    /// The user's skills in the home of the server.
    PersonalCopilot,
    /// The user's skills for agents of any kind.
    PersonalAgents,
    /// A plugin.
    Plugin,
    /// A client that supplies its skills itself.
    Sdk,
}

impl SkillSource {
    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Custom => "custom",
            Self::Project => "project",
            Self::Inherited => "inherited",
            Self::PersonalCopilot => "personal-copilot",
            Self::PersonalAgents => "personal-agents",
            Self::Plugin => "plugin",
            Self::Sdk => "sdk",
        }
    }
}

/// The plugin that a skill belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PluginRef {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: Option<String>,
}

/// Where a skill was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SkillOrigin {
    /// Kind of place.
    pub source: SkillSource,
    /// The project that the place belongs to.
    pub project: Option<PathBuf>,
    /// The plugin that the place belongs to.
    pub plugin: Option<PluginRef>,
}

impl From<SkillSource> for SkillOrigin {
    fn from(source: SkillSource) -> Self {
        Self { source, project: None, plugin: None }
    }
}

/// Where the text of a skill is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// In a file, read when the skill is used. The path is relative to the directory that it must not leave.
    File {
        /// The directory.
        root: PathBuf,
        /// The path inside it.
        inside: PathBuf,
    },
    /// At the client that supplies the skill.
    Client,
}

/// A skill, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Name, unique in a session.
    pub name: String,
    /// Name of its slash command.
    pub command: String,
    /// When to use it.
    pub description: String,
    /// Hint for the arguments of the slash command.
    pub argument_hint: Option<String>,
    /// Tools that the file wants to be approved. Shown only: a file grants nothing.
    pub allowed_tools: Vec<String>,
    /// Whether users can invoke it with its slash command.
    pub user_invocable: bool,
    /// Whether the model can invoke it.
    pub model_invocable: bool,
    /// Where it comes from.
    pub origin: SkillOrigin,
    /// Path of the file, as the user knows it; empty if a client supplies the skill.
    pub path: PathBuf,
    /// Where its text is.
    pub content: Content,
}

impl Skill {
    /// Parses a `SKILL.md` in a directory of this name. Returns the skill, and warnings about it.
    ///
    /// # Errors
    /// When the file cannot be used, with the reason.
    pub(crate) fn parse(
        text: &str,
        directory: &str,
        path: PathBuf,
        content: Content,
        origin: SkillOrigin,
    ) -> Result<(Self, Vec<String>), String> {
        let (matter, body) = split(text).map_err(|error: MalformedFrontMatter| error.to_string())?;
        let mut warnings = Vec::new();
        if matter.is_none() {
            warnings.push("it has no front matter with name and description".to_owned());
        }
        let matter = matter.unwrap_or_default();
        let name = matter.text("name").unwrap_or_else(|| directory.to_owned());
        check_name(&name)?;
        let mut description = matter.text("description").unwrap_or_else(|| first_words(body));
        if description.is_empty() {
            warnings.push("it has no description, so the model cannot know when to use it".into());
        }
        if description.chars().count() > LONGEST_DESCRIPTION {
            description = description.chars().take(LONGEST_DESCRIPTION).collect();
            warnings.push(format!("its description was cut to {LONGEST_DESCRIPTION} characters"));
        }
        let mut flag = |key: &str, default: bool| {
            if matter.has(key) && matter.flag(key).is_none() {
                warnings.push(format!("{key} must be true or false"));
            }
            matter.flag(key).unwrap_or(default)
        };
        let (user_invocable, hidden) =
            (flag("user-invocable", true), flag("disable-model-invocation", false));
        let command = command(&name, origin.plugin.as_ref());
        let skill = Self {
            command,
            description,
            argument_hint: hint(&matter),
            allowed_tools: matter.list("allowed-tools").unwrap_or_default(),
            user_invocable,
            model_invocable: !hidden,
            origin,
            path,
            content,
            name,
        };
        Ok((skill, warnings))
    }

    /// Creates a skill that a client supplies.
    ///
    /// # Errors
    /// When its name cannot be used.
    pub fn of_client(name: &str, description: &str) -> Result<Self, String> {
        check_name(name)?;
        Ok(Self {
            name: name.to_owned(),
            command: command(name, None),
            description: printable(description).chars().take(LONGEST_DESCRIPTION).collect(),
            argument_hint: None,
            allowed_tools: Vec::new(),
            user_invocable: true,
            model_invocable: true,
            origin: SkillSource::Sdk.into(),
            path: PathBuf::new(),
            content: Content::Client,
        })
    }

    /// Reads the text of the skill, without front matter. Blocks. None if a client has it.
    ///
    /// # Errors
    /// When the file has gone, or cannot be read any more.
    pub fn read(&self) -> Option<Result<String, String>> {
        let Content::File { root, inside } = &self.content else { return None };
        let read = || -> Result<String, String> {
            let text = read_file(root, inside).map_err(|error| error.to_string())?;
            let (_, body) = split(&text).map_err(|error| error.to_string())?;
            Ok(body.to_owned())
        };
        Some(read())
    }

    /// Returns the directory of the skill; none if a client supplies it.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.path.parent().filter(|directory| !directory.as_os_str().is_empty())
    }

    /// Whether this is the skill that a model or a user names.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        let name = name.trim().trim_start_matches('/');
        self.name == name || self.command == name
    }
}

fn read_file(root: &Path, inside: &Path) -> Result<String, Unreadable> {
    UntrustedDirectory::open(root)?.read_text(inside, MAX_BYTES)
}

fn hint(matter: &FrontMatter) -> Option<String> {
    // Hints are often written as `[file]`, which is a list.
    matter.text("argument-hint").or_else(|| {
        let words = matter.list("argument-hint").filter(|words| !words.is_empty())?;
        Some(format!("[{}]", words.join(", ")))
    })
}

/// Checks the name of a skill or a plugin. It is shown on terminals, is an attribute of the text that the model is given, and
/// names a directory: it is no path.
///
/// # Errors
/// If it cannot be the name of a skill; the message says what a name must be.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_odd = |c: char| c.is_control() || matches!(c, '<' | '>' | '"' | '&' | '/' | '\\');
    let is_path = name.starts_with(['.', '~', '%']);
    if name.is_empty() || name.chars().count() > LONGEST_NAME || name.contains(is_odd) || is_path {
        return Err(format!(
            "its name must have 1 to {LONGEST_NAME} characters, without quotes, slashes and angle brackets, and must \
             not begin with a dot, a tilde or a per cent sign"
        ));
    }
    Ok(())
}

/// Returns the name of the slash command of a skill.
fn command(name: &str, plugin: Option<&PluginRef>) -> String {
    let name: String = name.split_whitespace().collect::<Vec<_>>().join("-");
    match plugin {
        Some(plugin) => format!("{}:{name}", plugin.name),
        None => name,
    }
}

/// Returns the first line with words, without the marks of a heading.
fn first_words(body: &str) -> String {
    let words = |line: &str| printable(line.trim().trim_start_matches('#'));
    body.lines().take(50).map(words).find(|line| !line.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_paths_and_no_markup() {
        for name in ["pdf", "Fill in forms", "v1.2", "é"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in
            ["", "..", ".hidden", "~", "%2e%2e", "a/b", "a\\b", "a\"b", "<a>", "a\nb", &"x".repeat(1000)]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
