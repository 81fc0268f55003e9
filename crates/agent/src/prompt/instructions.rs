//! Custom instructions of repositories and clients for every session.

use std::path::{Path, PathBuf};

use baton_disk::front_matter;
use serde::{Deserialize, Serialize};

use baton_disk::untrusted::{Excerpt, Unreadable, UntrustedDirectory};

/// A file of instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// Path of the file.
    pub path: PathBuf,
    /// Content, without front matter.
    pub text: String,
    /// Where it was found, and so where it applies.
    pub scope: InstructionScope,
    /// Patterns of the files that it is about; empty if it is about all.
    pub apply_to: Vec<String>,
    /// What it is about, in its own words.
    pub description: Option<String>,
}

/// Where a file of instructions was found, and so where it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstructionScope {
    /// The home of the server: instructions of the user for all projects.
    User,
    /// The root of the repository.
    Root,
    /// The directory of instructions for some of the files.
    Scoped,
    /// The working directory, below the root of the repository.
    WorkingDirectory,
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
pub struct FoundInstructions {
    /// Files that are used, in the order of the prompt.
    pub instructions: Vec<Instruction>,
    /// Files that are not used.
    pub refused: Vec<Refused>,
}

/// Files of instructions at the root of a repository.
const AT_ROOT: [&str; 4] = [".github/copilot-instructions.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"];
/// Files of instructions in a working directory below the root.
const NESTED: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];
/// File of the user's instructions for all projects, in the home of the server.
pub const USER_FILE: &str = "copilot-instructions.md";
/// Files and directories of instructions in a project, and whether each is a directory.
pub const PROJECT_PLACES: [(&str, bool); 5] = [
    (".github/copilot-instructions.md", false),
    (SCOPED, true),
    ("AGENTS.md", false),
    ("CLAUDE.md", false),
    ("GEMINI.md", false),
];
/// Directory of instructions for some of the files.
const SCOPED: &str = ".github/instructions";

/// Limit on all instructions together: more would crowd out the conversation.
const MAX_BYTES: usize = 64 * 1024;
/// Number of directory entries that are read.
const MAX_ENTRIES: usize = 1000;

/// Reads the instructions that apply in `cwd`, a directory of the repository at `git_root`, and those in further
/// directories that a client names (`<dir>/.github/instructions/*.instructions.md`). With a home, the user's own come first. Unreadable files are skipped:
/// instructions are advice, and must not keep a session from starting. Blocks.
///
/// The directories are [untrusted](baton_disk::untrusted): files that are not regular, or are outside, are refused.
#[must_use]
pub fn find(
    cwd: &Path,
    git_root: Option<&Path>,
    further: &[PathBuf],
    home: Option<&Path>,
) -> FoundInstructions {
    let root = git_root.unwrap_or(cwd);
    let mut reading = Reading { found: FoundInstructions::default(), left: MAX_BYTES };
    reading.read_user(home);
    if let Ok(directory) = UntrustedDirectory::open(root) {
        AT_ROOT
            .iter()
            .for_each(|name| reading.read(root, &directory, Path::new(name), InstructionScope::Root));
        reading.read_scoped(root, &directory);
    }
    if cwd != root
        && let Ok(directory) = UntrustedDirectory::open(cwd)
    {
        NESTED.iter().for_each(|name| {
            reading.read(cwd, &directory, Path::new(name), InstructionScope::WorkingDirectory);
        });
    }
    for path in further {
        if let Ok(directory) = UntrustedDirectory::open(path) {
            reading.read_scoped(path, &directory);
        }
    }
    reading.found
}

/// Reads the user's instructions for all projects. Blocks.
#[must_use]
pub fn of_user(home: &Path) -> FoundInstructions {
    let mut reading = Reading { found: FoundInstructions::default(), left: MAX_BYTES };
    reading.read_user(Some(home));
    reading.found
}

struct Reading {
    found: FoundInstructions,
    /// Bytes that may still be read.
    left: usize,
}

impl Reading {
    fn read_user(&mut self, home: Option<&Path>) {
        if let Some(home) = home
            && let Ok(directory) = UntrustedDirectory::open(home)
        {
            self.read(home, &directory, Path::new(USER_FILE), InstructionScope::User);
        }
    }

