//! A program that people use. What it shows is also tested without it.

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::support::{Tested, ok, server};

/// Runs curl behind the proxy, and returns what it prints; none if it is not installed.
async fn curl(proxy: SocketAddr, arguments: &[&str]) -> Option<String> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20", "--proxy"])
        .arg(format!("http://{proxy}"))
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .output()
        .await;
    match output {
        Ok(output) => Some(
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        ),
        Err(error) => {
            println!("skipped: curl cannot be started: {error}");
            None
        }
    }
}

#[tokio::test]
async fn curl_fetches_through_the_proxy_and_through_a_tunnel() {
    let (port, _requests) = server(ok("hello")).await;
    let tested = Tested::new();
    let url = format!("http://one.test:{port}/");
    let Some(fetched) = curl(tested.address, &[&url]).await else { return };
    assert_eq!(fetched, "hello");
    assert_eq!(curl(tested.address, &["--proxytunnel", &url]).await.unwrap(), "hello");
    assert_eq!(tested.asked(), [format!("http://one.test:{port}"), format!("https://one.test:{port}")]);
}

#[tokio::test]
async fn curl_shows_why_a_host_was_refused() {
    let tested = Tested::new();
    let Some(plain) = curl(tested.address, &["http://denied.test/"]).await else { return };
    assert_eq!(plain, "denied.test:80 is not allowed: a rule denies it.\n");
    let tunnel = curl(tested.address, &["https://denied.test/"]).await.unwrap();
    assert!(tunnel.contains("403"), "{tunnel}");
}

#[tokio::test]
async fn curl_that_follows_a_redirect_asks_again() {
    let (port, _requests) =
        server("HTTP/1.1 302 Found\r\nLocation: http://denied.test/\r\nContent-Length: 0\r\n\r\n").await;
    let tested = Tested::new();
    let url = format!("http://one.test:{port}/");
    let Some(shown) = curl(tested.address, &["--location", &url]).await else { return };
    assert!(shown.contains("denied.test:80 is not allowed"), "{shown}");
    assert_eq!(tested.asked(), [format!("http://one.test:{port}"), "http://denied.test".to_owned()]);
}

#[tokio::test]
async fn curl_with_the_server_name_of_another_host_gets_nothing() {
    let tested = Tested::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let front = format!("evil.test:443:one.test:{port}");
    let receiving = tokio::spawn(async move {
        let mut received = Vec::new();
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(stream.read_to_end(&mut received).await);
        received
    });
    let arguments = ["--connect-to", &front, "https://evil.test/"];
    let Some(shown) = curl(tested.address, &arguments).await else { return receiving.abort() };
    assert!(shown.contains("curl: ("), "{shown}");
    assert_eq!(receiving.await.unwrap(), b"");
}
