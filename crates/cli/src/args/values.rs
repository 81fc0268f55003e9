//! Values of flags whose parsers say what to write instead.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Parses an address to listen on. `localhost` is 127.0.0.1.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    match local {
        Some(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        None => text.parse().map_err(|_| {
            "write an IP address and a port, such as 127.0.0.1:8080, or 0.0.0.0:8080 for all addresses of this machine"
                .to_owned()
        }),
    }
}

/// Parses a span of time.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let span = baton_ops::span::parse(text).filter(|span| !span.is_zero());
    span.ok_or_else(|| "write a number with a unit, such as 30m, 12h or 7d".to_owned())
}

/// Parses the address of an HTTP API, without a slash at its end.
pub(super) fn api_address(text: &str) -> Result<String, String> {
    match text.starts_with("http://") || text.starts_with("https://") {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("write a URL, such as http://127.0.0.1:8080".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_on_are_parsed() {
        assert_eq!(listen_address("0.0.0.0:80").unwrap().to_string(), "0.0.0.0:80");
        assert_eq!(listen_address("[::1]:0").unwrap().to_string(), "[::1]:0");
        assert_eq!(listen_address("localhost:8080").unwrap().to_string(), "127.0.0.1:8080");
        for wrong in ["8080", ":8080", "foo", "localhost", "localhost:x", "127.0.0.1", "host.test:80"] {
            assert!(listen_address(wrong).unwrap_err().contains("127.0.0.1:8080"), "{wrong}");
        }
    }

    #[test]
    fn addresses_of_apis_are_urls() {
        assert_eq!(api_address("https://baton.example:8443/").unwrap(), "https://baton.example:8443");
        assert!(api_address("localhost:8080").unwrap_err().contains("http://127.0.0.1:8080"));
    }
}
