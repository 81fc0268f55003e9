//! Decides which requests a deny rule names. In doubt the match is [`Match::Unknown`], and a user is asked.

use std::path::{Component, Path, PathBuf};

use baton_protocol::permission::PermissionRequest;
use baton_protocol::rules::{Rule, RuleKind};

use super::{Match, ParsedRequest, Typed, address, territory};

/// Whether a deny rule names a request.
pub(super) fn names(rule: &Rule, subject: &ParsedRequest<'_>) -> Match {
    if let Some(typed) = &subject.line {
        return names_line(rule, typed, subject.request);
    }
    let argument = rule.argument.as_deref();
    match (rule.kind, subject.request) {
        (RuleKind::Read, PermissionRequest::Read { .. }) => {
            let named = subject.request.files().map(|path| names_read(argument, path));
            named.fold(certain(argument.is_none()), Match::or)
        }
        (RuleKind::Write, PermissionRequest::Write { .. }) => {
            let named = subject.request.files().map(|file| names_write(argument, file));
            named.fold(certain(argument.is_none()), Match::or)
        }
        (RuleKind::Memory, PermissionRequest::Memory { .. }) => Match::Yes,
        (RuleKind::Url, PermissionRequest::Url { url, .. }) => {
            argument.map_or(Match::Yes, |pattern| address::is_named_by(url, pattern))
        }
        (RuleKind::CustomTool, PermissionRequest::CustomTool { tool_name, .. }) => {
            certain(argument.is_none_or(|name| name == tool_name))
        }
        (RuleKind::Mcp, PermissionRequest::Mcp { server_name, tool_name, .. }) => certain(
            argument.is_none_or(|name| name == server_name || *name == format!("{server_name}({tool_name})")),
        ),
        // Only the hook knows what its call does; only the engine knows what the permissions mean that it asks for.
        (
            RuleKind::Shell | RuleKind::Read | RuleKind::Write | RuleKind::Url,
            PermissionRequest::Hook { .. },
        ) => Match::Unknown,
        _ => Match::No,
    }
}

fn names_write(argument: Option<&str>, file: &str) -> Match {
    match argument {
        Some(directory) if is_known(file) => certain(is_within(file, directory)),
        Some(_) => Match::Unknown,
        None => Match::Yes,
    }
}

/// Whether a path is absolute and normal. Any other could not be resolved, and may be any file.
pub(super) fn is_known(path: &str) -> bool {
    territory::is_plain(Path::new(path))
}

/// Whether a rule names a read. Reading a directory may read files below it that the rule names.
fn names_read(argument: Option<&str>, path: &str) -> Match {
    match argument {
        None => Match::Yes,
        Some(directory) if is_within(path, directory) => Match::Yes,
        Some(directory) if !is_known(path) || folded(directory).starts_with(folded(path)) => Match::Unknown,
        Some(_) => Match::No,
    }
}

/// Whether a rule names a shell line. A shell line can read, write and fetch, so rules of those kinds apply as well.
fn names_line(rule: &Rule, typed: &Typed<'_>, request: &PermissionRequest) -> Match {
    let PermissionRequest::Shell { possible_paths, possible_urls, .. } = request else { return Match::No };
    let (line, argument) = match (typed, rule.argument.as_deref()) {
        (Typed::Line(line), argument) => (line, argument),
        (Typed::Input, None) if rule.kind == RuleKind::Shell => return Match::Yes,
        (Typed::Input, _) => return match_of_unknown_input(rule.kind),
    };
    let mentions = |directory: &str| possible_paths.iter().any(|path| is_within(path, directory));
    match (rule.kind, argument) {
        (RuleKind::Shell, None) => Match::Yes,
        (RuleKind::Shell, Some(argument)) => line.is_named_by(argument),
        (RuleKind::Write, _) if line.is_read_only() => Match::No,
        (RuleKind::Write, None) => Match::Yes,
        (RuleKind::Write | RuleKind::Read, Some(directory)) if mentions(directory) => Match::Yes,
        (RuleKind::Write | RuleKind::Read, _) => Match::Unknown,
        (RuleKind::Url, Some(pattern)) => {
            let named = |url: &str| address::is_named_by(url, pattern);
            match possible_urls.iter().map(|possible| named(&possible.url)).find(|found| *found != Match::No)
            {
                Some(found) => found,
                None if line.is_read_only() => Match::No,
                None => Match::Unknown,
            }
        }
        (RuleKind::Url, None) if !possible_urls.is_empty() => Match::Yes,
        (RuleKind::Url, None) if line.is_read_only() => Match::No,
        (RuleKind::Url, None) => Match::Unknown,
        (RuleKind::Memory | RuleKind::CustomTool | RuleKind::Mcp, _) => Match::No,
    }
}

/// Returns the match of a rule with shell input of unknown meaning.
fn match_of_unknown_input(kind: RuleKind) -> Match {
    match kind {
        RuleKind::Shell | RuleKind::Read | RuleKind::Write | RuleKind::Url => Match::Unknown,
        RuleKind::Memory | RuleKind::CustomTool | RuleKind::Mcp => Match::No,
    }
}

/// Converts the result of a comparison that leaves no doubt.
fn certain(named: bool) -> Match {
    if named { Match::Yes } else { Match::No }
}

/// Whether a path is inside a directory, or is that file. Case is ignored, as on some file systems, and a pattern stands
/// for the directory before its first wildcard: for a deny rule, matching too much is the safe side.
fn is_within(path: &str, directory: &str) -> bool {
    let plain = folded(directory);
    let plain: PathBuf = plain
        .components()
        .take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']))
        .collect();
    folded(path).starts_with(plain)
}

fn folded(path: &str) -> PathBuf {
    lexical(&path.to_lowercase())
}

/// Removes `.` and `..` from a path, without looking at the file system.
pub(super) fn lexical(path: &str) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
