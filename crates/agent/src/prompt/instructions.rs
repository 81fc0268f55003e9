//! Standing instructions: what a repository or a client wants every session to know.

use std::path::{Path, PathBuf};

/// One file of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Where it was found.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// Files that hold instructions at the root of a repository.
const AT_ROOT: [&str; 3] = [".github/copilot-instructions.md", "AGENTS.md", "CLAUDE.md"];

/// Instructions longer than this in all are cut: they would crowd out the conversation.
const MAX_BYTES: usize = 64 * 1024;

/// Reads the instructions that apply in `cwd`, a directory of the repository at `git_root`, and those of further
/// directories that a client names (`<dir>/.github/instructions/*.instructions.md`). What cannot be read is passed over:
/// instructions are advice, and must not keep a session from starting.
#[must_use]
pub fn find(cwd: &Path, git_root: Option<&Path>, further: &[PathBuf]) -> Vec<Instruction> {
    let mut paths: Vec<PathBuf> = AT_ROOT.iter().map(|name| git_root.unwrap_or(cwd).join(name)).collect();
    for directory in [git_root.unwrap_or(cwd)].into_iter().chain(further.iter().map(PathBuf::as_path)) {
        paths.extend(scoped(&directory.join(".github/instructions")));
    }
    let mut left = MAX_BYTES;
    paths.into_iter().filter_map(|path| read(path, &mut left)).collect()
}

fn scoped(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(".instructions.md"))
        })
        .collect();
    paths.sort();
    paths
}

fn read(path: PathBuf, left: &mut usize) -> Option<Instruction> {
    let text = std::fs::read_to_string(&path).ok()?;
    let text: String = text.trim().chars().take(*left).collect();
    *left = left.saturating_sub(text.len());
    (!text.is_empty()).then_some(Instruction { path, text })
}

/// The instructions as a section of the system prompt.
#[must_use]
pub fn render(instructions: &[Instruction]) -> String {
    if instructions.is_empty() {
        return String::new();
    }
    let blocks: Vec<String> = instructions
        .iter()
        .map(|i| {
            format!("<custom_instruction path=\"{}\">\n{}\n</custom_instruction>", i.path.display(), i.text)
        })
        .collect();
    format!("# Instructions of this project\n{}", blocks.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_applies_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("AGENTS.md", "Use tabs.\n");
        write(".github/instructions/rust.instructions.md", "No unwrap.");
        write(".github/instructions/notes.md", "not an instruction");
        write("extra/.github/instructions/more.instructions.md", "From elsewhere.");
        let found = find(dir.path(), None, &[dir.path().join("extra"), dir.path().join("missing")]);
        let texts: Vec<&str> = found.iter().map(|i| i.text.as_str()).collect();
        assert_eq!(texts, ["Use tabs.", "No unwrap.", "From elsewhere."]);
        assert!(render(&found).contains("No unwrap."));
        assert_eq!(render(&[]), "");
    }
}