    /// Reads a file of instructions. `shown` is the path of the directory as the user knows it.
    fn read(&mut self, shown: &Path, directory: &UntrustedDirectory, name: &Path, scope: InstructionScope) {
        let path = shown.join(name);
        let read = directory.read(name, self.left);
        let is_cut = read.as_ref().is_ok_and(|excerpt| excerpt.is_cut);
        match read.and_then(Excerpt::into_text) {
            Ok(text) if text.trim().is_empty() && !is_cut => {}
            Ok(text) => {
                self.left -= text.len();
                // Front matter that cannot be read stays part of the text.
                let (matter, body) = front_matter::split(&text).unwrap_or((None, &text));
                let matter = matter.unwrap_or_default();
                let mut text = body.trim().to_owned();
                if is_cut {
                    text.push_str(&format!("\n[cut: instructions are limited to {MAX_BYTES} bytes in all]"));
                }
                self.found.instructions.push(Instruction {
                    path,
                    text,
                    scope,
                    apply_to: matter.list("applyTo").unwrap_or_default(),
                    description: matter.text("description"),
                });
            }
            Err(Unreadable::Absent) => {}
            Err(why) => self.found.refused.push(Refused { path, why }),
        }
    }

    fn read_scoped(&mut self, shown: &Path, directory: &UntrustedDirectory) {
        let listed = directory.subdirectory(SCOPED).and_then(|scoped| scoped.names(MAX_ENTRIES));
        let mut names = match listed {
            Ok(names) => names,
            Err(Unreadable::Absent) => return,
            Err(why) => return self.found.refused.push(Refused { path: shown.join(SCOPED), why }),
        };
        names.retain(|name| name.to_string_lossy().ends_with(".instructions.md"));
        names.sort();
        names.iter().for_each(|name| {
            self.read(shown, directory, &Path::new(SCOPED).join(name), InstructionScope::Scoped);
        });
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
            let scope = match &*i.apply_to {
                [] => String::new(),
                patterns => format!(" applies_to=\"{}\"", patterns.join(",").replace('"', "'")),
            };
            let path = i.path.display();
            format!("<custom_instruction path=\"{path}\"{scope}>\n{}\n</custom_instruction>", i.text)
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
        write(
            ".github/instructions/rust.instructions.md",
            "---\napplyTo: \"**/*.rs,**/*.toml\"\ndescription: Rust\n---\nNo unwrap.",
        );
        write(".github/instructions/notes.md", "not an instruction");
        write("extra/.github/instructions/more.instructions.md", "From elsewhere.");
        let found = find(dir.path(), None, &[dir.path().join("extra"), dir.path().join("missing")], None);
        assert_eq!(texts(&found), ["Use tabs.", "No unwrap.", "From elsewhere."]);
        assert!(found.refused.is_empty(), "{:?}", found.refused);
        assert_eq!(found.instructions[1].apply_to, ["**/*.rs", "**/*.toml"]);
        let text = render(&found.instructions);
        assert!(text.contains("applies_to=\"**/*.rs,**/*.toml\">\nNo unwrap."), "{text}");
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn instructions_of_the_user_come_first_and_nested_ones_last() {
        let (root, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cwd = root.path().join("sub");
        std::fs::create_dir(&cwd).unwrap();
        std::fs::write(root.path().join("AGENTS.md"), "root").unwrap();
        std::fs::write(cwd.join("AGENTS.md"), "nested").unwrap();
        std::fs::write(home.path().join(USER_FILE), "user").unwrap();
        let found = find(&cwd, Some(root.path()), &[], Some(home.path()));
        assert_eq!(texts(&found), ["user", "root", "nested"]);
        assert_eq!(texts(&of_user(home.path())), ["user"]);
    }

    fn texts(found: &FoundInstructions) -> Vec<&str> {
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
        let found = find(dir.path(), None, &[], None);
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
        let found = find(dir.path(), None, &[], None);
        assert_eq!((texts(&found), found.refused.len()), (vec![], 2));
    }

    #[test]
    fn long_instructions_are_marked_as_cut() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("AGENTS.md"), "é".repeat(MAX_BYTES)).unwrap();
        std::fs::write(dir.path().join("CLAUDE.md"), "more").unwrap();
        let found = find(dir.path(), None, &[], None);
        let [first, second] = &*texts(&found) else { panic!("{found:?}") };
        assert!(first.len() < MAX_BYTES + 100 && first.ends_with("in all]"));
        assert!(second.contains("[cut:"), "{second}");
    }
}
