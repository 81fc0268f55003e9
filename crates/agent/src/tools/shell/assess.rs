//! Permission requests for shell lines.
//!
//! Which commands a line runs, and what a grant for it covers, is decided in `baton_core::policy::shell`. Paths and URLs
//! are extracted from the text for display; the policy uses them as hints for deny rules, and never to allow.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use baton_core::policy::shell::{Line, Why};
use baton_protocol::ToolCallId;
use baton_protocol::permission::{PermissionRequest, PossibleUrl};

use baton_disk::paths;

/// Limit on the paths or URLs of one request: more than a line that the policy can parse contains.
const MOST_LISTED: usize = 10_000;

/// Limit on the files of one line for which snapshots are taken.
const MOST_FILES: usize = 64;

/// Builds the request to run `command`. The intention is the description that the model or the engine gives.
#[must_use]
pub fn request(call: &ToolCallId, cwd: &Path, command: &str, intention: &str) -> PermissionRequest {
    let line = Line::parse(command);
    let words = rough_words(command);
    PermissionRequest::Shell {
        tool_call_id: Some(call.clone()),
        full_command_text: command.to_owned(),
        intention: intention.to_owned(),
        can_offer_session_approval: !line.offers().is_empty(),
        commands: line.commands(),
        possible_paths: distinct(words.iter().filter_map(|word| path_in(cwd, &word.text))),
        possible_urls: distinct(words.iter().filter_map(|word| url_in(&word.text)))
            .into_iter()
            .map(|url| PossibleUrl { url })
            .collect(),
        has_write_file_redirection: line.why_opaque().is_some() && redirects_into_file(command),
        warning: warning(&line),
        input_to: None,
        repository_runs: None,
        sandbox: None,
        request_sandbox_bypass: None,
        request_sandbox_bypass_reason: None,
    }
}

/// Whether the request is for a line with git commands that are harmless only as long as the configuration of their
/// repository is.
#[must_use]
pub fn reads_repository(request: &PermissionRequest) -> bool {
    match request {
        PermissionRequest::Shell { full_command_text, input_to: None, .. } => {
            // Most lines are not about git, and need not be parsed once more to know it.
            full_command_text.contains("git") && Line::parse(full_command_text).reads_repository()
        }
        _ => false,
    }
}

/// Marks a request as made in a repository whose configuration can run a program through this setting.
#[must_use]
pub fn in_distrusted_repository(mut request: PermissionRequest, setting: String) -> PermissionRequest {
    if let PermissionRequest::Shell {
        full_command_text,
        commands,
        can_offer_session_approval,
        repository_runs,
        ..
    } = &mut request
    {
        let line = Line::parse(full_command_text).in_distrusted_repository();
        *commands = line.commands();
        *can_offer_session_approval = !line.offers().is_empty();
        *repository_runs = Some(setting);
    }
    request
}

fn warning(line: &Line<'_>) -> Option<String> {
    let why = line.why_opaque().filter(|why| *why == Why::Character)?;
    Some(format!("Read this line with care: {}.", why.as_str()))
}

/// Returns the files that a line names and may change. Files that a program finds by itself, or that the shell expands
/// from a pattern, are not among them.
pub(super) fn files_in(cwd: &Path, command: &str) -> Vec<PathBuf> {
    if Line::parse(command).is_read_only() {
        return Vec::new();
    }
    let words = rough_words(command);
    // Running a program does not change it.
    let arguments = words.iter().filter(|word| !word.is_first).map(|word| word.text.as_str());
    let named =
        arguments.filter(|text| !text.starts_with('-') && !expands(text) && !text.contains(['\0', '\n']));
    let mut files: Vec<PathBuf> = named.map(|text| paths::absolute(cwd, text)).collect();
    files.sort();
    files.dedup();
    files.truncate(MOST_FILES);
    files
}

/// A word of a line, split roughly as a shell does.
struct RoughWord {
    text: String,
    /// First word of a command.
    is_first: bool,
}

/// Splits any line into words, even one that the policy cannot parse. Quotes keep blanks and operators together.
fn rough_words(line: &str) -> Vec<RoughWord> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut is_first = true;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => word.extend(rest.next()),
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c.is_whitespace() || ";|&<>(){}`".contains(c) => {
                if !word.is_empty() {
                    words.push(RoughWord { text: std::mem::take(&mut word), is_first });
                    is_first = false;
                }
                is_first = ";|&(){}`\n".contains(c) || (is_first && !"<>".contains(c));
            }
            (_, c) => word.push(c),
        }
    }
    words.push(RoughWord { text: word, is_first });
    words.retain(|word| !word.text.is_empty());
    words
}

/// Whether a shell may expand a word.
fn expands(text: &str) -> bool {
    text.contains(['$', '*', '?', '['])
}

/// Whether a line that the policy cannot parse may write to a file. Errs on the side of yes.
fn redirects_into_file(line: &str) -> bool {
    line.match_indices('>').any(|(at, _)| {
        let target = line[at + 1..].trim_start_matches(['>', '|', ' ', '\t']);
        let ends =
            |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '|', '&', ')', '"', '`']);
        let is_null = ["/dev/null", "/dev/stdout", "/dev/stderr"]
            .iter()
            .any(|name| target.strip_prefix(name).is_some_and(ends));
        let is_descriptor = target
            .strip_prefix('&')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
        // The second `>` of `>>` was handled with the first.
        !(is_null || is_descriptor || target.is_empty() && line[..at].ends_with('>'))
    })
}

fn path_in(cwd: &Path, word: &str) -> Option<String> {
    // `--output=/tmp/x` contains a path, too.
    let text = match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => word,
    };
    let looks_like_path = text.contains('/') || text.starts_with('~') || text == "." || text == "..";
    if !looks_like_path || text.starts_with('-') || url_in(word).is_some() {
        return None;
    }
    let known = !expands(text) && !text.starts_with('~');
    Some(if known { paths::absolute(cwd, text).display().to_string() } else { text.to_owned() })
}

fn url_in(word: &str) -> Option<String> {
    let start = word.find("https://").or_else(|| word.find("http://"))?;
    Some(word[start..].to_owned())
}

fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(one.clone())).take(MOST_LISTED).collect()
}

#[cfg(test)]
mod tests;
