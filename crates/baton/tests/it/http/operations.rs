//! Who may do what, through every door: each operation is tried as each role, and the table in `docs/security.md` says the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use baton_people::Role;
use baton_service::Operation;
use serde_json::json;

use super::TestServer;

/// A path with something in place of its parameters.
fn filled(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "none".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn each_route_refuses_weaker_roles_before_it_reads_the_body() {
    let test = TestServer::start().await;
    let session_api = baton_http::operations().into_iter();
    let session_api =
        session_api.filter_map(|(method, path, operation)| Some((method, path.to_owned(), operation?)));
    let of_crush = baton_crush::operations().into_iter();
    let routes: Vec<_> = session_api.chain(of_crush).collect();
    assert!(routes.len() > 140, "{}", routes.len());
    for role in Role::ALL {
        let person = test.person(role.name(), role.name()).await;
        for (method, path, operation) in &routes {
            // Crush's clients connect as SDKs do.
            let floor = if path.starts_with("/v1/") { Operation::Connect.role() } else { Role::Viewer };
            let is_allowed = role >= operation.role().max(floor);
            let answer = if is_allowed {
                person.send(method.as_str(), &filled(path), &[], Some(&json!({}))).await
            } else {
                let head = person.head(method.as_str(), &filled(path), &[("Content-Length", "9")]);
                person.exchange(format!("{head}\r\nnot JSON!").as_bytes()).await
            };
            assert_eq!(answer.status == 403, !is_allowed, "{role}: {method} {path}: {answer:?}");
            if !is_allowed && path.starts_with("/api/") {
                assert_eq!(answer.refused(403), "forbidden");
                assert!(answer.body.contains(&format!("your role is {role}")), "{answer:?}");
            }
        }
        for (method, path, status) in [("GET", "/api/nothing", 404), ("PUT", "/api/sessions", 405)] {
            let expected = if role == Role::Admin { status } else { 403 };
            assert_eq!(
                person.send(method, path, &[], None).await.status,
                expected,
                "{role}: {method} {path}"
            );
        }
    }
}

#[tokio::test]
async fn each_method_refuses_weaker_roles_before_it_reads_the_parameters() {
    let test = TestServer::start().await;
    for role in Role::ALL {
        let added = test.program.run(&["people", "add", role.name(), "--role", role.name(), "--json"]).await;
        let token = serde_json::from_str::<serde_json::Value>(&added.stdout).unwrap()["token"].clone();
        let client = test.server.greetless().await;
        let connected = client.call("connect", json!({ "token": token })).await;
        if role < Operation::Connect.role() {
            let error = connected.unwrap_err();
            assert!(error["message"].as_str().unwrap().contains(&format!("your role is {role}")), "{error}");
            continue;
        }
        connected.unwrap();
        // Those that end the server, or make it wait for this client, come last.
        let is_last = |method: &str| ["runtime.shutdown", "llmInference.setProvider"].contains(&method);
        for (method, operation) in baton_rpc::operations().filter(|(method, _)| *method != "connect") {
            let is_allowed = role >= operation.role();
            if is_allowed && is_last(method) {
                continue;
            }
            // No parameters are of this form.
            let answer = client.call(method, json!([method])).await;
            let refused = answer.err().map(|error| error["message"].as_str().unwrap_or_default().to_owned());
            let is_refused = refused.as_ref().is_some_and(|why| why.starts_with("your role is"));
            assert_eq!(is_refused, !is_allowed, "{role}: {method}: {refused:?}");
        }
        if role == Role::Admin {
            client.ok("llmInference.setProvider", json!({})).await;
            client.ok("runtime.shutdown", json!({})).await;
        }
    }
}

/// Describes all operations, with what each door calls them.
fn table() -> String {
    let mut doors: BTreeMap<Operation, (Vec<String>, Vec<String>)> = BTreeMap::new();
    let routes = baton_http::operations().into_iter();
    let routes = routes.filter_map(|(method, path, operation)| Some((method, path.to_owned(), operation?)));
    for (method, path, operation) in routes.chain(baton_crush::operations()) {
        let short = path.replace("/api/sessions/{id}", "…").replace("/v1/workspaces/{id}", "/v1/…");
        doors.entry(operation).or_default().0.push(format!("`{method} {short}`"));
    }
    for (method, operation) in baton_rpc::operations() {
        let mark = if baton_rpc::is_for_extensions(method) { "**" } else { "" };
        doors.entry(operation).or_default().1.push(format!("{mark}`{method}`{mark}"));
    }
    let mut text = String::new();
    let mut subject = "";
    for operation in Operation::ALL {
        if operation.subject() != subject {
            subject = operation.subject();
            let _ = writeln!(
                text,
                "\n**{subject}**\n\n| operation | role | HTTP | JSON-RPC |\n|---|---|---|---|"
            );
        }
        let (http, rpc) = doors.remove(operation).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            operation.summary(),
            operation.role(),
            http.join(" "),
            rpc.join(" ")
        );
    }
    text
}

/// To update the document: `BATON_WRITE_OPERATIONS=1 cargo test -p baton --test it operations`.
#[test]
fn documented_table_of_operations_is_up_to_date() {
    const START: &str = "<!-- operations -->\n";
    const END: &str = "\n<!-- end of operations -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (before, rest) = document.split_once(START).expect("the start of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let generated = format!("{before}{START}{}{END}{after}", table());
    if std::env::var_os("BATON_WRITE_OPERATIONS").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), generated, "update it with BATON_WRITE_OPERATIONS=1");
}

/// An operation that no door offers is a row of the table that nobody can use.
#[test]
fn each_operation_is_offered_by_a_door() {
    let http = baton_http::operations().into_iter().filter_map(|(.., operation)| operation);
    let crush = baton_crush::operations().into_iter().map(|(.., operation)| operation);
    let rpc = baton_rpc::operations().map(|(_, operation)| operation);
    let offered: Vec<Operation> = http.chain(crush).chain(rpc).collect();
    let unused: Vec<_> = Operation::ALL.iter().filter(|operation| !offered.contains(operation)).collect();
    // A link with the server's token, which the guard answers before there is a route.
    assert_eq!(unused, [&Operation::LogInAsOwner]);
}
