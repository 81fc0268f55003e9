//! Backup of a home to one file, while servers use it or not.
//!
//! The database comes first, as one consistent state; then the files of its sessions. Files are written before the events
//! that refer to them, so a file of an earlier state is there, and one of a later state does no harm. What Baton writes again
//! by itself (`events.jsonl`, `workspace.yaml`) is left out: it would be newer than the database.

use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use baton_disk::beneath::Directory;
use baton_protocol::{SessionId, Timestamp};
use baton_store::sqlite::backup as database;
pub use baton_store::sqlite::backup::{CopyProgress, Pace};
use rustix::fs::FileType;

use crate::OpsError;
use crate::archive::{ArchiveMember, FORMAT, HomeFile, Manifest, SESSIONS, Writer};

/// Files of a session that Baton writes from the database.
const DERIVED: [&str; 2] = ["events.jsonl", "workspace.yaml"];

/// What to back up, and where to.
#[derive(Debug, Clone)]
pub struct BackupOptions<'a> {
    /// The home.
    pub home: &'a Path,
    /// The file to write.
    pub file: &'a Path,
    /// Version of Baton, for the manifest.
    pub version: &'a str,
    /// Whether to include the token that clients of the server must send.
    pub with_token: bool,
    /// Whether to replace an existing file.
    pub replace: bool,
    /// How much of the machine to use.
    pub pace: Pace,
}

/// What a backup contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of files beside the database.
    pub files: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Files that were left out because they are no plain files or have a name that cannot be stored.
    pub skipped: Vec<PathBuf>,
}

/// A stage of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupStep {
    /// The database is being copied.
    Database(CopyProgress),
    /// The archive is being written.
    Sessions(CopyProgress),
}

/// Writes a backup. `progress` is called often. The file appears when it is complete and durable, or not at all.
///
/// # Errors
/// When the home has no database, a file cannot be read, or the backup cannot be written.
pub fn backup(
    options: &BackupOptions<'_>,
    progress: &mut dyn FnMut(BackupStep),
) -> Result<BackupReport, OpsError> {
    let BackupOptions { home, file, .. } = *options;
    if !options.replace && file.symlink_metadata().is_ok() {
        return Err(OpsError::Exists(file.to_owned()));
    }
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Private, on the disk of the backup, and gone when this returns.
    let scratch = tempfile::Builder::new()
        .prefix(".baton-backup-")
        .tempdir_in(parent)
        .map_err(OpsError::file("write to", parent))?;
    let copy = scratch.path().join(HomeFile::Database.name());
    let source = home.join(HomeFile::Database.name());
    let contents =
        database::copy(&source, &copy, options.pace, &mut |done| progress(BackupStep::Database(done)))?;
    let sessions = database::sessions(&copy)?;

    let archive = scratch.path().join("archive");
    let written = || OpsError::file("write", file);
    let out = baton_disk::private::create_new(&archive).map_err(written())?;
    let manifest = Manifest {
        format: FORMAT,
        baton: options.version.to_owned(),
        created: Timestamp::now(),
        sessions: contents.sessions,
    };
    let tar = Writer::begin(BufWriter::with_capacity(1 << 18, out), &manifest, options.pace);
    let mut filling = Filling {
        home: Directory::trusted(home).map_err(OpsError::file("read", home))?,
        tar: tar.map_err(written())?,
        root: home,
        file,
        report: BackupReport { sessions: contents.sessions, files: 0, bytes: 0, skipped: Vec::new() },
    };
    let database = File::open(&copy).map_err(OpsError::file("read", &copy))?;
    filling.tar.add_file(&ArchiveMember::Home(HomeFile::Database), &database).map_err(written())?;
    filling.add_home_files(options.with_token)?;
    let total = sessions.len() as u64;
    for (done, session) in (1..).zip(&sessions) {
        filling.add_session(session)?;
        progress(BackupStep::Sessions(CopyProgress { done, total }));
    }
    let Filling { tar, report, .. } = filling;
    let bytes = tar.bytes;
    let out = tar.finish().map_err(written())?.into_inner().map_err(|error| written()(error.into_error()))?;
    out.sync_all().map_err(written())?;
    publish(&archive, options, parent)?;
    Ok(BackupReport { bytes, ..report })
}

/// Gives the complete archive its name.
fn publish(archive: &Path, options: &BackupOptions<'_>, parent: &Path) -> Result<(), OpsError> {
    let written = || OpsError::file("write", options.file);
    if options.replace {
        fs::rename(archive, options.file).map_err(written())?;
    } else {
        // Unlike a rename, this fails if the name was taken meanwhile.
        fs::hard_link(archive, options.file).map_err(written())?;
    }
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(written())
}

/// An archive that is being filled.
struct Filling<'a> {
    home: Directory,
    root: &'a Path,
    file: &'a Path,
    tar: Writer<BufWriter<File>>,
    report: BackupReport,
}

impl Filling<'_> {
    fn add_home_files(&mut self, with_token: bool) -> Result<(), OpsError> {
        let token = with_token.then_some(HomeFile::Token);
        for file in [HomeFile::Permissions, HomeFile::Settings].into_iter().chain(token) {
            self.add(&ArchiveMember::Home(file), Path::new(file.name()))?;
        }
        Ok(())
    }

    fn add_session(&mut self, session: &SessionId) -> Result<(), OpsError> {
        let directory = Path::new(SESSIONS).join(session.as_str());
        self.add_directory(session, &directory, Path::new(""))
    }

    /// Adds all files below a directory of a session. A session without a directory, or one that was deleted meanwhile, has
    /// none.
    fn add_directory(&mut self, session: &SessionId, root: &Path, path: &Path) -> Result<(), OpsError> {
        let Ok(entries) = self.home.list(&root.join(path)) else { return Ok(()) };
        let mut names: Vec<(PathBuf, FileType)> = entries
            .flatten()
            .map(|entry| {
                let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
                (PathBuf::from(name), entry.file_type())
            })
            .filter(|(name, _)| !matches!(name.to_str(), Some("." | "..")))
            .collect();
        names.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, kind) in names {
            let inner = path.join(&name);
            let is_derived =
                path.as_os_str().is_empty() && DERIVED.iter().any(|file| Path::new(file) == name);
            match kind {
                FileType::RegularFile if is_derived => {}
                FileType::RegularFile => {
                    let member = ArchiveMember::Session { session: session.clone(), path: inner.clone() };
                    self.add(&member, &root.join(&inner))?;
                }
                FileType::Directory => self.add_directory(session, root, &inner)?,
                _ => self.report.skipped.push(root.join(&inner)),
            }
        }
        Ok(())
    }

    /// Adds a file of the home, if it exists.
    fn add(&mut self, member: &ArchiveMember, path: &Path) -> Result<(), OpsError> {
        let file = match self.home.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(OpsError::file("read", &self.root.join(path))(error)),
        };
        match self.tar.add_file(member, &file).map_err(OpsError::file("write", self.file))? {
            true => self.report.files += 1,
            false => self.report.skipped.push(path.to_owned()),
        }
        Ok(())
    }
}
