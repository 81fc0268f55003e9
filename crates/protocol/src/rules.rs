//! Rules of a session: what clients allow or deny in advance. Data only; the policy in `baton-core` decides
//! what a rule matches.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::permission::Approval;

/// The kind of request that a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleKind {
    /// Shell commands. Clients use two names for them.
    #[serde(alias = "commands")]
    Shell,
    /// Reading files and directories.
    Read,
    /// Changing files.
    Write,
    /// Storing facts in memory.
    Memory,
    /// Fetching from the network.
    Url,
    /// Client tools.
    CustomTool,
    /// Tools of MCP servers.
    Mcp,
}

/// A rule as clients write it. Without an argument it applies to every request of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The kind of request.
    pub kind: RuleKind,
    /// The command, path, URL pattern, tool or server that it applies to.
    #[serde(default)]
    pub argument: Option<String>,
    /// Digests of the MCP server and tool that the user was shown, if the rule is a grant for a location. A rule that a
    /// client writes has none, and goes by names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

impl Rule {
    /// Creates a rule for one argument, or for every request of its kind.
    #[must_use]
    pub fn new(kind: RuleKind, argument: Option<&str>) -> Self {
        Self { kind, argument: argument.map(str::to_owned), binding: None }
    }

    /// Whether two rules are about the same requests, whatever they are bound to. Clients name rules without bindings.
    #[must_use]
    pub fn is_about_same(&self, other: &Self) -> bool {
        (self.kind, &self.argument) == (other.kind, &other.argument)
    }

    /// Converts a grant into the rules to store for a location. One for a tool of an MCP server holds for what the binding
    /// names. There are none for a server with parentheses in its name: a rule could not be told from one for a tool of
    /// another server.
    #[must_use]
    pub fn of(approval: &Approval, binding: Option<&str>) -> Vec<Self> {
        let bound = |rule: Self| Self { binding: binding.map(str::to_owned), ..rule };
        vec![match approval {
            Approval::Mcp { server_name, .. } if server_name.contains(['(', ')']) => return Vec::new(),
            Approval::Commands { command_identifiers } => {
                return command_identifiers.iter().map(|id| Self::new(RuleKind::Shell, Some(id))).collect();
            }
            Approval::Write {} => Self::new(RuleKind::Write, None),
            Approval::Read {} => Self::new(RuleKind::Read, None),
            Approval::Memory {} => Self::new(RuleKind::Memory, None),
            Approval::Url { domain } => Self::new(RuleKind::Url, Some(domain)),
            Approval::CustomTool { tool_name } => Self::new(RuleKind::CustomTool, Some(tool_name)),
            Approval::Mcp { server_name, tool_name: None } => {
                bound(Self::new(RuleKind::Mcp, Some(server_name)))
            }
            Approval::Mcp { server_name, tool_name: Some(tool) } => {
                bound(Self::new(RuleKind::Mcp, Some(&format!("{server_name}({tool})"))))
            }
        }]
    }
}

/// All rules of a session.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rules {
    /// Allowed requests.
    pub approved: Vec<Rule>,
    /// Denied requests; take precedence over everything that allows.
    pub denied: Vec<Rule>,
    /// The location grants that were applied to the session.
    pub location: Option<LocationRules>,
    /// Whether every read of a file or page is allowed.
    pub all_reads: bool,
    /// Directories that may be read.
    pub paths: PathScope,
    /// Pages that may be fetched.
    pub urls: UrlScope,
}

impl Rules {
    /// Whether a rule applies to single pages of a host, rather than to hosts.
    #[must_use]
    pub fn are_about_pages(&self) -> bool {
        let location = self.location.iter().flat_map(|location| &location.rules);
        let rules = self.approved.iter().chain(&self.denied).chain(location);
        let arguments =
            rules.filter(|rule| rule.kind == RuleKind::Url).filter_map(|rule| rule.argument.as_ref());
        arguments.chain(&self.urls.allowed).any(|pattern| {
            let rest = pattern.split_once("://").map_or(pattern.as_str(), |(_, rest)| rest);
            rest.split_once('/').is_some_and(|(_, path)| !path.is_empty())
        })
    }

    /// Whether the rules allow anything.
    #[must_use]
    pub fn allow_something(&self) -> bool {
        let denied = self.denied.clone();
        *self != Self { denied, ..Self::default() }
    }
}

/// The grants stored for a location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationRules {
    /// The key of the location: the root of a repository, or a directory.
    pub key: String,
    /// Allowed requests.
    pub rules: Vec<Rule>,
}

/// Directories that may be read without asking. Paths are absolute; the caller has resolved links.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PathScope {
    /// The workspace, if a client named one; otherwise the working directory.
    pub primary: Option<String>,
    /// Additional directories.
    pub directories: Vec<String>,
    /// Whether every path may be read.
    pub unrestricted: bool,
}

/// Pages that may be fetched without asking.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UrlScope {
    /// Hosts, or URLs that cover all paths below theirs.
    pub allowed: Vec<String>,
    /// Whether every page may be fetched.
    pub unrestricted: bool,
}

