//! Help, the version, and errors in the flags.

use std::io::Read;
use std::process::ExitCode;

/// Prints help, the version, or an error in the flags, and returns the exit code.
pub(crate) fn print_usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.exit_code() != 0 && std::env::args_os().any(|arg| arg == "--stdio") {
        wait_for_caller();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Waits until the SDK has written, for at most a second. An SDK writes to the program before it checks whether it still
/// runs; if the program were gone by then, the SDK would report a broken pipe instead of the message.
fn wait_for_caller() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(std::io::stdin().read(&mut [0]));
    });
    let _ = receiver.recv_timeout(std::time::Duration::from_secs(1));
}
