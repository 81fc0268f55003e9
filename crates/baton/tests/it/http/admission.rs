//! Access over HTTP: tokens, hosts, origins, paths, and secrets in responses.

use std::os::unix::fs::PermissionsExt;

use baton_testkit::http::Http;
use baton_testkit::program::MODEL_KEY;
use serde_json::{Value, json};

use super::TestServer;
use crate::baton;

/// Every method and path of the published OpenAPI description, with `s` for each parameter.
fn routes() -> Vec<(String, String)> {
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

fn is_public(path: &str) -> bool {
    matches!(path, "/api/health" | "/api/ready")
}

#[tokio::test]
async fn requests_without_the_token_are_refused() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let anonymous = Http::anonymous(&test.server);
    let wrong = anonymous.clone().with_token("wrong");
    for (method, path) in routes().into_iter().chain([("GET".into(), "/api/openapi.json".into())]) {
        for client in [&anonymous, &wrong] {
            let answer = client.send(&method, &path, &[], Some(&json!({}))).await;
            if is_public(&path) {
                assert_eq!(answer.status, 200, "{path}");
            } else {
                assert_eq!(answer.refused(401), "unauthorized", "{method} {path}");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            }
        }
    }
    for nowhere in ["/api/nothing", "/v1/anything", "/etc/passwd", "/api/sessions/../../token"] {
        assert_eq!(
            anonymous.get(nowhere).await.refused(401),
            "unauthorized",
            "unknown paths are not revealed"
        );
    }
    let token = test.program.token();
    for path in [format!("/api/sessions?token={token}"), "/?token=wrong".into(), "/?token=".into()] {
        assert_eq!(anonymous.get(&path).await.refused(401), "unauthorized", "{path}");
    }
    assert_eq!(
        test.http.get("/api/sessions").await.expect(200)["sessions"][0]["id"],
        "s",
        "the session was not deleted"
    );
}

#[tokio::test]
async fn login_link_sets_an_http_only_cookie() {
    let test = TestServer::start().await;
    let token = test.program.token();
    let browser = Http::anonymous(&test.server);
    let followed = browser.get(&format!("/?token={token}")).await;
    assert_eq!((followed.status, followed.header("location")), (303, Some("./")));
    let cookie = followed.header("set-cookie").unwrap().to_owned();
    assert!(!cookie.contains(&token), "the token does not stay in the browser: {cookie}");
    for word in ["HttpOnly", "SameSite=Strict"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert!(!cookie.contains("Path"), "limited to the prefix that a proxy may add: {cookie}");
    assert!(!cookie.contains("Secure"), "without TLS: {cookie}");
    let pair = cookie.split(';').next().unwrap();
    let shown = browser.send("GET", "/api/sessions", &[("Cookie", pair)], None).await;
    assert_eq!(shown.status, 200);
}

#[tokio::test]
async fn one_time_link_logs_in_once_and_survives_a_kill() {
    let mut test = TestServer::start().await;
    let printed = test.program.run(&["link"]).await;
    let link = printed.stdout.trim().to_owned();
    let path = &link[link.find("/?login=").unwrap_or_else(|| panic!("{printed:?}"))..];
    test.kill_and_restart().await;
    let browser = Http::anonymous(&test.server);
    let followed = browser.send("GET", path, &[("X-Forwarded-Proto", "https")], None).await;
    assert_eq!((followed.status, followed.header("location")), (303, Some("./")));
    let cookie = followed.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Strict") && cookie.ends_with("; Secure"), "{cookie}");
    let again = browser.get(path).await;
    assert_eq!((again.header("location"), again.header("set-cookie")), (Some("./#/used-link"), None));
    test.kill_and_restart().await;
    let pair = cookie.split(';').next().unwrap();
    let browser = Http::anonymous(&test.server);
    let shown = browser.send("GET", "/api/me", &[("Cookie", pair)], None).await;
    assert_eq!(shown.expect(200)["name"], "owner");
    let forged = browser.send("POST", "/api/sessions", &[("Cookie", pair)], Some(&json!({}))).await;
    assert_eq!(forged.refused(403), "csrf");
    let headers = [("Cookie", pair), ("X-Baton-Page", "1")];
    assert_eq!(browser.send("POST", "/api/logout", &headers, Some(&json!({}))).await.status, 204);
    assert_eq!(browser.send("GET", "/api/me", &[("Cookie", pair)], None).await.refused(401), "unauthorized");
}

#[tokio::test]
async fn login_link_leads_to_the_configured_page() {
    let program = baton();
    let file = program.work().join("config.toml");
    std::fs::write(&file, "[notifications]\npage = \"https://baton.example/team\"\n").unwrap();
    let _server = program.serve_http(&["--demo", "--config", file.to_str().unwrap()]).await;
    let printed = program.run(&["link"]).await;
    assert!(printed.stdout.starts_with("https://baton.example/team/?login="), "{printed:?}");
}

/// Whether a path makes MCP servers work, or reads files of any directory.
fn uses_servers(path: &str) -> bool {
    path.starts_with("/api/mcp/")
        || path.starts_with("/api/skills")
        || ["/resources", "/resource", "/prompts"]
            .iter()
            .any(|end| path.contains("/mcp/") && path.ends_with(end))
}

/// Whether a path is about notifications of the browser that asks.
fn is_own_browser(path: &str) -> bool {
    path.starts_with("/api/notifications/subscriptions")
}

#[tokio::test]
async fn people_have_the_rights_of_their_role_until_they_are_removed() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let added = test.program.run(&["people", "add", "vera", "--role", "viewer", "--json"]).await;
    let person: serde_json::Value = serde_json::from_str(&added.stdout).unwrap();
    assert_eq!((&person["name"], &person["role"]), (&json!("vera"), &json!("viewer")));
    let bearer = format!("Bearer {}", person["token"].as_str().unwrap());
    let vera = Http::anonymous(&test.server);
    let headers = [("Authorization", bearer.as_str())];
    for (method, path) in routes().into_iter().filter(|(_, path)| !is_public(path) && path != "/api/render") {
        let answer = vera.send(&method, &path, &headers, Some(&json!({}))).await;
        assert_eq!(
            answer.status == 403,
            (method != "GET" && !is_own_browser(&path)) || uses_servers(&path) || path.ends_with("/files"),
            "{method} {path}: {answer:?}"
        );
    }
    let start = vera.send("GET", "/api/sessions/s/mcp?start=true", &headers, None).await;
    assert_eq!(start.refused(403), "forbidden", "starting servers is no reading");
    assert_eq!(vera.send("GET", "/v1/workspaces", &headers, None).await.refused(403), "forbidden");
    let listed = test.program.run(&["people", "list", "--json"]).await;
    assert!(listed.stdout.contains("vera") && !listed.stdout.contains("token"), "{listed:?}");
    let removed = test.program.run(&["people", "remove", "vera"]).await;
    assert_eq!(removed.code(), Some(0), "{removed:?}");
    assert_eq!(vera.send("GET", "/api/sessions", &headers, None).await.refused(401), "unauthorized");
}

