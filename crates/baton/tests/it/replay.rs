//! Recording and replaying model answers, as in docs/replay.md.

use baton_testkit::chat::Chat;
use serde_json::json;

use crate::{baton, scripted};

#[tokio::test]
async fn documented_example_records_and_replays() {
    let (recording, _model) = scripted().await;
    let file = recording.work().join("hello.jsonl");
    let file = file.to_str().unwrap();
    let recorded = recording.run(&["record", file, "--", "run", "[[text:Hello, you.]] Say hello"]).await;
    assert_eq!((recorded.code(), recorded.stdout.trim()), (Some(0), "Hello, you."), "{}", recorded.stderr);
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");

    // In another directory, without a model: with the variable that tests of SDKs use.
    let replaying = baton().env("BATON_REPLAY", file);
    let replayed = replaying.run(&["run", "[[text:Hello, you.]] Say hello"]).await;
    assert_eq!((replayed.code(), replayed.stdout.trim()), (Some(0), "Hello, you."), "{}", replayed.stderr);
    let missed = replaying.run(&["run", "[[text:Hello, you.]] Say goodbye"]).await;
    assert_ne!(missed.code(), Some(0));
    let shown = format!("{}{}", missed.stdout, missed.stderr);
    assert!(
        shown.contains("Say hello") && shown.contains("Say goodbye"),
        "a miss shows the difference: {shown}"
    );

    // As an API for any client of chat completions.
    let served = baton().serve_with(&["replay", file]).await;
    let program = baton().env("OPENAI_BASE_URL", format!("http://127.0.0.1:{}/v1", served.port));
    let answered = program.run(&["run", "[[text:Hello, you.]] Say hello"]).await;
    assert_eq!((answered.code(), answered.stdout.trim()), (Some(0), "Hello, you."), "{}", answered.stderr);
}

/// Each way to name an engine. It need not be installed: its program is not started.
#[tokio::test]
async fn recording_an_engine_is_refused() {
    let program = baton();
    let file = program.work().join("engine.jsonl");
    let path = file.to_str().unwrap();
    let by_variable = program.clone().env("BATON_RECORD", &file);
    let by_model = program.clone().env("OPENAI_MODEL", "codex");
    for (program, arguments) in [
        (&program, &["record", path, "--", "run", "--engine", "codex", "hi"][..]),
        (&program, &["record", path, "--", "run", "-e", "codex", "hi"]),
        (&program, &["record", path, "--", "run", "-ecodex", "hi"]),
        (&program, &["record", path, "--", "run", "-m", "codex", "hi"]),
        (&program, &["record", path, "--", "run", "-m", "codex/gpt", "hi"]),
        (&by_model, &["record", path, "--", "run", "hi"]),
        (&by_variable, &["run", "-e", "codex", "hi"]),
        (&by_variable, &["run", "-m", "codex", "hi"]),
    ] {
        let refused = program.run(arguments).await;
        assert_eq!(refused.code(), Some(1), "{arguments:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("recordings are of models only"),
            "{arguments:?}: {}",
            refused.stderr
        );
        assert!(!file.exists());
    }
    let server = by_variable.serve().await;
    let client = server.connect().await;
    let chat = Chat::trusting(&client, json!({"model": "codex"})).await;
    let turn = chat.turn("hi").await;
    assert!(turn.errors()[0].contains("recordings are of models only"), "{:?}", turn.errors());
}

#[tokio::test]
async fn recording_of_the_documentation_that_is_written_by_hand_is_replayed() {
    let page = include_str!("../../../../docs/replay.md");
    let (_, rest) = page.split_once("```json\n{\"user\"").unwrap();
    let (lines, _) = rest.split_once("```").unwrap();
    let program = baton();
    let file = program.work().join("by-hand.jsonl");
    std::fs::write(&file, format!("{{\"user\"{lines}")).unwrap();
    std::fs::write(program.work().join("a"), "hello\n").unwrap();
    let replayed = program.env("BATON_REPLAY", &file).run(&["run", "--yes", "What is in the file a?"]).await;
    assert_eq!(replayed.code(), Some(0), "{replayed:?}");
    assert_eq!(replayed.stdout.trim(), "It says hello.", "{}", replayed.stderr);
}

#[tokio::test]
async fn session_with_tools_is_replayed_by_a_provider() {
    let prompt = r#"[[tool:bash {"command":"echo $((6*7))"}]][[text:It is 42.]]"#;
    let (recording, model) = scripted().await;
    let file = recording.work().join("tools.jsonl");
    let recording = recording.env("BATON_RECORD", &file);
    {
        let server = recording.serve().await;
        let client = server.connect().await;
        let chat = Chat::trusting(&client, json!({"streaming": true})).await;
        assert_eq!(chat.turn(prompt).await.text(), "It is 42.");
    }
    drop(model);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.lines().nth(1).unwrap().starts_with(r#"{"follows":1,"results":["42"#), "{text}");

    let program = baton();
    let server = program.serve().await;
    let client = server.connect().await;
    for _ in 0..2 {
        let provider = json!({"type": "replay", "baseUrl": file});
        let chat = Chat::trusting(&client, json!({"provider": provider, "streaming": true})).await;
        let turn = chat.turn(prompt).await;
        assert_eq!((turn.text(), turn.errors().len()), ("It is 42.", 0), "{:?}", turn.errors());
        assert!(!turn.of("assistant.message_delta").is_empty());
        let missed = chat.turn("Something else").await;
        assert!(missed.errors()[0].contains("+user:"), "{:?}", missed.errors());
    }
}
