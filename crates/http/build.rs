//! Compresses the description of the API, which is rarely read and would be a hundredth of the program.

#![allow(clippy::disallowed_methods, reason = "a build may block")]

use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    const DOCUMENT: &str = "../../docs/openapi.json";
    println!("cargo:rerun-if-changed={DOCUMENT}");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let compressed = fs::File::create(Path::new(&out).join("openapi.json.gz"))?;
    let mut encoder = flate2::write::GzEncoder::new(compressed, flate2::Compression::best());
    encoder.write_all(&fs::read(DOCUMENT)?)?;
    encoder.finish()?;
    Ok(())
}
