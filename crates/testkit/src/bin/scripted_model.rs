//! The scripted model server as a program, for tests that are not written in Rust.
//!
//! `baton-scripted-model [--port N] [--port-file FILE]` listens on a loopback port (default: any free port),
//! writes its number to the file, and serves until it is killed.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::print_stdout, reason = "scripts read the port from the printed line")]

use std::error::Error;
use std::path::{Path, PathBuf};

use baton_testkit::model_server::ModelServer;
use tokio::net::TcpListener;

#[derive(Default)]
struct Options {
    port: u16,
    port_file: Option<PathBuf>,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--port" => options.port = value.parse()?,
            "--port-file" => options.port_file = Some(value.into()),
            _ => return Err(format!("unknown option {name}; use --port or --port-file").into()),
        }
    }
    Ok(options)
}

/// Writes a file atomically: readers find either none or a complete one.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    std::fs::write(&unfinished, text)?;
    std::fs::rename(unfinished, path)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
    let server = ModelServer::serve(listener)?;
    if let Some(path) = &options.port_file {
        write_whole(path, &server.address().port().to_string())?;
    }
    println!("listening {}", server.address());
    std::future::pending::<()>().await;
    drop(server);
    Ok(())
}
