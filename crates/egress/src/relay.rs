//! Relays the bytes of a tunnel.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio_util::sync::CancellationToken;

use crate::Host;
use crate::server_name::{ServerName, ServerNameReader, is_for};

/// Size of the buffer of one direction.
const BUFFER: usize = 8 << 10;
/// Number of bytes among which the server name is looked for.
const MAX_HELLO: usize = 32 << 10;
/// Time without a byte after which a tunnel ends whose other direction has ended.
const HALF_CLOSED_LIMIT: Duration = Duration::from_secs(30);

/// Relays bytes until both directions have ended.
///
/// # Errors
/// When one of the connections fails, or the client asks for the server name of another host.
pub(crate) async fn relay(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
    host: &Host,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = split(server);
    let half_closed = CancellationToken::new();
    let up = async {
        check_server_name(&mut from_client, &mut to_server, host).await?;
        copy(&mut from_client, &mut to_server, &half_closed).await
    };
    let down = copy(&mut from_server, &mut to_client, &half_closed);
    tokio::try_join!(up, down).map(drop)
}

/// Relays the first bytes of the client once its server name is known.
async fn check_server_name(
    client: &mut (impl AsyncRead + Unpin),
    server: &mut (impl AsyncWrite + Unpin),
    host: &Host,
) -> io::Result<()> {
    let mut seen = Vec::with_capacity(BUFFER);
    let mut reader = ServerNameReader::default();
    loop {
        let known = seen.len();
        if client.read_buf(&mut seen).await? == 0 {
            break;
        }
        match reader.read(&seen[known..]) {
            ServerName::Incomplete if seen.len() < MAX_HELLO => {}
            ServerName::Named(name) if !is_for(host, &name) => {
                return Err(io::Error::other(format!(
                    "the tunnel is to {host}, and TLS in it asks for {name}"
                )));
            }
            ServerName::Incomplete | ServerName::Named(_) | ServerName::None => break,
        }
    }
    server.write_all(&seen).await
}

/// Copies one direction to its end, and cancels `half_closed` then.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    half_closed: &CancellationToken,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let idle = async || {
        half_closed.cancelled().await;
        tokio::time::sleep(HALF_CLOSED_LIMIT).await;
    };
    loop {
        tokio::select! {
            copied = copy_some(from, to, &mut buffer) => if !copied? { break },
            () = idle() => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
    half_closed.cancel();
    to.shutdown().await
}

/// Copies what can be read. Returns `false` at the end.
async fn copy_some(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    buffer: &mut [u8],
) -> io::Result<bool> {
    let length = from.read(buffer).await?;
    to.write_all(&buffer[..length]).await?;
    Ok(length > 0)
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silent_tunnel_ends_some_time_after_one_direction_has_ended() {
        let ((mut client, near), (mut server, far)) = (duplex(64), duplex(64));
        let host = Host::parse("one.test").unwrap();
        let relayed = tokio::spawn(async move { relay(near, far, &host).await });
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut question = String::new();
        server.read_to_string(&mut question).await.unwrap();
        assert_eq!(question, "question");
        // Slow, but not silent.
        for _ in 0..3 {
            tokio::time::sleep(HALF_CLOSED_LIMIT - Duration::from_secs(1)).await;
            server.write_all(b"x").await.unwrap();
            assert_eq!(client.read_u8().await.unwrap(), b'x');
        }
        let error = relayed.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
