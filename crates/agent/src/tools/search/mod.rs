//! The search tools: `grep` for contents, `glob` for names, on ripgrep's libraries.
//!
//! Both skip what ripgrep skips: hidden files, and those in `.gitignore` and `.ignore`. Results are limited, and in the
//! order of their paths, so that the same search gives the same results.
//!
//! No link below the requested roots is followed, and only regular files are read. Baton's home is skipped, unless it
//! was requested.
#![allow(clippy::disallowed_methods, reason = "search tools run their work on a blocking thread")]

mod complete;
mod glob;
mod grep;
mod report;

pub use complete::{CompletedPath, Completions, complete};
pub(crate) use glob::Glob;
pub(crate) use grep::Grep;

use std::io;
use std::path::{Path, PathBuf};

use baton_disk::beneath::{Directory, Unusable};
use baton_disk::paths::absolute;
use baton_protocol::permission::PermissionRequest;
use ignore::{DirEntry, WalkBuilder};
use rustix::fs::FileType;
use serde::Deserialize;

use super::paths::CallPath;
use super::{ToolContext, ToolRefusal, files};

/// The longest glob, in bytes. The glob library panics if a compiled pattern is too large.
const MAX_GLOB: usize = 4096;

/// Refuses a glob that is too long.
fn check_glob(tool: &str, field: &str, pattern: &str) -> Result<(), ToolRefusal> {
    if pattern.len() > MAX_GLOB {
        return Err(ToolRefusal::arguments(tool, &format!("{field}: must have at most {MAX_GLOB} bytes")));
    }
    Ok(())
}

/// One path or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Paths {
    One(String),
    Several(Vec<String>),
}

/// A file or directory to search.
#[derive(Debug, Clone)]
struct Root {
    /// The model's path, which prefixes the results.
    written: String,
    target: CallPath,
    /// Baton's home, if it is skipped.
    home: Option<PathBuf>,
}

impl Root {
    /// Returns the requested paths; the working directory by default.
    fn read(requested: Option<Paths>) -> Vec<String> {
        let mut written = match requested {
            None => Vec::new(),
            Some(Paths::One(path)) => vec![path],
            Some(Paths::Several(requested)) => requested,
        };
        written.retain(|path| !path.is_empty());
        if written.is_empty() {
            written.push(".".to_owned());
        }
        written
    }

    /// Resolves paths for a request. Blocks.
    fn resolve(context: &ToolContext, requested: &[String]) -> Vec<Self> {
        let resolve = |written| CallPath::resolve(context, absolute(&context.cwd, written));
        requested.iter().map(|written| Self::new(context, written, resolve(written))).collect()
    }

    /// Returns the roots that the request of this call named. Blocks.
    fn recall(context: &ToolContext, requested: &[String]) -> Result<Vec<Self>, ToolRefusal> {
        let recall = |written: &String| {
            let target = CallPath::recall(context, absolute(&context.cwd, written))?;
            Ok(Self::new(context, written, target))
        };
        requested.iter().map(recall).collect()
    }

    fn new(context: &ToolContext, written: &str, target: CallPath) -> Self {
        let is_home = |home: &PathBuf| target.real.starts_with(home);
        let home = context.home.clone().filter(|home| !is_home(home));
        Self { written: written.to_owned(), target, home }
    }

    /// Returns the name of a file in results.
    fn name(&self, path: &Path) -> String {
        match path.strip_prefix(&self.target.real) {
            Ok(rest) if rest.as_os_str().is_empty() => self.written.clone(),
            Ok(rest) => format!("{}/{}", self.written.trim_end_matches('/'), rest.display()),
            Err(_) => path.display().to_string(),
        }
    }

    /// Walks the files below this root, in the order of their paths.
    fn walk(
        &self,
        adjust: impl FnOnce(&mut WalkBuilder),
    ) -> Result<impl Iterator<Item = DirEntry>, ToolRefusal> {
        let (real, written) = (&self.target.real, &self.target.written);
        let kind = Directory::root().and_then(|root| root.kind(real));
        let kind = kind.map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => files::missing(written),
            _ => files::cannot("search", written, &error),
        })?;
        match kind {
            FileType::Directory if ignores_are_harmless(real) => {}
            FileType::RegularFile => {}
            FileType::Symlink => return Err(files::cannot("search", written, &Unusable::Link.into())),
            _ => return Err(files::cannot("search", written, &Unusable::NotRegular.into())),
        }
        let home = self.home.clone();
        Ok(walk_below(real, move |path| home.as_deref() == Some(path), adjust))
    }
}

/// Walks the files below a directory, in the order of their paths, without following links. What `skips` selects is left out.
fn walk_below(
    real: &Path,
    skips: impl Fn(&Path) -> bool + Send + Sync + 'static,
    adjust: impl FnOnce(&mut WalkBuilder),
) -> impl Iterator<Item = DirEntry> {
    let mut walk = WalkBuilder::new(real);
    // Results must depend on the project, not on the user who runs the server. Files that `.git` names can be
    // anywhere.
    walk.git_global(false).git_exclude(false).sort_by_file_path(|a, b| a.cmp(b));
    walk.parents(real.ancestors().skip(1).all(ignores_are_harmless));
    // Views of the kernel, some of them endless. They are searched only if requested.
    let views = ["/proc", "/sys", "/dev"].map(Path::new);
    walk.filter_entry(move |entry| {
        let is_skipped = views.contains(&entry.path()) || skips(entry.path());
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        entry.depth() == 0 || !(is_skipped || is_directory && !ignores_are_harmless(entry.path()))
    });
    adjust(&mut walk);
    // Unreadable entries are skipped, as ripgrep does.
    walk.build().filter_map(Result::ok)
}

/// Whether the ignore files of a directory are safe to read for the library, which opens files of any type: a pipe would
/// hang it, a device would never end.
fn ignores_are_harmless(directory: &Path) -> bool {
    const LONGEST: u64 = 1 << 20;
    [".gitignore", ".ignore"].iter().all(|name| {
        let Ok(real) = directory.join(name).canonicalize() else { return true };
        let is_view = ["/proc", "/sys", "/dev"].iter().any(|view| real.starts_with(view));
        !is_view && real.metadata().is_ok_and(|list| list.is_file() && list.len() <= LONGEST)
    })
}

/// Builds the permission request. It names the common directory of the roots if the session may read them all; else each
/// root on a line, because a common directory would be too broad.
fn search_request(context: &ToolContext, roots: &[Root], what: &str) -> PermissionRequest {
    let named: Vec<String> = roots.iter().map(|root| root.target.real.display().to_string()).collect();
    let what = format!("{what}: {}", named.join(", "));
    let is_own = roots.iter().all(|root| root.target.is_own(context));
    PermissionRequest::Read {
        tool_call_id: Some(context.call.clone()),
        intention: roots.iter().fold(what, |what, root| root.target.intention(context, &what)),
        path: if is_own { common(roots).display().to_string() } else { named.join("\n") },
    }
}

/// Returns the deepest directory that contains all roots.
fn common(roots: &[Root]) -> PathBuf {
    let mut common = roots.first().map_or_else(PathBuf::new, |root| root.target.real.clone());
    while !roots.iter().all(|root| root.target.real.starts_with(&common)) && common.pop() {}
    common
}

#[cfg(test)]
mod links;
