//! The supported programs: one module for each, with its facts and its protocol.
//!
//! To add one, add its module and its line of [`PROGRAMS`]: `docs/extending/engine.md`.

mod claude;
mod codex;
mod gemini;
mod opencode;
mod pi;
mod qwen;

use crate::program::{ProgramInfo, of_all};

/// The programs that are supported without a description in the settings, in the order in which users see them.
pub(crate) const PROGRAMS: &[ProgramInfo] =
    &[codex::INFO, claude::INFO, pi::INFO, opencode::INFO, gemini::INFO, qwen::INFO];

/// Returns the names of the engines that need no description in the settings, in the order in which users see them.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|program| program.name)
}

/// Returns the files and directories from which these engines run something when they are started: paths of one name or
/// several, wherever they are. A write to one needs approval each time.
#[must_use]
pub fn guarded_files() -> Vec<&'static str> {
    let mut files = of_all(|program| program.project_files);
    files.extend(of_all(|program| program.user_files));
    files
}
