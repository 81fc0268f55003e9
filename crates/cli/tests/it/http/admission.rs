//! Who may come in over HTTP, and what nobody gets out.

use std::os::unix::fs::PermissionsExt;

use baton_testkit::http::Http;
use baton_testkit::program::MODEL_KEY;
use serde_json::{Value, json};

use super::House;
use crate::baton;

/// Every address of the API with every method it takes, from the description that people are given. `{…}` stand for `s`.
fn addresses() -> Vec<(String, String)> {
    let text = include_str!("../../../../../docs/openapi.json");
    let description: Value = serde_json::from_str(text).unwrap();
    let paths = description["paths"].as_object().unwrap();
    let mut found = Vec::new();
    for (path, methods) in paths {
        let filled: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "s" } else { part }).collect();
        for method in methods.as_object().unwrap().keys() {
            found.push((method.to_uppercase(), filled.join("/")));
        }
    }
    assert!(found.len() > 15, "{found:?}");
    found
}

fn is_open(path: &str) -> bool {
    matches!(path, "/api/health" | "/api/ready")
}

#[tokio::test]
async fn without_the_token_nothing_is_served() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    let stranger = Http::anonymous(&house.server);
    let wrong = stranger.clone().with_token("wrong");
    for (method, path) in addresses().into_iter().chain([("GET".into(), "/api/openapi.json".into())]) {
        for client in [&stranger, &wrong] {
            let answer = client.send(&method, &path, &[], Some(&json!({}))).await;
            if is_open(&path) {
                assert_eq!(answer.status, 200, "{path}");
            } else {
                assert_eq!(answer.refused(401), "unauthorized", "{method} {path}");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            }
        }
    }
    for nowhere in ["/api/nothing", "/v1/anything", "/etc/passwd", "/api/sessions/../../token"] {
        assert_eq!(stranger.get(nowhere).await.refused(401), "unauthorized", "not even what there is not");
    }
    let token = house.program.token();
    for place in [format!("/api/sessions?token={token}"), "/?token=wrong".into(), "/?token=".into()] {
        assert_eq!(stranger.get(&place).await.refused(401), "unauthorized", "{place}");
    }
    assert_eq!(
        house.http.get("/api/sessions").await.expect(200)["sessions"][0]["id"],
        "s",
        "it is still there"
    );
}

#[tokio::test]
async fn the_link_turns_into_a_cookie_that_pages_cannot_read() {
    let house = House::open().await;
    let token = house.program.token();
    let browser = Http::anonymous(&house.server);
    let followed = browser.get(&format!("/?token={token}")).await;
    assert_eq!((followed.status, followed.header("location")), (303, Some("/")));
    let cookie = followed.header("set-cookie").unwrap().to_owned();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let kept = cookie.split(';').next().unwrap();
    let shown = browser.send("GET", "/api/sessions", &[("Cookie", kept)], None).await;
    assert_eq!(shown.status, 200);
}

#[tokio::test]
async fn a_name_that_was_made_to_point_here_is_refused() {
    let house = House::open().await;
    for (method, path) in addresses() {
        for name in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost@evil", ""]
        {
            let answer = house.http.send(&method, &path, &[("Host", name)], Some(&json!({}))).await;
            assert_eq!(answer.refused(421), "wrong_host", "{method} {path} as {name:?}");
        }
    }
    for name in ["localhost", "127.0.0.1", "[::1]:8080", "LocalHost:1"] {
        assert_eq!(
            house.http.send("GET", "/api/health", &[("Host", name)], None).await.status,
            200,
            "{name}"
        );
    }
    let two = [("Host", "localhost"), ("Host", "evil.example")];
    assert_ne!(house.http.send("GET", "/api/sessions", &two, None).await.status, 200);
    let allowed = House::open_with(&["--allow-host", "baton.example"]).await;
    let named = [("Host", "baton.example:443")];
    assert_eq!(allowed.http.send("GET", "/api/sessions", &named, None).await.status, 200);
}

#[tokio::test]
async fn pages_of_other_origins_are_refused_even_with_the_token() {
    let house = House::open().await;
    for (method, path) in addresses() {
        for headers in [
            [("Origin", "https://evil.example")],
            [("Origin", "null")],
            [("Origin", "http://localhost:1")],
            [("Sec-Fetch-Site", "cross-site")],
            [("Sec-Fetch-Site", "same-site")],
        ] {
            let answer = house.http.send(&method, &path, &headers, Some(&json!({}))).await;
            assert_eq!(answer.refused(403), "cross_origin", "{method} {path} {headers:?}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    let preflight = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")];
    let asked = house.http.send("OPTIONS", "/api/sessions", &preflight, None).await;
    assert_eq!(asked.refused(403), "cross_origin");
    let own = [("Host", "localhost:80"), ("Origin", "http://localhost:80")];
    assert_eq!(house.http.send("GET", "/api/sessions", &own, None).await.status, 200);
}

#[tokio::test]
async fn a_page_that_was_configured_may_use_the_door_and_others_still_not() {
    let house = House::open_with(&["--allow-origin", "https://app.example"]).await;
    let page = [("Origin", "https://app.example")];
    let asked = [("Origin", "https://app.example"), ("Access-Control-Request-Method", "POST")];
    let stranger = Http::anonymous(&house.server);
    let preflight = stranger.send("OPTIONS", "/api/sessions", &asked, None).await;
    assert_eq!(preflight.status, 204, "a browser asks without the token");
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("authorization"));
    let answer = house.http.send("GET", "/api/sessions", &page, None).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    assert_eq!(stranger.send("GET", "/api/sessions", &page, None).await.refused(401), "unauthorized");
    let other = [("Origin", "https://app.example.evil.example")];
    assert_eq!(house.http.send("GET", "/api/sessions", &other, None).await.refused(403), "cross_origin");
    let refused =
        house.program.run(&["serve", "--demo", "--http", "127.0.0.1:0", "--allow-origin", "*"]).await;
    assert!(refused.code() == Some(1) && refused.stderr.contains("not an origin"), "{refused:?}");
}

