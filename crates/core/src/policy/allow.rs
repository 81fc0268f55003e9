//! Decides which requests a grant or an allow rule covers. A request that cannot be parsed is not covered.

use std::path::Path;

use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::rules::{Rule, RuleKind};

use super::deny::{is_known, lexical};
use super::offer::guarded_file;
use super::shell::Line;
use super::territory::Standing;
use super::{Decision, ParsedRequest, Reason, Situation, Typed, address, is_shown};

/// Allows a request that a grant or allow rule covers; otherwise asks.
pub(super) fn covered(subject: &ParsedRequest<'_>, situation: &Situation<'_>) -> Decision {
    if let Some(path) = guarded_file(subject.request, situation.territory) {
        return Decision::Ask(Reason::Guarded(path.to_owned()));
    }
    let allowances = Allowances(situation);
    let covers = match (&subject.line, subject.request) {
        (Some(Typed::Line(line)), PermissionRequest::Shell { repository_runs: Some(setting), .. })
            if !allowances.cover_line(line) =>
        {
            return Decision::Ask(Reason::Repository(setting.clone()));
        }
        (Some(Typed::Line(line)), _) => allowances.cover_line(line),
        (None, PermissionRequest::Write { .. }) => {
            return each(subject.request, |file| allowances.write(file));
        }
        (None, PermissionRequest::Read { .. }) => return each(subject.request, |file| allowances.read(file)),
        (None, PermissionRequest::Url { url, .. }) => allowances.cover_url(url),
        (None, PermissionRequest::Mcp { server_name, tool_name, binding, .. }) => {
            allowances.cover_mcp(server_name, tool_name, binding.as_deref())
        }
        (None, PermissionRequest::CustomTool { tool_name, .. }) => allowances.cover_custom_tool(tool_name),
        (None, PermissionRequest::Memory { .. }) => {
            allowances.has(&Approval::Memory {}) || allowances.rules_of(RuleKind::Memory).next().is_some()
        }
        // The meaning of text for a running program is unknown, and a hook requires a user to decide.
        (Some(Typed::Input), _)
        | (None, PermissionRequest::Hook { .. } | PermissionRequest::Shell { .. }) => false,
    };
    verdict(covers)
}

/// Allows a request about several files if each of them is allowed.
fn each(request: &PermissionRequest, decide: impl Fn(&str) -> Decision) -> Decision {
    let mut decision = verdict(false);
    for file in request.files() {
        // A path that could not be resolved may be any file.
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

/// Grants and allow rules of a session.
struct Allowances<'a>(&'a Situation<'a>);

impl<'a> Allowances<'a> {
    fn approvals(&self) -> impl Iterator<Item = &'a Approval> + Clone {
        let cwd = self.0.cwd;
        self.0.grants.iter().filter(move |grant| grant.holds_in(cwd)).map(|grant| &grant.approval)
    }

    fn rules_of(&self, kind: RuleKind) -> impl Iterator<Item = &'a Rule> + Clone {
        let rules = self.0.rules;
        let location = rules.location.iter().flat_map(|location| &location.rules);
        rules.approved.iter().chain(location).filter(move |rule| rule.kind == kind)
    }

    fn has(&self, wanted: &Approval) -> bool {
        self.approvals().any(|approval| approval == wanted)
    }

    /// Whether a line is covered. A rule for `shell` without an argument covers every line that is not opaque.
    fn cover_line(&self, line: &Line<'_>) -> bool {
        let rules = self.rules_of(RuleKind::Shell);
        if rules.clone().any(|rule| rule.argument.is_none()) {
            return matches!(line, Line::Commands(_));
        }
        let granted = self.approvals().flat_map(|approval| match approval {
            Approval::Commands { command_identifiers } => command_identifiers.as_slice(),
            _ => &[],
        });
        let ruled = rules.filter_map(|rule| rule.argument.as_ref());
        line.is_covered_by_any(&granted.chain(ruled).map(String::as_str))
    }

    fn write(&self, file_name: &str) -> Decision {
        let path = lexical(file_name);
        let standing = self.0.territory.write(&path);
        if let Standing::EachTime(why) = standing {
            return Decision::Ask(Reason::EachTime(why));
        }
        // Rules can cover files outside the working directory, where some files need approval each time as well.
        if let Some(why) = self.0.territory.acts_by_itself(&path) {
            return Decision::Ask(Reason::EachTime(why));
        }
        let by_grant = self.has(&Approval::Write {}) && standing == Standing::Covered;
        let by_rule = self.rules_of(RuleKind::Write).any(|rule| match &rule.argument {
            None => standing == Standing::Covered,
            Some(directory) => is_inside(&path, directory),
        });
        verdict(by_grant || by_rule)
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

    fn cover_mcp(&self, server: &str, tool: &str, binding: Option<&str>) -> bool {
        let granted = self.0.grants.iter().any(|grant| grant.covers_mcp(server, tool, binding));
        // `s(echo)` is the tool of a server `s`, and never a server of that name.
        let is_unambiguous = !server.contains(['(', ')']);
        let holds = |rule: &Rule| match rule.argument.as_deref() {
            None => true,
            Some(_) if !is_unambiguous => false,
            Some(name) if name == server => is_shown(rule.binding.as_deref(), binding, false),
            Some(name) => {
                name == format!("{server}({tool})") && is_shown(rule.binding.as_deref(), binding, true)
            }
        };
        granted || self.rules_of(RuleKind::Mcp).any(holds)
    }

    fn cover_custom_tool(&self, tool: &str) -> bool {
        self.has(&Approval::CustomTool { tool_name: tool.to_owned() })
            || self
                .rules_of(RuleKind::CustomTool)
                .any(|rule| rule.argument.as_deref().is_none_or(|name| name == tool))
    }
}

/// Whether a path is inside a directory, or is that file. A relative directory contains nothing.
fn is_inside(path: &Path, directory: &str) -> bool {
    let directory = lexical(directory);
    directory.is_absolute() && path.starts_with(directory)
}
