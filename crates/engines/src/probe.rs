//! Whether a program is there, which version it is, and what is missing before it can be used.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use baton_agent::blocking;
use baton_agent::tools::shell::Supervised;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;
use uuid::Uuid;

use crate::Probe;
use crate::program::Program;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(20);
/// How much it may say.
const LONGEST: u64 = 4096;

/// A version that was asked for, and of what: a program that was replaced is asked again.
pub(crate) struct Probed {
    path: PathBuf,
    changed: Option<SystemTime>,
    version: Option<String>,
}

/// Looks at a program.
pub(crate) async fn probe(program: &Arc<Program>, probed: &mut Option<Probed>) -> Probe {
    let Some((path, changed)) = blocking::run(find(program.clone())).await.ok().flatten() else {
        return Probe { path: None, version: None, problem: Some(program.not_installed()) };
    };
    let known = probed.take().filter(|known| known.path == path && known.changed == changed);
    let known = match known {
        Some(known) => known,
        None => Probed { version: version(program, &path).await, path: path.clone(), changed },
    };
    let version = known.version.clone();
    // What failed may work next time.
    *probed = Some(known).filter(|known| known.version.is_some());
    let (asked, at, said) = (program.clone(), path.clone(), version.clone());
    let problem = blocking::run(move || problem(&asked, &at, said.as_deref())).await;
    let problem =
        problem.unwrap_or_else(|error| Some(format!("{} cannot be looked at: {error}.", path.display())));
    Probe { problem, path: Some(path), version }
}

/// Where the program is, and when it was last changed. Blocks when it is called.
fn find(program: Arc<Program>) -> impl FnOnce() -> Option<(PathBuf, Option<SystemTime>)> {
    #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
    move || {
        let path = program.path()?;
        let changed = path.metadata().and_then(|found| found.modified()).ok();
        Some((path, changed))
    }
}

/// Blocks.
fn problem(program: &Program, path: &Path, version: Option<&str>) -> Option<String> {
    let facts = &program.facts;
    let Some(version) = version else {
        return Some(format!(
            "{} does not say its version. Try `{} --version`. {}",
            facts.name,
            path.display(),
            facts.install
        ));
    };
    if numbers(version).is_some_and(|version| version < facts.oldest) {
        let [major, minor, patch] = facts.oldest;
        return Some(format!(
            "{} {version} is too old; {major}.{minor}.{patch} or newer is needed. {}",
            facts.name, facts.install
        ));
    }
    program.refusal().or_else(|| not_logged_in(program))
}

/// The version as the program says it.
async fn version(program: &Program, path: &Path) -> Option<String> {
    let mut command = Command::new(path);
    command
        .arg("--version")
        .env_clear()
        .envs(program.environment(&[]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Supervised::spawn(command, format!("probe/{}/", Uuid::new_v4())).ok()?;
    let (_, stdout, stderr) = child.pipes();
    let (mut said, mut said_aside) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (stdout?.take(LONGEST), stderr?.take(LONGEST));
    let read = async { tokio::try_join!(stdout.read_to_end(&mut said), stderr.read_to_end(&mut said_aside)) };
    let read = timeout(PATIENCE, read).await;
    child.end(Duration::ZERO).await;
    read.ok()?.ok()?;
    // Some say it on stderr; a warning there must not be taken for it where stdout has it.
    said.push(b' ');
    said.append(&mut said_aside);
    let said = String::from_utf8_lossy(&said);
    said.split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| numbers(word).is_some())
        .map(str::to_owned)
}

/// `1.18.33-beta.1` as numbers.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let plain = version.split(['-', '+']).next()?;
    let mut parts = plain.splitn(3, '.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Whether somebody must log in first, where files and variables tell it for sure. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn not_logged_in(program: &Program) -> Option<String> {
    let home = || program.variable("HOME").map(PathBuf::from);
    let is_set = |names: &[&str]| names.iter().any(|name| program.variable(name).is_some());
    let logged_in = match program.facts.name {
        "codex" => {
            let directory =
                program.variable("CODEX_HOME").map(PathBuf::from).or(Some(home()?.join(".codex")))?;
            // Somebody who has configured a provider knows how to reach it.
            let configured = std::fs::read_to_string(directory.join("config.toml"))
                .is_ok_and(|text| text.contains("model_provider") || text.contains("oss"));
            configured
                || directory.join("auth.json").is_file()
                || is_set(&["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"])
        }
        // Elsewhere it uses the system's keychain.
        "claude" if cfg!(target_os = "linux") => {
            let directory =
                program.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from).or(Some(home()?.join(".claude")))?;
            let configured = std::fs::read_to_string(directory.join("settings.json"))
                .is_ok_and(|text| text.contains("apiKeyHelper") || text.contains("ANTHROPIC_"));
            let variables = [
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
                "CLAUDE_CODE_OAUTH_TOKEN",
                "CLAUDE_CODE_USE_BEDROCK",
                "CLAUDE_CODE_USE_VERTEX",
                "CLAUDE_CODE_USE_FOUNDRY",
            ];
            configured || directory.join(".credentials.json").is_file() || is_set(&variables)
        }
        _ => true,
    };
    (!logged_in).then(|| format!("{} is not logged in. {}", program.facts.name, program.facts.login))
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
