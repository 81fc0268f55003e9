//! `baton sessions`, on a terminal and in pipes.

use baton_testkit::http::Http;
use baton_testkit::program::Program;
use baton_testkit::terminal::Terminal;
use serde_json::{Value, json};

use crate::scripted;

/// A title that tries to leave its row.
const HOSTILE: &str = "one\nforged row\u{1b}[2K\u{1b}[1A\u{202e}";

#[tokio::test]
async fn list_has_columns_and_titles_cannot_break_rows() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("first", json!({"cwd": program.work(), "model": "codex"})).await;
    http.create("second", json!({"cwd": program.work()})).await;
    let prompt = http.prompt("second", &format!("{HOSTILE} {} [[text:ok]]", "long ".repeat(100))).await;
    http.outcome("second", &prompt).await;

    let mut terminal =
        Terminal::start(&program.clone().env("TZ", "EST5").command(&["sessions", "list"])).unwrap();
    terminal.running.ended().await;
    terminal.until("first").await;
    let screen = terminal.screen();
    let rows: Vec<&str> = screen.trim_end().split("\r\n").collect();
    assert_eq!(rows.len(), 3, "a header and two rows: {screen}");
    assert!(rows[0].contains("ID") && rows[0].contains("CHANGED") && rows[0].contains("STATE"), "{screen}");
    assert!(rows[1].starts_with("second") && rows[1].contains(r"one forged row\x1b[2K"), "{screen}");
    assert!(
        rows[2].starts_with("first") && rows[2].contains("codex") && rows[2].contains("open"),
        "{screen}"
    );

    let listed = program.run(&["sessions", "list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&listed["sessions"][1]["model"], &listed["sessions"][1]["state"]),
        (&json!("codex"), &json!("open")),
        "{listed}"
    );
    assert_eq!(listed["sessions"][0]["model"], "scripted", "the model that answered: {listed}");
}

#[tokio::test]
async fn sessions_are_renamed_with_and_without_a_server() {
    let (program, _model) = scripted().await;
    let program = program.env("USER", "ada");
    assert_eq!(program.run(&["run", "[[text:hello]]"]).await.code(), Some(0));
    let title = async || {
        let listed = program.run(&["sessions", "list", "--json"]).await;
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        let first = &listed["sessions"][0];
        (first["id"].as_str().unwrap().to_owned(), first["title"].clone())
    };
    let (id, _) = title().await;
    let renamed = program.run(&["sessions", "rename", &id[..8], "my", "first\nsession"]).await;
    assert_eq!(renamed.code(), Some(0), "{}", renamed.stderr);
    assert!(renamed.stderr.contains("to \"my first session\""), "{}", renamed.stderr);
    assert_eq!(title().await.1, "my first session");
    let server = program.serve_http(&[]).await;
    assert_eq!(program.run(&["sessions", "rename", &id, "again"]).await.code(), Some(0));
    assert_eq!(title().await.1, "again");
    let audit = program.run(&["audit", "--json"]).await.json_lines();
    let renamed: Vec<&Value> = audit.iter().filter(|entry| entry["action"] == "renamed").collect();
    assert_eq!(renamed.len(), 2, "{audit:?}");
    assert!(renamed.iter().all(|entry| entry["by"] == "terminal (ada)"), "{renamed:?}");
    assert_eq!(program.run(&["sessions", "rename", &id, " "]).await.code(), Some(1));
    for missing in [&["sessions", "show", "nowhere"][..], &["people", "remove", "nobody"]] {
        let ran = program.run(missing).await;
        assert_eq!(ran.code(), Some(3), "there is no such thing: {ran:?}");
    }
    drop(server);
}

