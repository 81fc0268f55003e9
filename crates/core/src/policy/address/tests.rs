//! Examples and laws of URL matching.

use proptest::prelude::*;

use super::*;

#[test]
fn grants_compare_scheme_host_and_port() {
    for (pattern, url, covered) in [
        ("example.org", "https://example.org/a?b", true),
        ("example.org", "http://example.org/", true),
        ("example.org", "HTTPS://Example.ORG:443", true),
        ("example.org", "https://example.org:8443/", false),
        ("example.org", "http://example.org:443/", false),
        ("example.org:8443", "https://example.org:8443/", true),
        ("example.org:8443", "https://example.org/", false),
        ("example.org:443", "https://example.org/", true),
        ("example.org:443", "http://example.org/", false),
        ("/example.org:8443", "https://example.org/", false),
        (r"\\example.org:8443", "https://example.org/", false),
        ("https://example.org", "http://example.org/", false),
        ("https://example.org", "https://example.org/x", true),
        ("https://example.org:8443", "https://example.org:8443/x", true),
        ("https://Example.org/", "https://example.org:8080/x", false),
        ("example.org", "https://example.org.evil.net/", false),
        ("example.org", "https://evil.net/@example.org", false),
        ("example.org", "https://www.example.org/", false),
        ("example.org", "ftp://example.org/", false),
        ("*.example.org", "https://a.example.org/", false),
        ("*", "https://example.org/", false),
        ("", "https://example.org", false),
        ("https://", "https://example.org", false),
        ("https://user@example.org", "https://example.org", false),
    ] {
        assert_eq!(is_covered_by(url, pattern), covered, "{pattern} {url}");
    }
}

#[test]
fn ambiguous_urls_are_never_covered() {
    for url in [
        r"https://attacker.org\@trusted.com/",
        "https://attacker.org@trusted.com/",
        "https://trusted.com:x@attacker.org/",
        "https://trusted.com\t.attacker.org/",
        " https://trusted.com/",
        "https:trusted.com/",
        "https:/trusted.com/",
        "https:///trusted.com/",
        "https://tru%73ted.com/",
        "https://ｔrusted.com/",
        "https://trusted.com:/",
        "https://trusted.com:0443/",
        "https://trusted.com\\.attacker.org/",
        "//trusted.com/",
        "https://*.trusted.com/",
        "trusted.com",
    ] {
        for pattern in ["trusted.com", "https://trusted.com", "attacker.org", "https://attacker.org"] {
            assert!(!is_covered_by(url, pattern), "{pattern} {url}");
        }
        assert_eq!(offer(url), None, "{url}");
    }
}

#[test]
fn path_covers_paths_below_it() {
    let pattern = "https://example.org/docs";
    for (url, covered) in [
        ("https://example.org/docs", true),
        ("https://example.org/docs/", true),
        ("https://example.org/docs/a?b#c", true),
        ("https://example.org/%64ocs/a", true),
        ("https://example.org/docs2", false),
        ("https://example.org/docs/../secret", false),
        ("https://example.org/docs/%2e%2E/secret", false),
        ("https://example.org/docs/..%2fsecret", false),
        ("https://example.org/docs/..;/secret", false),
        ("https://example.org/docs/%252e%252e/secret", false),
        ("https://example.org/docs%2fa", false),
        ("https://example.org/docs/%", false),
        ("https://example.org/", false),
        ("https://example.org/Docs", false),
    ] {
        assert_eq!(is_covered_by(url, pattern), covered, "{url}");
    }
    assert!(
        !is_covered_by("https://example.org/docs?a", "https://example.org/docs?a"),
        "a query is not understood"
    );
}

#[test]
fn local_names_are_never_covered() {
    for name in [
        "localhost",
        "a.localhost",
        "localhost.",
        "LOCALHOST",
        "intranet",
        "nas.local",
        "metadata.google.internal",
        "localhost.localdomain",
        "router.home.arpa",
    ] {
        for url in [format!("http://{name}/"), format!("http://{name}:3000/")] {
            for pattern in [name.to_owned(), format!("{name}:3000"), format!("http://{name}"), url.clone()] {
                assert!(!is_covered_by(&url, &pattern), "{pattern} {url}");
            }
            assert_eq!(offer(&url), None, "{url}");
        }
    }
}

