//! Unpacking an archive into an empty directory, and checking all of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use baton_protocol::SessionId;
use baton_store::sqlite::backup as database;
use tar::Archive;

use super::{RestoredPerson, people};
use crate::OpsError;
use crate::archive::{ArchiveMember, ArchiveReader, FORMAT, HomeFile, Manifest, Sums};

/// An archive that was unpacked and is intact.
pub(super) struct Unpacked {
    pub(super) manifest: Manifest,
    pub(super) sessions: u64,
    pub(super) files: u64,
    pub(super) people: Vec<RestoredPerson>,
    pub(super) token: bool,
}

/// Unpacks an archive. All files are private, and durable when this returns.
pub(super) fn unpack(
    file: &Path,
    target: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Unpacked, OpsError> {
    let opened = File::open(file).map_err(OpsError::file("read", file))?;
    let total = opened.metadata().map_err(OpsError::file("read", file))?.len();
    let refused = |why| OpsError::Archive { path: file.to_owned(), why };
    let mut archive = Archive::new(BufReader::with_capacity(1 << 18, opened));
    let mut unpacking = Unpacking { target, members: Sums::new(), sessions: BTreeSet::new() };
    let manifest = unpacking.run(&mut archive, &mut |done| progress(done, total)).map_err(refused)?;
    let checked = database::check(&target.join(HomeFile::Database.name()))?;
    unpacking.check_sessions().map_err(refused)?;
    let people = people::end_logins(&target.join(HomeFile::Database.name()), refused)?;
    let synced = File::open(target).and_then(|target| rustix::fs::syncfs(target).map_err(io::Error::from));
    synced.map_err(OpsError::file("write", target))?;
    // Without the manifest and the database.
    let files = unpacking.members.len().saturating_sub(2) as u64;
    let token = unpacking.members.contains_key(HomeFile::Token.name());
    Ok(Unpacked { manifest, sessions: checked.sessions, files, people, token })
}

struct Unpacking<'a> {
    target: &'a Path,
    /// Digests of the members read until now.
    members: Sums,
    /// Sessions that files belong to.
    sessions: BTreeSet<SessionId>,
}

impl Unpacking<'_> {
    fn run(
        &mut self,
        archive: &mut Archive<impl Read>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Manifest, String> {
        let mut reader = ArchiveReader::new(archive).map_err(|error| error.to_string())?;
        let manifest = self.manifest(&mut reader)?;
        let mut done = 0;
        while let Some(mut found) = reader.next()? {
            if found.member == ArchiveMember::Digests {
                let listed = found.text()?;
                found.finish()?;
                self.check_digests(&listed)?;
                return match reader.next()? {
                    None => Ok(manifest),
                    Some(more) => Err(format!("{:?} comes after its end", more.name)),
                };
            }
            if self.members.contains_key(&found.name) {
                return Err(format!("{:?} is in it twice", found.name));
            }
            done += self.write(&mut found)?;
            progress(done);
            if let ArchiveMember::Session { session, .. } = &found.member {
                self.sessions.insert(session.clone());
            }
            let name = found.name.clone();
            self.members.insert(name, found.finish()?);
        }
        Err("it is incomplete: its end is missing".to_owned())
    }

    fn manifest(&mut self, reader: &mut ArchiveReader<'_, impl Read>) -> Result<Manifest, String> {
        const FOREIGN: &str = "it is not a backup of Baton, or its beginning is damaged";
        // What the library says about a header that is none helps nobody, and quotes the file.
        let mut first = reader.next().map_err(|_| FOREIGN)?.ok_or(FOREIGN)?;
        if first.member != ArchiveMember::Manifest {
            return Err(FOREIGN.to_owned());
        }
        let text = first.text()?;
        let manifest: Manifest =
            baton_json::from_slice(&text).map_err(|error| format!("its manifest is malformed: {error}"))?;
        if manifest.format != FORMAT {
            return Err(format!("it was written by Baton {}, which is newer; update Baton", manifest.baton));
        }
        let name = first.name.clone();
        self.members.insert(name, first.finish()?);
        Ok(manifest)
    }

    /// Writes a member to its place in the target, and returns its size.
    fn write(&self, found: &mut crate::archive::OpenMember<'_, impl Read>) -> Result<u64, String> {
        let Some(path) = found.member.path() else {
            return Err(format!("{:?} is in a wrong place", found.name));
        };
        let path = self.target.join(path);
        let failed = |error: io::Error| format!("cannot unpack {:?}: {error}", path.display().to_string());
        if let Some(parent) = path.parent() {
            baton_disk::private::create_dir_all(parent).map_err(failed)?;
        }
        // The target was empty and is ours alone: no name in it is a link.
        let mut out = baton_disk::private::create_new(&path).map_err(failed)?;
        if matches!(found.member, ArchiveMember::Home(HomeFile::Permissions | HomeFile::Settings)) {
            let text = found.text()?;
            baton_json::from_slice::<serde_json::Value>(&text)
                .map_err(|error| format!("{:?} is malformed: {error}", found.name))?;
            io::Write::write_all(&mut out, &text).map_err(failed)?;
            return Ok(text.len() as u64);
        }
        io::copy(found, &mut out).map_err(failed)
    }

    /// Checks that the archive has exactly the listed members, with the listed digests.
    fn check_digests(&self, listed: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(listed).map_err(|_| "its list of digests is malformed".to_owned())?;
        let line =
            |line: &str| line.split_once("  ").map(|(digest, name)| (name.to_owned(), digest.to_owned()));
        let listed: Option<Sums> = text.lines().map(line).collect();
        let listed = listed.ok_or("its list of digests is malformed")?;
        if let Some((name, _)) = self.members.iter().find(|(name, digest)| listed.get(*name) != Some(digest))
        {
            return Err(format!("{name:?} was changed or damaged"));
        }
        match listed.keys().find(|name| !self.members.contains_key(*name)) {
            Some(name) => Err(format!("{name:?} is missing")),
            None if !self.members.contains_key(HomeFile::Database.name()) => {
                Err("it has no database".to_owned())
            }
            None => Ok(()),
        }
    }

    /// Checks that all files belong to sessions of the database.
    fn check_sessions(&self) -> Result<(), String> {
        let path = self.target.join(HomeFile::Database.name());
        let known = database::sessions(&path).map_err(|error| error.to_string())?;
        let known: BTreeSet<SessionId> = known.into_iter().collect();
        match self.sessions.difference(&known).next() {
            Some(session) => Err(format!("it has files of session {session}, which is not in its database")),
            None => Ok(()),
        }
    }
}
