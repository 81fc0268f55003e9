//! Decides which URLs a grant covers, and which a rule names.
//!
//! A URL is parsed by the `url` crate, once, and compared by scheme, host and port. The program that fetches it (an engine,
//! for example) may use another parser, so a URL is *covered* only if its text is unambiguous: the authority that even a
//! naive parser would find is the one that `url` found. Any other URL needs approval.
//!
//! Allowing and denying compare differently. [`is_covered_by`] compares exactly, and fails closed. [`is_named_by`] compares
//! broadly: scheme and case do not matter, and a URL that cannot be compared is `Unknown`.
//!
//! This module resolves no names. [`is_public`] is for callers that do: a name may resolve to a private address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Position, Url};

use super::Match;

/// A grant that can be offered for a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlOffer {
    /// The pattern, as [`is_covered_by`] reads it.
    pub pattern: String,
    /// What the grant covers, as text for the user.
    pub meaning: String,
}

/// Returns the grant that can be offered for a URL: its origin. There is none for a local name, for a URL with
/// credentials, and for an ambiguous URL.
#[must_use]
pub fn offer(url: &str) -> Option<UrlOffer> {
    let parsed = unambiguous(url)?;
    if !is_grantable(&parsed) {
        return None;
    }
    let pattern = origin(&parsed);
    let meaning = format!("any page of {pattern}");
    Some(UrlOffer { pattern, meaning })
}

/// Returns whether a grant or an allow rule for `pattern` covers `url`.
///
/// A pattern is an origin (`https://example.org:8443`), or a host (`example.org`, `example.org:8443`), which means both
/// `https` and `http`, on their default ports unless it names one. A path limits it to that path and paths below it.
/// Local names (`localhost`, `printer.local`, `intranet`) are never covered; a local address such as
/// `http://127.0.0.1:3000` only by a pattern for exactly that address and port.
#[must_use]
pub fn is_covered_by(url: &str, pattern: &str) -> bool {
    let (Some(url), Some(pattern)) = (unambiguous(url), Pattern::read(pattern)) else { return false };
    let is_special_literal = literal(&url).is_some_and(|address| !is_public(address));
    is_grantable(&url)
        && pattern.is_plain()
        && pattern.covers_origin(&url)
        // A pattern for a local address has to name the service: each port is a different one.
        && (!is_special_literal || pattern.names_service())
        && pattern.covers_path(&url)
}

/// Returns whether a deny rule for `pattern` names `url`. The scheme does not matter, nor does a port or a path that the
/// pattern leaves out; `*.example.org` stands for all names below `example.org`, and `*` for every URL.
///
/// The match is `Unknown` between a name and an address, because the name may resolve to the address; for a URL or
/// pattern that is no web address; and for an ambiguous path.
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

/// Returns whether the host of a URL is, as it is written, this machine or in its network.
#[must_use]
pub fn is_private(url: &str) -> bool {
    match Url::parse(url).ok().as_ref().and_then(Url::host) {
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
        Some(Host::Domain(name)) => is_local_name(name),
        None => true,
    }
}

/// Returns whether two URLs have the same scheme, host and port.
#[must_use]
pub fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// Returns whether the host of a URL is a public name. Such a name has to resolve to [public](is_public) addresses,
/// because a grant can cover it.
#[must_use]
pub fn is_internet_name(url: &Url) -> bool {
    matches!(url.host(), Some(Host::Domain(name)) if !is_local_name(name))
}

/// Returns the scheme, host and port of a URL, as a pattern.
#[must_use]
pub fn origin(url: &Url) -> String {
    url[..Position::BeforePath].to_owned()
}

/// Returns whether an address is public: neither local, nor private, nor reserved.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Excludes the special-purpose blocks of the IANA registry. `Ipv4Addr::is_global` is not stable yet.
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

/// Accepts `2000::/3` only: unique-local, link-local, multicast, loopback and IPv4-mapped addresses are outside it.
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

/// Returns the IPv4 address inside a NAT64 address of the well-known prefix (`64:ff9b::/96`).
fn behind_nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = address.segments() else { return None };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
}

/// Parses an unambiguous URL: without credentials, and without anything that a parser would drop or rewrite before the
/// host.
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
                // The default port may be left out.
                written.is_empty() && url.port().is_none() || port.as_deref() == Some(written)
            }
            _ => false,
        };
    agrees.then_some(url)
}

/// Whether a grant can cover the URL: not if its host is a local name.
fn is_grantable(url: &Url) -> bool {
    match url.host() {
        // The parser takes a star for a letter; in a pattern it is a wildcard.
        Some(Host::Domain(name)) => !is_local_name(name) && !name.contains('*'),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => true,
        None => false,
    }
}

/// Whether a name is local to this machine or its network. A name without a dot is: its meaning depends on the network.
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

/// Pattern of a grant or a rule.
struct Pattern {
    /// With the given scheme, or `https`.
    url: Url,
    has_scheme: bool,
    /// The port that the pattern names.
    port: Option<u16>,
    /// Whether it stands for every name below the host.
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
        Some(Self { url, has_scheme, port: written_port(rest), below })
    }

    /// Whether the pattern can allow a URL: it consists of an origin and a path only.
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

    /// Whether the pattern names one service of the host.
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
        // Servers disagree about case, and about repeated slashes.
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

/// Returns the port that is written after a host. The parser drops the default port of a scheme, and only that; it also skips
/// slashes before the host, so the text itself must not be searched.
fn written_port(rest: &str) -> Option<u16> {
    ["https", "http"].into_iter().find_map(|scheme| Url::parse(&format!("{scheme}://{rest}")).ok()?.port())
}

/// Returns the default port of the schemes that grants cover.
fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    }
}

/// Host of a pattern.
enum Wanted<'a> {
    Host(Host<&'a str>),
    /// Every name below this one.
    Below(&'a str),
    Nothing,
}

/// Whether the host of a pattern names the host of a URL.
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
        // The name may resolve to that address.
        (Wanted::Below(_) | Wanted::Host(Host::Domain(_)), _) => Match::Unknown,
        (Wanted::Host(wanted), Host::Domain(name)) => match address_of(wanted) {
            // A public name that resolves to a private address is refused when it is resolved.
            Some(address) if !is_public(address) && !is_local_name(name) => Match::No,
            _ => Match::Unknown,
        },
        (Wanted::Host(wanted), host) => yes(address_of(wanted) == address_of(host)),
    }
}

/// Returns the address of a host; for mapped and translated IPv4 addresses, the IPv4 address.
fn address_of(host: &Host<&str>) -> Option<IpAddr> {
    match host {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => {
            Some(behind_nat64(*address).map_or_else(|| address.to_canonical(), IpAddr::V4))
        }
    }
}

/// Decodes the segments of a path; none if the path is ambiguous: with an encoded separator, dots that a server may take
/// for the parent directory, or something encoded twice.
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
