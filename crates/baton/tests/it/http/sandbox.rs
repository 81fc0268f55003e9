//! Sessions in the sandbox: what runs inside without a question, what is asked, and what comes back.
//!
//! Each test that shows that something is kept in also shows, without a sandbox, that it would get out.

use baton_testkit::http::Http;
use serde_json::{Value, json};

use super::TestServer;
use crate::eventually;

/// A prompt for the scripted model that runs a command.
fn bash(command: &str) -> String {
    call(&json!({ "command": command, "description": "try it" }))
}

fn call(arguments: &Value) -> String {
    format!("[[tool:bash {arguments}]][[text:done]]")
}

/// Python that fetches a page the way most programs do, and prints the status.
const FETCH: &str = "NO_PROXY= no_proxy= python3 -c 'import urllib.request as u, urllib.error as e\n\
    try: print(u.urlopen(\"http://one.invalid/\", timeout=30).status)\n\
    except e.HTTPError as error: print(\"status\", error.code, error.read().decode())'";

impl TestServer {
    /// Starts a server whose sessions are inside, with a session `s` in assisted mode.
    async fn inside(level: &str) -> Self {
        let test = Self::with_flags(&["--sandbox", level]).await;
        test.http.create("s", json!({ "cwd": test.program.work() })).await;
        let assisted = json!({ "permissions": "assisted" });
        let _ = test.http.send("PATCH", "/api/sessions/s", &[], Some(&assisted)).await.expect(200);
        test
    }

    /// Runs a command that needs no approval, and returns its result.
    async fn ran(&self, command: &str) -> Value {
        let prompt = self.http.prompt("s", &bash(command)).await;
        assert_eq!(self.http.outcome("s", &prompt).await, "completed");
        self.last("tool.execution_complete").await
    }

    /// The data of the last event of a type.
    async fn last(&self, kind: &str) -> Value {
        let history = self.history("s").await;
        let found = history.iter().rev().find(|(_, event)| event["type"] == kind);
        found.unwrap_or_else(|| panic!("no {kind}: {history:?}")).1["data"].clone()
    }

    /// The number of events of a type.
    async fn count(&self, kind: &str) -> usize {
        self.history("s").await.iter().filter(|(_, event)| event["type"] == kind).count()
    }

    async fn answer(&self, request: &Value, decision: &str) {
        let path = format!("/api/sessions/s/requests/{}", request["requestId"].as_str().unwrap());
        let body = json!({ "kind": "permission", "decision": decision });
        let _ = self.http.post(&path, body).await.expect(200);
    }

    fn work(&self, name: &str) -> std::path::PathBuf {
        self.program.work().join(name)
    }
}

#[tokio::test]
async fn assisted_session_works_inside_and_asks_once_for_a_host() {
    let test = TestServer::inside("workspace").await;
    let outside = test.program.work().parent().unwrap().join("outside");
    let tries = format!("echo x > inside; echo x > {}; echo x > /usr/x", outside.display());
    let ran = test.ran(&tries).await;
    assert!(ran.to_string().contains("Read-only file system"), "{ran}");
    assert!(test.work("inside").exists() && !outside.exists());
    assert_eq!(test.count("permission.requested").await, 0, "what cannot leave needs no approval");

    let prompt = test.http.prompt("s", &bash(FETCH)).await;
    let request = test.http.pending("s").await;
    assert_eq!(request["detail"]["kind"], "url", "{request}");
    assert!(request.to_string().contains("http://one.invalid"), "{request}");
    test.answer(&request, "reject").await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    let refused = test.last("tool.execution_complete").await.to_string();
    assert!(refused.contains("status 403") && refused.contains("denied"), "{refused}");
    assert_eq!(test.count("permission.requested").await, 1);
    assert_eq!(test.last("permission.requested").await["batonWall"]["kind"], "host");
}

/// A command that reaches the server could answer its own request.
#[tokio::test]
async fn port_of_the_server_is_denied_without_asking() {
    let test = TestServer::inside("workspace").await;
    let port = test.server.port;
    let fetch = format!(
        "NO_PROXY= no_proxy= python3 -c 'import urllib.request as u, urllib.error as e\n\
        o = u.build_opener(u.ProxyHandler({{\"http\": \"http://127.0.0.1:3128\"}}))\n\
        try: print(o.open(\"http://127.0.0.1:{port}/api/health\").status)\n\
        except e.HTTPError as error: print(\"status\", error.code, error.read().decode())'"
    );
    let ran = test.ran(&fetch).await.to_string();
    assert!(ran.contains("status 403") && ran.contains("a port of the server"), "{ran}");
    assert_eq!(test.count("permission.requested").await, 0);
}

#[tokio::test]
async fn without_a_sandbox_the_same_command_gets_out_and_is_asked() {
    let test = TestServer::inside("off").await;
    let outside = test.program.work().parent().unwrap().join("outside");
    let prompt = test.http.prompt("s", &bash(&format!("echo x > {}", outside.display()))).await;
    let request = test.http.pending("s").await;
    assert_eq!(request["detail"]["sandbox"], Value::Null);
    test.answer(&request, "approve").await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    assert!(outside.exists());
}

#[tokio::test]
async fn approved_command_runs_inside_in_manual_mode() {
    let test = TestServer::inside("workspace").await;
    let manual = json!({ "permissions": "manual" });
    let _ = test.http.send("PATCH", "/api/sessions/s", &[], Some(&manual)).await.expect(200);
    let outside = test.program.work().parent().unwrap().join("outside");
    let prompt = test.http.prompt("s", &bash(&format!("echo x > {}", outside.display()))).await;
    let request = test.http.pending("s").await;
    assert_eq!(request["detail"]["sandbox"], "workspace", "people see where it runs: {request}");
    test.answer(&request, "approve").await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    assert!(!outside.exists());
}

