//! Rules that clients have set for a session: what is allowed or refused without asking anybody.
//!
//! They are settings, not history: gone with the process, and set again by whoever wants them. Those of a place are kept
//! in a file of the server and given to a session on demand. Grants that people give in answer to a request are history,
//! and the core's business.
#![allow(
    clippy::disallowed_methods,
    reason = "still resolves paths on a worker; to be moved to `baton_agent::blocking`"
)]

use std::path::{Component, Path, PathBuf};

use baton_core::Ruling;
use baton_protocol::permission::{Approval, PermissionRequest};
use serde::{Deserialize, Serialize};

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RuleKind {
    /// Commands; clients have two words for them.
    #[serde(alias = "commands")]
    Shell,
    Read,
    Write,
    Memory,
    Url,
    CustomTool,
    Mcp,
}

/// A rule as clients write it: a kind of request, and what it is about; everything of that kind if it does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rule {
    pub(crate) kind: RuleKind,
    #[serde(default)]
    pub(crate) argument: Option<String>,
}

impl Rule {
    fn new(kind: RuleKind, argument: Option<&str>) -> Self {
        Self { kind, argument: argument.map(str::to_owned) }
    }

    /// The rules that a grant amounts to.
    pub(crate) fn of(approval: &Approval) -> Vec<Self> {
        vec![match approval {
            Approval::Commands { command_identifiers } => {
                return command_identifiers.iter().map(|id| Self::new(RuleKind::Shell, Some(id))).collect();
            }
            Approval::Write {} => Self::new(RuleKind::Write, None),
            Approval::Read {} => Self::new(RuleKind::Read, None),
            Approval::Memory {} => Self::new(RuleKind::Memory, None),
            Approval::Url { domain } => Self::new(RuleKind::Url, Some(domain)),
            Approval::CustomTool { tool_name } => Self::new(RuleKind::CustomTool, Some(tool_name)),
            Approval::Mcp { server_name, tool_name: None } => Self::new(RuleKind::Mcp, Some(server_name)),
            Approval::Mcp { server_name, tool_name: Some(tool) } => {
                Self::new(RuleKind::Mcp, Some(&format!("{server_name}({tool})")))
            }
        }]
    }

    /// Whether the rule hits a request that is not a shell line; those are hit command by command.
    fn hits(&self, request: &PermissionRequest) -> bool {
        let about = |matches: &dyn Fn(&str) -> bool| self.argument.as_deref().is_none_or(matches);
        match (self.kind, request) {
            (RuleKind::Read, PermissionRequest::Read { path, .. })
            | (RuleKind::Write, PermissionRequest::Write { file_name: path, .. }) => {
                about(&|place| is_within(Path::new(path), Path::new(place)))
            }
            (RuleKind::Memory, PermissionRequest::Memory { .. }) => true,
            (RuleKind::Url, PermissionRequest::Url { url, .. }) => about(&|pattern| covers_url(pattern, url)),
            (RuleKind::CustomTool, PermissionRequest::CustomTool { tool_name, .. }) => {
                about(&|name| name == tool_name)
            }
            (RuleKind::Mcp, PermissionRequest::Mcp { server_name, tool_name, .. }) => {
                about(&|wanted| wanted == server_name || wanted == format!("{server_name}({tool_name})"))
            }
            _ => false,
        }
    }

    /// Whether the rule hits one command of a shell line: by its name, by the beginning of it (`git:*`), or all.
    fn hits_command(&self, identifier: &str) -> bool {
        let matches = |wanted: &str| match wanted.strip_suffix(":*") {
            Some(begin) => {
                identifier.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }
            None => wanted == identifier,
        };
        self.kind == RuleKind::Shell && self.argument.as_deref().is_none_or(matches)
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) approved: Vec<Rule>,
    pub(crate) denied: Vec<Rule>,
    /// What is allowed in the place that was applied last.
    pub(crate) location: Option<Location>,
    /// Reading needs nobody's leave, neither of files nor of pages.
    pub(crate) all_reads: bool,
    pub(crate) paths: Paths,
    pub(crate) urls: Urls,
}

/// A place, and what is allowed there.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) key: String,
    pub(crate) rules: Vec<Rule>,
}

