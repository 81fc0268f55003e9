//! Logins at MCP servers: durable requests, links for any browser, tokens that nobody else gets.

use std::process::Stdio;

use baton_testkit::http::{Http, Response, read_response};
use baton_testkit::program::{Program, Running};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::{baton, scripted};

/// An MCP server with its authorization server (`oauth_server.py`), until it is dropped.
struct Locked {
    _child: Child,
    port: u16,
}

impl Locked {
    async fn start(mode: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/oauth_server.py");
        let mut command = Command::new("python3");
        command.args([script, mode]).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("python3");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next_line().await.unwrap().unwrap().parse().unwrap();
        Self { _child: child, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Configures the server for all sessions of a home.
    fn configure(&self, program: &Program, more: &Value) {
        let mut config = json!({ "type": "http", "url": self.url() });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let file = json!({ "mcpServers": { "locked": config } });
        std::fs::create_dir_all(program.home()).unwrap();
        std::fs::write(program.home().join("mcp-config.json"), file.to_string()).unwrap();
    }

    async fn control(&self, change: Value) {
        let body = change.to_string();
        let request = format!(
            "POST /control HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(exchange(self.port, &request).await.status, 200);
    }

    async fn state(&self) -> Value {
        let request = "GET /control HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        exchange(self.port, request).await.json()
    }
}

async fn exchange(port: u16, request: &str) -> Response {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    read_response(Box::new(stream)).await
}

/// Opens an address as a browser on another machine does: without a token of ours, coming from another site.
async fn browse(url: &str) -> Response {
    let rest = url.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{url}"));
    let (port, path) = rest.split_once('/').unwrap();
    let request = format!(
        "GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nSec-Fetch-Site: cross-site\r\n\
         Sec-Fetch-Mode: navigate\r\n\r\n"
    );
    exchange(port.parse().unwrap(), &request).await
}

/// Logs in at the authorization server, and returns the address that the browser is sent to.
async fn consent(link: &str) -> String {
    let answered = browse(link).await;
    assert_eq!(answered.status, 302, "{}", answered.body);
    answered.header("location").unwrap().to_owned()
}

async fn settled(http: &Http, text: &str) {
    let prompt = http.prompt("s", text).await;
    assert_eq!(http.outcome("s", &prompt).await, "completed");
}

/// Calls a tool of the server, and returns the latest result of a call.
async fn call(http: &Http, tool: &str) -> Value {
    settled(http, &format!("[[tool:locked-{tool} {{}}]]")).await;
    let events = http.get("/api/sessions/s/events?limit=1000").await.expect(200);
    let events = events["events"].as_array().unwrap().clone();
    let done = events.iter().rev().find(|entry| entry["event"]["type"] == "tool.execution_complete");
    done.unwrap_or_else(|| panic!("{events:?}"))["event"]["data"].clone()
}

async fn requests(http: &Http) -> Vec<Value> {
    http.get("/api/requests").await.expect(200)["requests"].as_array().unwrap().clone()
}

async fn link(http: &Http, request: &Value) -> Response {
    let id = request["requestId"].as_str().unwrap();
    http.post(&format!("/api/sessions/s/requests/{id}/link"), json!({})).await
}

/// A server with a session in allow-all mode that has met the locked server.
async fn met(program: &Program) -> (Running, Http) {
    let server = program.serve_http(&[]).await;
    let http = Http::new(program, &server);
    http.create("s", json!({ "questions": true, "allowAllTools": true })).await;
    settled(&http, "hello").await;
    (server, http)
}

#[tokio::test]
async fn login_is_a_durable_request_that_any_browser_finishes() {
    let (program, _model) = scripted().await;
    let locked = Locked::start("well").await;
    locked.configure(&program, &json!({}));
    let (mut server, http) = met(&program).await;
    let pending = requests(&http).await;
    assert_eq!(pending.len(), 1, "{pending:?}");
    assert_eq!(
        (&pending[0]["kind"], &pending[0]["detail"]["serverName"]),
        (&json!("login"), &json!("locked"))
    );
    let old = link(&http, &pending[0]).await.expect(200)["authorizationUrl"].as_str().unwrap().to_owned();
    server.kill().await;

    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    let again = requests(&http).await;
    assert_eq!(again[0]["requestId"], pending[0]["requestId"], "the same request after a crash");
    let stale =
        browse(&consent(&old).await.replace(&port_of(&old_redirect(&old)), &http_port(&server))).await;
    assert_eq!(stale.status, 400, "the link of the killed server");
    let fresh = link(&http, &again[0]).await.expect(200);
    let returned = consent(fresh["authorizationUrl"].as_str().unwrap()).await;
    let page = browse(&returned).await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("You are logged in"), "{}", page.body);
    assert_eq!(browse(&returned).await.status, 400, "a link is used once");
    assert_eq!(requests(&http).await, Vec::<Value>::new());

    let done = call(&http, "whoami").await;
    assert_eq!(done["result"]["content"], "scopes tools", "{done}");
    // Tokens that expire are refreshed, and each refresh token is used once.
    for refreshes in 1..=2 {
        locked.control(json!({ "expire": true })).await;
        assert_eq!(call(&http, "whoami").await["success"], true);
        assert_eq!(locked.state().await["refreshes"], refreshes);
    }
    // More scopes need another login; the rest of the server works on.
    assert_eq!(call(&http, "admin").await["success"], false);
    assert_eq!(call(&http, "whoami").await["success"], true);
    let more = requests(&http).await;
    assert_eq!(more[0]["detail"]["reason"], "upscope");
    let upgraded = link(&http, &more[0]).await.expect(200);
    assert_eq!(browse(&consent(upgraded["authorizationUrl"].as_str().unwrap()).await).await.status, 200);
    let done = call(&http, "admin").await;
    assert_eq!(done["result"]["content"], "scopes admin tools", "{done}");

    let state = locked.state().await;
    assert_eq!(
        (&state["problems"], &state["registrations"]),
        (&json!([]), &json!(2)),
        "one for each redirect"
    );
    let tokens: Vec<String> = serde_json::from_value(state["tokens"].clone()).unwrap();
    assert!(tokens.len() >= 2);
    let log = server.stderr();
    for (path, bytes) in files(program.home()) {
        for token in &tokens {
            let found = bytes.windows(token.len()).any(|window| window == token.as_bytes());
            assert!(!found && !log.contains(token.as_str()), "a token is in {path}, or in the log");
        }
    }
    // Another session has the token without a login, a revoked one needs another.
    http.create("other", json!({})).await;
    let prompt = http.prompt("other", "hello").await;
    assert_eq!(http.outcome("other", &prompt).await, "completed");
    assert_eq!(requests(&http).await, Vec::<Value>::new());
    locked.control(json!({ "revoke": true })).await;
    assert_eq!(call(&http, "whoami").await["success"], false);
    assert_eq!(requests(&http).await.len(), 1);
}

/// Returns the address that a link sends the browser back to.
fn old_redirect(link: &str) -> String {
    let query = link.split_once('?').unwrap().1;
    let redirect = query.split('&').find_map(|pair| pair.strip_prefix("redirect_uri=")).unwrap();
    redirect.replace("%3A", ":").replace("%2F", "/")
}

fn port_of(url: &str) -> String {
    url.trim_start_matches("http://").split(['/', ':']).nth(1).unwrap().to_owned()
}

fn http_port(server: &Running) -> String {
    server.http.unwrap().port().to_string()
}

fn files(directory: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&entry.path())),
            kind if kind.is_file() => {
                let bytes = std::fs::read(entry.path()).unwrap();
                found.push((entry.path().display().to_string(), bytes));
            }
            _ => {}
        }
    }
    found
}

