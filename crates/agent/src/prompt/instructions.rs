//! Custom instructions of repositories and clients for every session.

use std::path::{Path, PathBuf};

use crate::untrusted::{Directory, Excerpt, Unreadable};

/// A file of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Path of the file.
    pub path: PathBuf,
    /// Content.
    pub text: String,
}

/// A file of instructions that is not used.
#[derive(Debug)]
pub struct Refused {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason.
    pub why: Unreadable,
}

/// Instructions that apply in a directory.
#[derive(Debug, Default)]
pub struct Found {
    /// Files that are used, in the order of the prompt.
    pub instructions: Vec<Instruction>,
    /// Files that are not used.
    pub refused: Vec<Refused>,
}

/// Files of instructions at the root of a repository.
const AT_ROOT: [&str; 3] = [".github/copilot-instructions.md", "AGENTS.md", "CLAUDE.md"];
/// Directory of instructions for some of the files.
const SCOPED: &str = ".github/instructions";

/// Limit on all instructions together: more would crowd out the conversation.
const MAX_BYTES: usize = 64 * 1024;
/// Number of directory entries that are read.
const MAX_ENTRIES: usize = 1000;

/// Reads the instructions that apply in `cwd`, a directory of the repository at `git_root`, and those in further
/// directories that a client names (`<dir>/.github/instructions/*.instructions.md`). Unreadable files are skipped:
/// instructions are advice, and must not keep a session from starting. Blocks.
///
/// The directories are [untrusted](crate::untrusted): files that are not regular, or are outside, are refused.
#[must_use]
pub fn find(cwd: &Path, git_root: Option<&Path>, further: &[PathBuf]) -> Found {
    let root = git_root.unwrap_or(cwd);
    let mut reading = Reading { found: Found::default(), left: MAX_BYTES };
    if let Ok(directory) = Directory::open(root) {
        AT_ROOT.iter().for_each(|name| reading.read(root, &directory, Path::new(name)));
        reading.read_scoped(root, &directory);
    }
    for path in further {
        if let Ok(directory) = Directory::open(path) {
            reading.read_scoped(path, &directory);
        }
    }
    reading.found
}

struct Reading {
    found: Found,
    /// Bytes that may still be read.
    left: usize,
}

impl Reading {
    /// Reads a file of instructions. `shown` is the path of the directory as the user knows it.
    fn read(&mut self, shown: &Path, directory: &Directory, name: &Path) {
        let path = shown.join(name);
        let read = directory.read(name, self.left);
        let is_cut = read.as_ref().is_ok_and(|excerpt| excerpt.is_cut);
        match read.and_then(Excerpt::into_text) {
            Ok(text) if text.trim().is_empty() && !is_cut => {}
            Ok(text) => {
                self.left -= text.len();
                let mut text = text.trim().to_owned();
                if is_cut {
                    text.push_str(&format!("\n[cut: instructions are limited to {MAX_BYTES} bytes in all]"));
                }
                self.found.instructions.push(Instruction { path, text });
            }
            Err(Unreadable::Absent) => {}
            Err(why) => self.found.refused.push(Refused { path, why }),
        }
    }

    fn read_scoped(&mut self, shown: &Path, directory: &Directory) {
        let listed = directory.subdirectory(SCOPED).and_then(|scoped| scoped.names(MAX_ENTRIES));
        let mut names = match listed {
            Ok(names) => names,
            Err(Unreadable::Absent) => return,
            Err(why) => return self.found.refused.push(Refused { path: shown.join(SCOPED), why }),
        };
        names.retain(|name| name.to_string_lossy().ends_with(".instructions.md"));
        names.sort();
        names.iter().for_each(|name| self.read(shown, directory, &Path::new(SCOPED).join(name)));
    }
}

/// Renders instructions as a section of the system prompt.
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
    use std::os::unix::fs::symlink;

    use rustix::fs::{FileType, Mode};

    use super::*;

    #[test]
    fn instructions_are_found_by_name() {
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
        assert_eq!(texts(&found), ["Use tabs.", "No unwrap.", "From elsewhere."]);
        assert!(found.refused.is_empty(), "{:?}", found.refused);
        assert!(render(&found.instructions).contains("No unwrap."));
        assert_eq!(render(&[]), "");
    }

    fn texts(found: &Found) -> Vec<&str> {
        found.instructions.iter().map(|i| i.text.as_str()).collect()
    }

    #[test]
    fn links_out_of_the_repository_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = |target: &str, name: &str| symlink(target, dir.path().join(name)).unwrap();
        std::fs::write(dir.path().join("AGENTS.md"), "Use tabs.").unwrap();
        link("AGENTS.md", "CLAUDE.md");
        std::fs::create_dir_all(dir.path().join(".github")).unwrap();
        link("/proc/self/environ", ".github/copilot-instructions.md");
        link("/etc", ".github/instructions");
        let found = find(dir.path(), None, &[]);
        assert_eq!(texts(&found), ["Use tabs.", "Use tabs."]);
        let refused: Vec<_> =
            found.refused.iter().map(|r| r.path.strip_prefix(dir.path()).unwrap()).collect();
        assert_eq!(refused, [Path::new(AT_ROOT[0]), Path::new(SCOPED)]);
    }

    #[test]
    fn devices_and_fifos_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/dev/zero", dir.path().join("AGENTS.md")).unwrap();
        let fifo = dir.path().join("CLAUDE.md");
        rustix::fs::mknodat(rustix::fs::CWD, fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let found = find(dir.path(), None, &[]);
        assert_eq!((texts(&found), found.refused.len()), (vec![], 2));
    }

    #[test]
    fn long_instructions_are_marked_as_cut() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("AGENTS.md"), "é".repeat(MAX_BYTES)).unwrap();
        std::fs::write(dir.path().join("CLAUDE.md"), "more").unwrap();
        let found = find(dir.path(), None, &[]);
        let [first, second] = &*texts(&found) else { panic!("{found:?}") };
        assert!(first.len() < MAX_BYTES + 100 && first.ends_with("in all]"));
        assert!(second.contains("[cut:"), "{second}");
    }
}
