//! What grants and allow rules cover. In doubt nothing does.

use std::path::Path;

use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::rules::{Rule, RuleKind};

use super::deny::{is_known, lexical};
use super::offer::names_guarded_files;
use super::shell::Line;
use super::territory::Standing;
use super::{Decision, Reason, Situation, Subject, Typed, address, territory};

/// Allows a request that a grant or rule covers; otherwise somebody is asked.
pub(super) fn covered(subject: &Subject<'_>, situation: &Situation<'_>) -> Decision {
    let all = All(situation);
    let covers = match (&subject.line, subject.request) {
        (Some(Typed::Line(_)), request) if names_guarded_files(request, situation.territory) => {
            return Decision::Ask(Reason::EachTime("the line names files of Baton itself, or of the kernel"));
        }
        (Some(Typed::Line(line)), _) => all.cover_line(line),
        (None, PermissionRequest::Write { .. }) => return each(subject.request, |file| all.write(file)),
        (None, PermissionRequest::Read { .. }) => return each(subject.request, |file| all.read(file)),
        (None, PermissionRequest::Url { url, .. }) => all.cover_url(url),
        (None, PermissionRequest::Mcp { server_name, tool_name, .. }) => {
            all.cover_mcp(server_name, tool_name)
        }
        (None, PermissionRequest::CustomTool { tool_name, .. }) => all.cover_custom_tool(tool_name),
        (None, PermissionRequest::Memory { .. }) => {
            all.has(&Approval::Memory {}) || all.rules_of(RuleKind::Memory).next().is_some()
        }
        // Text for a running program means whatever that program makes of it, and a hook has asked for a person.
        (Some(Typed::Input), _)
        | (None, PermissionRequest::Hook { .. } | PermissionRequest::Shell { .. }) => false,
    };
    verdict(covers)
}

/// A request about several files is allowed if each of them is.
fn each(request: &PermissionRequest, decide: impl Fn(&str) -> Decision) -> Decision {
    let mut decision = verdict(false);
    for file in request.files() {
        // What could not be resolved may be any file.
        decision = if is_known(file) { decide(file) } else { verdict(false) };
        if !matches!(decision, Decision::Allow(_)) {
            break;
        }
    }
    decision
}

fn verdict(covers: bool) -> Decision {
    if covers { Decision::Allow(Reason::Granted) } else { Decision::Ask(Reason::NothingCovers) }
}

/// All grants and allow rules of a session.
struct All<'a>(&'a Situation<'a>);

impl<'a> All<'a> {
    fn approvals(&self) -> impl Iterator<Item = &'a Approval> {
        let cwd = self.0.cwd;
        self.0.grants.iter().filter(move |grant| grant.holds_in(cwd)).map(|grant| &grant.approval)
    }

    fn rules_of(&self, kind: RuleKind) -> impl Iterator<Item = &'a Rule> {
        let rules = self.0.rules;
        let location = rules.location.iter().flat_map(|location| &location.rules);
        rules.approved.iter().chain(location).filter(move |rule| rule.kind == kind)
    }

    fn has(&self, wanted: &Approval) -> bool {
        self.approvals().any(|approval| approval == wanted)
    }

    /// A rule for all of `shell` covers lines that are understood.
    fn cover_line(&self, line: &Line) -> bool {
        let mut identifiers: Vec<&str> = Vec::new();
        for approval in self.approvals() {
            if let Approval::Commands { command_identifiers } = approval {
                identifiers.extend(command_identifiers.iter().map(String::as_str));
            }
        }
        for rule in self.rules_of(RuleKind::Shell) {
            match &rule.argument {
                Some(argument) => identifiers.push(argument),
                None => return matches!(line, Line::Commands(_)),
            }
        }
        line.is_covered_by(&identifiers)
    }

    fn write(&self, file_name: &str) -> Decision {
        let path = lexical(file_name);
        let standing = self.0.territory.write(&path);
        if let Standing::EachTime(why) = standing {
            return Decision::Ask(Reason::EachTime(why));
        }
        // A rule may reach outside the working directory; files that act are asked for there as well.
        if let Some(why) = territory::acts(&path) {
            return Decision::Ask(Reason::EachTime(why));
        }
        let everywhere = self.has(&Approval::Write {}) && standing == Standing::Covered;
        let by_rule = self.rules_of(RuleKind::Write).any(|rule| match &rule.argument {
            None => standing == Standing::Covered,
            Some(directory) => is_inside(&path, directory),
        });
        verdict(everywhere || by_rule)
    }

    fn read(&self, path: &str) -> Decision {
        let path = lexical(path);
        if let Standing::EachTime(why) = self.0.territory.read(&path) {
            return Decision::Ask(Reason::EachTime(why));
        }
        let rules = self.0.rules;
        let everything = rules.all_reads || rules.paths.unrestricted || self.has(&Approval::Read {});
        let by_directory = || rules.paths.directories.iter().any(|directory| is_inside(&path, directory));
        let by_rule = || {
            let mut rules = self.rules_of(RuleKind::Read);
            rules.any(|rule| rule.argument.as_deref().is_none_or(|directory| is_inside(&path, directory)))
        };
        verdict(everything || by_directory() || by_rule())
    }

    fn cover_url(&self, url: &str) -> bool {
        let rules = self.0.rules;
        let granted = self.approvals().filter_map(|approval| match approval {
            Approval::Url { domain } => Some(domain.as_str()),
            _ => None,
        });
        let mut patterns = granted.chain(rules.urls.allowed.iter().map(String::as_str));
        let mut by_rule = self.rules_of(RuleKind::Url).map(|rule| rule.argument.as_deref());
        rules.all_reads
            || rules.urls.unrestricted
            || patterns.any(|pattern| address::is_covered_by(url, pattern))
            || by_rule.any(|pattern| pattern.is_none_or(|pattern| address::is_covered_by(url, pattern)))
    }

    fn cover_mcp(&self, server: &str, tool: &str) -> bool {
        let granted = self.approvals().any(|approval| match approval {
            Approval::Mcp { server_name, tool_name } => {
                server_name == server && tool_name.as_ref().is_none_or(|name| name == tool)
            }
            _ => false,
        });
        let named = |name: &String| name == server || *name == format!("{server}({tool})");
        granted || self.rules_of(RuleKind::Mcp).any(|rule| rule.argument.as_ref().is_none_or(named))
    }

    fn cover_custom_tool(&self, tool: &str) -> bool {
        self.has(&Approval::CustomTool { tool_name: tool.to_owned() })
            || self
                .rules_of(RuleKind::CustomTool)
                .any(|rule| rule.argument.as_deref().is_none_or(|name| name == tool))
    }
}

/// Whether a path is inside a directory, or is that file. A directory that is no absolute path holds nothing.
fn is_inside(path: &Path, directory: &str) -> bool {
    let directory = lexical(directory);
    directory.is_absolute() && path.starts_with(directory)
}
