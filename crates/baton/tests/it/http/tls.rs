//! TLS on the HTTP address.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncBufReadExt;

use crate::{baton, eventually};

/// Runs curl, which verifies the certificate.
async fn curl(arguments: &[&str]) -> (bool, String) {
    let mut command = tokio::process::Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "20"]).args(arguments);
    let output = command.stdin(Stdio::null()).output().await.expect("curl is installed");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test]
async fn tls_serves_requests_and_streams() {
    let program = baton();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (program.work().join("cert.pem"), program.work().join("key.pem"));
    std::fs::write(&cert, pair.cert.pem()).unwrap();
    std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let server = program.serve_http(&["--demo", "--tls-cert", cert, "--tls-key", key]).await;
    let port = server.http.unwrap().port();
    let (url, bearer) = (
        format!("https://localhost:{port}/api/sessions"),
        format!("Authorization: Bearer {}", program.token()),
    );
    let (fine, said) = curl(&["--cacert", cert, "-H", &bearer, &url]).await;
    assert!(fine && said.contains("\"sessions\""), "{said}");
    let json = "Content-Type: application/json";
    let (fine, said) =
        curl(&["--cacert", cert, "-H", &bearer, "-H", json, "-d", r#"{"id":"s"}"#, &url]).await;
    assert!(fine, "{said}");
    let (events, stream) = (format!("{url}/s/events"), "Accept: text/event-stream");
    let read = ["--no-buffer", "--cacert", cert, "-H", &bearer, "-H", stream, &events];
    let delete = async {
        let metrics = format!("https://localhost:{port}/api/metrics");
        let prompt = format!("{url}/s/prompts");
        let shows = async |url: &str, text: &str| {
            curl(&["--cacert", cert, "-H", &bearer, url]).await.1.contains(text).then_some(())
        };
        eventually("the stream", async || shows(&metrics, "baton_http_streams 1").await).await;
        curl(&["--cacert", cert, "-H", &bearer, "-H", json, "-d", r#"{"text":"hello"}"#, &prompt]).await;
        eventually("the outcome", async || shows(&events, "baton.turn_settled").await).await;
        curl(&["--cacert", cert, "-H", &bearer, "-X", "DELETE", &format!("{url}/s")]).await;
    };
    let ((fine, said), ()) = tokio::join!(curl(&read), delete);
    assert!(fine && said.starts_with(": connected\n\nid: 1\nevent: session.start\n"), "{said}");
    assert!(said.contains("event: baton.turn_settled\n"), "later events are streamed, too: {said}");
    let (_, said) = curl(&["--cacert", cert, &url]).await;
    assert!(said.contains("unauthorized"), "TLS does not replace the token: {said}");
    let (fine, _) = curl(&[&url]).await;
    assert!(!fine, "an unknown certificate is not trusted");
    let (fine, said) = curl(&[&format!("http://localhost:{port}/api/health")]).await;
    assert!(!fine, "plain HTTP is refused: {said}");

    for (arguments, expected) in [
        (&["--tls-cert", cert][..], "--tls-cert: TLS needs the key of the certificate"),
        (&["--tls-cert", key, "--tls-key", key], "certificate cannot be read"),
        (&["--tls-cert", cert, "--tls-key", cert], "key cannot be read"),
        (&["--tls-cert", "/nonexistent", "--tls-key", key], "/nonexistent"),
    ] {
        let serve = ["serve", "--demo", "--http", "127.0.0.1:0"];
        let refused = program.run(&[&serve[..], arguments].concat()).await;
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
}

/// Makes a certificate as people do: signed by itself, and marked as an authority, which verifiers refuse as a server's own. It is
/// for localhost, or has only the subject that older instructions give it.
async fn openssl_certificate(directory: &std::path::Path, name: &str, is_named: bool) -> (String, String) {
    let file = |ending: &str| directory.join(format!("{name}.{ending}")).to_str().unwrap().to_owned();
    let (cert, key) = (file("pem"), file("key"));
    let mut openssl = tokio::process::Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
    if is_named {
        openssl.args(["-addext", "subjectAltName=DNS:localhost"]);
    }
    openssl.args(["-keyout", &key, "-out", &cert]);
    let made = openssl.stdin(Stdio::null()).output().await.expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (cert, key)
}

#[tokio::test]
async fn attach_accepts_a_self_signed_certificate_that_is_named() {
    let program = baton();
    let (cert, key) = openssl_certificate(&program.work(), "server", true).await;
    let (other, _) = openssl_certificate(&program.work(), "other", true).await;
    let server = program.serve_http(&["--demo", "--tls-cert", &cert, "--tls-key", &key]).await;
    let port = server.http.unwrap().port();
    let token = program.home().join("token");
    let arguments = |host: &str, ca: Option<&str>| {
        let (url, token) = (format!("https://{host}:{port}"), token.to_str().unwrap());
        let mut arguments =
            ["attach", "--new", "--json", "--token-file", token, "--url", &url].map(str::to_owned).to_vec();
        arguments.extend(ca.into_iter().flat_map(|ca| ["--ca".to_owned(), ca.to_owned()]));
        arguments
    };
    let named = arguments("localhost", Some(&cert));
    let mut command = program.command(&named.iter().map(String::as_str).collect::<Vec<_>>());
    let mut attached = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let mut lines = tokio::io::BufReader::new(attached.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await;
    let first = first.expect("it shows an event").unwrap().unwrap_or_default();
    assert!(first.contains("session.start"), "{first}");

    for (host, ca) in [("localhost", None), ("localhost", Some(&*other)), ("127.0.0.1", Some(&*cert))] {
        let arguments = arguments(host, ca);
        let refused = program.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains("--ca"), "says what to do: {refused:?}");
        let why = if host == "localhost" { "is self-signed" } else { "is for localhost, not for 127.0.0.1" };
        assert!(refused.stderr.contains(why), "says why: {refused:?}");
    }
    let ran = program.run(&["run", "hello"]).await;
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(ran.stderr.contains(" · on server "), "commands of the home need no certificate: {ran:?}");
}

#[tokio::test]
async fn attach_says_what_is_wrong_with_a_certificate_without_alternative_names() {
    let program = baton();
    let (cert, key) = openssl_certificate(&program.work(), "old", false).await;
    let server = program.serve_http(&["--demo", "--tls-cert", &cert, "--tls-key", &key]).await;
    let url = format!("https://localhost:{}", server.http.unwrap().port());
    let token = program.home().join("token");
    let arguments =
        ["attach", "--new", "--url", &url, "--ca", &cert, "--token-file", token.to_str().unwrap()];
    let refused = program.run(&arguments).await;
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("subjectAltName"), "says what to do: {refused:?}");
}
