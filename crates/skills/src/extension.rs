//! Extensions on disk: directories with an `extension.mjs`, a program that joins sessions.
//!
//! Trust in an extension is for one digest of its code: every file of its directory that Node.js could load. Data files are
//! left out, because extensions write their own. A directory whose code cannot be covered by a digest is refused: a link
//! leads out of it, or there is too much.

use std::path::{Path, PathBuf};

use baton_disk::untrusted::{Unreadable, UntrustedDirectory};
use ring::digest::{Context, SHA256};

use crate::copy::hex;
use crate::scan::{Problem, SkillScan, list};

/// The program of an extension.
const ENTRY: &str = "extension.mjs";
/// Endings of files that Node.js loads as code.
const CODE: [&str; 9] = ["js", "mjs", "cjs", "ts", "mts", "cts", "json", "node", "wasm"];
/// Most files with code, most directories, and most entries of one directory. Links within an extension can make a few
/// directories look like very many.
const MOST_FILES: usize = 2000;
/// Most bytes of code.
const MOST_BYTES: usize = 32 * 1024 * 1024;
/// Deepest directory.
const MOST_LEVELS: usize = 12;
/// Longest name.
const LONGEST_NAME: usize = 100;

/// An extension that was found in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Its name: that of its directory.
    pub name: String,
    /// Its directory, without links.
    pub root: PathBuf,
    /// Its program.
    pub entry: PathBuf,
    /// Digest of its code.
    pub digest: String,
}

/// Finds the extensions in a directory, by name. Blocks.
#[must_use]
pub fn scan_extensions(root: &Path) -> (Vec<Extension>, Vec<Problem>) {
    scan_extensions_below(root, Path::new(""))
}

/// Finds the extensions in a directory below a root that links must not leave, by name. Blocks.
#[must_use]
pub fn scan_extensions_below(root: &Path, below: &Path) -> (Vec<Extension>, Vec<Problem>) {
    let (mut extensions, mut found) = (Vec::new(), SkillScan::default());
    let Some((directory, mut names)) = list(root, below, &mut found) else {
        return (extensions, found.problems);
    };
    names.sort();
    for name in names {
        let path = root.join(below).join(&name);
        let opened = directory.subdirectory(below.join(&name));
        match opened.and_then(|inside| inside.read(ENTRY, 1).map(|_| inside)) {
            Ok(inside) => match name.to_str().ok_or_else(invalid_name).and_then(|name| read(name, &inside)) {
                Ok(extension) => extensions.push(extension),
                Err(why) => found.refuse(path, why),
            },
            Err(Unreadable::LeadsOut) => found.refuse(path, "a link leads out of it"),
            // Not an extension.
            Err(_) => {}
        }
    }
    (extensions, found.problems)
}

fn invalid_name() -> String {
    format!("its name must consist of letters, digits, `.`, `_` and `-`, {LONGEST_NAME} at most; rename it")
}

fn read(name: &str, directory: &UntrustedDirectory) -> Result<Extension, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
        return Err(invalid_name());
    }
    let mut code = Code { digest: Context::new(&SHA256), files: 0, directories: 0, bytes: 0 };
    code.add(directory, Path::new(""), 0)?;
    let root = directory.path().to_owned();
    let entry = root.join(ENTRY);
    Ok(Extension { name: name.to_owned(), root, entry, digest: hex(code.digest.finish().as_ref()) })
}

/// The code of an extension, as it is read.
struct Code {
    digest: Context,
    files: usize,
    directories: usize,
    bytes: usize,
}

