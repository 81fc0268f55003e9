//! The parser of hosts and authorities.
//!
//! Programs, proxies, resolvers and policies read hostile host names differently, and each difference is a hole: one of them
//! checks a name, and another connects to something else. So a host is parsed once, only spellings that all of them read
//! alike are accepted, and all other code uses the result.

use std::fmt;
use std::net::IpAddr;

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 253;
/// Maximum length of a part between dots, in bytes.
const MAX_LABEL: usize = 63;
/// Port of plain HTTP.
pub(crate) const HTTP_PORT: u16 = 80;
/// Port of HTTP over TLS.
const HTTPS_PORT: u16 = 443;

/// Name or address of a host, in its canonical spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host(url::Host<String>);

/// Why text is not accepted as a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    /// The host has no accepted spelling.
    #[error(
        "the host is neither a plain name (letters, digits, hyphens, dots) nor an address in its usual notation"
    )]
    Host,
    /// The port is missing, or no number from 1 to 65535.
    #[error("the port is missing, or not a number from 1 to 65535")]
    Port,
}

impl Host {
    /// Parses a host: a name, an IPv4 address as four decimal numbers, or an IPv6 address in brackets. Letter case and one
    /// trailing dot do not matter.
    ///
    /// # Errors
    /// When there is another reading of the text, however strange.
    pub fn parse(text: &str) -> Result<Self, BadTarget> {
        if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return address
                .parse()
                .map(|address| Self(url::Host::Ipv6(address)))
                .map_err(|_| BadTarget::Host);
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.len() > MAX_NAME || !name.split('.').all(is_label) {
            return Err(BadTarget::Host);
        }
        // Finds numbers in all notations, and invalid Punycode. What it would spell in another way is refused.
        match url::Host::parse(&name) {
            Ok(host) if host.to_string() == name => Ok(Self(host)),
            _ => Err(BadTarget::Host),
        }
    }

    /// Returns the name, unless the host is an address.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name_or_address().ok()
    }

    /// Returns the name, or the address as `Err`.
    pub(crate) fn name_or_address(&self) -> Result<&str, IpAddr> {
        match &self.0 {
            url::Host::Domain(name) => Ok(name),
            url::Host::Ipv4(address) => Err((*address).into()),
            url::Host::Ipv6(address) => Err((*address).into()),
        }
    }
}

/// Writes the host as in a URL: IPv6 addresses have brackets.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// How a program uses its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A tunnel (`CONNECT`), usually for TLS.
    Tunnel,
    /// A plain HTTP request, which the proxy reads.
    PlainHttp,
}

/// Where a program wants to connect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// How the connection is used.
    pub transport: Transport,
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Target {
    /// Parses the authority of a request. Only a plain HTTP request may leave out the port.
    ///
    /// # Errors
    /// When the authority has user information, or a host or port that programs could read differently.
    pub fn parse(transport: Transport, authority: &str) -> Result<Self, BadTarget> {
        let after_brackets = authority.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match authority[after_brackets..].find(':') {
            Some(colon) => authority.split_at(after_brackets + colon),
            None => (authority, ""),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => parse_port(digits)?,
            None if transport == Transport::PlainHttp => HTTP_PORT,
            None => return Err(BadTarget::Port),
        };
        Ok(Self { transport, host: Host::parse(host)?, port })
    }

    /// Returns the origin as a URL, which rules and grants are compared with. A tunnel to port 80 carries plain HTTP: some
    /// programs, such as Node's `fetch`, open tunnels for all URLs.
    #[must_use]
    pub fn url(&self) -> String {
        match (self.transport, self.port) {
            (_, HTTP_PORT) => format!("http://{}", self.host),
            (Transport::Tunnel, HTTPS_PORT) => format!("https://{}", self.host),
            (Transport::Tunnel, _) => format!("https://{self}"),
            (Transport::PlainHttp, _) => format!("http://{self}"),
        }
    }
}

/// Writes host and port.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

fn parse_port(digits: &str) -> Result<u16, BadTarget> {
    // The number's own parser accepts a plus sign and leading zeros.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_plain).ok_or(BadTarget::Port)
}

#[cfg(test)]
mod tests;
