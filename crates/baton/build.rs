//! Makes the release program smaller, where it is built for the machine that builds it: by options that not every linker and C
//! library knows. Each is tried on a program that does nothing. Programs for other machines do without.

#![allow(clippy::disallowed_methods, reason = "a build may block")]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

const OPTIONS: [&str; 2] = [
    // Packs relocations, 0.7 MB of the program. glibc unpacks them since 2.36.
    "-Wl,-z,pack-relative-relocs",
    // Stores identical functions once, 0.2 MB. Known to the linker that comes with Rust on x86-64.
    "-Wl,--icf=all",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    // A linker that somebody chose may be one for another machine.
    let is_native = env::var("HOST") == env::var("TARGET") && env::var_os("RUSTC_LINKER").is_none();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if is_native && is_release {
        for option in OPTIONS.into_iter().filter(|option| works(option).is_some()) {
            println!("cargo:rustc-link-arg-bins={option}");
        }
    }
}

/// Tries an option: links a program with it, and runs that.
fn works(option: &str) -> Option<()> {
    let directory = PathBuf::from(env::var_os("OUT_DIR")?);
    let (source, program) = (directory.join("trial.rs"), directory.join("trial"));
    fs::write(&source, "fn main() {}").ok()?;
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let mut link = Command::new(env::var_os("RUSTC")?);
    link.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    link.arg(format!("-Clink-arg={option}")).arg("-o").arg(&program).arg(&source);
    succeeds(&mut link)?;
    succeeds(&mut Command::new(&program))
}

fn succeeds(command: &mut Command) -> Option<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then_some(())
}