/// Which directories the session may read without asking.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    /// Where the session works, if a client has said so; else its own directory.
    pub(crate) primary: Option<PathBuf>,
    /// Further directories that are as good as that one.
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) unrestricted: bool,
}

/// Which pages it may.
#[derive(Debug, Clone, Default)]
pub(crate) struct Urls {
    /// Hosts, or the beginnings of URLs.
    pub(crate) allowed: Vec<String>,
    pub(crate) unrestricted: bool,
}

impl Rules {
    /// What the rules say about a request; nothing, if somebody has to decide. A refusal counts whatever else is allowed; for a shell line it is enough that it hits one of its commands.
    pub(crate) fn ruling(&self, request: &PermissionRequest) -> Option<Ruling> {
        let refused = match request {
            PermissionRequest::Shell { commands, has_write_file_redirection, .. } => {
                let writes = |rule: &Rule| *has_write_file_redirection && rule.kind == RuleKind::Write;
                let hits = |rule: &Rule| commands.iter().any(|c| rule.hits_command(&c.identifier));
                self.denied.iter().any(|rule| writes(rule) || hits(rule))
            }
            other => self.denied.iter().any(|rule| rule.hits(other)),
        };
        match refused {
            true => Some(Ruling::Refused),
            false => self.allows(request).then_some(Ruling::Allowed),
        }
    }

    fn allows(&self, request: &PermissionRequest) -> bool {
        let mut rules = self.approved.iter().chain(self.location.iter().flat_map(|place| &place.rules));
        match request {
            PermissionRequest::Shell { commands, has_write_file_redirection: false, .. } => {
                let granted = |id: &str| rules.clone().any(|rule| rule.hits_command(id));
                !commands.is_empty() && commands.iter().all(|command| granted(&command.identifier))
            }
            PermissionRequest::Read { path, .. }
                if self.all_reads || self.paths.unrestricted || self.paths.reach(Path::new(path)) =>
            {
                true
            }
            PermissionRequest::Url { url, .. } if self.all_reads || self.urls.allow(url) => true,
            other => rules.any(|rule| rule.hits(other)),
        }
    }
}

impl Paths {
    /// Whether a path is in one of the further directories.
    fn reach(&self, path: &Path) -> bool {
        self.directories.iter().any(|directory| is_within(path, directory))
    }

    /// Whether a path is in any directory that a session in `cwd` may use.
    pub(crate) fn allow(&self, path: &Path, cwd: &Path) -> bool {
        self.unrestricted || is_within(path, self.primary.as_deref().unwrap_or(cwd)) || self.reach(path)
    }
}

impl Urls {
    fn allow(&self, url: &str) -> bool {
        self.unrestricted || self.allowed.iter().any(|pattern| covers_url(pattern, url))
    }
}

/// Whether a URL is on the host that a pattern names, and below its path if it names one.
fn covers_url(pattern: &str, url: &str) -> bool {
    let (Some((host, path)), Some((wanted_host, wanted_path))) = (host_and_path(url), host_and_path(pattern))
    else {
        return false;
    };
    let below = |rest: &str| rest.is_empty() || rest.starts_with(['/', '?', '#']) || wanted_path.is_empty();
    host.eq_ignore_ascii_case(wanted_host)
        && !path.split(['/', '\\']).any(|part| part == "..")
        && path.strip_prefix(wanted_path).is_some_and(below)
}

/// The host of a URL without user and port, and its path without a slash at the end.
fn host_and_path(url: &str) -> Option<(&str, &str)> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next()?;
    let host =
        if host.starts_with('[') { host.split_inclusive(']').next()? } else { host.split(':').next()? };
    (!host.is_empty()).then(|| (host, path.trim_end_matches('/')))
}

/// Whether a path leads into a directory, links and all. One with `..` in it is not trusted to.
pub(crate) fn is_within(path: &Path, directory: &Path) -> bool {
    let straight = !path.components().any(|part| part == Component::ParentDir);
    straight && resolved(path).starts_with(resolved(directory))
}

