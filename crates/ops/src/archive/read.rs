//! Reads an archive that anybody may have written, and trusts nothing in it: names become [`ArchiveMember`]s, all but
//! regular files are refused, and every size is counted against the bytes that are really there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};

use ring::digest::{Context, SHA256};
use tar::{Archive, Entries, Entry, EntryType};

use super::ArchiveMember;

/// Limit of the members that are read into memory.
const MAX_TEXT: u64 = 64 << 20;
/// Limit of a name that is stored as a member of its own.
const MAX_LONG_NAME: u64 = 4096;

/// Digests of members by their names, as hexadecimal text.
pub(crate) type Sums = BTreeMap<String, String>;

/// Reads the members of an archive, in their order.
pub(crate) struct ArchiveReader<'a, R: Read> {
    entries: Entries<'a, R>,
}

/// A member that is being read.
pub(crate) struct OpenMember<'a, R: Read> {
    pub(crate) member: ArchiveMember,
    pub(crate) name: String,
    entry: Entry<'a, R>,
    digest: Context,
    expected: u64,
    seen: u64,
}

impl<'a, R: Read> ArchiveReader<'a, R> {
    pub(crate) fn new(archive: &'a mut Archive<R>) -> io::Result<Self> {
        // Raw: the library would read a name of any length into memory, and accept extensions that change the meaning of
        // the next member.
        Ok(Self { entries: archive.entries()?.raw(true) })
    }

    /// Returns the next member; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<OpenMember<'a, R>>, String> {
        let mut long = None;
        loop {
            let Some(entry) = self.entries.next() else { return Ok(None) };
            let mut entry = entry.map_err(|error| error.to_string())?;
            match entry.header().entry_type() {
                EntryType::GNULongName if long.is_none() => long = Some(long_name(&mut entry)?),
                EntryType::Regular => return OpenMember::new(entry, long).map(Some),
                other => return Err(format!("it contains more than plain files (type {other:?})")),
            }
        }
    }
}

fn long_name(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, String> {
    let mut name = Vec::new();
    entry.take(MAX_LONG_NAME + 1).read_to_end(&mut name).map_err(|error| error.to_string())?;
    if name.len() as u64 > MAX_LONG_NAME {
        return Err("it contains a name that is too long".to_owned());
    }
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(name)
}

impl<'a, R: Read> OpenMember<'a, R> {
    fn new(entry: Entry<'a, R>, long: Option<Vec<u8>>) -> Result<Self, String> {
        let name = long.unwrap_or_else(|| entry.path_bytes().into_owned());
        let refused =
            |name: &[u8]| format!("it contains {:?}, which no backup has", String::from_utf8_lossy(name));
        let name = String::from_utf8(name).map_err(|error| refused(error.as_bytes()))?;
        let member = ArchiveMember::parse(&name).ok_or_else(|| refused(name.as_bytes()))?;
        let expected = entry.header().size().map_err(|error| error.to_string())?;
        Ok(Self { member, name, entry, digest: Context::new(&SHA256), expected, seen: 0 })
    }

    /// Reads the content into memory, up to a limit.
    pub(crate) fn text(&mut self) -> Result<Vec<u8>, String> {
        if self.expected > MAX_TEXT {
            return Err(format!("{:?} is too large", self.name));
        }
        let mut text = Vec::new();
        self.read_to_end(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    /// Returns the digest of a member that was read to its end.
    pub(crate) fn finish(self) -> Result<String, String> {
        if self.seen != self.expected {
            return Err(format!("it ends in the middle of {:?}", self.name));
        }
        Ok(self.digest.finish().as_ref().iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        }))
    }
}

impl<R: Read> Read for OpenMember<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.entry.read(buffer)?;
        self.digest.update(&buffer[..count]);
        self.seen += count as u64;
        Ok(count)
    }
}
