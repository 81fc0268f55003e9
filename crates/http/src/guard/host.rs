//! The `Host` of a request: only allowed names pass.
//!
//! A foreign web page can make its own name resolve to this machine, and would otherwise read responses (DNS rebinding).

use std::net::Ipv6Addr;

use http::request::Parts;
use http::{StatusCode, header};

use crate::HttpOptions;
use crate::error::ApiError;

/// Checks that a request names an allowed host, once, and the same in its target and its header.
pub(super) fn check_host(options: &HttpOptions, request: &Parts) -> Result<(), ApiError> {
    let headers = &request.headers;
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_single = headers.get_all(header::HOST).iter().count() == 1;
    // If the request line contains an authority (`GET http://name/ HTTP/1.1`), it must be that of the header.
    let target = request.uri.authority().map(http::uri::Authority::as_str);
    let agrees = target.is_none_or(|target| target.eq_ignore_ascii_case(named));
    if is_single && agrees && host_of(named).is_some_and(|host| is_allowed(options, host)) {
        return Ok(());
    }
    let message = match host_of(named) {
        Some(host) => format!("Host {named:?} is not allowed; add --allow-host {host}"),
        None => format!("Host {named:?} is not a host with an optional port"),
    };
    Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message))
}

/// Whether a text is an allowed host with an optional port.
pub(crate) fn is_allowed_authority(options: &HttpOptions, authority: &str) -> bool {
    host_of(authority).is_some_and(|host| is_allowed(options, host))
}

/// Returns the host of an authority `host[:port]`. `None` if it is anything else: with user information, a port that is not a
/// number, or an invalid address in brackets.
fn host_of(authority: &str) -> Option<&str> {
    let host_end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let port_fits = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    (is_host(host) && port_fits).then_some(host)
}

/// Whether a text can be a host: letters, digits, dots, hyphens and underscores, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b)),
    }
}

fn is_allowed(options: &HttpOptions, host: &str) -> bool {
    let local = ["localhost", "127.0.0.1", "[::1]"];
    local.iter().any(|name| host.eq_ignore_ascii_case(name))
        || options.hosts.iter().any(|name| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::super::test_requests::{options, request};
    use super::*;

    #[test]
    fn only_allowed_hosts_with_valid_ports_pass() {
        let check = |host: &str| check_host(&options(), &request(&[("host", host)], "/")).is_ok();
        for good in [
            "localhost",
            "localhost:8080",
            "LOCALHOST",
            "127.0.0.1",
            "127.0.0.1:1",
            "127.0.0.1:65535",
            "[::1]",
            "[::1]:80",
            "baton.example",
            "baton.example:443",
        ] {
            assert!(check(good), "{good}");
        }
        for bad in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.evil.example:80",
            "127.0.0.1:evil.com",
            "127.0.0.1:80.evil.com",
            "127.0.0.1:80:80",
            "127.0.0.1:",
            "127.0.0.1:+80",
            "127.0.0.1:65536",
            "127.0.0.1:80@evil.com",
            "evil.com@127.0.0.1",
            "localhost@evil.com:80",
            "localhost/",
            "localhost#evil.com",
            "localhost evil.com",
            "localhost,evil.com",
            "http://localhost",
            "[::1",
            "[::1]evil.com",
            "[::1]:evil.com",
            "[::1]:80.evil.com",
            "[::1%25lo]",
            "[::2]:80",
            "[localhost]",
            "[]",
            "::1",
            "[[::1]]",
        ] {
            assert!(!check(bad), "{bad}");
        }
        assert!(check_host(&options(), &request(&[("host", "localhost"), ("host", "evil")], "/")).is_err());
        assert!(check_host(&options(), &request(&[], "/")).is_err());
    }

    #[test]
    fn request_target_and_host_header_must_agree() {
        let check =
            |target: &str| check_host(&options(), &request(&[("host", "localhost:1")], target)).is_ok();
        assert!(check("http://localhost:1/api/sessions"));
        assert!(!check("http://evil.example/api/sessions"));
        assert!(!check("http://evil.example@localhost:1/api/sessions"));
    }

    #[test]
    fn refusal_of_a_host_names_the_flag_that_allows_it() {
        let refused =
            |host: &str| check_host(&options(), &request(&[("host", host)], "/")).unwrap_err().message;
        assert_eq!(
            refused("dev.example:80"),
            "Host \"dev.example:80\" is not allowed; add --allow-host dev.example"
        );
        assert!(refused("localhost:x").contains("is not a host with an optional port"));
    }
}
