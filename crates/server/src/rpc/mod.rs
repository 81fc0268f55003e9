//! The JSON-RPC door: what the official SDKs speak, on standard input and output or on TCP.
//!
//! [`connection`] reads frames and writes answers, [`methods`] is the table of everything that can be called, and
//! [`dialect`] holds what differs between SDK versions. [`tcp`] accepts connections within [`limits`] from
//! the users that [`peer`] finds in the [`socket_table`]; [`refusal`] turns the others away.

mod attachment;
mod connection;
pub(crate) mod dialect;
mod errors;
mod limits;
mod methods;
mod peer;
mod refusal;
mod socket_table;
mod tcp;

use std::sync::Arc;

use bytes::BytesMut;

use self::connection::Connection;
pub use self::limits::RpcLimits;
pub(crate) use self::methods::UserInput;
pub(crate) use self::tcp::serve_tcp;
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
