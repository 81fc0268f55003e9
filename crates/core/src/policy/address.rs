//! Addresses of the web: which URLs a grant or a rule is about.
//!
//! A URL is parsed by the `url` crate, once, and compared by scheme, host and port. Whoever fetches it may parse it by
//! other rules (an engine's program does), so a URL is *covered* only where its text leaves no room for that: the
//! authority that anybody would cut out of the text is the one that the parser found. Anything else is asked.
//!
//! Two directions, two measures. What allows ([`is_covered_by`]) compares exactly and fails closed. What denies
//! ([`is_named_by`]) compares broadly: scheme and case do not matter, and what cannot be compared is `Unknown`.
//!
//! This module resolves no names. [`is_public`] is for those who do: a name may lead to a private address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Position, Url};

use super::Match;

/// A grant that a person can be offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The pattern, as [`is_covered_by`] reads it.
    pub pattern: String,
    /// What it means, in words.
    pub meaning: String,
}

/// Returns the grant that can be offered for a URL: its origin. There is none for a name of this machine or its
/// network, for a URL with credentials, and for one that others could read differently.
#[must_use]
pub fn offer(url: &str) -> Option<Offer> {
    let parsed = unambiguous(url)?;
    if !is_grantable(&parsed) {
        return None;
    }
    let pattern = origin(&parsed);
    let meaning = format!("any page of {pattern}");
    Some(Offer { pattern, meaning })
}

/// Returns whether a grant or an allow rule for `pattern` covers `url`.
///
/// A pattern is an origin (`https://example.org:8443`), or a host (`example.org`, `example.org:8443`), which means both
/// `https` and `http`, on their default ports unless it names one. A path limits it to that path and what is below.
/// Names of this machine and its network (`localhost`, `printer.local`, `intranet`) are covered by nothing; an address
/// such as `http://127.0.0.1:3000` only by a pattern that says exactly that.
#[must_use]
pub fn is_covered_by(url: &str, pattern: &str) -> bool {
    let (Some(url), Some(pattern)) = (unambiguous(url), Pattern::read(pattern)) else { return false };
    let is_special_literal = literal(&url).is_some_and(|address| !is_public(address));
    is_grantable(&url)
        && pattern.is_plain()
        && pattern.covers_origin(&url)
        // A pattern for an address of this machine has to name the port: services there are told apart by it.
        && (!is_special_literal || pattern.names_service())
        && pattern.covers_path(&url)
}

/// Returns whether a deny rule for `pattern` names `url`. The scheme does not matter, nor does a port or a path that the
/// pattern leaves out; `*.example.org` names all names below `example.org`, and `*` everything.
///
/// It is `Unknown` where a name meets an address, because the one may stand for the other; where the URL or the pattern
/// is no web address; and where an encoded path could be read in two ways.
#[must_use]
pub fn is_named_by(url: &str, pattern: &str) -> Match {
    if pattern.trim() == "*" {
        return Match::Yes;
    }
    let (Ok(url), Some(pattern)) = (Url::parse(url), Pattern::read(pattern)) else { return Match::Unknown };
    let (Some(host), true) = (url.host(), matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp"))
    else {
        return Match::Unknown;
    };
    let port = pattern.port.is_none_or(|port| url.port_or_known_default() == Some(port));
    if !port {
        return Match::No;
    }
    match names_host(&pattern.host(), &host) {
        Match::Yes => pattern.names_path(&url),
        other => other,
    }
}

/// Returns whether two URLs have the same scheme, host and port.
#[must_use]
pub fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// Returns whether the host of a URL is a name of the internet: such a name has to lead to addresses that are
/// [public](is_public), because a grant can cover it.
#[must_use]
pub fn is_internet_name(url: &Url) -> bool {
    matches!(url.host(), Some(Host::Domain(name)) if !is_local_name(name))
}

/// Returns the scheme, host and port of a URL, as a pattern.
#[must_use]
pub fn origin(url: &Url) -> String {
    url[..Position::BeforePath].to_owned()
}

/// Returns whether an address is one of the public internet: not of this machine, its network or a special purpose.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The special blocks of the IANA registry. `Ipv4Addr::is_global` is not stable yet.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match (a, b, c) {
        // This network, private, loopback; multicast, reserved and broadcast.
        (0 | 10 | 127 | 224..=255, _, _) => true,
        // Carrier-grade NAT, link-local, private.
        (100, 64..=127, _) | (169, 254, _) | (172, 16..=31, _) | (192, 168, _) => true,
        // Protocol assignments, documentation, 6to4 relays, benchmarks.
        (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) | (198, 18 | 19, _) => true,
        _ => false,
    };
    !special
}

