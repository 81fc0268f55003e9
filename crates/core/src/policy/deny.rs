//! What deny rules name. In doubt the answer is [`Match::Unknown`], which is never allowed without a person.

use std::path::{Component, Path, PathBuf};

use baton_protocol::permission::PermissionRequest;
use baton_protocol::rules::{Rule, RuleKind};

use super::{Match, Subject, Typed, address, territory};

/// Whether a deny rule names what a request would do.
pub(super) fn names(rule: &Rule, subject: &Subject<'_>) -> Match {
    if let Some(typed) = &subject.line {
        return names_line(rule, typed, subject.request);
    }
    let argument = rule.argument.as_deref();
    match (rule.kind, subject.request) {
        (RuleKind::Read, PermissionRequest::Read { .. }) => {
            let named = subject.request.files().map(|path| names_read(argument, path));
            named.fold(exactly(argument.is_none()), Match::or)
        }
        (RuleKind::Write, PermissionRequest::Write { .. }) => {
            let named = subject.request.files().map(|file| names_write(argument, file));
            named.fold(exactly(argument.is_none()), Match::or)
        }
        (RuleKind::Memory, PermissionRequest::Memory { .. }) => Match::Yes,
        (RuleKind::Url, PermissionRequest::Url { url, .. }) => {
            argument.map_or(Match::Yes, |pattern| address::is_named_by(url, pattern))
        }
        (RuleKind::CustomTool, PermissionRequest::CustomTool { tool_name, .. }) => {
            exactly(argument.is_none_or(|name| name == tool_name))
        }
        (RuleKind::Mcp, PermissionRequest::Mcp { server_name, tool_name, .. }) => exactly(
            argument.is_none_or(|name| name == server_name || *name == format!("{server_name}({tool_name})")),
        ),
        // A hook asks about a call that it alone understands, and a program about rights that it describes itself.
        (
            RuleKind::Shell | RuleKind::Read | RuleKind::Write | RuleKind::Url,
            PermissionRequest::Hook { .. },
        ) => Match::Unknown,
        _ => Match::No,
    }
}

fn names_write(argument: Option<&str>, file: &str) -> Match {
    match argument {
        Some(directory) if is_known(file) => exactly(is_within(file, directory)),
        Some(_) => Match::Unknown,
        None => Match::Yes,
    }
}

/// Whether a path is absolute and has no detours: anything else could not be resolved, and may be any file.
pub(super) fn is_known(path: &str) -> bool {
    territory::is_plain(Path::new(path))
}

/// A read of a directory reads what is below it: a rule for a part of it may be meant.
fn names_read(argument: Option<&str>, path: &str) -> Match {
    match argument {
        None => Match::Yes,
        Some(directory) if is_within(path, directory) => Match::Yes,
        Some(directory) if !is_known(path) || folded(directory).starts_with(folded(path)) => Match::Unknown,
        Some(_) => Match::No,
    }
}

/// Shell lines can do what every other kind of request does, so rules of other kinds bind them as well.
fn names_line(rule: &Rule, typed: &Typed, request: &PermissionRequest) -> Match {
    let PermissionRequest::Shell { possible_paths, possible_urls, .. } = request else { return Match::No };
    let (line, argument) = match (typed, rule.argument.as_deref()) {
        (Typed::Line(line), argument) => (line, argument),
        (Typed::Input, None) if rule.kind == RuleKind::Shell => return Match::Yes,
        (Typed::Input, _) => return doubt_for_files_and_commands(rule.kind),
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

fn doubt_for_files_and_commands(kind: RuleKind) -> Match {
    match kind {
        RuleKind::Shell | RuleKind::Read | RuleKind::Write | RuleKind::Url => Match::Unknown,
        RuleKind::Memory | RuleKind::CustomTool | RuleKind::Mcp => Match::No,
    }
}

fn exactly(named: bool) -> Match {
    if named { Match::Yes } else { Match::No }
}

/// Whether a path is a directory's, or is that file. A pattern names all that its first plain part holds, and case does not
/// matter, as on some file systems: too much is the safe side for a deny rule.
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

/// A path without `.` and `..`, as far as its text tells.
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