impl Code {
    fn add(&mut self, root: &UntrustedDirectory, inside: &Path, level: usize) -> Result<(), String> {
        let shown =
            |error: &dyn std::fmt::Display| format!("{}: {error}", root.path().join(inside).display());
        if level > MOST_LEVELS {
            return Err(shown(&"its directories are nested too deeply"));
        }
        self.directories += 1;
        if self.directories > MOST_FILES {
            return Err(format!("it has more than {MOST_FILES} directories"));
        }
        let directory = root.subdirectory(inside).map_err(|error| shown(&error))?;
        let mut names = directory.names(MOST_FILES + 1).map_err(|error| shown(&error))?;
        if names.len() > MOST_FILES {
            return Err(shown(&"it has too many files"));
        }
        names.sort();
        for name in names {
            let path = inside.join(&name);
            match root.subdirectory(&path) {
                Ok(_) => self.add(root, &path, level + 1)?,
                Err(Unreadable::LeadsOut) => {
                    return Err(format!("{} is a link out of the extension; remove it", path.display()));
                }
                Err(_) if is_code(&path) => self.file(root, &path)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, root: &UntrustedDirectory, path: &Path) -> Result<(), String> {
        let left = MOST_BYTES - self.bytes;
        let excerpt = root.read(path, left).map_err(|error| format!("{}: {error}", path.display()))?;
        self.files += 1;
        self.bytes += excerpt.bytes.len();
        if excerpt.is_cut || self.files > MOST_FILES {
            return Err(format!("it has more than {MOST_FILES} files or {MOST_BYTES} bytes of code"));
        }
        let name = path.as_os_str().as_encoded_bytes();
        for part in [name, &excerpt.bytes] {
            self.digest.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            self.digest.update(part);
        }
        Ok(())
    }
}

fn is_code(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    ending.is_some_and(|ending| CODE.contains(&ending.as_str()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn digest(root: &Path) -> String {
        scan_extensions(root).0.remove(0).digest
    }

    #[test]
    fn directories_with_a_program_are_extensions() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("b/extension.mjs"), "");
        write(&dir.path().join("a/extension.mjs"), "");
        write(&dir.path().join("notes/README.md"), "");
        let (found, problems) = scan_extensions(dir.path());
        assert_eq!(found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(problems.is_empty(), "{problems:?}");
        assert!(scan_extensions(&dir.path().join("absent")).0.is_empty());
    }

    #[test]
    fn links_out_of_the_root_are_not_followed() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(&outside.path().join("a/extension.mjs"), "");
        symlink(outside.path(), dir.path().join("extensions")).unwrap();
        let (found, problems) = scan_extensions_below(dir.path(), Path::new("extensions"));
        assert_eq!((found.len(), problems.len()), (0, 1), "{problems:?}");
        std::fs::remove_file(dir.path().join("extensions")).unwrap();
        write(&dir.path().join("extensions/a/extension.mjs"), "");
        assert_eq!(scan_extensions_below(dir.path(), Path::new("extensions")).0.len(), 1);
    }

    #[test]
    fn digest_covers_all_code_and_no_data() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("a/extension.mjs"), "import './lib/x.js'");
        let before = digest(dir.path());
        write(&dir.path().join("a/lib/x.js"), "1");
        let with_library = digest(dir.path());
        assert_ne!(with_library, before);
        write(&dir.path().join("a/lib/x.js"), "2");
        assert_ne!(digest(dir.path()), with_library);
        let settled = digest(dir.path());
        write(&dir.path().join("a/ready"), "data");
        assert_eq!(digest(dir.path()), settled);
        std::fs::rename(dir.path().join("a/lib/x.js"), dir.path().join("a/lib/y.js")).unwrap();
        assert_ne!(digest(dir.path()), settled, "names count");
    }

    #[test]
    fn links_that_multiply_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("a/extension.mjs"), "");
        // Each level leads to the next one twenty times: ten directories look like 20^9.
        for level in 0..10 {
            write(&dir.path().join(format!("a/{level}/data")), "");
            for n in 0..20 {
                symlink(format!("../{}", level + 1), dir.path().join(format!("a/{level}/{n}"))).unwrap();
            }
        }
        write(&dir.path().join("a/10/data"), "");
        let (found, problems) = scan_extensions(dir.path());
        assert_eq!(found, []);
        assert!(problems[0].why.contains("more than 2000 directories"), "{problems:?}");
    }

    #[test]
    fn code_that_no_digest_covers_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        write(&outside.path().join("x.js"), "");
        for name in ["file", "directory", "odd name"] {
            write(&dir.path().join(name).join("extension.mjs"), "");
        }
        symlink(outside.path().join("x.js"), dir.path().join("file/x.js")).unwrap();
        symlink(outside.path(), dir.path().join("directory/node_modules")).unwrap();
        symlink(outside.path(), dir.path().join("itself")).unwrap();
        let (found, problems) = scan_extensions(dir.path());
        assert_eq!(found, []);
        assert_eq!(problems.len(), 4, "{problems:?}");
    }
}
