//! Python scripts in place of the programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use baton_engines::{EngineSettings, Mode, TimeLimits};

use crate::common::Fixture;

/// Functions for all scripts. Files are relative to the test's directory.
const PRELUDE: &str = r#"#!/usr/bin/env python3
import json, os, signal, subprocess, sys, time

HOME = os.environ["HOME"]
args = sys.argv[1:]

def path(name): return os.path.join(HOME, name)
def mark(name): open(path(name), "w").close()
def is_marked(name): return os.path.exists(path(name))
def wait_for(name):
    for _ in range(12000):
        if is_marked(name): return
        time.sleep(0.005)
    sys.exit("timed out waiting for " + name)
def send(line): print(json.dumps(line), flush=True)
def say(**line): send(line)
def next_line():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)

# codex exec
def started(thread="t-1"): say(type="thread.started", thread_id=thread)
def item(id, type, what="completed", **more): say(type="item." + what, item={"id": id, "type": type, **more})
def message(text, **more): item("item_9", "agent_message", text=text, **more)
def completed(tokens=1):
    say(type="turn.completed", usage={"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 1})

"#;

/// An engine whose program is this script.
pub(crate) fn engine(name: &str, mode: Mode, script: &str) -> Fixture {
    limited(name, mode, script, TimeLimits::default())
}

/// An engine whose program is this script, with time limits.
pub(crate) fn limited(name: &str, mode: Mode, script: &str, limits: TimeLimits) -> Fixture {
    configured(name, script, |settings| {
        settings.mode = mode;
        settings.limits = limits;
    })
}

/// An engine whose program is this script, with settings.
pub(crate) fn configured(name: &str, script: &str, set: impl FnOnce(&mut EngineSettings)) -> Fixture {
    Fixture::new(name, |directory| {
        let program = directory.join("program");
        write_program(&program, &format!("{PRELUDE}{script}"));
        let mut settings = EngineSettings { program: Some(program), ..EngineSettings::default() };
        set(&mut settings);
        settings
    })
}

/// `codex exec` as a script.
pub(crate) fn codex(script: &str) -> Fixture {
    engine("codex", Mode::Exec, script)
}

/// Writes an executable file. Another process writes it: a concurrent test that forks would inherit our descriptor, and
/// a file that is open for writing cannot be executed.
pub(crate) fn write_program(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    fs::write(&draft, text).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    let copied = std::process::Command::new("cp").arg("-p").arg(&draft).arg(path).status().unwrap();
    assert!(copied.success());
}

/// All engines in all modes.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Mode)> {
    let names = baton_engines::names().chain(["acp:other"]);
    names.flat_map(|name| [Mode::Interactive, Mode::Exec].map(|mode| (name, mode)))
}