#[test]
fn local_address_is_covered_only_by_its_own_service() {
    for (pattern, url, covered) in [
        ("http://127.0.0.1:3000", "http://127.0.0.1:3000/x", true),
        ("127.0.0.1:3000", "http://127.0.0.1:3000/x", true),
        ("127.0.0.1", "http://127.0.0.1/", false),
        ("http://127.0.0.1", "http://127.0.0.1/", true),
        ("http://127.0.0.1:3000", "http://127.0.0.1:3001/", false),
        ("http://127.0.0.1:3000", "http://127.0.0.2:3000/", false),
        ("http://127.0.0.1:3000", "http://localhost:3000/", false),
        ("http://127.0.0.1:3000", "http://[::ffff:127.0.0.1]:3000/", false),
        ("http://127.0.0.1:3000", "http://0x7f.1:3000/", false),
        ("http://[::1]:3000", "http://[::1]:3000/", true),
        ("[::1]:3000", "http://[::1]:3000/", true),
        ("[::1]", "http://[::1]/", false),
        ("8.8.8.8", "https://8.8.8.8/", true),
        ("example.org", "http://169.254.169.254/", false),
    ] {
        assert_eq!(is_covered_by(url, pattern), covered, "{pattern} {url}");
    }
}

#[test]
fn offer_is_the_origin() {
    let offered = |url: &str| offer(url).map(|offer| offer.pattern);
    assert_eq!(offered("https://Example.org/a?b").as_deref(), Some("https://example.org"));
    assert_eq!(offered("http://example.org:8080/").as_deref(), Some("http://example.org:8080"));
    assert_eq!(offered("http://127.0.0.1:3000/x").as_deref(), Some("http://127.0.0.1:3000"));
    assert_eq!(offered("ftp://example.org"), None);
    assert_eq!(offer("https://example.org/a").unwrap().meaning, "any page of https://example.org");
}

#[test]
fn deny_rules_ignore_scheme_port_case_and_encoding() {
    for (pattern, url, named) in [
        ("example.org", "https://example.org:8443/a", Match::Yes),
        ("https://example.org", "http://EXAMPLE.org./", Match::Yes),
        ("example.org", "wss://example.org/", Match::Yes),
        ("example.org", "https://user:pw@example.org/", Match::Yes),
        ("example.org", r"https://example.org\@trusted.com/", Match::Yes),
        ("example.org", " https:example.org", Match::Yes),
        ("example.org:80", "https://example.org/", Match::No),
        ("example.org", "https://www.example.org/", Match::No),
        ("*.example.org", "https://www.example.org/", Match::Yes),
        ("*.example.org", "https://badexample.org/", Match::No),
        ("*", "https://example.org/", Match::Yes),
        ("example.org/private", "https://example.org/%50rivate/x", Match::Yes),
        ("example.org/private", "https://example.org//private", Match::Yes),
        ("example.org/private", "https://example.org/public", Match::No),
        ("example.org/private", "https://example.org/a/..%2fprivate", Match::Unknown),
        ("example.org", "https://93.184.216.34/", Match::Unknown),
        ("localhost", "http://127.0.0.1/", Match::Unknown),
        ("127.0.0.1", "http://localhost/", Match::Unknown),
        ("127.0.0.1", "http://2130706433/", Match::Yes),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", Match::Yes),
        ("127.0.0.1", "http://10.0.0.1/", Match::No),
        ("169.254.169.254", "https://example.org/", Match::No),
        ("8.8.8.8", "https://example.org/", Match::Unknown),
        ("example.org", "not a url", Match::Unknown),
        ("example.org", "file:///etc/passwd", Match::Unknown),
        ("exa mple", "https://example.org/", Match::Unknown),
        ("", "https://example.org/", Match::Unknown),
    ] {
        assert_eq!(is_named_by(url, pattern), named, "{pattern} {url}");
    }
}

