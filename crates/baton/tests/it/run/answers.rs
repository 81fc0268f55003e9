//! Answers, tool output, retries, and how a run ends.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::process::Command;

use super::{on_terminal, sessions};
use crate::{baton, scripted};

#[tokio::test]
async fn markdown_is_rendered_on_a_terminal_and_unchanged_in_a_pipe() {
    let (program, _model) = scripted().await;
    let answer = "# Title\n\nsome **bold** and `code`\n\n- item\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\nls **x**\n```\nend";
    let prompt = format!("[[text:{answer}]]");
    let mut terminal = on_terminal(&program, &[&prompt]);
    for shown in [
        "\u{1b}[1;4mTitle\u{1b}[0m\r\n",
        "some \u{1b}[1mbold\u{1b}[0m and \u{1b}[36mcode\u{1b}[0m\r\n",
        "• item\r\n",
        "1 \u{1b}[2m│\u{1b}[0m 2\r\n",
        "    ls **x**",
        "\r\nend\r\n",
    ] {
        terminal.until(shown).await;
    }
    assert!(terminal.running.ended().await.success());
    assert!(!terminal.screen().contains("```"), "{}", terminal.screen());
    let ran = program.run(&["run", &prompt]).await;
    assert_eq!(ran.stdout, format!("{answer}\n"));
}

#[tokio::test]
async fn tool_output_is_shown_while_the_tool_runs() {
    let (program, _model) = scripted().await;
    let command = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo second; seq 1 30";
    let prompt = format!(r#"[[tool:bash {{"command":"{command}"}}]][[text:finished]]"#);
    let mut terminal = on_terminal(&program, &["--yes", &prompt]);
    terminal.until("│ first").await;
    assert!(!terminal.screen().contains("│ second"));
    std::fs::write(program.work().join("go"), "").unwrap();
    terminal.until("│ second").await;
    terminal.until("more lines)").await;
    terminal.until("\r\nfinished\r\n").await;
    assert!(terminal.running.ended().await.success());
    let quiet = program.run(&["run", "--quiet", "--yes", &prompt]).await;
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("finished\n", ""));
}

#[tokio::test]
async fn retry_is_shown_when_it_happens() {
    let (program, _model) = scripted().await;
    let mut terminal = on_terminal(&program, &["[[error:500*1]][[text:second try]]"]);
    terminal.until("failed (500").await;
    terminal.until("Retrying in ").await;
    terminal.until("\r\nsecond try\r\n").await;
    assert!(terminal.running.ended().await.success());
}

#[tokio::test]
async fn silence_is_explained_on_a_terminal() {
    let (program, model) = scripted().await;
    let mut terminal = on_terminal(&program, &["[[hold:gate]][[text:late]]"]);
    terminal.until_within("… waiting for the model · ", Duration::from_secs(60)).await;
    model.release("gate");
    terminal.until("\r\nlate\r\n").await;
    assert!(terminal.running.ended().await.success());
    assert!(!terminal.screen().contains("waiting for"), "it is erased: {}", terminal.screen());
}

#[tokio::test]
async fn stopped_model_server_fails_at_once_and_leaves_no_session() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let program = baton().env("OPENAI_BASE_URL", url);
    let ran = program.run(&["run", "hello"]).await;
    assert_eq!(ran.code(), Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("Start the model server") && !ran.stderr.contains("Retrying"),
        "{}",
        ran.stderr
    );
    assert!(sessions(&program).await.is_empty(), "a failed start leaves no session");
}

#[tokio::test]
async fn session_with_an_answer_stays_when_a_later_prompt_fails() {
    let (program, _model) = scripted().await;
    assert_eq!(program.run(&["run", "[[text:one]]"]).await.code(), Some(0));
    assert_eq!(program.run(&["run", "--continue", "[[error:400]]"]).await.code(), Some(1));
    assert_eq!(sessions(&program).await.len(), 1);
}

#[tokio::test]
async fn incomplete_answers_say_so_and_have_their_own_exit_codes() {
    let (program, _model) = scripted().await;
    for (finish, code, words) in [("length", 6, "cut off"), ("content_filter", 4, "content filter")] {
        let ran = program.run(&["run", &format!("[[text:half an]][[finish:{finish}]]")]).await;
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(code), "half an\n"), "{}", ran.stderr);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn exit_codes_are_in_the_help() {
    let help = baton().run(&["run", "--help"]).await.stdout;
    for line in [
        "3    no such session",
        "4    stopped by",
        "5    a tool call was rejected",
        "6    answered, but cut off",
    ] {
        assert!(help.contains(line), "{help}");
    }
}