#[tokio::test]
async fn login_is_finished_with_a_pasted_address_or_declined() {
    let (program, _model) = scripted().await;
    let locked = Locked::start("well").await;
    locked.configure(&program, &json!({}));
    let (_server, http) = met(&program).await;
    let pending = requests(&http).await.remove(0);
    let path = format!("/api/sessions/s/requests/{}", pending["requestId"].as_str().unwrap());
    let url = link(&http, &pending).await.expect(200)["authorizationUrl"].as_str().unwrap().to_owned();
    let returned = consent(&url).await;
    let paste = |text: &str| json!({ "kind": "login", "pasted": text });
    assert!(http.post(&path, paste("two words")).await.status == 422);
    let _ = http.post(&path, paste(&returned)).await.expect(200);
    assert_eq!(call(&http, "whoami").await["success"], true);
    let _ = http.post(&path, paste(&returned)).await.refused(404);

    locked.control(json!({ "revoke": true })).await;
    assert_eq!(call(&http, "whoami").await["success"], false);
    let pending = requests(&http).await.remove(0);
    let path = format!("/api/sessions/s/requests/{}", pending["requestId"].as_str().unwrap());
    let _ = http.post(&path, json!({ "kind": "login", "decline": true })).await.expect(200);
    let _ = http.post(&path, json!({ "kind": "login", "decline": true })).await.refused(409);
    // An attempt to connect that the turn began may need a login of its own just then.
    let is_declined = |request: &Value| request["requestId"] == pending["requestId"];
    assert!(!requests(&http).await.iter().any(is_declined));
}