#[test]
fn special_purpose_addresses_are_not_public() {
    for special in [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.170",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.9.9",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:0:10.0.0.1",
        "::7f00:1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:0:808:808::1",
        "2002:808:808::",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!is_public(special.parse().unwrap()), "{special}");
    }
    for public in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.0.1",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.20.0.1",
        "223.255.255.1",
        "2001:4860:4860::8888",
        "2606:4700::1111",
        "64:ff9b::8.8.8.8",
    ] {
        assert!(is_public(public.parse().unwrap()), "{public}");
    }
}

/// Generates text that looks like a URL, with characters that parsers disagree about.
fn almost_url() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec![
            "https", "http", "ftp", "HTTPS", ":", "/", "//", "://", "https://", "http://", "\\", "@", "?", "#", "[", "]",
            "[::1]", "[::ffff:7f00:1]", "trusted.com", "attacker.org", "localhost", "127.0.0.1", "0x7f.1", "2130706433",
            ".", "..", "%2e", "%2F", "%40", "%00", ":80", ":443", ":8080", ":0", "\t", "\n", " ", "ｔ", "ß", "xn--",
            "docs", "docs/", ";", "*", "-", "\u{200b}", "\u{ad}", "。",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop_oneof![
        3 => prop::collection::vec(piece.clone(), 0..10).prop_map(|pieces| pieces.concat()),
        2 => prop::collection::vec(piece, 0..6).prop_map(|pieces| format!("https://trusted.com{}", pieces.concat())),
    ]
}

/// Returns host and port as a naive parser finds them.
fn naive(url: &str) -> Option<(String, Option<u16>)> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    let after_bracket = host.rfind(']').map_or(0, |at| at + 1);
    let (name, port) = match host[after_bracket..].find(':') {
        Some(at) => host.split_at(after_bracket + at),
        None => (host, ""),
    };
    Some((name.to_lowercase(), port.strip_prefix(':').and_then(|port| port.parse().ok())))
}

proptest! {
    // For hours by hand: PROPTEST_CASES=100000000 cargo test -p baton-core --release address
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A covered URL has the scheme, host and port of the pattern, both for the standard parser and for a naive one.
    #[test]
    fn covered_urls_have_the_origin_of_the_pattern(url in almost_url(), pattern in almost_url()) {
        for pattern in [pattern.as_str(), "trusted.com", "https://trusted.com", "http://127.0.0.1:8080", "trusted.com/docs"] {
            let named = is_named_by(&url, pattern);
            if !is_covered_by(&url, pattern) {
                continue;
            }
            let parsed = Url::parse(&url).unwrap();
            let with_scheme = if pattern.contains("://") { pattern.trim().to_owned() } else { format!("{}://{}", parsed.scheme(), pattern.trim()) };
            let wanted = Url::parse(&with_scheme).unwrap();
            prop_assert!(same_origin(&parsed, &wanted), "{url:?} {pattern:?}");
            let (host, port) = naive(&url).unwrap();
            prop_assert_eq!(Some(host.as_str()), parsed.host_str());
            prop_assert_eq!(port.or(default_port(parsed.scheme())), parsed.port_or_known_default());
            prop_assert_eq!(named, Match::Yes, "a deny rule with the same pattern names it");
        }
    }

    /// An offered grant covers the URL that it is for, and no URL of another origin.
    #[test]
    fn offer_covers_its_own_origin_only(url in almost_url(), other in almost_url()) {
        if let Some(offer) = offer(&url) {
            prop_assert!(is_covered_by(&url, &offer.pattern));
            if is_covered_by(&other, &offer.pattern) {
                prop_assert!(same_origin(&Url::parse(&url).unwrap(), &Url::parse(&other).unwrap()));
            }
        }
    }
}