/// A change of a session's rules. Absent fields stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RulesEdit {
    /// The allow rules.
    pub approved: RuleListEdit,
    /// The deny rules.
    pub denied: RuleListEdit,
    /// The applied location; `Some(None)` withdraws it.
    #[serde(with = "::serde_with::rust::double_option", skip_serializing_if = "Option::is_none")]
    pub location: Option<Option<LocationRules>>,
    /// Whether every read is allowed.
    pub all_reads: Option<bool>,
    /// Replaces the directories.
    pub paths: Option<PathScope>,
    /// Adds a directory.
    pub add_directory: Option<String>,
    /// Replaces the workspace.
    pub primary: Option<String>,
    /// Replaces the pages.
    pub urls: Option<UrlScope>,
    /// Whether every page may be fetched.
    pub unrestricted_urls: Option<bool>,
}

impl RulesEdit {
    /// Creates the change that removes everything but deny rules.
    #[must_use]
    pub fn disarming() -> Self {
        Self {
            approved: RuleListEdit { remove_all: true, ..RuleListEdit::default() },
            location: Some(None),
            all_reads: Some(false),
            paths: Some(PathScope::default()),
            urls: Some(UrlScope::default()),
            ..Self::default()
        }
    }

    /// Returns the rules after this change.
    #[must_use]
    pub fn applied_to(self, rules: &Rules) -> Rules {
        let mut after = rules.clone();
        self.approved.apply(&mut after.approved);
        self.denied.apply(&mut after.denied);
        after.location = self.location.unwrap_or(after.location);
        after.all_reads = self.all_reads.unwrap_or(after.all_reads);
        after.paths = self.paths.unwrap_or(after.paths);
        if let Some(directory) = self.add_directory.filter(|new| !after.paths.directories.contains(new)) {
            after.paths.directories.push(directory);
        }
        after.paths.primary = self.primary.or(after.paths.primary);
        after.urls = self.urls.unwrap_or(after.urls);
        after.urls.unrestricted = self.unrestricted_urls.unwrap_or(after.urls.unrestricted);
        after
    }
}

/// A change of a list of rules. The fields apply in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleListEdit {
    /// First, replaces the list.
    pub replace: Option<Vec<Rule>>,
    /// Then, adds these.
    pub add: Vec<Rule>,
    /// Then, removes these.
    pub remove: Vec<Rule>,
    /// Finally, removes all.
    pub remove_all: bool,
}

impl RuleListEdit {
    /// Applies the change to a list.
    pub fn apply(self, rules: &mut Vec<Rule>) {
        if let Some(replacement) = self.replace {
            *rules = replacement;
        }
        for rule in self.add {
            match rules.iter_mut().find(|known| known.is_about_same(&rule)) {
                Some(known) => *known = rule,
                None => rules.push(rule),
            }
        }
        let is_removed = |rule: &Rule| self.remove.iter().any(|removed| removed.is_about_same(rule));
        rules.retain(|rule| !self.remove_all && !is_removed(rule));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_vocabularies_parse_and_unknown_kinds_are_refused() {
        let read = |text: &str| baton_json::from_str::<Rule>(text);
        let shell = read(r#"{"kind":"commands","argument":"ls"}"#).unwrap();
        assert_eq!(shell, Rule::new(RuleKind::Shell, Some("ls")));
        assert_eq!(read(r#"{"kind":"read","argument":null}"#).unwrap(), Rule::new(RuleKind::Read, None));
        assert!(read(r#"{"kind":"sorcery","argument":"x"}"#).is_err());
    }

    #[test]
    fn rule_for_a_server_cannot_name_a_tool_of_another() {
        let of = |server: &str, tool: Option<&str>| {
            let tool_name = tool.map(str::to_owned);
            Rule::of(&Approval::Mcp { server_name: server.into(), tool_name }, None)
        };
        assert_eq!(of("s", Some("echo")), [Rule::new(RuleKind::Mcp, Some("s(echo)"))]);
        assert_eq!(of("s(echo)", None), []);
        assert_eq!(of("s(echo)", Some("shell")), []);
    }

    #[test]
    fn edits_replace_add_and_then_remove() {
        let rule = |name: &str| Rule::new(RuleKind::Shell, Some(name));
        let mut rules = vec![rule("a")];
        let edit = RuleListEdit {
            replace: Some(vec![rule("b")]),
            add: vec![rule("b"), rule("c")],
            remove: vec![rule("b")],
            remove_all: false,
        };
        edit.apply(&mut rules);
        assert_eq!(rules, [rule("c")]);
        RuleListEdit { remove_all: true, ..RuleListEdit::default() }.apply(&mut rules);
        assert!(rules.is_empty());
    }

    #[test]
    fn newer_binding_replaces_the_older_one_and_clients_remove_rules_by_name() {
        let approval = Approval::Mcp { server_name: "s".into(), tool_name: Some("t".into()) };
        let add = |binding: &str| RuleListEdit {
            add: Rule::of(&approval, Some(binding)),
            ..RuleListEdit::default()
        };
        let mut rules = Vec::new();
        add("a:b").apply(&mut rules);
        add("a:c").apply(&mut rules);
        assert_eq!(rules, Rule::of(&approval, Some("a:c")));
        let remove = vec![Rule::new(RuleKind::Mcp, Some("s(t)"))];
        RuleListEdit { remove, ..RuleListEdit::default() }.apply(&mut rules);
        assert!(rules.is_empty());
    }

    #[test]
    fn empty_edit_changes_nothing() {
        let rules = Rules { all_reads: true, ..Rules::default() };
        assert_eq!(RulesEdit::default().applied_to(&rules), rules);
    }
}
