//! The program `baton`. What it does is in `baton-cli`; this crate links it, and tests it the way users run it.

use std::process::ExitCode;

fn main() -> ExitCode {
    baton_cli::main()
}
