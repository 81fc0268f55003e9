//! Examples and laws of the parser.

use baton_core::policy::address::{is_covered_by, offer};
use proptest::prelude::*;
use url::Url;

use super::*;

fn tunnel(authority: &str) -> Result<Target, BadTarget> {
    Target::parse(Transport::Tunnel, authority)
}

fn plain(authority: &str) -> Result<Target, BadTarget> {
    Target::parse(Transport::PlainHttp, authority)
}

#[test]
fn accepted_spellings_have_one_canonical_form() {
    for (text, canonical) in [
        ("example.org:443", "example.org:443"),
        ("EXAMPLE.Org:443", "example.org:443"),
        ("example.org.:443", "example.org:443"),
        ("a-b.c_d.example:8443", "a-b.c_d.example:8443"),
        ("localhost:3000", "localhost:3000"),
        ("xn--bcher-kva.example:443", "xn--bcher-kva.example:443"),
        ("1password.com:443", "1password.com:443"),
        ("127.0.0.1:3000", "127.0.0.1:3000"),
        ("127.0.0.1.:3000", "127.0.0.1:3000"),
        ("[::1]:443", "[::1]:443"),
        ("[2606:4700:0::1111]:443", "[2606:4700::1111]:443"),
        ("[::FFFF:1.2.3.4]:443", "[::ffff:102:304]:443"),
        ("example.org:1", "example.org:1"),
        ("example.org:65535", "example.org:65535"),
    ] {
        assert_eq!(tunnel(text).map(|target| target.to_string()).as_deref(), Ok(canonical), "{text}");
    }
}

#[test]
fn hostile_spellings_are_refused() {
    for host in [
        "",
        ".",
        "..",
        ".example.org",
        "example..org",
        "example.org..",
        "evil.example\0.example.org",
        "example.org\n",
        "example.org\r\nHost: evil.example",
        " example.org",
        "example.org ",
        "exa\tmple.org",
        "user@example.org",
        "user:password@example.org",
        "example.org@evil.example",
        "example.org#",
        "example.org/",
        "example.org\\.evil.example",
        "example.org?",
        "*.example.org",
        "*",
        "exa%6dple.org",
        "bücher.example",
        "ｅxample.org",
        "example。org",
        "exam\u{ad}ple.org",
        "xn--.example",
        "xn--a.example",
        "-example.org",
        "example-.org",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "0x7f000001",
        "0X7F.0.0.1",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.01",
        "127.0.0.256",
        "127.0.0.1.1",
        "1.2.3",
        "example.0x10",
        "example.1",
        "0",
        "::1",
        "[::1",
        "::1]",
        "[]",
        "[::1%lo]",
        "[::1%25lo]",
        "[fe80::1%1]",
        "[127.0.0.1]",
        "[example.org]",
        "[[::1]]",
        "[::1].",
        "[::1]x",
        "x[::1]",
        "[v1.x]",
    ] {
        assert!(tunnel(&format!("{host}:443")).is_err(), "{host:?}");
        assert!(plain(host).is_err(), "{host:?}");
    }
    let long = |length: usize| "a".repeat(length);
    assert!(Host::parse(&long(63)).is_ok() && Host::parse(&long(64)).is_err());
    let name = [long(63), long(63), long(63), long(61)].join(".");
    assert!(Host::parse(&name).is_ok() && Host::parse(&format!("{name}a")).is_err());
}

#[test]
fn ports_are_plain_numbers() {
    for port in ["", ":", ":0", ":00", ":0443", ":+443", ":-1", ":65536", ":4 43", ":443:443", ":https", ":٤"]
    {
        assert_eq!(tunnel(&format!("example.org{port}")), Err(BadTarget::Port), "{port}");
    }
    assert_eq!(plain("example.org").map(|target| target.port), Ok(80));
    assert_eq!(plain("example.org:"), Err(BadTarget::Port));
}

#[test]
fn url_is_what_grants_are_compared_with() {
    let url = |target: Result<Target, BadTarget>| target.unwrap().url();
    assert_eq!(url(tunnel("example.org:443")), "https://example.org");
    assert_eq!(url(tunnel("example.org:80")), "http://example.org");
    assert_eq!(url(tunnel("127.0.0.1:3000")), "https://127.0.0.1:3000");
    assert_eq!(url(plain("example.org:443")), "http://example.org:443");
    assert_eq!(url(plain("127.0.0.1:3000")), "http://127.0.0.1:3000");
    assert_eq!(url(plain("[::1]")), "http://[::1]");
    assert!(is_covered_by(&url(tunnel("example.org:443")), "example.org"));
    assert!(is_covered_by(&url(plain("example.org")), "example.org"));
    assert!(is_covered_by(&url(tunnel("example.org:80")), "example.org"));
    for other_port in [tunnel("example.org:22"), plain("example.org:443"), plain("example.org:8080")] {
        assert!(!is_covered_by(&url(other_port.clone()), "example.org"), "{other_port:?}");
    }
    assert!(is_covered_by(&url(tunnel("example.org:22")), "example.org:22"));
}

fn almost_authority() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec![
            "example", "org", "localhost", "127", "0", "1", "0x7f", "017", "255", ".", ".", ".", "-", "_", ":", ":80",
            ":443", "@", "[", "]", "[::1]", "::", "ffff", "%", "%25", "%2e", "/", "\\", "#", "?", "\0", "\n", " ", "xn--",
            "xn--bcher-kva", "ü", "。", "\u{ad}", "*", "EXAMPLE",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The URL of an accepted target is read alike by the parser of URLs and by the policy, and is its own canonical form.
    #[test]
    fn accepted_targets_are_read_alike(authority in almost_authority(), tunneled: bool) {
        let transport = if tunneled { Transport::Tunnel } else { Transport::PlainHttp };
        let Ok(target) = Target::parse(transport, &authority) else { return Ok(()) };
        let url = Url::parse(&target.url()).unwrap();
        prop_assert_eq!(url.host_str().unwrap(), target.host.to_string());
        prop_assert_eq!(url.port_or_known_default(), Some(target.port));
        prop_assert_eq!((url.username(), url.password(), url.path()), ("", None, "/"));
        prop_assert_eq!(Target::parse(transport, &target.to_string()), Ok(target.clone()));
        if let Some(offer) = offer(&target.url()) {
            prop_assert!(is_covered_by(&target.url(), &offer.pattern));
        }
    }

    /// The same for text that is nearly always accepted.
    #[test]
    fn ordinary_names_are_accepted(name in "[a-z]([a-z0-9]{0,8}[a-z])?(\\.[a-z]{2,6}){0,3}\\.?", port in 1_u16..) {
        prop_assume!(!name.starts_with("xn"));
        let target = Target::parse(Transport::Tunnel, &format!("{name}:{port}")).unwrap();
        prop_assert_eq!(target.host.name(), Some(name.trim_end_matches('.')));
        prop_assert_eq!(target.port, port);
    }
}