#[tokio::test]
async fn command_that_leaves_the_sandbox_is_asked_about_with_the_reason() {
    let test = TestServer::inside("workspace").await;
    let outside = test.program.work().parent().unwrap().join("outside");
    let wish = json!({
        "command": format!("echo x > {}", outside.display()), "description": "try it",
        "requestSandboxBypass": true, "requestSandboxBypassReason": "it needs ssh",
    });
    for (decision, exists) in [("reject", false), ("approve", true)] {
        let prompt = test.http.prompt("s", &call(&wish)).await;
        let request = test.http.pending("s").await;
        let warning = request["detail"]["warning"].as_str().unwrap_or_default().to_owned();
        assert!(warning.contains("outside the sandbox") && warning.contains("it needs ssh"), "{request}");
        assert_eq!(request["offers"].as_array().map_or(0, Vec::len), 0, "no grant covers it: {request}");
        test.answer(&request, decision).await;
        drop(test.http.outcome("s", &prompt).await);
        assert_eq!(outside.exists(), exists, "{decision}");
    }
}

#[tokio::test]
async fn created_file_that_acts_is_moved_away_until_it_is_approved() {
    let mut test = TestServer::inside("workspace").await;
    let ran = test.ran("echo 'evil' > .envrc").await;
    assert!(ran.to_string().contains("has moved away .envrc"), "{ran}");
    let request = test.http.pending("s").await;
    assert!(request.to_string().contains("evil"), "its content is shown: {request}");
    assert!(!test.work(".envrc").exists());
    // The request is durable, and so is the file.
    test.server.kill().await;
    test.server = test.program.serve_http(&["--sandbox", "workspace"]).await;
    test.http = Http::new(&test.program, &test.server);
    let request = test.http.pending("s").await;
    test.answer(&request, "approve").await;
    assert_eq!(std::fs::read_to_string(test.work(".envrc")).unwrap(), "evil\n");
}

#[tokio::test]
async fn server_of_a_repository_runs_inside() {
    for (level, gets_out) in [("workspace", false), ("off", true)] {
        let test = TestServer::inside(level).await;
        let outside = test.program.work().parent().unwrap().join("outside");
        let script = format!("echo x > inside; echo x > {}; touch tried; cat", outside.display());
        let server = json!({ "command": "sh", "args": ["-c", script] });
        let declared = json!({ "mcpServers": { "ws": server } });
        std::fs::write(test.work(".mcp.json"), declared.to_string()).unwrap();
        test.http.prompt("s", "[[text:hello]]").await;
        let request = test.http.pending("s").await;
        test.answer(&request, "approve").await;
        eventually("the server", async || test.work("tried").exists().then_some(())).await;
        assert!(test.work("inside").exists());
        assert_eq!(outside.exists(), gets_out, "{level}");
    }
}

#[tokio::test]
async fn sql_runs_inside() {
    let test = TestServer::inside("workspace").await;
    let query = json!({ "query": "CREATE TABLE t(a); INSERT INTO t VALUES (41); SELECT a + 1 FROM t", "description": "count" });
    let prompt = test.http.prompt("s", &format!("[[tool:sql {query}]][[text:done]]")).await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    let ran = test.last("tool.execution_complete").await.to_string();
    assert!(ran.contains("42"), "{ran}");
}

#[tokio::test]
async fn servers_of_one_command_are_reached_by_the_next_and_end_with_the_server() {
    let mut test = TestServer::inside("workspace").await;
    let serve = json!({
        "command": "python3 -m http.server 8123 --bind 127.0.0.1", "description": "serve", "mode": "async",
    });
    let prompt = test.http.prompt("s", &call(&serve)).await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    let fetch = "for i in $(seq 100); do python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123/\").status)' \
        2>/dev/null && break; sleep 0.1; done";
    let ran = test.ran(fetch).await;
    assert!(ran.to_string().contains("200"), "{ran}");
    let mark = format!("sleep 3{}", std::process::id());
    let orphan = json!({
        "command": format!("(setsid env -i {mark} >/dev/null 2>&1 &); sleep 0.1"), "description": "leave it", "shellId": "orphan",
    });
    let prompt = test.http.prompt("s", &call(&orphan)).await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    let ran = test.last("tool.execution_complete").await;
    assert!(ran.to_string().contains("still running with shellId: orphan"), "it is known: {ran}");
    let stop = "[[tool:stop_bash {\"shellId\":\"orphan\"}]][[text:done]]";
    let prompt = test.http.prompt("s", stop).await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    eventually("the orphan to end with its command", async || (!is_running(&mark)).then_some(())).await;
    let lasting = json!({
        "command": format!("(setsid env -i {mark} >/dev/null 2>&1 &); {mark}"), "description": "wait", "mode": "async",
    });
    let prompt = test.http.prompt("s", &call(&lasting)).await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    eventually("the command", async || is_running(&mark).then_some(())).await;
    test.server.kill().await;
    eventually("everything to end with the server", async || (!is_running(&mark)).then_some(())).await;
}

/// Whether a process with this command line runs.
fn is_running(line: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.into_iter().any(|found| String::from_utf8_lossy(&found).replace('\0', " ").trim() == line)
}