#[tokio::test]
async fn demo_model_does_not_answer_in_the_name_of_another() {
    let program = baton();
    let ran = program.run(&["run", "--model", "other", "hello"]).await;
    assert_eq!((ran.code(), ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("no provider is configured for the model \"other\""), "{}", ran.stderr);
    let server = program.serve_http(&[]).await;
    let ran = program.run(&["run", "--model", "other", "hello"]).await;
    assert_eq!((ran.code(), ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    drop(server);
}

#[tokio::test]
async fn header_names_the_engine_that_answers() {
    let (program, model) = scripted().await;
    let ran = program.run(&["run", "[[text:hello]]"]).await;
    let host = model.base_url();
    assert!(ran.stderr.contains(&format!("· scripted · {host}")), "{}", ran.stderr);
    let ran = baton().run(&["run", "hello"]).await;
    assert!(ran.stderr.contains("· demo model, no AI"), "{}", ran.stderr);

    // A session of an engine keeps it, whatever this command is configured with.
    let server = program.serve_http(&[]).await;
    let http = baton_testkit::http::Http::new(&program, &server);
    http.create("e", serde_json::json!({"model": "codex"})).await;
    let ran = program.run(&["run", "--session", "e", "hello"]).await;
    assert!(ran.stderr.contains("session e · codex"), "{}", ran.stderr);
}

#[tokio::test]
async fn first_model_of_the_endpoint_is_named_when_it_answers() {
    let (program, model) = scripted().await;
    model.set_models(serde_json::json!({"data": [{"id": "first-listed"}, {"id": "second"}]}));
    let program = program.env("OPENAI_MODEL", "");
    let server = program.serve_http(&[]).await;
    for place in [&[][..], &["--no-server"]] {
        let ran = program.run(&[&["run"], place, &["[[text:hello]]"]].concat()).await;
        assert_eq!(ran.stdout, "hello\n", "{}", ran.stderr);
        assert_eq!(ran.stderr.matches("answered by first-listed").count(), 1, "{}", ran.stderr);
    }
    drop(server);
}

#[tokio::test]
async fn demo_model_is_announced_unless_it_was_asked_for() {
    let program = baton();
    for form in ["--quiet", "--json"] {
        let ran = program.run(&["run", form, "hello"]).await;
        assert!(ran.stderr.contains("demo model, no AI"), "{form}: {}", ran.stderr);
        let ran = program.run(&["run", form, "--demo", "hello"]).await;
        assert_eq!((ran.code(), ran.stderr.as_str()), (Some(0), ""), "{form}");
    }
}

#[tokio::test]
async fn exit_code_of_a_failed_command_is_shown_with_its_output() {
    let (program, _model) = scripted().await;
    let prompt = r#"[[tool:bash {"command":"echo no; exit 3"}]][[text:it failed]]"#;
    for (level, place) in [("off", ""), ("workspace", ", in the sandbox (workspace)")] {
        let ran = program.run(&["run", "--yes", "--sandbox", level, prompt]).await;
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(0), "it failed\n"), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("  │ no\n✗ exit code 3{place}\n")), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn retries_and_missing_credentials_of_an_engine_are_shown() {
    let program = baton();
    let codex = program.work().join("codex");
    let script = r#"#!/bin/sh
[ "$1" = --version ] && { echo codex-cli 0.166.0; exit; }
cat > /dev/null
echo '{"type":"thread.started","thread_id":"t-1"}'
echo '{"type":"error","message":"Reconnecting... 2/5 (no route)"}'
echo '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"at last"}}'
echo '{"type":"turn.completed","usage":{}}'
"#;
    // Another process writes it: one that is open for writing here cannot be executed.
    let mut write = Command::new("sh");
    write.args(["-c", r#"printf %s "$1" > "$0" && chmod +x "$0""#]).arg(&codex).arg(script);
    assert!(write.status().await.unwrap().success());
    let config = program.work().join("engines.toml");
    std::fs::write(&config, format!("[engines.codex]\nprogram = {codex:?}\nmode = \"exec\"\n")).unwrap();
    let config = config.to_str().unwrap();

    let ran = program.run(&["run", "--config", config, "--engine", "codex", "hello"]).await;
    assert_eq!(ran.stdout, "at last\n", "{}", ran.stderr);
    for shown in ["! codex is probably not logged in", "! codex: no route (2 of 5). Retrying."] {
        assert!(ran.stderr.contains(shown), "{}", ran.stderr);
    }
    let events = program.run(&["run", "--json", "--config", config, "--engine", "codex", "hello"]).await;
    let failed = events.json_lines().into_iter().find(|event| event["type"] == "model.call_failure");
    let failed = failed.unwrap_or_else(|| panic!("{}", events.stdout));
    assert_eq!(failed["data"]["source"], "top_level");
    assert_eq!(failed["data"]["errorMessage"], "codex: no route (2 of 5).");
    assert_eq!(failed["data"]["batonRetryInMs"], 0);
}