/// A path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
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
    use super::*;
    use baton_protocol::permission::ShellCommand;

    fn shell(commands: &[&str], writes: bool) -> PermissionRequest {
        let command = |id: &&str| ShellCommand { identifier: (*id).to_owned(), read_only: false };
        PermissionRequest::Shell {
            tool_call_id: None,
            full_command_text: String::new(),
            intention: String::new(),
            commands: commands.iter().map(command).collect(),
            possible_paths: Vec::new(),
            possible_urls: Vec::new(),
            has_write_file_redirection: writes,
            can_offer_session_approval: true,
            warning: None,
        }
    }

    fn read(path: &str) -> PermissionRequest {
        PermissionRequest::Read { tool_call_id: None, path: path.into(), intention: String::new() }
    }

    fn rule(kind: RuleKind, argument: Option<&str>) -> Rule {
        Rule::new(kind, argument)
    }

    #[test]
    fn a_refusal_counts_whatever_is_allowed() {
        let rules = Rules {
            approved: vec![rule(RuleKind::Shell, Some("git:*")), rule(RuleKind::Shell, Some("rm"))],
            denied: vec![rule(RuleKind::Shell, Some("rm")), rule(RuleKind::Write, None)],
            ..Rules::default()
        };
        let judge = |commands: &[&str], writes| rules.ruling(&shell(commands, writes));
        assert_eq!(judge(&["git status"], false), Some(Ruling::Allowed));
        assert_eq!(judge(&["git", "rm"], false), Some(Ruling::Refused));
        assert_eq!(judge(&["git", "curl"], false), None);
        assert_eq!(judge(&["gitter"], false), None);
        assert_eq!(judge(&[], false), None);
        assert_eq!(judge(&["git log"], true), Some(Ruling::Refused), "a redirection writes");
    }

    #[test]
    fn a_rule_without_an_argument_is_about_all_of_its_kind() {
        let all = Rules { approved: vec![rule(RuleKind::Shell, None)], ..Rules::default() };
        assert_eq!(all.ruling(&shell(&["curl"], false)), Some(Ruling::Allowed));
        assert_eq!(all.ruling(&shell(&["curl"], true)), None, "it writes, too");
        assert_eq!(all.ruling(&read("/etc/passwd")), None);
    }

    #[test]
    fn rules_are_read_in_the_words_of_clients() {
        let read = |text: &str| serde_json::from_str::<Rule>(text);
        assert_eq!(
            read(r#"{"kind":"commands","argument":"ls"}"#).unwrap(),
            rule(RuleKind::Shell, Some("ls"))
        );
        assert_eq!(read(r#"{"kind":"read","argument":null}"#).unwrap(), rule(RuleKind::Read, None));
        assert!(
            read(r#"{"kind":"sorcery","argument":"x"}"#).is_err(),
            "a rule that means nothing is refused"
        );
    }

    #[test]
    fn what_is_allowed_in_a_place_is_allowed() {
        let location = Some(Location { key: "/w".into(), rules: vec![rule(RuleKind::Shell, Some("make"))] });
        let rules = Rules { location, ..Rules::default() };
        assert_eq!(rules.ruling(&shell(&["make"], false)), Some(Ruling::Allowed));
        assert_eq!(rules.ruling(&shell(&["make", "rm"], false)), None);
    }

    #[test]
    fn paths_are_inside_and_never_by_detour() {
        let paths = Paths { directories: vec!["/more".into()], ..Paths::default() };
        for (path, allowed) in [
            ("/work/a", true),
            ("/more", true),
            ("/more/b/c", true),
            ("/moreover", false),
            ("/work/../etc/passwd", false),
            ("/etc", false),
        ] {
            assert_eq!(paths.allow(Path::new(path), Path::new("/work")), allowed, "{path}");
        }
    }

    #[test]
    fn pages_are_allowed_by_host_and_path() {
        for (pattern, url, allowed) in [
            ("example.org", "https://example.org/a?b", true),
            ("https://Example.org/", "http://example.org:8080/x", true),
            ("example.org", "https://example.org.evil.net/", false),
            ("example.org", "https://evil.net/@example.org", false),
            ("https://example.org/docs", "https://example.org/docs/a", true),
            ("https://example.org/docs", "https://example.org/docs2", false),
            ("https://example.org/docs", "https://example.org/docs/../secret", false),
            ("", "https://example.org", false),
        ] {
            assert_eq!(covers_url(pattern, url), allowed, "{pattern} {url}");
        }
    }
}
