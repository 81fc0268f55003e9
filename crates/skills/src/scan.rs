//! Scanning directories for skills.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use baton_disk::untrusted::{Excerpt, Unreadable, UntrustedDirectory};

use crate::skill::{Content, FILE, MAX_BYTES, Skill, SkillOrigin};

/// Entries of a directory that are looked at.
const MAX_ENTRIES: usize = 1000;

/// Whether a problem keeps a skill from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The skill is used.
    Warning,
    /// The skill is not used.
    Error,
}

/// A problem with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as the user knows it.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
    /// Whether it is used anyway.
    pub severity: Severity,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

/// What a scan has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillScan {
    /// Skills, by directory name.
    pub skills: Vec<Skill>,
    /// Files with problems.
    pub problems: Vec<Problem>,
}

impl SkillScan {
    /// Adds what another scan has found. A skill whose command is known already is left out, with a warning: the first
    /// place has precedence.
    pub fn add(&mut self, other: Self) {
        self.problems.extend(other.problems);
        for skill in other.skills {
            match self.skills.iter().find(|known| known.command == skill.command) {
                None => self.skills.push(skill),
                Some(known) if known.path == skill.path => {}
                Some(known) => {
                    let why = format!("not used: {} has the same name", known.path.display());
                    self.problems.push(Problem { path: skill.path, why, severity: Severity::Warning });
                }
            }
        }
    }

    pub(crate) fn refuse(&mut self, path: PathBuf, why: impl std::fmt::Display) {
        self.problems.push(Problem { path, why: why.to_string(), severity: Severity::Error });
    }
}

/// Finds the skills in the immediate subdirectories of a directory. A directory that does not exist has none. Blocks.
#[must_use]
pub fn scan(root: &Path, origin: &SkillOrigin) -> SkillScan {
    scan_below(root, Path::new(""), origin)
}

/// Finds the skills in the immediate subdirectories of a directory below a root, which no link may leave. Blocks.
pub(crate) fn scan_below(root: &Path, inside: &Path, origin: &SkillOrigin) -> SkillScan {
    let mut found = SkillScan::default();
    let Some((directory, names)) = list(root, inside, &mut found) else { return found };
    for name in names {
        read(root, &directory, &inside.join(&name).join(FILE), &name, origin, &mut found);
    }
    found
}

/// Finds the commands in a directory below a root: Markdown files, each a skill that only users invoke. Blocks.
pub(crate) fn scan_commands(root: &Path, inside: &Path, origin: &SkillOrigin) -> SkillScan {
    let mut found = SkillScan::default();
    let Some((directory, names)) = list(root, inside, &mut found) else { return found };
    for name in names {
        let path = Path::new(&name);
        if let Some(stem) = path.file_stem().filter(|_| path.extension().is_some_and(|end| end == "md")) {
            read(root, &directory, &inside.join(&name), stem, origin, &mut found);
        }
    }
    for command in &mut found.skills {
        (command.user_invocable, command.model_invocable) = (true, false);
    }
    found
}

/// Opens a root, and lists a directory below it in order. None if the directory does not exist, or cannot be read.
pub(crate) fn list(
    root: &Path,
    inside: &Path,
    found: &mut SkillScan,
) -> Option<(UntrustedDirectory, Vec<OsString>)> {
    let listed = UntrustedDirectory::open(root).and_then(|directory| {
        let mut names = directory.subdirectory(inside)?.names(MAX_ENTRIES)?;
        names.sort();
        Ok((directory, names))
    });
    match listed {
        Ok(listed) => Some(listed),
        Err(Unreadable::Absent) => None,
        Err(error) => {
            found.refuse(root.join(inside), error);
            None
        }
    }
}

/// Reads the skill in a directory itself, if there is one. Blocks.
#[must_use]
pub fn scan_single(root: &Path, origin: &SkillOrigin) -> SkillScan {
    let mut found = SkillScan::default();
    if let Ok(directory) = UntrustedDirectory::open(root) {
        let name = root.file_name().unwrap_or_default().to_owned();
        read(root, &directory, Path::new(FILE), &name, origin, &mut found);
    }
    found
}