#[tokio::test]
async fn rebound_host_names_are_refused() {
    let test = TestServer::start().await;
    for (method, path) in routes() {
        for name in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost@evil", ""]
        {
            let answer = test.http.send(&method, &path, &[("Host", name)], Some(&json!({}))).await;
            assert_eq!(answer.refused(421), "wrong_host", "{method} {path} as {name:?}");
        }
    }
    for name in ["localhost", "127.0.0.1", "[::1]:8080", "LocalHost:1"] {
        assert_eq!(test.http.send("GET", "/api/health", &[("Host", name)], None).await.status, 200, "{name}");
    }
    let two = [("Host", "localhost"), ("Host", "evil.example")];
    assert_ne!(test.http.send("GET", "/api/sessions", &two, None).await.status, 200);
    let allowed = TestServer::with_flags(&["--allow-host", "baton.example"]).await;
    let named = [("Host", "baton.example:443")];
    assert_eq!(allowed.http.send("GET", "/api/sessions", &named, None).await.status, 200);
}

#[tokio::test]
async fn other_origins_are_refused_even_with_the_token() {
    let test = TestServer::start().await;
    for (method, path) in routes() {
        for headers in [
            [("Origin", "https://evil.example")],
            [("Origin", "null")],
            [("Origin", "http://localhost:1")],
            [("Sec-Fetch-Site", "cross-site")],
            [("Sec-Fetch-Site", "same-site")],
        ] {
            let answer = test.http.send(&method, &path, &headers, Some(&json!({}))).await;
            assert_eq!(answer.refused(403), "cross_origin", "{method} {path} {headers:?}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    let preflight = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")];
    let asked = test.http.send("OPTIONS", "/api/sessions", &preflight, None).await;
    assert_eq!(asked.refused(403), "cross_origin");
    let own = [("Host", "localhost:80"), ("Origin", "http://localhost:80")];
    assert_eq!(test.http.send("GET", "/api/sessions", &own, None).await.status, 200);
}

#[tokio::test]
async fn only_configured_origins_are_allowed() {
    let test = TestServer::with_flags(&["--allow-origin", "https://app.example"]).await;
    let page = [("Origin", "https://app.example")];
    let asked = [("Origin", "https://app.example"), ("Access-Control-Request-Method", "POST")];
    let anonymous = Http::anonymous(&test.server);
    let preflight = anonymous.send("OPTIONS", "/api/sessions", &asked, None).await;
    assert_eq!(preflight.status, 204, "a preflight has no token");
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("authorization"));
    let answer = test.http.send("GET", "/api/sessions", &page, None).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    assert_eq!(anonymous.send("GET", "/api/sessions", &page, None).await.refused(401), "unauthorized");
    let other = [("Origin", "https://app.example.evil.example")];
    assert_eq!(test.http.send("GET", "/api/sessions", &other, None).await.refused(403), "cross_origin");
    let refused =
        test.program.run(&["serve", "--demo", "--http", "127.0.0.1:0", "--allow-origin", "*"]).await;
    assert!(refused.code() == Some(1) && refused.stderr.contains("not an origin"), "{refused:?}");
}

