//! Compresses the files of the page, which are sent that way and make the program smaller.

#![allow(clippy::disallowed_methods, reason = "a build may block")]

use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=assets");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for file in fs::read_dir("assets")? {
        let file = file?;
        let compressed = fs::File::create(Path::new(&out).join(file.file_name()))?;
        let mut encoder = flate2::write::GzEncoder::new(compressed, flate2::Compression::best());
        encoder.write_all(&fs::read(file.path())?)?;
        encoder.finish()?;
    }
    Ok(())
}
