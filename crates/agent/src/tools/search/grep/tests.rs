//! Searches with the arguments that models send.

use baton_protocol::permission::PermissionRequest;

use super::*;
use crate::tools::interrupted;
use crate::tools::testing::Bench;

fn project() -> Bench {
    let bench = Bench::new();
    bench.write("data.txt", "apple\nbanana\napricot\ncherry\n");
    bench.write("src/a.rs", "fn main() {\n    apple();\n}\n");
    bench.write("src/b.py", "def apple():\n    pass\n");
    bench.write("skipped/c.txt", "apple\n");
    bench.write(".hidden/d.txt", "apple\n");
    bench.write(".gitignore", "skipped\n");
    bench.write(".git/HEAD", "");
    std::fs::write(bench.path("binary"), b"\0apple\n").unwrap();
    bench
}

async fn check(bench: &Bench, arguments: serde_json::Value, expected: &str) {
    let result = bench.run(&Grep, arguments.clone()).await;
    assert_eq!(result.text_result_for_llm, expected, "{arguments}");
}

#[tokio::test]
async fn matches_have_the_format_of_ripgrep() {
    let bench = project();
    let data = bench.path("data.txt");
    let found = format!("{data}:1:apple\n{data}:3:apricot");
    check(&bench, json!({"pattern": "^ap", "path": data, "output_mode": "content", "-n": true}), &found)
        .await;
    check(
        &bench,
        json!({"pattern": "^ap", "path": "data.txt", "output_mode": "content"}),
        "data.txt:apple\ndata.txt:apricot",
    )
    .await;
    check(&bench, json!({"pattern": "apple"}), "./data.txt\n./src/a.rs\n./src/b.py").await;
    check(
        &bench,
        json!({"pattern": "ap", "output_mode": "count"}),
        "./data.txt:2\n./src/a.rs:1\n./src/b.py:1",
    )
    .await;
    check(&bench, json!({"pattern": "nowhere"}), "No matches found.").await;
}

#[tokio::test]
async fn type_glob_and_path_narrow_the_search() {
    let bench = project();
    check(&bench, json!({"pattern": "apple", "type": "rust"}), "./src/a.rs").await;
    check(&bench, json!({"pattern": "apple", "type": "python"}), "./src/b.py").await;
    check(&bench, json!({"pattern": "apple", "glob": "*.{rs,py}"}), "./src/a.rs\n./src/b.py").await;
    check(&bench, json!({"pattern": "apple", "glob": "src/*.rs"}), "./src/a.rs").await;
    check(&bench, json!({"pattern": "APPLE", "-i": true, "path": "src"}), "src/a.rs\nsrc/b.py").await;
    check(&bench, json!({"pattern": "apple", "paths": ["src/b.py", "data.txt"]}), "src/b.py\ndata.txt").await;
    check(&bench, json!({"pattern": "apple", "path": ".hidden"}), ".hidden/d.txt").await;
    let expected = "./data.txt\n[There are more results; these are as many as asked for.]";
    check(&bench, json!({"pattern": "apple", "head_limit": 1}), expected).await;
}

#[tokio::test]
async fn context_lines_are_shown() {
    let bench = project();
    let expected = "data.txt-1-apple\ndata.txt:2:banana\ndata.txt-3-apricot";
    check(
        &bench,
        json!({"pattern": "banana", "path": "data.txt", "output_mode": "content", "-n": true, "-C": 1}),
        expected,
    )
    .await;
    let expected = "data.txt:apple\ndata.txt-banana\n--\ndata.txt:cherry";
    bench.write("data.txt", "apple\nbanana\nx\ny\ncherry\n");
    check(
        &bench,
        json!({"pattern": "apple|cherry", "path": "data.txt", "output_mode": "content", "-A": "1"}),
        expected,
    )
    .await;
    let expected = "src/a.rs:1:fn main() {\nsrc/a.rs:2:    apple();";
    let mut across = json!({"pattern": r"main.*?apple\(\)", "path": "src/a.rs", "output_mode": "content"});
    across["-n"] = true.into();
    across["multiline"] = true.into();
    check(&bench, across, expected).await;
}

#[tokio::test]
async fn invalid_arguments_are_explained() {
    let bench = project();
    for (arguments, hint) in [
        (json!({}), "missing field `pattern`"),
        (json!({"pattern": "("}), "pattern: "),
        (json!({"pattern": "a\\nb"}), "pattern: "),
        (json!({"pattern": "x", "glob": "["}), "glob: "),
        (json!({"pattern": "x", "type": "klingon"}), "type: "),
        (json!({"pattern": "x", "output_mode": "poem"}), "output_mode: "),
        (json!({"pattern": "x", "path": "gone"}), "does not exist"),
        (json!({"pattern": "x", "-A": "many"}), "-A: "),
    ] {
        let result = bench.run(&Grep, arguments).await.text_result_for_llm;
        assert!(result.contains(hint), "{result}");
    }
}

#[tokio::test]
async fn long_result_is_cut_and_cancelled_search_ends() {
    let bench = project();
    bench.write("many.txt", &"needle in a haystack\n".repeat(100_000));
    bench.write("wide.txt", &("needle".to_owned() + &"x".repeat(5_000_000)));
    let search = json!({"pattern": "needle", "output_mode": "content"});
    let result = bench.run(&Grep, search.clone()).await.text_result_for_llm;
    assert!(result.len() < crate::tools::spill::DEFAULT_LIMIT && result.ends_with("as many as fit.]"));
    let result =
        bench.run(&Grep, json!({"pattern": "needle", "path": "wide.txt", "output_mode": "content"})).await;
    assert!(result.text_result_for_llm.len() < 2000);
    bench.context.cancel.cancel();
    assert_eq!(bench.run(&Grep, search).await, interrupted());
}

#[tokio::test]
async fn request_names_the_searched_file() {
    let bench = project();
    let data = bench.path("data.txt");
    let Prepared::Needs(PermissionRequest::Read { path, intention, .. }) =
        bench.prepare(&Grep, json!({"pattern": "x", "path": data})).await
    else {
        panic!("searching needs permission")
    };
    assert_eq!((path, intention), (data.clone(), format!("Search in file: {data}")));
}
