//! The JSON-RPC door: what the official SDKs speak, on standard input and output or on TCP.
//!
//! [`connection`] reads frames and writes answers, [`methods`] is the table of everything that can be called, and
//! [`dialect`] holds what differs between SDK versions.

mod attachment;
mod connection;
pub(crate) mod dialect;
mod errors;
mod methods;

use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use self::connection::Connection;
pub(crate) use self::methods::UserInput;
use crate::Server;
use crate::wire::{Outbox, stdio};

/// Serves the one SDK that started us, until it closes our input.
pub(crate) async fn serve_stdio(server: &Arc<Server>) -> std::io::Result<()> {
    let (input, output) = (stdio::Input::open()?, stdio::Output::open()?);
    // A task of the server's, so that it comes to its own end when the server stops, and nobody awaits it any more.
    drop(server.tasks.spawn(serve_pipes(server.clone(), input, output)).await);
    Ok(())
}

async fn serve_pipes(server: Arc<Server>, mut input: stdio::Input, output: stdio::Output) {
    let outbox = Outbox::new(output, server.options.max_backlog);
    let connection = Connection::new(&server, outbox.clone());
    let writer = server.tasks.spawn(async move { outbox.run().await });
    let mut buffer = BytesMut::with_capacity(64 * 1024);
    loop {
        let heard = async {
            let read = input.read(&mut buffer).await;
            matches!(read, Ok(n) if n > 0) && connection.receive(&mut buffer).await.is_ok()
        };
        if !connection.until_over(heard).await {
            break;
        }
    }
    connection.close();
    drop(writer.await);
}

/// Serves whoever connects, until the server stops.
pub(crate) async fn serve_tcp(server: &Arc<Server>, listener: TcpListener) -> std::io::Result<()> {
    loop {
        let accepted = tokio::select! {
            () = server.stopping.cancelled() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => drop(server.tasks.spawn(serve_stream(server.clone(), stream))),
            // Out of descriptors, or a client that was gone before we looked: others may still come.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve_stream(server: Arc<Server>, stream: TcpStream) {
    // Small frames are answers that somebody waits for.
    drop(stream.set_nodelay(true));
    let (mut reader, writer) = stream.into_split();
    let outbox = Outbox::new(writer, server.options.max_backlog);
    let connection = Connection::new(&server, outbox.clone());
    let writer = server.tasks.spawn(async move { outbox.run().await });
    let mut buffer = BytesMut::with_capacity(8 * 1024);
    loop {
        let heard = async {
            let read = reader.read_buf(&mut buffer).await;
            let went_well = matches!(read, Ok(n) if n > 0) && connection.receive(&mut buffer).await.is_ok();
            acknowledge(reader.as_ref());
            went_well
        };
        if !connection.until_over(heard).await {
            break;
        }
    }
    connection.close();
    drop(writer.await);
}

/// Acknowledges at once what has come. SDKs write a frame's length and its body one after the other, and their kernel
/// keeps the body back until the length is acknowledged; ours would take its time, 40 ms for every call.
fn acknowledge(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}