#[tokio::test]
async fn client_logs_in_by_itself_if_the_configuration_says_so() {
    let (program, _model) = scripted().await;
    let locked = Locked::start("well").await;
    let robot = json!({ "oauthGrantType": "client_credentials", "oauthClientId": "robot", "oauthClientSecret": "s3cret" });
    locked.configure(&program, &robot);
    let (_server, http) = met(&program).await;
    assert_eq!(requests(&http).await, Vec::<Value>::new());
    assert_eq!(call(&http, "whoami").await["success"], true);
}

#[tokio::test]
async fn authorization_servers_that_misbehave_get_no_login() {
    for (mode, why) in [
        ("mix-up", "another name"),
        ("javascript", "https://"),
        ("huge", "more than"),
        ("redirects", "redirects are not followed"),
        ("foreign", "not on the MCP server"),
        ("other-resource", "about another server"),
        ("no-pkce", "PKCE"),
        ("no-registration", "does not support dynamic client registration"),
    ] {
        let (program, _model) = scripted().await;
        let locked = Locked::start(mode).await;
        locked.configure(&program, &json!({}));
        let (_server, http) = met(&program).await;
        let pending = requests(&http).await.remove(0);
        let refused = link(&http, &pending).await;
        assert_eq!(refused.status, 422, "{mode}: {}", refused.body);
        assert!(refused.body.contains(why), "{mode}: {}", refused.body);
        settled(&http, "the session works on").await;
    }
}

#[tokio::test]
async fn response_of_another_server_or_a_refusal_is_no_login() {
    for mode in ["wrong-iss", "denies"] {
        let (program, _model) = scripted().await;
        let locked = Locked::start(mode).await;
        locked.configure(&program, &json!({}));
        let (_server, http) = met(&program).await;
        let pending = requests(&http).await.remove(0);
        let url = link(&http, &pending).await.expect(200)["authorizationUrl"].as_str().unwrap().to_owned();
        let page = browse(&consent(&url).await).await;
        assert_eq!(page.status, 400, "{mode}");
        assert!(!page.body.contains("<b>") && !page.body.contains("evil"), "{mode}: {}", page.body);
        assert_eq!(requests(&http).await.len(), 1, "{mode}: still pending");
    }
}

#[tokio::test]
async fn callback_without_a_known_state_does_nothing() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let base = format!("http://127.0.0.1:{}/oauth/callback", http_port(&server));
    for query in ["", "?code=c", "?code=c&state=guess", "?state=a&state=b&code=c", "?code=<script>&state=%00"]
    {
        let page = browse(&format!("{base}{query}")).await;
        assert_eq!(page.status, 400, "{query}");
        assert!(!page.body.contains("script") && !page.body.contains("guess"), "{}", page.body);
    }
    let anonymous = Http::anonymous(&server);
    assert_eq!(anonymous.get("/api/sessions").await.status, 401, "everything else needs the token");
    assert_eq!(anonymous.post("/oauth/callback", json!({})).await.status, 401);
}

