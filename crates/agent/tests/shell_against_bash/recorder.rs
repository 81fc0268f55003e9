//! A bash in which every command is recorded and no program is found.
//!
//! `PATH` is empty, so that every command but a builtin ends in `command_not_found_handle`. A `DEBUG` trap
//! records the text of each simple command before it runs, in subshells and substitutions as well. Lines are
//! evaluated in a subshell each, by `eval`, which bash parses like the text of `bash -c`. Nothing but bash is needed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const DRIVER: &str = r#"
exec 9>&1
PATH=/nonexistent
# One write for one entry, because the commands of a pipeline write at the same time: a newline would end it early.
record() { builtin printf '%s%s\0' "$1" "${2//$'\n'/ }" >&9; }
command_not_found_handle() { record X "$1"; }
set -T
while IFS= builtin read -r -d '' line_under_test; do
    builtin printf 'L\0' >&9
    (
        trap '[[ ${FUNCNAME[0]-} =~ ^(record|command_not_found_handle)$ ]] || record C "$BASH_COMMAND"' DEBUG
        eval -- "$line_under_test"
    ) </dev/null >/dev/null 2>&1
done
"#;

/// The effects of a line.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Texts of the simple commands that ran.
    pub(crate) commands: Vec<String>,
    /// Programs that bash searched for.
    pub(crate) programs: Vec<String>,
}

/// Runs lines in `directory`, and returns the effects of each. Lines must not contain NUL.
pub(crate) fn run(directory: &Path, lines: &[&str]) -> Vec<Record> {
    let mut bash = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", DRIVER])
        .current_dir(directory)
        .env_clear()
        .envs([("HOME", "/nonexistent"), ("LC_ALL", "C.UTF-8")])
        // Values that do harm where they are evaluated, split or parsed as options.
        .envs([("x", "$(pwn)"), ("y", "a[$(pwn)]"), ("z", "pwn"), ("v", "-v"), ("w", "%n")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = bash.stdin.take().unwrap();
    let input: Vec<u8> = lines.iter().flat_map(|line| line.bytes().chain([0])).collect();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = bash.wait_with_output().unwrap().stdout;
    writer.join().unwrap().unwrap();

    let mut records: Vec<Record> = Vec::new();
    for entry in output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let text = String::from_utf8_lossy(&entry[1..]).into_owned();
        match (entry[0], records.last_mut()) {
            (b'L', _) => records.push(Record::default()),
            (b'C', Some(_)) if text == "eval -- \"$line_under_test\"" => {}
            (b'C', Some(record)) => record.commands.push(text),
            (b'X', Some(record)) => record.programs.push(text),
            _ => panic!("entry without a line: {text}"),
        }
    }
    assert_eq!(records.len(), lines.len(), "bash lost lines");
    records
}
