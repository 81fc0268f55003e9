//! Backup, restore and stop, on the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_testkit::http::Http;
use serde_json::{Value, json};

use crate::{baton, scripted};

#[tokio::test]
async fn backup_under_load_restores_every_prompt_acknowledged_before_it() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Arc::new(Http::new(&program, &server));
    for n in 0..4 {
        http.create(&format!("s{n}"), json!({"cwd": program.work()})).await;
    }
    let ending = Arc::new(AtomicBool::new(false));
    let (acknowledged, mut acknowledgements) = tokio::sync::mpsc::unbounded_channel();
    let load: Vec<_> = (0..4)
        .map(|n| {
            let (http, ending, acknowledged) = (http.clone(), ending.clone(), acknowledged.clone());
            tokio::spawn(async move {
                while !ending.load(Ordering::Relaxed) {
                    let prompt = http.prompt(&format!("s{n}"), "[[text:done]]").await;
                    acknowledged.send((format!("s{n}"), prompt)).unwrap();
                }
            })
        })
        .collect();
    let mut before = Vec::new();
    while before.len() < 40 {
        before.push(acknowledgements.recv().await.unwrap());
    }
    let file = program.work().join("backup.tar");
    let backup = program.run(&["backup", "--json", file.to_str().unwrap()]).await;
    ending.store(true, Ordering::Relaxed);
    for task in load {
        task.await.unwrap();
    }
    assert_eq!(backup.code(), Some(0), "{backup:?}");
    assert_eq!(backup.json_lines()[0]["sessions"], 4);

    let refused = program.run(&["restore", "--force", file.to_str().unwrap()]).await;
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("baton stop"), "{refused:?}");

    let (other, _model) = scripted().await;
    let restored = other.run(&["restore", "--json", file.to_str().unwrap()]).await;
    assert_eq!(restored.code(), Some(0), "{restored:?}");
    let server = other.serve_http(&[]).await;
    let http = Http::new(&other, &server);
    for (session, prompt) in before {
        let found = http.get(&format!("/api/sessions/{session}/prompts/{prompt}")).await;
        assert_eq!(found.status, 200, "{session} {prompt}");
    }
    for n in 0..4 {
        let prompt = http.prompt(&format!("s{n}"), "[[text:still here]]").await;
        assert_eq!(http.outcome(&format!("s{n}"), &prompt).await, "completed", "its history opens");
    }
}

#[tokio::test]
async fn stop_ends_the_server_and_says_when_there_is_none() {
    let program = baton();
    let server = program.serve_http(&["--demo"]).await;
    let stopped = program.run(&["stop", "--json"]).await;
    assert_eq!(stopped.code(), Some(0), "{stopped:?}");
    assert_eq!(stopped.json_lines()[0]["running"], json!([]));
    assert_ne!(stopped.json_lines()[0]["stopped"], Value::Array(vec![]));
    drop(server);
    let again = program.run(&["stop"]).await;
    assert_eq!(again.code(), Some(3));
    assert!(again.stderr.contains("no server"), "{again:?}");
}

/// Names of the metrics in a text.
fn metric_names(text: &str) -> std::collections::BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("baton_"));
    words.map(str::to_owned).collect()
}

/// Metrics that only servers which share a database have.
const OF_SEVERAL_SERVERS: [&str; 6] = [
    "baton_fenced",
    "baton_heartbeat_age_seconds",
    "baton_heartbeats_missed_total",
    "baton_peer_links_lost_total",
    "baton_sessions_relayed",
    "baton_takeovers_total",
];