#[tokio::test]
async fn search_finds_titles_and_contents() {
    let (program, _model) = scripted().await;
    program.run(&["run", "about apples [[text:They are red.]]"]).await;
    program.run(&["run", "about pears [[text:They are Green.]]"]).await;
    let search = async |words: &[&str]| {
        let found = program.run(&[&["sessions", "search", "--json"], words].concat()).await;
        let found: Value = serde_json::from_str(&found.stdout).unwrap();
        found["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found["excerpt"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let found = search(&["ARE", "green"]).await;
    assert!(found.len() == 1 && found[0].contains("They are Green."), "{found:?}");
    assert_eq!(search(&["apples"]).await.len(), 1);
    assert_eq!(search(&["about"]).await.len(), 2);
    let none = program.run(&["sessions", "search", "bananas"]).await;
    assert!(none.stdout.is_empty() && none.stderr.contains("no session matches"), "{none:?}");
    let rows = program.run(&["sessions", "search", "green"]).await.stdout;
    assert!(rows.lines().count() == 3 && rows.contains("They are Green."), "{rows}");
    let long = "a title that leaves no room for anything else ".repeat(3) + "[[text:the needle]]";
    program.run(&["run", &long]).await;
    let terminal = Terminal::start(&program.command(&["sessions", "search", "needle"])).unwrap();
    terminal.until("the needle").await;
}

#[tokio::test]
async fn exported_page_is_self_contained_and_harmless() {
    let (program, _model) = scripted().await;
    let attack = "<script>alert(1)</script> <img src=https://x.example/a.png> [go](javascript:alert(1))";
    let prompt = format!("# <b>hi</b>\u{202e} [[text:**bold** {attack}]]");
    assert_eq!(program.run(&["run", &prompt]).await.code(), Some(0));
    let file = program.work().join("page.html");
    let listed = program.run(&["sessions", "list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let id = listed["sessions"][0]["id"].as_str().unwrap();
    let done = program.run(&["sessions", "export", id, "--html", "-o", file.to_str().unwrap()]).await;
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("as a page to ") && done.stderr.contains("page.html"), "{}", done.stderr);
    let again = ["sessions", "export", id, "--html", "-o", file.to_str().unwrap(), "--force"];
    let refused = program.run(&again[..6]).await;
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("exists") && refused.stderr.contains("--force"), "{refused:?}");
    assert_eq!(program.run(&again).await.code(), Some(0));
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("default-src 'none'"), "{page}");
    assert!(page.contains("<strong>bold</strong>") && page.contains("&lt;script&gt;"), "{page}");
    for bad in ["<script", "<img", "<b>hi", "href=\"javascript", "\u{202e}", "src="] {
        assert!(!page.replace("&lt;img src=", "").contains(bad), "{bad:?} in {page}");
    }
    let printed = program.run(&["sessions", "export", id, "--html"]).await;
    assert_eq!(printed.stdout, page);
}

#[tokio::test]
async fn bare_command_lists_sessions_and_delete_asks_with_the_title() {
    let (program, _model) = scripted().await;
    assert_eq!(program.run(&["run", "[[text:hello]]"]).await.code(), Some(0));
    let listed = program.run(&["sessions"]).await;
    assert_eq!(listed.code(), Some(0), "{listed:?}");
    let id = listed.stdout.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(listed.stdout.starts_with("ID "), "{listed:?}");
    program.run(&["sessions", "rename", &id, "the flaky test"]).await;
    let mut terminal = Terminal::start(&program.command(&["sessions", "delete", &id])).unwrap();
    terminal.until("delete \"the flaky test\" (").await;
    terminal.press("n\r").unwrap();
    terminal.until("not deleted").await;
    assert_eq!(terminal.running.ended().await.code(), Some(1));
    assert_eq!(program.run(&["sessions"]).await.stdout.lines().count(), 2);
}

#[tokio::test]
async fn list_on_a_narrow_terminal_is_broken_between_words() {
    let (program, _model) = scripted().await;
    assert_eq!(program.run(&["run", "[[text:hello]]"]).await.code(), Some(0));
    let listed = program.run(&["sessions"]).await;
    let id = listed.stdout.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    program.run(&["sessions", "rename", &id, "a title that is longer than forty columns of text"]).await;
    let terminal = Terminal::start(&at_width(&program, 40, &["sessions"])).unwrap();
    terminal.until("columns of text").await;
    let screen = terminal.screen();
    assert!(screen.lines().all(|line| line.chars().count() <= 40), "{screen}");
    assert!(screen.contains("a title that is longer than") && !screen.contains("TITLE"), "{screen}");
}

#[tokio::test]
async fn session_takes_one_row_of_80_columns() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    let cwd = program.work().join("a-directory-with-a-name\u{1b}[2K/that-is-as-long-as-they-get");
    std::fs::create_dir_all(&cwd).unwrap();
    for number in 0..2 {
        let id = format!("0197a2b4-c1d{number}-7000-8000-00000000000a");
        http.create(&id, json!({"cwd": cwd, "model": "claude/claude-opus-4-5-20251101"})).await;
        let name = json!({"name": format!("{number} {HOSTILE} {}", "long ".repeat(20))});
        let _ = http.send("PATCH", &format!("/api/sessions/{id}"), &[], Some(&name)).await.expect(200);
    }
    let mut terminal = Terminal::start(&at_width(&program, 80, &["sessions"])).unwrap();
    terminal.running.ended().await;
    terminal.until("0197a2b4-c1d1").await;
    let screen = terminal.screen();
    let rows: Vec<&str> = screen.trim_end().split("\r\n").collect();
    assert_eq!(rows.len(), 3, "a header and two rows: {screen}");
    assert!(rows[1..].iter().all(|row| row.starts_with("0197a2b4-c1d") && row.ends_with('…')), "{screen}");
    assert!(rows[1..].iter().all(|row| row.chars().count() <= 80 && row.contains("they-get")), "{screen}");
}

/// Returns a command on a terminal with this many columns.
fn at_width(program: &Program, columns: usize, args: &[&str]) -> tokio::process::Command {
    let baton = program.command(args);
    let baton = baton.as_std();
    let mut shell = tokio::process::Command::new("sh");
    let script = format!(r#"stty cols {columns}; exec "$0" "$@""#);
    shell.args(["-c", &script]).arg(baton.get_program()).args(baton.get_args());
    shell.env_clear().envs(baton.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(program.work());
    shell
}
