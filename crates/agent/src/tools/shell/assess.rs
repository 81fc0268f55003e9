//! What a person is told of a shell line before they allow it.

use std::path::{Path, PathBuf};

use baton_protocol::ToolCallId;
use baton_protocol::permission::{PermissionRequest, PossibleUrl, ShellCommand};

use super::line::{self, Simple, Word};
use crate::tools::paths;
use crate::tools::text::listed;

/// Programs that run whatever they are given, or change what others mean. Allowing one "for this session"
/// would allow everything.
const RUN_ANYTHING: &str = "sh bash zsh dash ksh fish busybox eval exec source . command builtin trap alias \
    export declare typeset readonly set shopt enable hash sudo doas su env xargs parallel nohup setsid \
    timeout nice watch ssh python python3 node deno ruby perl php lua awk gawk sed npx expect script";

/// Programs whose first argument says what they do.
const WITH_SUBCOMMANDS: &str = "git gh cargo rustup npm pnpm yarn bun docker podman kubectl helm terraform \
    go pip pip3 uv poetry apt apt-get brew dotnet systemctl conda";

/// Of those, the ones whose `run` names a script of the project.
const RUN_SCRIPTS: &str = "npm pnpm yarn bun";

/// Programs that change nothing, whatever their arguments.
const READ_ONLY: &str = "ls cat pwd cd head tail wc grep echo printf true false test [ whoami uname which \
    stat du df basename dirname realpath readlink cut tr nl seq sleep id cmp diff sha256sum";

/// What `git` does without changing anything.
const READ_ONLY_GIT: &str = "status rev-parse ls-files ls-tree";

/// How many files of one line are looked after.
const MOST_FILES: usize = 64;

/// The request to run `command`. The intention is what the one who wants to run it says about it.
#[must_use]
pub fn request(call: &ToolCallId, cwd: &Path, command: &str, intention: &str) -> PermissionRequest {
    let parsed = line::parse(command);
    let redirects = match &parsed {
        Some(commands) => commands.iter().flat_map(|c| &c.redirections).any(|r| r.writes),
        None => command.contains('>'),
    };
    let identified = parsed.as_deref().filter(|_| !redirects).and_then(identify);
    let words = match &parsed {
        Some(commands) => commands.iter().flat_map(words_of).cloned().collect(),
        None => rough_words(command),
    };
    PermissionRequest::Shell {
        tool_call_id: Some(call.clone()),
        full_command_text: command.to_owned(),
        intention: intention.to_owned(),
        can_offer_session_approval: identified.is_some(),
        // A line that cannot be allowed by its commands is its own identifier, so that no earlier grant
        // covers it.
        commands: identified
            .unwrap_or_else(|| vec![ShellCommand { identifier: command.to_owned(), read_only: false }]),
        possible_paths: distinct(words.iter().filter_map(|word| path_in(cwd, word))),
        possible_urls: distinct(words.iter().filter_map(url_in))
            .into_iter()
            .map(|url| PossibleUrl { url })
            .collect(),
        has_write_file_redirection: redirects,
        warning: None,
    }
}

/// The files that a line names and may change. What a program finds by itself is not among them, and neither is what the
/// shell expands to names: a line says only so much of what it does.
pub(super) fn files_in(cwd: &Path, command: &str) -> Vec<PathBuf> {
    let parsed = line::parse(command);
    let words: Vec<Word> = match &parsed {
        Some(commands) => {
            let writes = commands.iter().flat_map(|c| &c.redirections).any(|r| r.writes);
            let reads = |all: Vec<ShellCommand>| all.iter().all(|command| command.read_only);
            if !writes && identify(commands).is_some_and(reads) {
                return Vec::new();
            }
            // Running a program does not change it.
            let arguments = commands.iter().flat_map(|command| command.words.iter().skip(1));
            let targets = commands.iter().flat_map(|command| &command.redirections).map(|r| &r.target);
            arguments.chain(targets).cloned().collect()
        }
        None => rough_words(command),
    };
    let named = words.iter().filter(|word| !word.expands && !word.text.starts_with('-'));
    let plain = named.filter(|word| !word.text.is_empty() && !word.text.contains(['\0', '\n']));
    let mut files: Vec<PathBuf> = plain.map(|word| paths::absolute(cwd, &word.text)).collect();
    files.sort();
    files.dedup();
    files.truncate(MOST_FILES);
    files
}