/// Only `2000::/3` is public; unique-local, link-local, multicast, loopback and IPv4-mapped addresses are all outside it.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(embedded) = behind_nat64(address) {
        return is_public_v4(embedded);
    }
    let [a, b, ..] = address.segments();
    let special = match (a, b) {
        // Protocol assignments with Teredo, documentation, 6to4.
        (0x2001, 0..=0x01ff | 0x0db8) | (0x2002, _) | (0x3fff, 0..=0x0fff) => true,
        _ => false,
    };
    (0x2000..=0x3fff).contains(&a) && !special
}

/// The IPv4 address that a NAT64 address of the well-known prefix (`64:ff9b::/96`) stands for.
fn behind_nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = address.segments() else { return None };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

/// Parses a web address that has one reading only: no credentials, nothing that a parser would drop or rewrite on the
/// way to the host.
fn unambiguous(text: &str) -> Option<Url> {
    if text.contains(|c: char| c == '\\' || c.is_ascii_control() || c.is_whitespace()) {
        return None;
    }
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let (scheme, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = url.host_str()?;
    let agrees = scheme.eq_ignore_ascii_case(url.scheme())
        && match authority.get(..host.len()) {
            Some(name) if name.eq_ignore_ascii_case(host) => {
                let port = url.port_or_known_default().map(|port| format!(":{port}"));
                let written = &authority[host.len()..];
                // Left out where it is the default one.
                written.is_empty() && url.port().is_none() || port.as_deref() == Some(written)
            }
            _ => false,
        };
    agrees.then_some(url)
}

/// Whether a grant may be about this URL at all: one for an address may, one for a name of this machine may not.
fn is_grantable(url: &Url) -> bool {
    match url.host() {
        // A star is a letter to the parser, and a pattern to us.
        Some(Host::Domain(name)) => !is_local_name(name) && !name.contains('*'),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => true,
        None => false,
    }
}

/// Whether a name is one of this machine or its network. A name without a dot is: what it means depends on where one is.
fn is_local_name(name: &str) -> bool {
    const ZONES: [&str; 6] = ["localhost", "localdomain", "local", "internal", "lan", "home.arpa"];
    let name = name.trim_end_matches('.');
    let below =
        |zone: &str| name.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !name.contains('.') || ZONES.into_iter().any(below)
}

fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

/// What a grant or a rule is about.
struct Pattern {
    /// With the scheme that was given, or `https`.
    url: Url,
    has_scheme: bool,
    /// The one that was written down.
    port: Option<u16>,
    /// Every name below the host.
    below: bool,
}

impl Pattern {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let has_scheme = text.contains("://");
        let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
        let (below, rest) = rest.strip_prefix("*.").map_or((false, rest), |rest| (true, rest));
        let url = Url::parse(&format!("{scheme}://{rest}")).ok()?;
        url.host()?;
        let authority = rest.split(['/', '?', '#', '\\']).next()?;
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Some(Self { url, has_scheme, port, below })
    }

    /// Whether it can allow something: it says where, and nothing that would have to be guessed at.
    fn is_plain(&self) -> bool {
        let url = &self.url;
        let bare = url.username().is_empty() && url.password().is_none();
        bare && !self.below && url.query().is_none() && url.fragment().is_none()
    }

    fn host(&self) -> Wanted<'_> {
        match self.url.host() {
            Some(Host::Domain(name)) if self.below => Wanted::Below(name),
            Some(host) => Wanted::Host(host),
            None => Wanted::Nothing,
        }
    }

    fn covers_origin(&self, url: &Url) -> bool {
        let port = match self.has_scheme {
            true => self.url.port_or_known_default(),
            false => self.port.or_else(|| default_port(url.scheme())),
        };
        let scheme = !self.has_scheme || self.url.scheme() == url.scheme();
        scheme && self.url.host() == url.host() && port.is_some() && port == url.port_or_known_default()
    }

    /// Whether it says which service of a machine is meant.
    fn names_service(&self) -> bool {
        self.has_scheme || self.port.is_some()
    }

    fn covers_path(&self, url: &Url) -> bool {
        match self.url.path() {
            "/" => true,
            path => {
                let (Some(wanted), Some(path)) = (segments(path), segments(url.path())) else { return false };
                path.starts_with(&wanted)
            }
        }
    }

    fn names_path(&self, url: &Url) -> Match {
        if self.url.path() == "/" {
            return Match::Yes;
        }
        // Servers disagree about case, and about slashes that follow each other.
        let lower = |path: &str| {
            let mut segments = segments(path)?;
            segments.retain(|segment| !segment.is_empty());
            segments.iter_mut().for_each(|segment| segment.make_ascii_lowercase());
            Some(segments)
        };
        match (lower(self.url.path()), lower(url.path())) {
            (Some(wanted), Some(path)) if path.starts_with(&wanted) => Match::Yes,
            (Some(_), Some(_)) => Match::No,
            _ => Match::Unknown,
        }
    }
}

