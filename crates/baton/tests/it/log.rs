//! `--log-format json`: standard error of a server is one JSON object a line, which names the session it is about.

use baton_testkit::http::Http;
use baton_testkit::program::Running;
use serde_json::{Value, json};

use crate::{baton, scripted};

fn entries(server: &Running) -> Vec<Value> {
    let parse = |line: &str| -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    server.stderr().lines().map(parse).collect()
}

#[tokio::test]
async fn every_line_of_a_json_log_is_an_object_from_start_to_stop() {
    let (program, _model) = scripted().await;
    let mut server = program.serve_http(&["--log-format", "json", "--log-level", "info"]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({})).await;
    let prompt = http.prompt("s", "[[text:hello]]").await;
    http.outcome("s", &prompt).await;
    assert!(server.stop().await.success());
    server.until_stderr("\"stopping\"").await;
    let log = entries(&server);
    for message in ["serving", "stopping"] {
        assert!(log.iter().any(|entry| entry["message"] == message), "{message}: {log:#?}");
    }
    for entry in &log {
        assert!(entry["timestamp"].is_string() && entry["level"].is_string(), "{entry}");
    }
    assert!(!server.stderr().contains(&program.token()), "{}", server.stderr());
}

#[tokio::test]
async fn error_that_ends_a_server_is_part_of_its_json_log() {
    let program = baton();
    let refused = ["serve", "--demo", "--http", "0.0.0.0:0", "--insecure-no-token"];
    let ended = program.run(&[&refused[..], &["--log-format", "json"]].concat()).await;
    assert_eq!(ended.code(), Some(1));
    let entry: Value = serde_json::from_str(ended.stderr.trim_end()).unwrap();
    assert_eq!(entry["level"], "ERROR");
    assert!(entry["message"].as_str().unwrap().contains("refusing to serve other machines"), "{entry}");
    let plain = program.run(&refused).await;
    assert!(plain.stderr.starts_with("baton: refusing"), "{plain:?}");
}

#[tokio::test]
async fn log_format_is_set_by_flag_variable_or_file_in_that_order() {
    let program = baton();
    let file = program.work().join("config.toml");
    std::fs::write(&file, "log_format = \"json\"\n").unwrap();
    let file = file.to_str().unwrap();
    let set = program.clone().env("BATON_LOG_FORMAT", "text");
    for (program, arguments, value, source) in [
        (&program, &["config", "--json"][..], "text", "default"),
        (&program, &["config", "--json", "--config", file], "json", file),
        (&set, &["config", "--json", "--config", file], "text", "$BATON_LOG_FORMAT"),
        (&set, &["config", "--json", "--log-format", "json"], "json", "flag"),
    ] {
        let shown = program.run(arguments).await;
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(shown["log_format"], json!({"value": value, "source": source}), "{arguments:?}");
    }
    let wrong = program.run(&["config", "--log-format", "xml"]).await;
    assert!(wrong.code() == Some(2) && wrong.stderr.contains("[possible values: text, json]"), "{wrong:?}");
    let wrong = program.env("BATON_LOG_FORMAT", "xml").run(&["config"]).await;
    assert!(wrong.code() == Some(1) && wrong.stderr.contains("unknown log format \"xml\""), "{wrong:?}");
    let script = baton().run(&["completions", "bash"]).await;
    assert!(script.stdout.contains("--log-format"), "{}", script.stdout);
}
