//! Paths as a model writes them, made absolute and real, so that what a person allows is what is touched.
//!
//! A request names the real path (`Target::ask`), with all links followed. The call that runs later works on that very
//! path (`Target::recall`) and follows no link: what has become of the model's own path meanwhile does not matter.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

use baton_core::policy::territory::{Standing, Territory};
use baton_protocol::ToolCallId;

use super::{Refusal, ToolContext, beneath, lock};

/// The absolute path that `path` means in `cwd`, without `.` and `..`.
///
/// `..` is taken by its spelling, not through links. `~` means nothing here, as in every program but a shell.
pub(crate) fn absolute(cwd: &Path, path: &str) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in cwd.join(path).components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// Returns the real path that `path` means to a program that works in `cwd`, with all links followed. `None` where programs
/// disagree: some take `..` by its spelling and some through links, some know `~`, URLs or trim spaces. Blocks.
#[must_use]
pub fn real(cwd: &Path, path: &str) -> Option<PathBuf> {
    let is_plain = !path.is_empty()
        && path.trim() == path
        && !path.starts_with('~')
        && !path.contains("://")
        && !path.contains(char::is_control);
    let by_spelling = beneath::resolve(&absolute(cwd, path));
    (is_plain && by_spelling == through_links(cwd, path)).then_some(by_spelling)
}

