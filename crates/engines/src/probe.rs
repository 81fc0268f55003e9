//! Checks whether a program is installed, its version, and what is missing before it can be used.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use baton_disk::blocking;
use baton_process::{Ledger, Supervised};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;
use uuid::Uuid;

use crate::Installation;
use crate::login;
use crate::program::Program;

/// How long a program may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// How much of its output is read.
const MAX_OUTPUT_BYTES: u64 = 4096;

/// The version of an executable. It is valid until the file changes.
pub(crate) struct CachedVersion {
    path: PathBuf,
    changed: Option<SystemTime>,
    version: Option<String>,
}

/// Probes a program.
pub(crate) async fn probe(program: &Arc<Program>, cache: &mut Option<CachedVersion>) -> Installation {
    let Some((path, changed)) = blocking::run(find(program.clone())).await.ok().flatten() else {
        return Installation { path: None, version: None, problem: Some(program.not_installed()) };
    };
    let known = cache.take().filter(|known| known.path == path && known.changed == changed);
    let known = match known {
        Some(known) => known,
        None => CachedVersion { version: version(program, &path).await, path: path.clone(), changed },
    };
    let version = known.version.clone();
    // A failure is not cached: the next attempt may succeed.
    *cache = Some(known).filter(|known| known.version.is_some());
    let (probed, at, found) = (program.clone(), path.clone(), version.clone());
    let problem = blocking::run(move || problem(&probed, &at, found.as_deref())).await;
    let problem = problem.unwrap_or_else(|error| Some(format!("cannot check {}: {error}.", path.display())));
    Installation { problem, path: Some(path), version }
}

/// Finds the executable and its modification time. The returned function blocks.
fn find(program: Arc<Program>) -> impl FnOnce() -> Option<(PathBuf, Option<SystemTime>)> {
    #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
    move || {
        let path = program.path()?;
        let changed = path.metadata().and_then(|found| found.modified()).ok();
        Some((path, changed))
    }
}

/// Describes what is missing before the program can be used. Blocks.
fn problem(program: &Program, path: &Path, version: Option<&str>) -> Option<String> {
    let info = &program.info;
    let Some(version) = version else {
        return Some(format!(
            "{} does not print its version. Try `{} --version`. {}",
            info.name,
            path.display(),
            info.install
        ));
    };
    if numbers(version).is_some_and(|version| version < info.oldest) {
        let [major, minor, patch] = info.oldest;
        return Some(format!(
            "{} {version} is too old; {major}.{minor}.{patch} or newer is needed. {}",
            info.name, info.install
        ));
    }
    program.settings_error().or_else(|| login::missing(program))
}

/// Runs the program to get its version.
async fn version(program: &Program, path: &Path) -> Option<String> {
    let mut command = Command::new(path);
    command
        .arg("--version")
        .env_clear()
        .envs(program.environment(&[]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child =
        Supervised::spawn(command, format!("probe/{}/", Uuid::new_v4()), Ledger::default()).ok()?;
    let (_, stdout, stderr) = child.pipes();
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (stdout?.take(MAX_OUTPUT_BYTES), stderr?.take(MAX_OUTPUT_BYTES));
    let read = async { tokio::try_join!(stdout.read_to_end(&mut output), stderr.read_to_end(&mut errors)) };
    let read = timeout(VERSION_TIMEOUT, read).await;
    child.end(Duration::ZERO).await;
    read.ok()?.ok()?;
    // Some programs print it to stderr. Stdout goes first: a number in a warning must not be taken for the version.
    output.push(b' ');
    output.append(&mut errors);
    let output = String::from_utf8_lossy(&output);
    output
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| numbers(word).is_some())
        .map(str::to_owned)
}

/// Parses a version such as `1.18.33-beta.1`.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let plain = version.split(['-', '+']).next()?;
    let mut parts = plain.splitn(3, '.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(numbers("0.166.0"), Some([0, 166, 0]));
        assert_eq!(numbers("1.18.33-beta.1"), Some([1, 18, 33]));
        assert_eq!(numbers("2.1"), None);
        assert_eq!(numbers("codex-cli"), None);
        assert!(numbers("0.9.0") < numbers("0.100.0"));
    }
}
