//! The shell policy checked against bash itself.
//!
//! Bash runs generated lines, and the policy must have predicted the effects. Three laws:
//! 1. A line that grants cover runs only the commands that the policy found in it.
//! 2. No line runs a command that the policy excluded: deny rules would miss it.
//! 3. A line that the policy calls read-only changes no file.
//!
//! The run in the test suite is short and deterministic. A long run, by hand:
//! `BATON_FUZZ_SECONDS=3600 BATON_FUZZ_SEED=1 cargo test --release -p baton-agent --test shell_against_bash generated -- --nocapture`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "helpers of tests"
)]

mod generator;
mod programs;
mod reach;
mod recorder;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_core::policy::Match;
use baton_core::policy::shell::Line;

use generator::{ATTACKS, HARMLESS, Random};
use recorder::Record;

/// Returns the grants: harmless names, and one broad grant.
fn grants() -> Vec<&'static str> {
    [HARMLESS.as_slice(), &["sort", "find", "make:*"]].concat()
}

/// Lines for one bash process.
const BATCH: usize = 500;
/// Lines of a run in the test suite.
const LINES: usize = 4_000;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the files in a directory with their contents.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries
        .map(|e| (e.file_name().display().to_string(), std::fs::read(e.path()).unwrap_or_default()))
        .collect()
}

/// Creates a directory with a script to run and a file to lose.
fn scratch() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("pwn"), "touch written\n").unwrap();
    std::fs::write(directory.path().join("a"), "kept").unwrap();
    directory
}

/// Returns the first word of a command as bash prints it.
fn first_word(command: &str) -> &str {
    command.split([' ', '\t', '\n']).next().unwrap_or(command)
}

/// Returns the law that a line violated, if any.
fn violation(line: &Line<'_>, record: &Record) -> Option<String> {
    let Line::Commands(commands) = line else { return None };
    let programs: Vec<&str> = commands.programs().collect();
    if line.is_covered_by(&grants()) {
        if record.commands.len() > programs.len() {
            return Some("it ran more commands than the policy found".to_owned());
        }
        let run = record.commands.iter().map(|command| first_word(command));
        let searched = record.programs.iter().map(String::as_str);
        if let Some(other) = run.chain(searched).find(|name| !programs.contains(name)) {
            return Some(format!("it ran {other:?}, which the policy did not find"));
        }
    }
    let missed = record.programs.iter().find(|name| line.is_named_by(name) == Match::No);
    missed.map(|name| format!("it ran {name:?}, which the policy excluded"))
}

/// Runs the lines that the policy can parse, and returns how many are covered by grants.
fn check(lines: &[String]) -> usize {
    let parsed: Vec<(&str, Line<'_>)> = lines.iter().map(|line| (line.as_str(), Line::parse(line))).collect();
    let parseable: Vec<&(&str, Line<'_>)> =
        parsed.iter().filter(|(_, line)| matches!(line, Line::Commands(_))).collect();
    let (readers, others): (Vec<_>, Vec<_>) =
        parseable.into_iter().partition(|(_, line)| line.is_read_only());
    for group in [readers.as_slice(), others.as_slice()] {
        let directory = scratch();
        let before = files(directory.path());
        let texts: Vec<&str> = group.iter().map(|(text, _)| *text).collect();
        for ((text, line), record) in group.iter().zip(recorder::run(directory.path(), &texts)) {
            if let Some(violation) = violation(line, &record) {
                panic!("{text:?}: {violation}\n{line:#?}\n{record:#?}");
            }
        }
        if group.first().is_some_and(|(_, line)| line.is_read_only()) && files(directory.path()) != before {
            blame(&texts);
        }
    }
    parsed.iter().filter(|(_, line)| line.is_covered_by(&grants())).count()
}

/// Finds the line that changed a file.
fn blame(lines: &[&str]) -> ! {
    for line in lines {
        let directory = scratch();
        let before = files(directory.path());
        recorder::run(directory.path(), &[line]);
        assert_eq!(files(directory.path()), before, "{line:?} is read-only to the policy");
    }
    panic!("some of these lines changed files together: {lines:#?}");
}

#[test]
fn generated_lines_obey_the_laws() {
    let seed = setting("BATON_FUZZ_SEED").unwrap_or(42);
    let end = setting("BATON_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (mut generated, mut covered) = (0, 0);
    while end.map_or(generated < LINES, |end| Instant::now() < end) {
        let lines: Vec<String> =
            (0..BATCH).map(|_| generator::line(&mut random)).filter(|line| !line.contains('\0')).collect();
        generated += BATCH;
        covered += check(&lines);
    }
    println!("{generated} lines, {covered} of them covered by grants");
    assert!(covered > generated / 20, "too few lines are covered to show anything: {covered} of {generated}");
}

#[test]
fn known_attacks_obey_the_laws() {
    let lines: Vec<String> = ATTACKS.iter().map(|line| (*line).to_owned()).collect();
    check(&lines);
}

/// Checks the recorder itself: without it the other tests would prove nothing.
#[test]
#[rustfmt::skip]
fn recorder_sees_commands_of_dangerous_lines() {
    // In every bash.
    let always = [
        "echo $(pwn)", "echo \"`echo \\\"$(pwn)\\\"`\"", "echo $[a[$(pwn)]]", "[[ $y -eq 1 ]]", "let 'a[$(pwn)]=1'",
        "echo $\\\n(pwn)", "echo a & pwn", "(pwn)", "eval pwn", "$z a", "echo a | pwn", "f() { pwn; }; f",
    ];
    // In bash 5.2, but not in all versions: builtins that evaluate quoted text.
    let sometimes = [
        "echo '$(pwn)' ${_@P}", "printf -v 'a[$(pwn)]' x", "test -v 'a[$(pwn)]'", "[ -v 'a[$(pwn)]' ]", "RANDOM='a[$(pwn)]'",
        "read 'a[$(pwn)]' <<< x", "mapfile -C pwn -c 1 x <<< a", "printf $v $y x", "test $v $y",
        "declare -a q=1; unset 'q[$(pwn)]'",
    ];
    let lines: Vec<&str> = always.iter().chain(&sometimes).copied().collect();
    let directory = scratch();
    for (number, record) in recorder::run(directory.path(), &lines).iter().enumerate() {
        let line = lines[number];
        let ran = record.programs.iter().any(|name| name == "pwn");
        assert!(ran || number >= always.len(), "bash does not run pwn in {line:?}: {record:?}");
        assert!(!Line::parse(line).is_covered_by(&grants()), "{line:?}");
        assert_ne!(Line::parse(line).is_named_by("pwn"), Match::No, "{line:?}");
        println!("{} {line:?}", if ran { "runs" } else { "does not run" });
    }
    recorder::run(directory.path(), &["echo x > written"]);
    assert!(directory.path().join("written").exists());
}
