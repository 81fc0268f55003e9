//! The examples in the documentation work.
//!
//! Blocks marked `sh run` are run in order, in one shell. The output of each is compared with the block marked `shows` after
//! it; `…` matches anything.

use std::process::Stdio;

use baton_testkit::http::Http;
use baton_testkit::program::{Program, Running};
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

/// Whether a text matches a pattern, ignoring whitespace.
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
fn patterns_match_and_reject() {
    assert!(matches("{\"a\": 1}\n", "{\"a\":1}"));
    assert!(matches("{\"a\":1,\"b\":2}", "{\"a\":…,\"b\":…}"));
    assert!(!matches("{\"a\":1}", "{\"a\":2}") && !matches("ab", "a") && !matches("b", "a…"));
}

/// Runs the examples of a page in one shell, with `baton` on the path and a server of the demo model, and compares
/// what they print.
async fn examples_work(page: &str) {
    let program = baton();
    let server = program.serve_http(&["--demo"]).await;
    run_examples(page, &program, &server).await;
    assert_eq!(Http::new(&program, &server).get("/api/health").await.status, 200);
}

async fn run_examples(page: &str, program: &Program, server: &Running) {
    run_examples_with(page, program, server, &std::env::var("PATH").unwrap()).await;
}

/// Runs the examples of a page with the programs of a search path.
async fn run_examples_with(page: &str, program: &Program, server: &Running, path: &str) {
    const MARK: &str = "=====";
    let examples = examples(page);
    let script: String =
        examples.iter().map(|example| format!("{}echo '{MARK}'\n", example.script)).collect();
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
    let mut shell = tokio::process::Command::new("sh");
    shell.env("BATON", format!("http://{}", server.http.unwrap())).env("TOKEN", program.token());
    shell.env("PATH", format!("{}:{path}", programs.display())).env("BATON_HOME", program.home());
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
}

#[tokio::test]
async fn examples_of_the_http_page_work() {
    let page = include_str!("../../../../docs/http.md");
    assert!(examples(page).len() > 10);
    examples_work(page).await;
}

#[tokio::test]
async fn examples_of_the_readme_work() {
    let page = include_str!("../../../../README.md");
    assert_eq!(examples(page).len(), 2);
    examples_work(page).await;
}

#[tokio::test]
async fn examples_of_the_skills_page_work() {
    let page = include_str!("../../../../docs/skills.md");
    assert!(examples(page).len() >= 3);
    examples_work(page).await;
}

/// One of the examples stops the server.
#[tokio::test]
async fn examples_of_the_operations_page_work() {
    let program = baton();
    let server = program.serve_http(&["--demo"]).await;
    Http::new(&program, &server).create("s", serde_json::json!({"cwd": program.work()})).await;
    let page = include_str!("../../../../docs/operations.md");
    assert!(examples(page).len() >= 5);
    run_examples(page, &program, &server).await;
}

/// Directory with programs named `npx` and `python3`, which start packages that the group `mcp` of the tests installed.
fn installed_programs() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let variable = |name: &str| {
        std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run `scripts/test mcp`"))
    };
    let directory = tempfile::tempdir().unwrap();
    let npx = format!(
        "#!/bin/sh\nshift\npackage=$1\nshift\nexec node \"{}/$package/dist/index.js\" \"$@\"\n",
        variable("BATON_MCP_NODE")
    );
    let python = format!("#!/bin/sh\nexec \"{}\" \"$@\"\n", variable("BATON_MCP_PYTHON"));
    for (name, script) in [("npx", npx), ("python3", python)] {
        let path = directory.path().join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

#[tokio::test]
#[ignore = "needs servers from package registries; run `scripts/test mcp`"]
async fn examples_of_the_mcp_page_work() {
    let programs = installed_programs();
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let program = baton().env("PATH", path.clone());
    let server = program.serve_http(&["--demo"]).await;
    let page = include_str!("../../../../docs/mcp.md");
    assert!(examples(page).len() >= 5);
    run_examples_with(page, &program, &server, &path).await;
}