/// The path as the kernel finds it, name by name.
fn through_links(cwd: &Path, path: &str) -> PathBuf {
    let mut here = PathBuf::from("/");
    for part in cwd.join(path).components() {
        match part {
            Component::Normal(name) => here = beneath::resolve(&here.join(name)),
            Component::ParentDir => {
                here.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    here
}

/// A path that a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// As the model wrote it, absolute: results are told in these terms.
    pub(crate) written: PathBuf,
    /// Where it leads, without links: this is what is shown to people, and opened.
    pub(crate) real: PathBuf,
}

impl Target {
    /// Finds out where a path leads, for a request about it. Blocks.
    pub(crate) fn ask(context: &ToolContext, written: PathBuf) -> Self {
        let real = beneath::resolve(&written);
        context.services.paths.note(&context.call, &written, &real);
        Self { written, real }
    }

    /// The target that the request of this call was about. Blocks.
    pub(crate) fn recall(context: &ToolContext, written: PathBuf) -> Result<Self, Refusal> {
        let real = match context.services.paths.find(&context.call, &written) {
            Some(Noted::As(real)) => real,
            Some(Noted::Differently) => {
                let text =
                    format!("{} led to two places while it was asked for. Call again.", written.display());
                return Err(Refusal::new(text).in_short("Path has changed"));
            }
            // Asked for before a restart. Then only the working directory itself may be reached through a link: one
            // on the rest of the way is found when the path is opened.
            None => within_real(&context.cwd, &written),
        };
        Ok(Self { written, real })
    }

    /// Whether it is in the working directory or in the session's own one, and not Baton's. Blocks.
    pub(crate) fn is_own(&self, context: &ToolContext) -> bool {
        let territory = Territory {
            cwd: beneath::resolve(&context.cwd),
            home: context.home.clone(),
            workspace: Some(beneath::resolve(&context.session_dir)),
        };
        territory.read(&self.real) == Standing::Covered
    }

    /// The intention of a request about this, which says so if a link leads there.
    pub(crate) fn intention(&self, context: &ToolContext, what: &str) -> String {
        match self.real == within_real(&context.cwd, &self.written) {
            true => what.to_owned(),
            false => format!("{what} (through a link: {})", self.written.display()),
        }
    }
}

/// The path, with the links of the working directory's own path followed and no others.
fn within_real(cwd: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix(absolute(cwd, "")) {
        Ok(rest) if rest.as_os_str().is_empty() => beneath::resolve(cwd),
        Ok(rest) => beneath::resolve(cwd).join(rest),
        Err(_) => path.to_owned(),
    }
}

/// The real paths that requests of recent calls have named.
#[derive(Debug, Default)]
pub struct NamedPaths(Mutex<VecDeque<(ToolCallId, PathBuf, Noted)>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Noted {
    As(PathBuf),
    /// Two requests of the same call have named two; whichever was allowed cannot be told.
    Differently,
}

impl NamedPaths {
    /// More than calls that wait at once.
    const CAPACITY: usize = 4096;

    fn note(&self, call: &ToolCallId, written: &Path, real: &Path) {
        let mut noted = lock(&self.0);
        let known = noted.iter_mut().find(|(c, w, _)| c == call && w == written);
        if let Some((_, _, known)) = known {
            if *known != Noted::As(real.to_owned()) {
                *known = Noted::Differently;
            }
            return;
        }
        if noted.len() == Self::CAPACITY {
            noted.pop_front();
        }
        noted.push_back((call.clone(), written.to_owned(), Noted::As(real.to_owned())));
    }

    fn find(&self, call: &ToolCallId, written: &Path) -> Option<Noted> {
        lock(&self.0).iter().find(|(c, w, _)| c == call && w == written).map(|(_, _, noted)| noted.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::testing::Bench;

    #[test]
    fn paths_become_absolute_and_plain() {
        for (path, expected) in [
            ("a.txt", "/work/dir/a.txt"),
            ("/etc/passwd", "/etc/passwd"),
            ("../up/./x//y", "/work/up/x/y"),
            ("../../../../etc", "/etc"),
            ("", "/work/dir"),
            (".", "/work/dir"),
            ("~/x", "/work/dir/~/x"),
        ] {
            assert_eq!(absolute(Path::new("/work/dir"), path), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn a_path_that_programs_read_differently_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        std::fs::create_dir(cwd.join("sub")).unwrap();
        symlink("/usr/bin", cwd.join("link")).unwrap();
        assert_eq!(real(&cwd, "sub/../a"), Some(cwd.join("a")));
        assert_eq!(real(&cwd, "./new/b"), Some(cwd.join("new/b")));
        assert_eq!(real(&cwd, "link/x"), Some(Path::new("/usr/bin").canonicalize().unwrap().join("x")));
        for path in ["link/../a", "~/a", "", " /etc/passwd", "a ", "file:///etc/passwd", "a\nb", "a\tb"] {
            assert_eq!(real(&cwd, path), None, "{path:?}");
        }
    }

    #[test]
    fn a_request_names_where_a_link_leads_and_the_call_goes_there() {
        let bench = Bench::new();
        let outside = tempfile::tempdir().unwrap();
        let real = outside.path().canonicalize().unwrap();
        symlink(&real, bench.path("link")).unwrap();
        symlink(&bench.context.cwd, bench.path("here")).unwrap();
        let ask = |path: &str| Target::ask(&bench.context, absolute(&bench.context.cwd, path));
        let target = ask("link/new.txt");
        assert_eq!(target.real, real.join("new.txt"));
        assert!(target.intention(&bench.context, "Read").contains(&bench.path("link/new.txt")));
        assert_eq!(ask("here/plain").real, bench.context.cwd.join("plain"));
        assert_eq!(ask("plain").intention(&bench.context, "Read"), "Read");

        std::fs::remove_file(bench.path("link")).unwrap();
        let recalled = Target::recall(&bench.context, target.written.clone()).unwrap();
        assert_eq!(recalled, target, "what was shown counts, not what the link is now");
        ask("link/new.txt");
        assert!(Target::recall(&bench.context, target.written).is_err(), "asked for twice, with two answers");
    }

    #[test]
    fn a_working_directory_may_be_reached_through_a_link() {
        let mut bench = Bench::new();
        let real = bench.context.cwd.clone();
        symlink(&real, real.with_file_name("alias")).unwrap();
        bench.context.cwd = real.with_file_name("alias");
        let written = absolute(&bench.context.cwd, "a.txt");
        assert_eq!(Target::recall(&bench.context, written.clone()).unwrap().real, real.join("a.txt"));
        assert_eq!(Target::ask(&bench.context, written).intention(&bench.context, "Read"), "Read");
    }
}
