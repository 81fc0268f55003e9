//! Whether a program has credentials, as far as files and variables tell.
//!
//! A login may be where nobody looks: in a keyring, in a file that another variable names, behind a proxy that needs none. So what
//! is missing here is a warning and never a refusal.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::program::Program;

/// Traces of a program's credentials.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    /// The program's directory: the variable that names it, and its default below the home directory.
    pub(crate) directory: (&'static str, &'static str),
    /// Files of the directory, each with words of which the file has at least one; no words mean any file.
    pub(crate) files: &'static [(&'static str, &'static [&'static str])],
    /// Variables: a whole name, or its end after an asterisk.
    pub(crate) variables: &'static [&'static str],
    /// What the program does without credentials, as the end of a sentence that begins with its name.
    pub(crate) without: &'static str,
}

/// [`Credentials::without`] of a program that fails without a login.
pub(crate) const NO_CREDENTIALS: &str = "is probably not logged in: no credentials were found";

/// Describes that no credentials of the program were found. None if there are some, or if nobody can tell. Blocks.
pub(crate) fn missing(program: &Program) -> Option<String> {
    let info = &program.info;
    let traces = (info.credentials)(program.settings.mode)?;
    let (variable, below_home) = traces.directory;
    let named = program.variable(variable).map(PathBuf::from);
    let directory = match named {
        Some(directory) => directory,
        None => PathBuf::from(program.variable("HOME")?).join(below_home),
    };
    let is_set = |name: &OsStr| {
        is_named(name, traces.variables)
            && name.to_str().and_then(|name| program.variable(name)).is_some_and(|value| !value.is_empty())
    };
    let is_there = traces.files.iter().any(|(file, words)| has_word(&directory.join(file), words))
        || program.environment(&[]).iter().any(|(name, _)| is_set(name));
    (!is_there).then(|| format!("{} {}. {}", info.name, traces.without, info.login))
}

/// Whether a file has one of the words, or any text if there are no words.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn has_word(file: &Path, words: &[&str]) -> bool {
    if words.is_empty() {
        return file.is_file();
    }
    std::fs::read_to_string(file).is_ok_and(|text| words.iter().any(|word| text.contains(word)))
}

fn is_named(name: &OsStr, patterns: &[&str]) -> bool {
    let name = name.to_string_lossy();
    patterns.iter().any(|pattern| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == *pattern,
    })
}
