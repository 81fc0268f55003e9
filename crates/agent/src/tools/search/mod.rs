//! Search: `grep` in the contents of files, `glob` in their names, on the libraries that ripgrep is made of.
//!
//! Both skip what ripgrep skips: hidden files, and what `.gitignore` and `.ignore` name. Results come in the
//! order of their paths, so that the same search gives the same answer, and there is a limit to them.
//!
//! No link is followed below the places that were asked for, and only regular files are read. Baton's home is passed by,
//! unless it is what was asked for.
#![allow(clippy::disallowed_methods, reason = "search tools run their work on a blocking thread")]

mod glob;
mod grep;
mod report;

pub(crate) use glob::Glob;
pub(crate) use grep::Grep;

use std::io;
use std::path::{Path, PathBuf};

use baton_protocol::permission::PermissionRequest;
use ignore::{DirEntry, WalkBuilder};
use rustix::fs::FileType;
use serde::Deserialize;

use super::beneath::{Directory, Unusable};
use super::paths::Target;
use super::{Refusal, ToolContext, files, paths};

/// One path or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Places {
    One(String),
    Several(Vec<String>),
}

/// A place to search in.
#[derive(Debug, Clone)]
struct Root {
    /// As the model wrote it, because results are told in the same terms.
    written: String,
    target: Target,
    /// Baton's home, if it is to be passed by.
    home: Option<PathBuf>,
}

impl Root {
    /// The paths that were asked for: the working directory by default.
    fn read(places: Option<Places>) -> Vec<String> {
        let mut written = match places {
            None => Vec::new(),
            Some(Places::One(place)) => vec![place],
            Some(Places::Several(places)) => places,
        };
        written.retain(|place| !place.is_empty());
        if written.is_empty() {
            written.push(".".to_owned());
        }
        written
    }

    /// Finds out where the paths lead, for a request about them. Blocks.
    fn ask(context: &ToolContext, places: &[String]) -> Vec<Self> {
        let ask = |written| Target::ask(context, paths::absolute(&context.cwd, written));
        places.iter().map(|written| Self::new(context, written, ask(written))).collect()
    }

    /// The places that the request of this call was about. Blocks.
    fn recall(context: &ToolContext, places: &[String]) -> Result<Vec<Self>, Refusal> {
        let recall = |written: &String| {
            let target = Target::recall(context, paths::absolute(&context.cwd, written))?;
            Ok(Self::new(context, written, target))
        };
        places.iter().map(recall).collect()
    }

    fn new(context: &ToolContext, written: &str, target: Target) -> Self {
        let is_home = |home: &PathBuf| target.real.starts_with(home);
        let home = context.home.clone().filter(|home| !is_home(home));
        Self { written: written.to_owned(), target, home }
    }

    /// How a file below this root is called in a result.
    fn name(&self, path: &Path) -> String {
        match path.strip_prefix(&self.target.real) {
            Ok(rest) if rest.as_os_str().is_empty() => self.written.clone(),
            Ok(rest) => format!("{}/{}", self.written.trim_end_matches('/'), rest.display()),
            Err(_) => path.display().to_string(),
        }
    }

    /// What is below this root, in the order of the paths.
    fn walk(&self, adjust: impl FnOnce(&mut WalkBuilder)) -> Result<impl Iterator<Item = DirEntry>, Refusal> {
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
        let mut walk = WalkBuilder::new(real);
        // A search must not depend on who runs the server, only on the project. What `.git` names can be anywhere.
        walk.git_global(false).git_exclude(false).sort_by_file_path(|a, b| a.cmp(b));
        walk.parents(real.ancestors().skip(1).all(ignores_are_harmless));
        // Not files, but views of the kernel; some never end. Who names one of them gets it.
        let views = ["/proc", "/sys", "/dev"].map(Path::new);
        let home = self.home.clone();
        walk.filter_entry(move |entry| {
            let is_passed_by = views.contains(&entry.path()) || home.as_deref() == Some(entry.path());
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            entry.depth() == 0 || !(is_passed_by || is_directory && !ignores_are_harmless(entry.path()))
        });
        adjust(&mut walk);
        // What cannot be read is skipped, as ripgrep does.
        Ok(walk.build().filter_map(Result::ok))
    }
}

/// Whether the lists of a directory that say what to skip can be read by a library that opens whatever is there: a pipe
/// would hang it, a device would never end.
fn ignores_are_harmless(directory: &Path) -> bool {
    const LONGEST: u64 = 1 << 20;
    [".gitignore", ".ignore"].iter().all(|name| {
        let Ok(real) = directory.join(name).canonicalize() else { return true };
        let is_view = ["/proc", "/sys", "/dev"].iter().any(|view| real.starts_with(view));
        !is_view && real.metadata().is_ok_and(|list| list.is_file() && list.len() <= LONGEST)
    })
}

/// The request to search in `roots`. It names a directory that contains them all, if they are the session's to read; else
/// each of them on a line, because a directory above them would not say what is meant.
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

/// The directory that contains all of them.
fn common(roots: &[Root]) -> PathBuf {
    let mut common = roots.first().map_or_else(PathBuf::new, |root| root.target.real.clone());
    while !roots.iter().all(|root| root.target.real.starts_with(&common)) && common.pop() {}
    common
}

#[cfg(test)]
mod links;