#[tokio::test]
async fn path_traversal_is_refused() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let outside = test.program.home().join("token");
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
    for (method, path) in routes().into_iter().filter(|(_, path)| path.split('/').any(|part| part == "s")) {
        for name in names {
            let parts: Vec<&str> =
                path.split('/').map(|part| if part == "s" { name } else { part }).collect();
            let answer = test.http.send(&method, &parts.join("/"), &[], Some(&json!({}))).await;
            assert!((400..500).contains(&answer.status), "{method} {parts:?}: {answer:?}");
            assert!(!answer.body.contains(&test.program.token()) && answer.header("x-evil").is_none());
        }
    }
    for name in ["..", "../../x", "/etc/x", "a/b", "a\0b", ".x", "", " ", &"x".repeat(129), "a\r\nb", "é"] {
        let made = test.http.post("/api/sessions", json!({"id": name})).await;
        assert!(matches!(made.status, 400 | 422), "{name:?}: {made:?}");
    }
    for cwd in ["/nonexistent", "", "a\0b", "/etc/passwd"] {
        let made = test.http.post("/api/sessions", json!({"cwd": cwd})).await;
        assert!(matches!(made.status, 400 | 422), "{cwd:?}: {made:?}");
    }
    assert!(outside.exists());
    let directories: Vec<_> = std::fs::read_dir(test.program.home().join("session-state")).unwrap().collect();
    assert_eq!(directories.len(), 1, "only the one session has files: {directories:?}");
}

#[tokio::test]
async fn responses_and_log_contain_no_secret() {
    let test = TestServer::with_flags(&["--log-level", "info"]).await;
    test.http.create("s", json!({"instructions": "be kind"})).await;
    test.assert_usable("s").await;
    let secrets = [test.program.token(), MODEL_KEY.to_owned()];
    for (method, path) in routes().into_iter().filter(|(method, _)| method == "GET") {
        let answer = test.http.send(&method, &path, &[], None).await;
        assert!(answer.status < 500, "{path}: {answer:?}");
        for secret in &secrets {
            assert!(!answer.body.contains(secret) && !answer.head.contains(secret), "{path}: {answer:?}");
        }
    }
    let token = &secrets[0];
    test.http.get(&format!("/?token={token}")).await;
    // The last entry of the access log.
    test.server.until_stderr("status=303").await;
    let log = test.server.stderr();
    assert!(log.contains("path=\"/api/sessions/s/prompts\" status=202"), "{log}");
    for secret in &secrets {
        assert!(!log.contains(secret), "{log}");
    }
}

#[tokio::test]
async fn public_address_without_a_token_is_refused() {
    let program = baton();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = program.run(&["serve", "--demo", "--http", address, "--insecure-no-token"]).await;
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains("refusing"), "{refused:?}");
    }
    let here = program.serve_http(&["--demo", "--insecure-no-token"]).await;
    assert_eq!(Http::anonymous(&here).get("/api/sessions").await.status, 200, "--insecure-no-token");
    here.until_stderr("every user of this machine").await;
}

#[tokio::test]
async fn socket_file_is_private_and_needs_no_token() {
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
    assert_eq!(http.get("/api/health").await.status, 200, "the first one still runs");
    server.kill().await;
    assert!(path.exists(), "a killed server leaves its socket behind");
    let mut server = program.serve_http(&["--demo", "--socket", socket]).await;
    assert_eq!(http.get("/api/health").await.status, 200, "the next server replaces it");
    server.stop().await;
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    let refused = program.run(&["serve", "--demo", "--socket", socket]).await;
    assert!(refused.code() == Some(1) && refused.stderr.contains("not a socket"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
