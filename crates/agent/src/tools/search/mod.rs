//! Search: `grep` in the contents of files, `glob` in their names, on the libraries that ripgrep is made of.
//!
//! Both skip what ripgrep skips: hidden files, and what `.gitignore` and `.ignore` name. Results come in the
//! order of their paths, so that the same search gives the same answer, and there is a limit to them.
#![allow(clippy::disallowed_methods, reason = "search tools run their work on a blocking thread")]

mod glob;
mod grep;
mod report;

pub(crate) use glob::Glob;
pub(crate) use grep::Grep;

use std::path::{Path, PathBuf};

use baton_protocol::permission::PermissionRequest;
use ignore::{DirEntry, WalkBuilder};
use serde::Deserialize;

use super::{Refusal, ToolContext, paths};

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
    absolute: PathBuf,
}

impl Root {
    /// The roots that were asked for: the working directory by default.
    fn read(context: &ToolContext, places: Option<Places>) -> Vec<Self> {
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
            .into_iter()
            .map(|written| Self { absolute: paths::absolute(&context.cwd, &written), written })
            .collect()
    }

    /// How a file below this root is called in a result.
    fn name(&self, path: &Path) -> String {
        match path.strip_prefix(&self.absolute) {
            Ok(rest) if rest.as_os_str().is_empty() => self.written.clone(),
            Ok(rest) => format!("{}/{}", self.written.trim_end_matches('/'), rest.display()),
            Err(_) => path.display().to_string(),
        }
    }

    fn must_exist(&self) -> Result<(), Refusal> {
        if self.absolute.exists() {
            return Ok(());
        }
        let text = format!("Path {} does not exist. Please provide a valid path.", self.absolute.display());
        Err(Refusal::new(text).in_short("Path does not exist"))
    }

    /// What is below this root, in the order of the paths.
    fn walk(&self, adjust: impl FnOnce(&mut WalkBuilder)) -> impl Iterator<Item = DirEntry> {
        let mut walk = WalkBuilder::new(&self.absolute);
        // A search must not depend on who runs the server, only on the project.
        walk.git_global(false).sort_by_file_path(|a, b| a.cmp(b));
        // Not files, but views of the kernel; some never end. Who names one of them gets it.
        let views = ["/proc", "/sys", "/dev"].map(Path::new);
        walk.filter_entry(move |entry| entry.depth() == 0 || !views.contains(&entry.path()));
        adjust(&mut walk);
        // What cannot be read is skipped, as ripgrep does.
        walk.build().filter_map(Result::ok)
    }
}

/// The request to search in `roots`. It names a directory that contains them all.
fn search_request(context: &ToolContext, roots: &[Root], what: &str) -> PermissionRequest {
    let mut common = roots.first().map_or_else(|| context.cwd.clone(), |root| root.absolute.clone());
    while !roots.iter().all(|root| root.absolute.starts_with(&common)) && common.pop() {}
    let named: Vec<String> = roots.iter().map(|root| root.absolute.display().to_string()).collect();
    PermissionRequest::Read {
        tool_call_id: Some(context.call.clone()),
        intention: paths::intention(&format!("{what}: {}", named.join(", ")), &context.cwd, &common),
        path: common.display().to_string(),
    }
}
