//! Tunnels (`CONNECT`).

use http::{Request, Uri};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::problem::Problem;
use crate::relay::relay;
use crate::{Host, Target, Transport};

/// A tunnel that was accepted.
pub(super) struct Tunnel {
    client: OnUpgrade,
    server: TcpStream,
    host: Host,
}

impl Tunnel {
    pub(super) fn new(request: Request<Incoming>, server: TcpStream, host: Host) -> Self {
        Self { client: hyper::upgrade::on(request), server, host }
    }

    /// Relays until both ends have closed.
    pub(super) async fn run(self) {
        let Ok(client) = self.client.await else { return };
        if let Err(error) = relay(TokioIo::new(client), self.server, &self.host).await {
            tracing::debug!(host = %self.host, %error, "a tunnel of a sandbox ended");
        }
    }
}

/// Returns the target of a `CONNECT` request.
pub(super) fn target(uri: &Uri) -> Result<Target, Problem> {
    match (uri.scheme(), uri.authority()) {
        (None, Some(authority)) => {
            Target::parse(Transport::Tunnel, authority.as_str()).map_err(Problem::bad_target)
        }
        _ => Err(Problem::malformed("CONNECT needs a host and a port, such as example.org:443")),
    }
}
