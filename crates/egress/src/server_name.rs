//! Reads the server name that a TLS client asks for (SNI).
//!
//! A program could open a tunnel to an allowed host, and ask the machine there for another site (domain fronting). The name
//! in the first message of the handshake is all that can be compared: TLS is not opened, and what is inside may name yet
//! another site.

use rustls::server::Acceptor;

use crate::Host;

/// First byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// Finds the server name in the first bytes that a client sends.
#[derive(Default)]
pub(crate) struct ServerNameReader {
    /// None when nothing has been read.
    acceptor: Option<Acceptor>,
}

/// What is known about the server name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServerName {
    /// The first message is not complete.
    Incomplete,
    /// The client asks for this name.
    Named(String),
    /// The client asks for no name, or does not speak TLS as we know it.
    None,
}

impl ServerNameReader {
    /// Reads the next bytes of the client. Not to be called again when the result is known.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> ServerName {
        if self.acceptor.is_none() && bytes.first() != Some(&HANDSHAKE) {
            return ServerName::None;
        }
        let acceptor = self.acceptor.get_or_insert_default();
        while !bytes.is_empty() {
            if !matches!(acceptor.read_tls(&mut bytes), Ok(1..)) {
                return ServerName::None;
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let name = accepted.client_hello().server_name().map(str::to_owned);
                    return name.map_or(ServerName::None, ServerName::Named);
                }
                Err(_) => return ServerName::None,
            }
        }
        ServerName::Incomplete
    }
}

/// Whether a client that opened a tunnel to this host may ask for a server name. A tunnel to an address may be for any name.
pub(crate) fn is_for(host: &Host, server_name: &str) -> bool {
    host.name().is_none() || Host::parse(server_name).as_ref() == Ok(host)
}