#[tokio::test]
async fn metrics_count_work_and_the_dashboard_and_the_page_name_only_those_that_exist() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({"cwd": program.work()})).await;
    let prompt = http.prompt("s", r#"[[tool:bash {"command":"make -n all"}]]"#).await;
    let request = http.pending("s").await;
    let metrics = async || {
        let response = http.get("/api/metrics").await;
        assert_eq!(response.status, 200);
        response.body
    };
    let waiting = metrics().await;
    assert!(waiting.contains("\nbaton_requests_pending{kind=\"permission\"} 1\n"), "{waiting}");
    let age = waiting
        .lines()
        .find_map(|line| line.strip_prefix("baton_requests_oldest_age_seconds{kind=\"permission\"} "));
    assert!(age.unwrap().parse::<f64>().unwrap() > 0.0, "{waiting}");
    let path = format!("/api/sessions/s/requests/{}", request["requestId"].as_str().unwrap());
    let _ = http.post(&path, json!({"kind": "permission", "decision": "approve"})).await.expect(200);
    assert_eq!(http.outcome("s", &prompt).await, "completed");
    let done = metrics().await;
    for line in [
        "baton_prompts_total 1",
        "baton_turns_total{outcome=\"completed\"} 1",
        "baton_turns_total{outcome=\"failed\"} 0",
        "baton_model_calls_total 2",
        "baton_requests_pending{kind=\"permission\"} 0",
        "baton_sessions_live 1",
        "# TYPE baton_turns_total counter",
        "# TYPE baton_requests_pending gauge",
    ] {
        assert!(done.lines().any(|found| found == line), "{line} is not in\n{done}");
    }
    let real = metric_names(&done);
    for page in [
        include_str!("../../../../contrib/grafana/baton.json"),
        include_str!("../../../../docs/operations.md"),
    ] {
        let named = metric_names(page);
        assert!(named.len() > 10);
        let missing: Vec<_> =
            named.difference(&real).filter(|name| !OF_SEVERAL_SERVERS.contains(&name.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?} do not exist");
        assert!(real.is_subset(&named), "{:?} are not shown", real.difference(&named));
    }
}

#[tokio::test]
async fn grants_are_revoked_and_audited_with_a_running_server_and_without() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    let echo = r#"[[tool:bash {"command":"echo hello"}]]"#;
    for session in ["a", "b"] {
        http.create(session, json!({"cwd": program.work()})).await;
        let prompt = http.prompt(session, echo).await;
        let request = http.pending(session).await;
        let path = format!("/api/sessions/{session}/requests/{}", request["requestId"].as_str().unwrap());
        let answer = json!({"kind": "permission", "decision": "approve-for-session"});
        let _ = http.post(&path, answer).await.expect(200);
        assert_eq!(http.outcome(session, &prompt).await, "completed");
    }
    let list = async || {
        let listed = program.run(&["grants", "list", "--json"]).await;
        assert_eq!(listed.code(), Some(0), "{listed:?}");
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        listed["sessions"].as_array().unwrap().clone()
    };
    let held = list().await;
    assert_eq!(held.len(), 2, "{held:?}");
    let table = program.run(&["grants"]).await.stdout;
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows.len() == 3 && rows[0].starts_with("GRANT"), "{table}");
    assert!(
        rows[1].ends_with("HTTP API  `echo` with any plain arguments") && !table.contains('{'),
        "{table}"
    );
    let id = held.iter().find(|found| found["session"] == "a").unwrap()["grants"][0]["id"].as_str().unwrap();
    let revoked = program.run(&["grants", "revoke", id]).await;
    assert_eq!(revoked.code(), Some(0), "{revoked:?}");
    assert_eq!(program.run(&["grants", "revoke", id]).await.code(), Some(3), "it is gone");
    http.prompt("a", echo).await;
    let _ = http.pending("a").await;

    assert_eq!(program.run(&["stop"]).await.code(), Some(0));
    drop(server);
    let revoked = program.run(&["grants", "revoke", "--session", "b"]).await;
    assert_eq!(revoked.code(), Some(0), "{revoked:?}");
    assert_eq!(list().await, [] as [Value; 0]);

    let audit = program.run(&["audit", "--json", "--since", "1h"]).await;
    assert_eq!(audit.code(), Some(0), "{audit:?}");
    let entries = audit.json_lines();
    let seen = |session: &str, action: &str, by: &str| {
        let found = entries
            .iter()
            .filter(|entry| entry["session"] == session && entry["action"] == action && entry["by"] == by);
        found.count()
    };
    assert_eq!(
        (seen("a", "prompted", "HTTP API"), seen("b", "prompted", "HTTP API")),
        (2, 1),
        "{entries:#?}"
    );
    assert_eq!((seen("a", "approved", "HTTP API"), seen("a", "grant_revoked", "terminal")), (1, 1));
    assert_eq!(seen("b", "grant_revoked", "baton grants"), 1);
}

#[tokio::test]
async fn service_is_installed_through_systemd_or_says_what_to_do() {
    use std::os::unix::fs::PermissionsExt;
    let program = baton();
    let bin = program.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let log = program.work().join("systemctl.log");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}\n[ \"$2\" = is-active ] && echo active\nexit 0\n",
        log.display()
    );
    std::fs::write(bin.join("systemctl"), script).unwrap();
    std::fs::set_permissions(bin.join("systemctl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let with = program.clone().env("PATH", format!("{}:/bin:/usr/bin", bin.display()));
    let installed = with.run(&["service", "install", "--", "--http", "127.0.0.1:0"]).await;
    assert_eq!(installed.code(), Some(0), "{installed:?}");
    let asked = std::fs::read_to_string(&log).unwrap();
    // Restarted, not only started: a service that runs may have other arguments.
    let expected = "--user daemon-reload\n--user enable baton.service\n--user restart baton.service\n";
    assert_eq!(asked, expected);
    let wrong = with.run(&["service", "install", "--", "--htp", "127.0.0.1:0"]).await;
    assert_eq!(wrong.code(), Some(1), "{wrong:?}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), expected, "nothing is installed");
    let status = with.run(&["service", "status", "--json"]).await;
    assert_eq!((status.code(), status.json_lines()[0]["state"].as_str()), (Some(0), Some("active")));
    let unit = status.json_lines()[0]["unit"].as_str().unwrap().to_owned();
    assert!(std::fs::read_to_string(&unit).unwrap().contains("serve --http 127.0.0.1:0\n"));
    assert_eq!(with.run(&["service", "uninstall"]).await.code(), Some(0));
    assert!(!std::path::Path::new(&unit).exists());
    assert_eq!(with.run(&["service", "uninstall"]).await.code(), Some(3));

    let without = program.clone().env("PATH", bin.parent().unwrap().join("nothing"));
    let left = without.run(&["service", "install"]).await;
    assert_eq!(left.code(), Some(3), "{left:?}");
    assert!(left.stdout.contains("systemctl --user restart baton.service"), "{left:?}");
    assert!(left.stderr.contains("baton serve"), "{left:?}");
}

#[tokio::test]
async fn address_that_is_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = baton().run(&["serve", "--http", &address]).await;
    assert_eq!(ran.code(), Some(1), "{}", ran.stderr);
    let expected = format!("cannot listen on {address}: it is in use; stop the other server");
    assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
}