#[tokio::test]
async fn no_name_leads_out_of_its_place() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    let outside = house.program.home().join("token");
    let names = [
        "..",
        ".",
        "%2e%2e",
        "%2e%2e%2f%2e%2e%2ftoken",
        "..%2ftoken",
        "s%2f..%2f..",
        "%2fetc%2fpasswd",
        "s%00",
        "s%0d%0aX-Evil:%201",
        "%ff%fe",
        "..%5c..%5ctoken",
        "s%2e%2e%2f",
        ".hidden",
        "%252e%252e",
        "~",
        "s/../../token",
    ];
    for (method, path) in addresses().into_iter().filter(|(_, path)| path.split('/').any(|part| part == "s"))
    {
        for name in names {
            let parts: Vec<&str> =
                path.split('/').map(|part| if part == "s" { name } else { part }).collect();
            let answer = house.http.send(&method, &parts.join("/"), &[], Some(&json!({}))).await;
            assert!((400..500).contains(&answer.status), "{method} {parts:?}: {answer:?}");
            assert!(!answer.body.contains(&house.program.token()) && answer.header("x-evil").is_none());
        }
    }
    for name in ["..", "../../x", "/etc/x", "a/b", "a\0b", ".x", "", " ", &"x".repeat(129), "a\r\nb", "é"] {
        let made = house.http.post("/api/sessions", json!({"id": name})).await;
        assert!(matches!(made.status, 400 | 422), "{name:?}: {made:?}");
    }
    for cwd in ["/nonexistent", "", "a\0b", "/etc/passwd"] {
        let made = house.http.post("/api/sessions", json!({"cwd": cwd})).await;
        assert!(matches!(made.status, 400 | 409), "{cwd:?}: {made:?}");
    }
    assert!(outside.exists());
    let made: Vec<_> = std::fs::read_dir(house.program.home().join("session-state")).unwrap().collect();
    assert_eq!(made.len(), 1, "only the one session has files: {made:?}");
}

#[tokio::test]
async fn no_answer_and_no_log_holds_a_secret() {
    let house = House::open_with(&["--log-level", "info"]).await;
    house.http.create("s", json!({"instructions": "be kind"})).await;
    house.usable("s").await;
    let secrets = [house.program.token(), MODEL_KEY.to_owned()];
    for (method, path) in addresses().into_iter().filter(|(method, _)| method == "GET") {
        let answer = house.http.send(&method, &path, &[], None).await;
        assert!(answer.status < 500, "{path}: {answer:?}");
        for secret in &secrets {
            assert!(!answer.body.contains(secret) && !answer.head.contains(secret), "{path}: {answer:?}");
        }
    }
    let token = &secrets[0];
    house.http.get(&format!("/?token={token}")).await;
    // The last line of the access log.
    house.server.until_stderr("status=303").await;
    let log = house.server.stderr();
    assert!(log.contains("path=\"/api/sessions/s/prompts\" status=202"), "{log}");
    let without_link: String = log.lines().filter(|line| !line.starts_with("link ")).collect();
    assert!(!without_link.contains(token.as_str()), "{log}");
}

#[tokio::test]
async fn other_machines_are_not_served_without_a_token() {
    let program = baton();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = program.run(&["serve", "--demo", "--http", address, "--insecure-no-token"]).await;
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains("refusing"), "{refused:?}");
    }
    let here = program.serve_http(&["--demo", "--insecure-no-token"]).await;
    assert_eq!(Http::anonymous(&here).get("/api/sessions").await.status, 200, "the risk was named");
    here.until_stderr("every user of this machine").await;
}

#[tokio::test]
async fn the_socket_file_is_its_owners_alone_and_needs_no_token() {
    let program = baton();
    let path = program.work().join("baton.sock");
    let socket = path.to_str().unwrap();
    let mut server = program.serve_http(&["--demo", "--socket", socket]).await;
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let http = Http::socket(&path);
    http.create("s", json!({})).await;
    assert_eq!(http.get("/api/sessions").await.expect(200)["sessions"][0]["id"], "s");
    let second = program.run(&["serve", "--demo", "--socket", socket]).await;
    assert!(second.code() == Some(1) && second.stderr.contains("another server"), "{second:?}");
    assert_eq!(http.get("/api/health").await.status, 200, "the first goes on");
    server.kill().await;
    assert!(path.exists(), "a killed server leaves its socket behind");
    let mut server = program.serve_http(&["--demo", "--socket", socket]).await;
    assert_eq!(http.get("/api/health").await.status, 200, "which the next one replaces");
    server.stop().await;
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    let refused = program.run(&["serve", "--demo", "--socket", socket]).await;
    assert!(refused.code() == Some(1) && refused.stderr.contains("something else"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
