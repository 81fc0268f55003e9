//! Edits that are made or refused.

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::tools::testing::Bench;

#[tokio::test]
async fn request_shows_the_change_and_the_call_makes_it() {
    let bench = Bench::new();
    let path = bench.write("edit_me.txt", "Hello World\nGoodbye World\n");
    let arguments = json!({"path": path, "old_str": "Hello World", "new_str": "Hi Universe"});
    let Prepared::Needs(PermissionRequest::Write { file_name, diff, intention, new_file_contents, .. }) =
        bench.prepare(&Edit::default(), arguments.clone()).await
    else {
        panic!("editing needs permission")
    };
    assert_eq!((file_name.as_str(), intention.as_str()), (path.as_str(), "Edit file"));
    assert_eq!(new_file_contents.as_deref(), Some("Hi Universe\nGoodbye World\n"));
    assert!(diff.contains("-Hello World\n+Hi Universe\n Goodbye World\n"), "{diff}");
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "Hello World\nGoodbye World\n",
        "the request changes nothing"
    );

    let result = bench.run(&Edit::default(), arguments).await;
    assert_eq!(result.text_result_for_llm, format!("File {path} updated with changes."));
    assert_eq!(fs::read_to_string(&path).unwrap(), "Hi Universe\nGoodbye World\n");
}

#[tokio::test]
async fn request_reveals_nothing_about_an_unreadable_file() {
    let (mut bench, outside) = (Bench::new(), tempfile::tempdir().unwrap());
    let secret = outside.path().canonicalize().unwrap().join("secret");
    fs::write(&secret, "first line\nkey=s3cret\nlast line").unwrap();
    bench.write("home/token", "s3cret");
    bench.context.home = Some(bench.context.cwd.join("home"));
    let guesses = ["s3cret", "no such thing", "l"];
    for (path, piece) in
        guesses.iter().flat_map(|piece| [(secret.as_path(), piece), (Path::new("home/token"), piece)])
    {
        let arguments = json!({"path": path, "old_str": piece, "new_str": "x"});
        let Prepared::Needs(PermissionRequest::Write { diff, new_file_contents, .. }) =
            bench.prepare(&Edit::default(), arguments).await
        else {
            panic!("right and wrong guesses must look alike")
        };
        assert!(!diff.contains("first line") && new_file_contents.is_none(), "{diff}");
    }
}

#[tokio::test]
async fn line_endings_are_kept() {
    let bench = Bench::new();
    let path = bench.write("dos.txt", "one\r\ntwo\r\nthree\r\n");
    bench.run(&Edit::default(), json!({"path": path, "old_str": "one\ntwo", "new_str": "1\n2\n2b"})).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "1\r\n2\r\n2b\r\nthree\r\n");
    bench.run(&Edit::default(), json!({"path": path, "old_str": "2b\n"})).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "1\r\n2\r\nthree\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_edits_of_a_file_are_all_applied() {
    let (bench, edit) = (Arc::new(Bench::new()), Arc::new(Edit::default()));
    let old: String = (0..20).map(|n| format!("old{n}.\n")).collect();
    let path = bench.write("busy.txt", &old);
    let edits: Vec<_> = (0..20)
        .map(|n| {
            let arguments =
                json!({"path": path, "old_str": format!("old{n}."), "new_str": format!("new{n}.")});
            let (bench, edit) = (Arc::clone(&bench), Arc::clone(&edit));
            tokio::spawn(async move { bench.run(&*edit, arguments).await })
        })
        .collect();
    for edit in edits {
        edit.await.unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), old.replace("old", "new"));
}

#[tokio::test]
async fn impossible_edit_is_explained_and_changes_nothing() {
    let bench = Bench::new();
    let path = bench.write("a.txt", "x x\n");
    let binary = bench.path("binary");
    fs::write(&binary, [b'x', 0xff, 0]).unwrap();
    for (arguments, hint) in [
        (json!({"path": path, "old_str": "y", "new_str": "z"}), "No match for old_str"),
        (json!({"path": path, "old_str": "x", "new_str": "z"}), "occurs 2 times"),
        (json!({"path": path, "old_str": "", "new_str": "z"}), "old_str: must not be empty"),
        (json!({"path": path, "old_str": "x", "new_str": "x"}), "nothing would change"),
        (json!({"path": path}), "missing field `old_str`"),
        (json!({"path": "gone", "old_str": "x"}), "does not exist. Please provide a valid path."),
        (json!({"path": ".", "old_str": "x"}), "is a directory"),
        (json!({"path": "/dev/zero", "old_str": "x"}), "not a regular file"),
        (json!({"path": binary, "old_str": "x"}), "not a text in UTF-8"),
    ] {
        let Prepared::Refused(refused) = bench.prepare(&Edit::default(), arguments.clone()).await else {
            panic!("{arguments} must be refused")
        };
        let result = bench.run(&Edit::default(), arguments).await;
        assert_eq!(refused, result);
        assert!(result.text_result_for_llm.contains(hint), "{}", result.text_result_for_llm);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "x x\n");
}

proptest! {
    #[test]
    fn only_a_single_occurrence_is_replaced(text in "[ab]{0,12}", piece in "[ab]{1,3}") {
        let count = (0..text.len()).filter(|i| text[*i..].starts_with(&piece)).count();
        let result = replace_once(Path::new("f"), &text, &piece, "-");
        match count {
            0 => prop_assert_eq!(result.unwrap(), None),
            1 => prop_assert_eq!(result.unwrap().unwrap(), text.replacen(&piece, "-", 1)),
            n => {
                let error = ToolResult::from(result.unwrap_err()).text_result_for_llm;
                let hint = format!("occurs {n} times");
                prop_assert!(error.contains(&hint), "{}", error);
            }
        }
    }
}
