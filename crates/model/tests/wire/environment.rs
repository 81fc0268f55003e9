//! Settings from the environment: trusted certificates and proxies.
//!
//! The environment is read once in a process, so these tests send requests from child processes: this test
//! binary, running only `child_process`.

use std::net::SocketAddr;
use std::sync::Arc;

use baton_model::endpoint::Endpoint;
use baton_model::http::HttpClient;
use baton_model::responses::ResponsesModel;
use baton_model::{Carrier, Model};
use baton_testkit::model_server::ModelServer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::common::{ask, chat_model, streamed};

const BASE_URL: &str = "BATON_TEST_BASE_URL";
const CARRIER: &str = "BATON_TEST_CARRIER";
const WEB_SOCKET: (&str, &str) = (CARRIER, "websocket");

#[tokio::test]
#[ignore = "run as a child process by the other tests of this module"]
async fn child_process() {
    let endpoint = Endpoint::new(&std::env::var(BASE_URL).unwrap()).unwrap();
    let model: Box<dyn Model> = if std::env::var(CARRIER).is_ok() {
        Box::new(ResponsesModel::new(endpoint, Carrier::WebSocket, Arc::new(HttpClient::new())))
    } else {
        Box::new(chat_model(endpoint))
    };
    let result = ask(&*model, &streamed("hello")).await.0;
    match result {
        Ok(answer) => println!("\nRESULT answer {}", answer.text),
        Err(error) => println!("\nRESULT {} {error}", error.kind),
    }
}

/// The outcome of a request from a child process with this environment.
async fn result(base_url: &str, environment: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["environment::child_process", "--exact", "--ignored", "--nocapture"])
        .env_clear()
        .env(BASE_URL, base_url)
        .envs(environment.iter().copied())
        .output()
        .await
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = output.lines().find_map(|line| line.strip_prefix("RESULT "));
    line.unwrap_or(&output).to_owned()
}

/// A private certificate authority, and a server with one of its certificates.
struct Authority {
    pem: String,
    server: Arc<ServerConfig>,
}

fn authority() -> Authority {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    Authority { pem: issuer.pem(), server: Arc::new(server) }
}

/// Terminates TLS in front of a plain server. Reports the protocols that each client offers.
async fn tls_in_front_of(
    server: SocketAddr,
    config: Arc<ServerConfig>,
) -> (u16, mpsc::UnboundedReceiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (offers, offered) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(hello) = LazyConfigAcceptor::new(Default::default(), stream).await else { continue };
            let protocols = hello.client_hello().alpn().into_iter().flatten();
            let _ = offers.send(protocols.map(|name| String::from_utf8_lossy(name).into_owned()).collect());
            let Ok(mut tls) = hello.into_stream(Arc::clone(&config)).await else { continue };
            let mut behind = TcpStream::connect(server).await.unwrap();
            let _ = copy_bidirectional(&mut tls, &mut behind).await;
        }
    });
    (port, offered)
}

#[tokio::test]
async fn only_configured_certificates_are_trusted() {
    let model = ModelServer::start().await;
    let (ours, theirs) = (authority(), authority());
    let (port, mut offered) = tls_in_front_of(model.address(), ours.server).await;
    let directory = tempfile::tempdir().unwrap();
    let trust = |pem: &str| {
        let file = directory.path().join("trusted.pem");
        std::fs::write(&file, pem).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let url = format!("https://localhost:{port}/v1");

    assert_eq!(result(&url, &[("SSL_CERT_FILE", &trust(&ours.pem))]).await, "answer echo 1: hello");
    assert_eq!(offered.recv().await.unwrap(), ["http/1.1"]);

    let refused = result(&url, &[("SSL_CERT_FILE", &trust(&theirs.pem))]).await;
    assert!(refused.starts_with(&format!("certificate localhost:{port} is not trusted: ")), "{refused}");
    assert!(refused.contains("SSL_CERT_FILE"), "{refused}");

    let other_name = format!("https://127.0.0.1:{port}/v1");
    let refused = result(&other_name, &[("SSL_CERT_FILE", &trust(&ours.pem))]).await;
    assert!(refused.starts_with("certificate "), "{refused}");

    let untrusted = result(&url, &[("SSL_CERT_FILE", &trust(""))]).await;
    assert!(untrusted.starts_with("certificate "), "{untrusted}");
}

#[tokio::test]
async fn websocket_checks_certificates_and_uses_http_1() {
    let model = ModelServer::start().await;
    let (ours, theirs) = (authority(), authority());
    let (port, mut offered) = tls_in_front_of(model.address(), ours.server).await;
    let directory = tempfile::tempdir().unwrap();
    let trust = |name: &str, pem: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, pem).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let url = format!("https://localhost:{port}/v1");
    let trusted = trust("ours.pem", &ours.pem);
    assert_eq!(result(&url, &[WEB_SOCKET, ("SSL_CERT_FILE", &trusted)]).await, "answer echo 1: hello");
    assert_eq!(offered.recv().await.unwrap(), ["http/1.1"]);
    assert_eq!(model.requests()[0].method, "WS");

    let untrusted = trust("theirs.pem", &theirs.pem);
    let refused = result(&url, &[WEB_SOCKET, ("SSL_CERT_FILE", &untrusted)]).await;
    assert!(refused.starts_with(&format!("certificate localhost:{port} is not trusted: ")), "{refused}");
}

#[tokio::test]
async fn proxy_is_used_unless_the_host_is_excluded() {
    let proxy = ModelServer::start().await;
    let proxy_url = format!("http://{}", proxy.address());
    let answer = "answer echo 1: hello";
    // The host does not exist: only the proxy can have answered.
    let url = "http://model.invalid/v1";
    assert_eq!(result(url, &[("HTTP_PROXY", &proxy_url)]).await, answer);
    assert_eq!(proxy.requests()[0].path, "http://model.invalid/v1/chat/completions");

    let model = ModelServer::start().await;
    let environment = [("HTTP_PROXY", proxy_url.as_str()), ("NO_PROXY", "127.0.0.1")];
    assert_eq!(result(&model.base_url(), &environment).await, answer);
    assert_eq!((proxy.requests().len(), model.requests().len()), (1, 1));

    assert_eq!(result(url, &[WEB_SOCKET, ("HTTP_PROXY", &proxy_url)]).await, answer);
    assert_eq!(proxy.requests()[1].method, "WS", "WebSockets use the proxy, too");
}