#[tokio::test]
async fn sdk_client_gets_a_link() {
    let (program, _model) = scripted().await;
    let locked = Locked::start("well").await;
    let (_server, client) = program.pipes().await;
    let servers = json!({ "locked": { "type": "http", "url": locked.url() } });
    client.ok("session.create", json!({ "sessionId": "s", "mcpServers": servers })).await;
    let about = json!({ "sessionId": "s", "serverName": "locked" });
    let made = client.ok("session.mcp.oauth.login", about.clone()).await;
    let page = browse(&consent(made["authorizationUrl"].as_str().unwrap()).await).await;
    assert_eq!(page.status, 200, "{}", page.body);
    let listed = client.ok("session.mcp.list", json!({ "sessionId": "s" })).await;
    assert_eq!(listed["servers"][0]["status"], "connected", "{listed}");
    let again = client.ok("session.mcp.oauth.login", about).await;
    assert_eq!(again.get("authorizationUrl"), None, "a token works");
}

/// `baton mcp login locked --json`, after it has printed its link.
struct LoginCommand {
    child: Child,
    link: String,
    output: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl LoginCommand {
    async fn start(program: &Program, more: &[&str]) -> Self {
        let mut command = program.command(&[&["mcp", "login", "locked", "--json"], more].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = output.next_line().await.unwrap().expect("a line with the link");
        let first: Value = serde_json::from_str(&first).unwrap();
        let link = first["authorizationUrl"].as_str().unwrap_or_else(|| panic!("{first}")).to_owned();
        Self { child, link, output }
    }

    async fn paste(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Waits for its end, and returns the exit code and the last line.
    async fn end(mut self) -> (Option<i32>, Value) {
        let last = self.output.next_line().await.unwrap().expect("a line with the result");
        (self.child.wait().await.unwrap().code(), serde_json::from_str(&last).unwrap())
    }
}

#[tokio::test]
async fn command_logs_in_with_a_browser_or_a_pasted_address() {
    let program = baton();
    let locked = Locked::start("well").await;
    locked.configure(&program, &json!({}));
    let test = async || program.run(&["mcp", "test", "locked"]).await;
    let refused = test().await;
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stdout.contains("baton mcp login locked"), "{}", refused.stdout);

    let login = LoginCommand::start(&program, &[]).await;
    let returned = consent(&login.link).await;
    assert_eq!(browse(&returned).await.status, 200);
    let (code, result) = login.end().await;
    assert_eq!((code, &result["ok"]), (Some(0), &json!(true)), "{result}");
    assert_eq!(test().await.code(), Some(0), "uses the stored token");
    let again = program.run(&["mcp", "login", "locked"]).await;
    assert_eq!(again.code(), Some(0));
    assert!(again.stderr.contains("--force"), "{}", again.stderr);

    locked.control(json!({ "expire": true })).await;
    assert_eq!(test().await.code(), Some(0), "refreshes the token");

    let logout = async || program.run(&["mcp", "logout", "locked"]).await.code();
    assert_eq!(logout().await, Some(0));
    assert_eq!(test().await.code(), Some(1));
    assert_eq!(logout().await, Some(3));

    let mut login = LoginCommand::start(&program, &["--no-browser"]).await;
    login.paste("two words").await;
    let returned = consent(&login.link).await;
    login.paste(&returned).await;
    assert_eq!(login.end().await.0, Some(0));
    assert_eq!(test().await.code(), Some(0));
    assert_eq!(locked.state().await["problems"], json!([]));
}

#[tokio::test]
async fn login_that_cannot_work_says_why() {
    let program = baton();
    let locked = Locked::start("no-pkce").await;
    locked.configure(&program, &json!({}));
    let refused = program.run(&["mcp", "login", "locked"]).await;
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("PKCE"), "{}", refused.stderr);
    let missing = program.run(&["mcp", "login", "nobody"]).await;
    assert_eq!(missing.code(), Some(3));
    let _ = program.run(&["mcp", "add", "local", "--", "true"]).await;
    let local = program.run(&["mcp", "login", "local"]).await;
    assert_eq!(local.code(), Some(1));
    assert!(local.stderr.contains("no login"), "{}", local.stderr);
    let file = json!({ "mcpServers": { "theirs": { "type": "http", "url": locked.url() } } });
    std::fs::write(program.work().join(".mcp.json"), file.to_string()).unwrap();
    let untrusted = program.run(&["mcp", "login", "theirs"]).await;
    assert_eq!(untrusted.code(), Some(1));
    assert!(untrusted.stderr.contains("baton mcp trust"), "{}", untrusted.stderr);
}
