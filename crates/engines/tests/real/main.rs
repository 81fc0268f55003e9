//! The real programs with a scripted model. Ignored by default, because the programs must be installed first:
//! `scripts/test engines` installs them and runs the tests.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

#[path = "../common/mod.rs"]
mod common;

#[macro_use]
mod scenarios;
mod setup;

mod claude {
    scenarios! { "claude", steers_the_running_turn }
}

mod codex {
    scenarios! { "codex", steers_the_running_turn }
}

mod opencode {
    scenarios! { "opencode", steers_after_the_turn }
}

mod pi {
    scenarios! { "pi", steers_the_running_turn }
}

/// The example of a program that speaks ACP.
mod qwen {
    scenarios! { "qwen", interactive only, steers_after_the_turn }
}

/// `scripts/test engines` selects the scenarios of a program by its name, and would pass if it had none.
#[test]
fn every_listed_program_has_scenarios() {
    let (listed, source) = (include_str!("programs.txt"), include_str!("main.rs"));
    for name in listed.lines().filter_map(|line| line.split(' ').next()) {
        assert!(baton_engines::names().any(|engine| engine == name), "{name} is no engine");
        let scenarios = format!("mod {name} {{\n    scenarios! {{ \"{name}\", ");
        assert!(source.contains(&scenarios), "{name} has no scenarios");
    }
}
