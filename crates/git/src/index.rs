//! The submodules in an index, without running `git`.
//!
//! `git status` runs itself in each submodule, with the configuration there. The format is described in git's
//! `gitformat-index`. An index that is not fully understood yields none: its submodules are unknown then.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Mode of an entry for a submodule: a commit of another repository.
const COMMIT: u32 = 0o160_000;
/// Bytes of an entry before its object id: times, device, inode, mode, owner, group, size.
const STATUS: usize = 40;
const MODE_AT: usize = 24;
/// In the flags of an entry: two more bytes of flags follow.
const EXTENDED: u16 = 0x4000;
/// In the flags of an entry: the length of its path, or this value if the path is longer.
const LENGTH: u16 = 0xfff;
/// Signature, version, number of entries.
const HEADER: usize = 12;

/// Lists the paths of submodules in an index whose object ids have `hash` bytes.
pub(super) fn submodules(index: &[u8], hash: usize) -> Option<Vec<PathBuf>> {
    // The checksum at the end may be all zeros, so it proves nothing.
    let mut rest = Bytes(index.get(..index.len().checked_sub(hash)?)?);
    if rest.take(4)? != b"DIRC" {
        return None;
    }
    let version = rest.number()?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let (mut found, mut path, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    let end = rest.0.len() + HEADER - 4;
    let offset_of = |rest: &Bytes<'_>| u32::try_from(end - rest.0.len()).ok();
    for _ in 0..rest.number()? {
        let before = rest.0.len();
        starts.push(offset_of(&rest)?);
        let status = rest.take(STATUS)?;
        let mode = u32::from_be_bytes(status.get(MODE_AT..MODE_AT + 4)?.try_into().ok()?);
        rest.take(hash)?;
        let flags = rest.short()?;
        if flags & EXTENDED != 0 {
            rest.short()?;
        }
        if version == 4 {
            // Bytes to remove from the end of the previous path; the new end follows.
            let cut = rest.offset()?;
            path.truncate(path.len().checked_sub(cut)?);
            path.extend_from_slice(rest.until_zero()?);
        } else {
            path = rest.until_zero()?.to_owned();
            // Padded with zeros to a multiple of eight; one of them has been read.
            let length = before - rest.0.len() - 1;
            rest.take(7 - length % 8)?;
        }
        // Git uses the length in the flags, so it must match.
        if usize::from(flags & LENGTH) != path.len().min(usize::from(LENGTH)) {
            return None;
        }
        if mode == COMMIT {
            found.push(PathBuf::from(OsStr::from_bytes(&path)));
        }
    }
    let end_of_entries = offset_of(&rest)?;
    while !rest.0.is_empty() {
        let kind = rest.take(4)?;
        let length = rest.number()?;
        let extension = Bytes(rest.take(usize::try_from(length).ok()?)?);
        let is_consistent = match kind {
            // The rest of the entries is in another file.
            b"link" => false,
            // In a large index git reads entries and extensions at these offsets.
            b"EOIE" => Bytes(extension.0).number() == Some(end_of_entries),
            b"IEOT" => is_table_of(extension, &starts),
            _ => true,
        };
        if !is_consistent {
            return None;
        }
    }
    Some(found)
}

/// Whether a table of entry blocks matches the offsets at which the entries start.
fn is_table_of(mut table: Bytes<'_>, starts: &[u32]) -> bool {
    let Some(1) = table.number() else { return false };
    let mut rest = starts;
    while !table.0.is_empty() {
        let (Some(start), Some(count)) = (table.number(), table.number()) else { return false };
        let Some(after) = rest.get(count as usize..) else { return false };
        if rest.first() != Some(&start) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// A reader of big-endian numbers and strings.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Reads a number of variable length, in the encoding of pack offsets.
    fn offset(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        loop {
            let byte = *self.take(1)?.first()?;
            value = value.checked_shl(7)? | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Some(value);
            }
            value = value.checked_add(1)?;
            if value > usize::from(u16::MAX) {
                return None;
            }
        }
    }

    fn until_zero(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(length)?;
        self.take(1)?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{commit, git, repository};
    use super::*;

    #[test]
    fn submodules_are_found_in_every_version_of_the_index() {
        let (dir, library) = (repository(), repository());
        for name in ["deep/er/file.txt", "deep/z", "q"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let source = library.path().display().to_string();
        git(dir.path(), &["submodule", "--quiet", "add", &source, "deep/lib"]);
        git(dir.path(), &["submodule", "--quiet", "add", &source, "p"]);
        commit(dir.path());
        for version in ["2", "3", "4"] {
            git(dir.path(), &["update-index", "--index-version", version]);
            if version == "3" {
                std::fs::write(dir.path().join("later"), "").unwrap();
                git(dir.path(), &["add", "--intent-to-add", "later"]);
            }
            let index = std::fs::read(dir.path().join(".git/index")).unwrap();
            let found = submodules(&index, 20).unwrap();
            assert_eq!(found, [PathBuf::from("deep/lib"), PathBuf::from("p")], "version {version}");
            for length in 0..index.len() - 1 {
                submodules(&index[..length], 20);
            }
        }
        // Git writes these tables for large repositories.
        for (key, value) in [
            ("index.threads", "4"),
            ("index.recordOffsetTable", "true"),
            ("index.recordEndOfIndexEntries", "true"),
        ] {
            git(dir.path(), &["config", key, value]);
        }
        git(dir.path(), &["update-index", "--index-version", "2", "--force-write-index"]);
        let mut index = std::fs::read(dir.path().join(".git/index")).unwrap();
        assert_eq!(submodules(&index, 20).map(|found| found.len()), Some(2));
        for extension in [b"IEOT", b"EOIE"] {
            let at = index.windows(4).position(|bytes| bytes == extension).unwrap();
            // After the name and the length comes a version, or the offset itself.
            let offset = at + if extension == b"IEOT" { 12 } else { 8 };
            index[offset + 3] ^= 8;
            assert_eq!(submodules(&index, 20), None, "git would read other entries");
            index[offset + 3] ^= 8;
        }
        git(dir.path(), &["update-index", "--split-index"]);
        let index = std::fs::read(dir.path().join(".git/index")).unwrap();
        assert_eq!(submodules(&index, 20), None);
        assert_eq!(submodules(b"", 20), None);
    }
}
