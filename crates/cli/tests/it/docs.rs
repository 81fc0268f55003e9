//! The examples in the documentation do what it says.
//!
//! Blocks marked `sh run` of a page are run in order, in one shell. What each prints is compared with the block marked
//! `shows` after it; `…` stands for anything.

use std::process::Stdio;

use baton_testkit::http::Http;
use tokio::io::AsyncWriteExt;

use crate::baton;

struct Example {
    script: String,
    shows: Option<String>,
}

fn examples(page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut block: Option<(&str, String)> = None;
    for line in page.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(info)) => block = Some((info, String::new())),
            (Some((_, text)), None) => *text += &format!("{line}\n"),
            (Some(_), Some(_)) => match block.take().unwrap() {
                ("sh run", script) => found.push(Example { script, shows: None }),
                (info, text) if info.ends_with(" shows") => found.last_mut().unwrap().shows = Some(text),
                _ => {}
            },
            (None, None) => {}
        }
    }
    found
}

/// Whether a text is what a pattern says. Spaces and ends of lines do not matter.
fn matches(text: &str, pattern: &str) -> bool {
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    let (text, pattern) = (squeeze(text), squeeze(pattern));
    let mut parts = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn patterns_say_what_they_mean() {
    assert!(matches("{\"a\": 1}\n", "{\"a\":1}"));
    assert!(matches("{\"a\":1,\"b\":2}", "{\"a\":…,\"b\":…}"));
    assert!(!matches("{\"a\":1}", "{\"a\":2}") && !matches("ab", "a") && !matches("b", "a…"));
}

#[tokio::test]
async fn the_examples_of_the_http_page_do_what_it_says() {
    const MARK: &str = "=====";
    let program = baton();
    let server = program.serve_http(&["--demo"]).await;
    let examples = examples(include_str!("../../../../docs/http.md"));
    assert!(examples.len() > 10);
    let script: String =
        examples.iter().map(|example| format!("{}echo '{MARK}'\n", example.script)).collect();
    let mut shell = tokio::process::Command::new("sh");
    shell.env("BATON", format!("http://{}", server.http.unwrap())).env("TOKEN", program.token());
    shell.current_dir(program.work()).kill_on_drop(true);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(script.as_bytes()).await.unwrap();
    drop(stdin);
    let output = tokio::time::timeout(3 * baton_testkit::client::LIMIT, child.wait_with_output());
    let output = output.await.expect("the examples end").unwrap();
    let (printed, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let printed: Vec<&str> = printed.split(&format!("{MARK}\n")).collect();
    assert_eq!(printed.len(), examples.len() + 1, "{printed:#?} {errors}");
    for (example, printed) in examples.iter().zip(&printed) {
        let shows = example.shows.as_deref().unwrap_or_default();
        assert!(matches(printed, shows), "{}\nprints\n{printed}\nnot\n{shows}\n{errors}", example.script);
    }
    assert_eq!(Http::new(&program, &server).get("/api/health").await.status, 200);
}