fn read(
    root: &Path,
    directory: &UntrustedDirectory,
    inside: &Path,
    name: &OsStr,
    origin: &SkillOrigin,
    found: &mut SkillScan,
) {
    let path = root.join(inside);
    let text = match directory.read(inside, MAX_BYTES) {
        Ok(Excerpt { is_cut: true, .. }) => {
            return found.refuse(path, format!("it is larger than {MAX_BYTES} bytes"));
        }
        Ok(excerpt) => excerpt.into_text(),
        Err(Unreadable::Absent) => return,
        Err(error) => Err(error),
    };
    let parsed = text.map_err(|error| error.to_string()).and_then(|text| {
        let content = Content::File { root: root.to_owned(), inside: inside.to_owned() };
        Skill::parse(&text, &name.to_string_lossy(), path.clone(), content, origin.clone())
    });
    match parsed {
        Err(why) => found.refuse(path, why),
        Ok((skill, warnings)) => {
            let warning = |why| Problem { path: path.clone(), why, severity: Severity::Warning };
            found.problems.extend(warnings.into_iter().map(warning));
            found.add(SkillScan { skills: vec![skill], problems: Vec::new() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{FileType, Mode};

    use super::*;
    use crate::skill::SkillSource;

    fn write(root: &Path, name: &str, text: &str) {
        let directory = root.join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(FILE), text).unwrap();
    }

    fn custom() -> SkillOrigin {
        SkillSource::Custom.into()
    }

    #[test]
    fn skills_are_found_in_immediate_subdirectories() {
        let dir = tempfile::tempdir().unwrap();
        let text = "---\nname: pdf\ndescription: Reads PDF files.\nallowed-tools: [bash]\nargument-hint: [file]\n---\n\nDo it.\n";
        write(dir.path(), "reader", text);
        write(dir.path(), "deep/er", text);
        std::fs::write(dir.path().join("SKILL.md"), "not one of them").unwrap();
        let found = scan(dir.path(), &custom());
        assert_eq!(found.problems, []);
        let [skill] = &*found.skills else { panic!("{found:?}") };
        assert_eq!((skill.name.as_str(), skill.command.as_str()), ("pdf", "pdf"));
        assert_eq!(
            (skill.allowed_tools.as_slice(), skill.argument_hint.as_deref()),
            (&["bash".to_owned()][..], Some("[file]"))
        );
        assert!(skill.path.ends_with("reader/SKILL.md") && skill.user_invocable && skill.model_invocable);
        assert_eq!(skill.read().unwrap().unwrap(), "Do it.\n");
        assert_eq!(scan(&dir.path().join("none"), &custom()), SkillScan::default());
        assert_eq!(scan_single(&dir.path().join("reader"), &custom()).skills.len(), 1);
    }

    #[test]
    fn malformed_skills_cost_themselves_only() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "a-good", "---\ndescription: Good.\n---\nText.");
        write(dir.path(), "b-plain", "# Only text\n");
        write(dir.path(), "c-open", "---\nname: open\n");
        write(dir.path(), "d-name", "---\nname: \"a\\\"><b\"\ndescription: x\n---\n");
        write(dir.path(), "e-large", &"x".repeat(MAX_BYTES + 1));
        write(dir.path(), "f-twice", "---\nname: a-good\ndescription: Other.\n---\n");
        std::fs::create_dir(dir.path().join("g-bytes")).unwrap();
        std::fs::write(dir.path().join("g-bytes/SKILL.md"), b"\xff\xfe").unwrap();
        let found = scan(dir.path(), &custom());
        let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["a-good", "b-plain"]);
        assert_eq!(found.skills[1].description, "Only text");
        let refused = |severity| found.problems.iter().filter(move |p| p.severity == severity).count();
        assert_eq!((refused(Severity::Error), refused(Severity::Warning)), (4, 2), "{:#?}", found.problems);
    }

    #[test]
    fn links_out_and_odd_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        write(outside.path(), "secret", "---\ndescription: x\n---\nsecret");
        symlink(outside.path().join("secret"), dir.path().join("a-link")).unwrap();
        std::fs::create_dir(dir.path().join("b-file")).unwrap();
        symlink("/etc/passwd", dir.path().join("b-file/SKILL.md")).unwrap();
        std::fs::create_dir(dir.path().join("c-fifo")).unwrap();
        let fifo = dir.path().join("c-fifo/SKILL.md");
        rustix::fs::mknodat(rustix::fs::CWD, fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        write(dir.path(), "d-real", "---\ndescription: x\n---\n");
        symlink("d-real", dir.path().join("e-inside")).unwrap();
        let found = scan(dir.path(), &custom());
        let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["d-real", "e-inside"], "links that stay inside are followed");
        assert_eq!(found.problems.len(), 3, "{:#?}", found.problems);
    }

    #[test]
    fn skill_that_became_a_link_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "a", "---\ndescription: x\n---\nText.");
        let found = scan(dir.path(), &custom());
        std::fs::remove_file(dir.path().join("a/SKILL.md")).unwrap();
        symlink("/etc/passwd", dir.path().join("a/SKILL.md")).unwrap();
        assert!(found.skills[0].read().unwrap().is_err());
    }
}
