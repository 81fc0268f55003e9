//! The key that encrypts the tokens of MCP servers: in a file beside them, or in the keyring of the user's desktop.
//!
//! The keyring is the system's Secret Service. It is reached by the program `secret-tool`, because a client of D-Bus would
//! be a large dependency for two calls. The key goes to the program's standard input, never into its arguments. A keyring
//! that does not answer is an error, not a missing key: the tokens that it protects are kept.
#![allow(clippy::disallowed_methods, reason = "runs on a blocking thread")]

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use baton_disk::private;
use ring::rand::{SecureRandom, SystemRandom};

/// Length of the key.
pub(crate) const BYTES: usize = 32;
/// The program that reaches the keyring.
const PROGRAM: &str = "secret-tool";
/// How long the keyring may take. A locked one asks the user for its password, on the desktop.
const PATIENCE: Duration = Duration::from_secs(30);

/// A key of AES-256.
pub(crate) type TokenKey = [u8; BYTES];

/// Where the key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyPlace {
    /// In a file beside the tokens.
    File,
    /// In the keyring, by the program that reaches it.
    Keyring(PathBuf),
}

impl KeyPlace {
    pub(crate) fn new(keyring: bool) -> Self {
        if keyring { Self::Keyring(PROGRAM.into()) } else { Self::File }
    }

    /// Returns the keys that the tokens may be encrypted with, the current one first. A key file from before the use of the
    /// keyring counts until the tokens are written again.
    pub(crate) fn candidates(&self, tokens: &Path) -> io::Result<Vec<TokenKey>> {
        let current = match self {
            Self::File => None,
            Self::Keyring(program) => look_up(program, tokens)?,
        };
        Ok(current.into_iter().chain(read_file(tokens)?).collect())
    }

    /// Returns the key to encrypt with. Makes one if there is none.
    pub(crate) fn obtain(&self, tokens: &Path) -> io::Result<TokenKey> {
        let known = match self {
            Self::File => read_file(tokens)?,
            Self::Keyring(program) => look_up(program, tokens)?,
        };
        if let Some(key) = known {
            return Ok(key);
        }
        let key = random::<BYTES>()?;
        match self {
            Self::File => private::replace_synced(file(tokens), key)?,
            Self::Keyring(program) => store(program, tokens, &key)?,
        }
        Ok(key)
    }

    /// Removes the key file if the key is in the keyring, after the tokens were written with that one.
    pub(crate) fn forget_file(&self, tokens: &Path) -> io::Result<()> {
        if *self == Self::File {
            return Ok(());
        }
        match std::fs::remove_file(file(tokens)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns random bytes.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(bytes)
}

fn file(tokens: &Path) -> PathBuf {
    tokens.with_extension("key")
}

/// Reads the key file; none if there is none, or it is damaged.
fn read_file(tokens: &Path) -> io::Result<Option<TokenKey>> {
    match std::fs::read(file(tokens)) {
        Ok(bytes) => Ok(bytes.try_into().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn look_up(program: &Path, tokens: &Path) -> io::Result<Option<TokenKey>> {
    let output = run(named(program, "lookup", tokens), None)?;
    match (output.is_success, output.text.trim(), output.errors.trim()) {
        (true, key, _) => Ok(from_hex(key)),
        // How the program says that there is no such entry.
        (false, "", "") => Ok(None),
        (false, _, problem) => Err(unavailable(problem)),
    }
}

fn store(program: &Path, tokens: &Path, key: &TokenKey) -> io::Result<()> {
    let mut command = named(program, "store", tokens);
    command.args(["--label", "Baton: logins at MCP servers"]);
    let output = run(command, Some(hex(key)))?;
    match output.is_success {
        true => Ok(()),
        false => Err(unavailable(output.errors.trim())),
    }
}

/// Returns the command for the entry of these tokens.
fn named(program: &Path, action: &str, tokens: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(action).args(["application", "baton", "tokens"]).arg(tokens);
    command
}

fn unavailable(problem: &str) -> io::Error {
    let problem = problem.lines().next().unwrap_or("it did not say why");
    io::Error::other(format!(
        "the keyring cannot be used: {problem}; unlock it, or set keyring = false in [mcp]"
    ))
}

struct Output {
    is_success: bool,
    text: String,
    errors: String,
}

/// Runs a program to its end, with a time limit.
fn run(mut command: Command, input: Option<String>) -> io::Result<Output> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let started = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| {
        unavailable(&format!("{} cannot be started: {error}", command.get_program().display()))
    })?;
    let answered = exchange(&mut child, input);
    if answered.is_err() {
        // It may have ended just now.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let (text, errors) = answered?;
    Ok(Output { is_success: status.success(), text, errors })
}

/// Writes the input, and reads what the program prints until it closes its output.
fn exchange(child: &mut Child, input: Option<String>) -> io::Result<(String, String)> {
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        stdin.write_all(input.as_bytes())?;
    }
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(unavailable("it has no output"));
    };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let read = |source: &mut dyn Read| {
            let mut text = String::new();
            source.take(64 * 1024).read_to_string(&mut text).map(|_| text)
        };
        let (mut stdout, mut stderr) = (stdout, stderr);
        let both = read(&mut stdout).and_then(|text| Ok((text, read(&mut stderr)?)));
        // The reader has given up.
        let _ = sender.send(both);
    });
    let waited = receiver.recv_timeout(PATIENCE);
    waited.map_err(|_| unavailable(&format!("it did not answer within {} s", PATIENCE.as_secs())))?
}

fn hex(key: &TokenKey) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<TokenKey> {
    let digits = text.as_bytes();
    let mut key = [0; BYTES];
    if digits.len() != 2 * BYTES {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_text() {
        let key = random::<BYTES>().unwrap();
        assert_eq!(from_hex(&hex(&key)), Some(key));
        for odd in ["", "ab", "zz".repeat(BYTES).as_str(), "é".repeat(BYTES).as_str()] {
            assert_eq!(from_hex(odd), None, "{odd}");
        }
    }
}