/// A default port of the schemes that grants are for.
fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    }
}

enum Wanted<'a> {
    Host(Host<&'a str>),
    Below(&'a str),
    Nothing,
}

fn names_host(wanted: &Wanted<'_>, host: &Host<&str>) -> Match {
    let yes = |is: bool| if is { Match::Yes } else { Match::No };
    match (wanted, host) {
        (Wanted::Nothing, _) => Match::Unknown,
        (Wanted::Below(zone), Host::Domain(name)) => {
            let zone = zone.trim_end_matches('.');
            let rest = name.trim_end_matches('.').strip_suffix(zone);
            yes(rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
        }
        (Wanted::Host(Host::Domain(wanted)), Host::Domain(name)) => {
            yes(wanted.trim_end_matches('.') == name.trim_end_matches('.'))
        }
        // The name may lead to that very address.
        (Wanted::Below(_) | Wanted::Host(Host::Domain(_)), _) => Match::Unknown,
        (Wanted::Host(wanted), Host::Domain(name)) => match address_of(wanted) {
            // A name of the internet that leads there is stopped when it is resolved.
            Some(address) if !is_public(address) && !is_local_name(name) => Match::No,
            _ => Match::Unknown,
        },
        (Wanted::Host(wanted), host) => yes(address_of(wanted) == address_of(host)),
    }
}

/// The address of a host, in its shortest family: mapped and translated IPv4 addresses are what they stand for.
fn address_of(host: &Host<&str>) -> Option<IpAddr> {
    match host {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => {
            Some(behind_nat64(*address).map_or_else(|| address.to_canonical(), IpAddr::V4))
        }
    }
}

/// The parts of a path, decoded; none if a server could read it as another one: an encoded separator, dots that a
/// server may take for the directory above, something encoded twice.
fn segments(path: &str) -> Option<Vec<Vec<u8>>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let decoded = path.split('/').map(decode).collect::<Option<Vec<_>>>()?;
    let is_plain = |segment: &Vec<u8>| {
        !segment.starts_with(b"..")
            && !segment.iter().any(|byte| matches!(byte, b'/' | b'\\' | b'%' | 0..0x20))
    };
    decoded.iter().all(is_plain).then_some(decoded)
}

fn decode(segment: &str) -> Option<Vec<u8>> {
    let mut bytes = segment.bytes();
    let mut decoded = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        decoded.push(match byte {
            b'%' => {
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            plain => plain,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests;
