//! Packs the program's relocations, a twentieth of its size, if it is built for the machine that builds it and that has a C
//! library that can unpack them. Programs for other machines must also start with older ones.

#![allow(clippy::disallowed_methods, reason = "a build may block")]

use std::env;
use std::process::Command;

/// First version of glibc that reads packed relocations (`DT_RELR`).
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let has_glibc = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux")
        && env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    // A linker that somebody chose is one for another machine, or does not know the option.
    let is_native = env::var("HOST") == env::var("TARGET") && env::var_os("RUSTC_LINKER").is_none();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if has_glibc && is_native && is_release && glibc_version().is_some_and(|version| version >= FIRST) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of this machine's glibc, which `getconf` prints as `glibc 2.36`.
fn glibc_version() -> Option<(u32, u32)> {
    let printed = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?.stdout;
    let text = String::from_utf8(printed).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
