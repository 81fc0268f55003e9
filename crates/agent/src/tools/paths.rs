//! Paths from a model, made absolute and real, so that a tool touches exactly the file that was approved.
//!
//! A request names the real path (`CallPath::resolve`), with all links followed. The call that runs later works on that
//! path (`CallPath::recall`) and follows no link: changes of the model's path in the meantime do not matter.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use baton_core::policy::territory::{Standing, Territory};
use baton_disk::beneath;
use baton_disk::paths::absolute;
use baton_protocol::ToolCallId;

use super::{ToolContext, ToolRefusal, lock};

/// A path that a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallPath {
    /// The model's path, made absolute; used in results.
    pub(crate) written: PathBuf,
    /// The real path; shown in requests, and opened.
    pub(crate) real: PathBuf,
}

impl CallPath {
    /// Resolves a path for a request, and records the result for the call. Blocks.
    pub(crate) fn resolve(context: &ToolContext, written: PathBuf) -> Self {
        let real = beneath::resolve(&written);
        context.services.paths.record(&context.call, &written, &real);
        Self { written, real }
    }

    /// Returns the target that the request of this call named. Blocks.
    pub(crate) fn recall(context: &ToolContext, written: PathBuf) -> Result<Self, ToolRefusal> {
        let real = match context.services.paths.find(&context.call, &written) {
            Some(Resolved::To(real)) => real,
            Some(Resolved::Ambiguously) => {
                let text =
                    format!("{} led to two places while it was asked for. Call again.", written.display());
                return Err(ToolRefusal::new(text).in_short("Path has changed"));
            }
            // Requested before a restart. Then only the working directory itself may be reached through a link; a link
            // on the rest of the path is refused when it is opened.
            None => within_real(&context.cwd, &written),
        };
        Ok(Self { written, real })
    }

    /// Whether the path is in the working directory or the session's directory, and not in Baton's home. Blocks.
    pub(crate) fn is_own(&self, context: &ToolContext) -> bool {
        let (cwd, workspace) = (beneath::resolve(&context.cwd), beneath::resolve(&context.session_dir));
        // Which files act by themselves matters to writes only.
        let territory = Territory {
            cwd: &cwd,
            home: context.home.as_deref(),
            workspace: Some(&workspace),
            engine_files: &[],
        };
        territory.read(&self.real) == Standing::Covered
    }

    /// Returns the intention for a request, which mentions a link that leads to the target.
    pub(crate) fn intention(&self, context: &ToolContext, what: &str) -> String {
        match self.real == within_real(&context.cwd, &self.written) {
            true => what.to_owned(),
            false => format!("{what} (through a link: {})", self.written.display()),
        }
    }
}

/// Returns the path with the links in the working directory's own path followed, and no others.
fn within_real(cwd: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix(absolute(cwd, "")) {
        Ok(rest) if rest.as_os_str().is_empty() => beneath::resolve(cwd),
        Ok(rest) => beneath::resolve(cwd).join(rest),
        Err(_) => path.to_owned(),
    }
}

/// The real paths that the requests of recent calls named.
#[derive(Debug, Default)]
pub struct NamedPaths(Mutex<VecDeque<(ToolCallId, PathBuf, Resolved)>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Resolved {
    To(PathBuf),
    /// Two requests of one call named different paths; which of them was approved is unknown.
    Ambiguously,
}

impl NamedPaths {
    /// More than the number of calls that can be pending.
    const CAPACITY: usize = 4096;

    fn record(&self, call: &ToolCallId, written: &Path, real: &Path) {
        let mut resolved = lock(&self.0);
        let known = resolved.iter_mut().find(|(c, w, _)| c == call && w == written);
        if let Some((_, _, known)) = known {
            if *known != Resolved::To(real.to_owned()) {
                *known = Resolved::Ambiguously;
            }
            return;
        }
        if resolved.len() == Self::CAPACITY {
            resolved.pop_front();
        }
        resolved.push_back((call.clone(), written.to_owned(), Resolved::To(real.to_owned())));
    }

    fn find(&self, call: &ToolCallId, written: &Path) -> Option<Resolved> {
        lock(&self.0)
            .iter()
            .find(|(c, w, _)| c == call && w == written)
            .map(|(_, _, resolved)| resolved.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::testing::Bench;

    #[test]
    fn call_uses_the_real_path_of_its_request() {
        let bench = Bench::new();
        let outside = tempfile::tempdir().unwrap();
        let real = outside.path().canonicalize().unwrap();
        symlink(&real, bench.path("link")).unwrap();
        symlink(&bench.context.cwd, bench.path("here")).unwrap();
        let ask = |path: &str| CallPath::resolve(&bench.context, absolute(&bench.context.cwd, path));
        let target = ask("link/new.txt");
        assert_eq!(target.real, real.join("new.txt"));
        assert!(target.intention(&bench.context, "Read").contains(&bench.path("link/new.txt")));
        assert_eq!(ask("here/plain").real, bench.context.cwd.join("plain"));
        assert_eq!(ask("plain").intention(&bench.context, "Read"), "Read");

        std::fs::remove_file(bench.path("link")).unwrap();
        let recalled = CallPath::recall(&bench.context, target.written.clone()).unwrap();
        assert_eq!(recalled, target, "the path of the request counts, not the present link");
        ask("link/new.txt");
        assert!(CallPath::recall(&bench.context, target.written).is_err(), "two requests, two paths");
    }

    #[test]
    fn working_directory_may_be_a_link() {
        let mut bench = Bench::new();
        let real = bench.context.cwd.clone();
        symlink(&real, real.with_file_name("alias")).unwrap();
        bench.context.cwd = real.with_file_name("alias");
        let written = absolute(&bench.context.cwd, "a.txt");
        assert_eq!(CallPath::recall(&bench.context, written.clone()).unwrap().real, real.join("a.txt"));
        assert_eq!(CallPath::resolve(&bench.context, written).intention(&bench.context, "Read"), "Read");
    }
}
