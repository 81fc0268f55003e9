//! Writing an archive.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Instant;

use baton_store::sqlite::backup::Pace;
use ring::digest::{Context, SHA256};
use tar::{Builder, EntryType, Header};

use super::{ArchiveMember, Manifest};

/// Number of bytes between two pauses of a shared pace.
const CHUNK: usize = 256 << 10;

/// Writes an archive, one member after the other.
pub(crate) struct Writer<W: Write> {
    tar: Builder<W>,
    digests: String,
    pace: Pace,
    /// Number of bytes in all members.
    pub(crate) bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins an archive.
    pub(crate) fn begin(out: W, manifest: &Manifest, pace: Pace) -> io::Result<Self> {
        let mut writer = Self { tar: Builder::new(out), digests: String::new(), pace, bytes: 0 };
        writer.add_bytes(&ArchiveMember::Manifest, &serde_json::to_vec_pretty(manifest)?)?;
        Ok(writer)
    }

    /// Adds a file, with the size that it has now. One that is cut meanwhile is filled up with zeros: the size stands
    /// before its content. Returns `false` without a trace of it if its name cannot be in an archive.
    pub(crate) fn add_file(&mut self, member: &ArchiveMember, file: &File) -> io::Result<bool> {
        let size = file.metadata()?.len();
        self.add(member, size, file)
    }

    fn add_bytes(&mut self, member: &ArchiveMember, content: &[u8]) -> io::Result<bool> {
        self.add(member, content.len() as u64, content)
    }

    fn add(&mut self, member: &ArchiveMember, size: u64, content: impl Read) -> io::Result<bool> {
        let Some(name) = member.name() else { return Ok(false) };
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(size);
        header.set_mode(baton_disk::private::FILE);
        let filled = content.chain(io::repeat(0)).take(size);
        let mut content =
            Metered { inner: filled, digest: Context::new(&SHA256), pace: self.pace, since: None };
        self.tar.append_data(&mut header, &name, &mut content)?;
        self.bytes += size;
        if *member != ArchiveMember::Digests {
            let hex = content.digest.finish().as_ref().iter().fold(String::new(), |mut hex, byte| {
                // Writing to a string cannot fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            self.digests += &format!("{hex}  {name}\n");
        }
        Ok(true)
    }

    /// Ends the archive with the digests of its members.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        let digests = std::mem::take(&mut self.digests);
        self.add_bytes(&ArchiveMember::Digests, digests.as_bytes())?;
        self.tar.into_inner()
    }
}

/// Computes the digest of what is read, and keeps the pace.
struct Metered<R> {
    inner: R,
    digest: Context,
    pace: Pace,
    /// Start of the current chunk, and its size until now.
    since: Option<(Instant, usize)>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.digest.update(&buffer[..count]);
        if self.pace == Pace::Shared {
            let (begun, bytes) = self.since.unwrap_or((Instant::now(), 0));
            self.since = Some((begun, bytes + count));
            if bytes + count >= CHUNK {
                self.pace.pause(begun);
                self.since = None;
            }
        }
        Ok(count)
    }
}
