//! What a person is shown of a shell line before they allow it.
//!
//! What the line runs, and what a grant for it covers, is the policy's business: `baton_core::policy::shell`. Paths
//! and URLs are picked out of the text for display; the policy takes them as hints for deny rules, and never to allow.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use baton_core::policy::shell::{Line, Why};
use baton_protocol::ToolCallId;
use baton_protocol::permission::{PermissionRequest, PossibleUrl};

use crate::tools::paths;

/// How many paths or URLs of one line are shown: more than a line that is understood can name.
const MOST_MENTIONED: usize = 10_000;

/// How many files of one line are looked after.
const MOST_FILES: usize = 64;

/// Builds the request to run `command`. The intention is what the model or the engine says about it.
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
    }
}

fn warning(line: &Line) -> Option<String> {
    let why = line.why_opaque().filter(|why| *why == Why::Character)?;
    Some(format!("Read this line with care: {}.", why.as_str()))
}

/// The files that a line names and may change. What a program finds by itself is not among them, and neither is
/// what the shell expands to names: a line says only so much of what it does.
pub(super) fn files_in(cwd: &Path, command: &str) -> Vec<PathBuf> {
    if Line::parse(command).is_read_only() {
        return Vec::new();
    }
    let words = rough_words(command);
    // Running a program does not change it.
    let arguments = words.iter().filter(|word| !word.leads).map(|word| word.text.as_str());
    let named =
        arguments.filter(|text| !text.starts_with('-') && !expands(text) && !text.contains(['\0', '\n']));
    let mut files: Vec<PathBuf> = named.map(|text| paths::absolute(cwd, text)).collect();
    files.sort();
    files.dedup();
    files.truncate(MOST_FILES);
    files
}

/// A word, roughly as a shell would see it.
struct RoughWord {
    text: String,
    /// It stands where a command begins.
    leads: bool,
}

/// Splits a line into words, whether it was understood or not. Quotes keep blanks and operators together.
fn rough_words(line: &str) -> Vec<RoughWord> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut leads = true;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => word.extend(rest.next()),
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c.is_whitespace() || ";|&<>(){}`".contains(c) => {
                if !word.is_empty() {
                    words.push(RoughWord { text: std::mem::take(&mut word), leads });
                    leads = false;
                }
                leads = ";|&(){}`\n".contains(c) || (leads && !"<>".contains(c));
            }
            (_, c) => word.push(c),
        }
    }
    words.push(RoughWord { text: word, leads });
    words.retain(|word| !word.text.is_empty());
    words
}

/// Whether a shell may make something else of a word.
fn expands(text: &str) -> bool {
    text.contains(['$', '*', '?', '['])
}

/// Whether a line that was not understood seems to write into a file. Errs on the side of yes.
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
        // The second of `>>` has been looked at with the first.
        !(is_null || is_descriptor || target.is_empty() && line[..at].ends_with('>'))
    })
}

fn path_in(cwd: &Path, word: &str) -> Option<String> {
    // `--output=/tmp/x` mentions a path, too.
    let text = match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => word,
    };
    let looks_like_one = text.contains('/') || text.starts_with('~') || text == "." || text == "..";
    if !looks_like_one || text.starts_with('-') || url_in(word).is_some() {
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
    all.filter(|one| seen.insert(one.clone())).take(MOST_MENTIONED).collect()
}

#[cfg(test)]
mod tests;