/// The names by which the commands may be allowed, or `None` if they say too little of what is run.
fn identify(commands: &[Simple]) -> Option<Vec<ShellCommand>> {
    let mut identified: Vec<ShellCommand> = Vec::new();
    for command in commands {
        // A variable can change what a program is: PATH, LD_PRELOAD, GIT_SSH_COMMAND.
        if command.assigns {
            return None;
        }
        if command.words.is_empty() {
            continue;
        }
        let identifier = identifier(&command.words)?;
        let git = identifier.strip_prefix("git ").is_some_and(|what| listed(READ_ONLY_GIT, what));
        let read_only = git || listed(READ_ONLY, &identifier);
        if identified.iter().all(|known| known.identifier != identifier) {
            identified.push(ShellCommand { identifier, read_only });
        }
    }
    (!identified.is_empty()).then_some(identified)
}

fn identifier(words: &[Word]) -> Option<String> {
    // Options before a subcommand can change what it does: `git -c core.sshCommand=...`.
    let plain = |index: usize| {
        words.get(index).filter(|w| !w.expands && !w.text.starts_with('-')).map(|w| w.text.as_str())
    };
    let program = plain(0).filter(|name| !name.is_empty())?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let runs_anything = listed(RUN_ANYTHING, name)
        // `find` does, too, if told to.
        || (name == "find" && words.iter().any(|w| w.expands || is_action_of_find(&w.text)));
    if runs_anything {
        return None;
    }
    if !listed(WITH_SUBCOMMANDS, program) || words.len() == 1 {
        return Some(program.to_owned());
    }
    match plain(1)? {
        "run" if listed(RUN_SCRIPTS, program) => Some(format!("{program} run {}", plain(2)?)),
        "run" if program == "cargo" => Some("cargo run".to_owned()),
        "run" | "exec" | "x" | "dlx" => None,
        subcommand => Some(format!("{program} {subcommand}")),
    }
}

fn is_action_of_find(argument: &str) -> bool {
    ["-exec", "-ok", "-delete", "-fprint", "-fls"].iter().any(|action| argument.starts_with(action))
}

fn words_of(command: &Simple) -> impl Iterator<Item = &Word> {
    command.words.iter().chain(command.redirections.iter().map(|redirection| &redirection.target))
}

/// Words of a line that was not understood.
fn rough_words(line: &str) -> Vec<Word> {
    line.split(|c: char| c.is_whitespace() || "'\"`;|&<>(){}".contains(c))
        .filter(|text| !text.is_empty())
        .map(|text| Word { text: text.to_owned(), expands: text.contains('$') })
        .collect()
}

fn path_in(cwd: &Path, word: &Word) -> Option<String> {
    // `--output=/tmp/x` mentions a path, too.
    let text = match word.text.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => &word.text,
    };
    let looks_like_one = text.contains('/') || text.starts_with('~') || text == "." || text == "..";
    if !looks_like_one || text.starts_with('-') || url_in(word).is_some() {
        return None;
    }
    let known = !word.expands && !text.starts_with('~');
    Some(if known { paths::absolute(cwd, text).display().to_string() } else { text.to_owned() })
}

fn url_in(word: &Word) -> Option<String> {
    let start = word.text.find("https://").or_else(|| word.text.find("http://"))?;
    Some(word.text[start..].to_owned())
}

fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

#[cfg(test)]
mod tests;
