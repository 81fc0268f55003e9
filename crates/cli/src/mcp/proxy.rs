//! `baton mcp proxy`: joins standard input and output to a socket file of a session.
//!
//! It knows nothing of what passes through. When either side ends, it ends: the server of the session and the engine
//! that started it both rely on that.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

pub(super) fn proxy(socket: &Path) -> anyhow::Result<ExitCode> {
    let stream = baton_disk::private::with_socket_path(socket, |path| UnixStream::connect(path))
        .with_context(|| format!("the session behind {} has ended", socket.display()))?;
    let mut to_session = stream.try_clone().context("cannot use the connection twice")?;
    std::thread::spawn(move || {
        copy(&mut std::io::stdin().lock(), &mut to_session);
        // The session ends the connection then.
        let _ = to_session.shutdown(Shutdown::Write);
    });
    copy(&mut &stream, &mut crate::terminal::protocol_output());
    Ok(ExitCode::SUCCESS)
}

/// Copies until either side ends. Every piece is written at once: the other side waits for it.
fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..read]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}
