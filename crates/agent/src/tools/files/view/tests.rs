//! Views of files, images and directories.

use std::fs;
use std::os::unix::fs::symlink;

use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::ResultType;

use super::*;
use crate::tools::testing::Bench;

async fn check(bench: &Bench, arguments: serde_json::Value, expected: &str) {
    let result = bench.run(&View, arguments.clone()).await;
    assert_eq!(result.text_result_for_llm, expected, "{arguments}");
}

#[tokio::test]
async fn lines_are_numbered() {
    let bench = Bench::new();
    let path = bench.write("lines.txt", "line1\nline2\nline3\nline4\nline5\n");
    check(&bench, json!({"path": path, "view_range": [2, 4]}), "2. line2\n3. line3\n4. line4").await;
    check(&bench, json!({"path": path, "view_range": [5, -1]}), "5. line5\n6. ").await;
    check(&bench, json!({"path": "lines.txt", "view_range": [4, 99]}), "4. line4\n5. line5\n6. ").await;
    bench.write("edited.txt", "Hi Universe\nGoodbye World\n");
    check(&bench, json!({"path": "edited.txt"}), "1. Hi Universe\n2. Goodbye World\n3. ").await;
    bench.write("short.txt", "Created by test");
    check(&bench, json!({"path": "short.txt"}), "1. Created by test").await;
    bench.write("empty.txt", "");
    check(&bench, json!({"path": "empty.txt"}), "1. ").await;
    bench.write("dos.txt", "a\r\nb");
    check(&bench, json!({"path": "dos.txt"}), "1. a\n2. b").await;
}

#[tokio::test]
async fn directory_entries_are_listed() {
    let bench = Bench::new();
    bench.write("dir/readme.txt", "");
    check(&bench, json!({"path": "dir"}), "readme.txt").await;
    bench.write("dir/.hidden", "");
    bench.write("dir/sub/x", "");
    symlink("nowhere", bench.path("dir/broken")).unwrap();
    check(&bench, json!({"path": bench.path("dir/")}), ".hidden\nbroken\nreadme.txt\nsub/").await;
    fs::create_dir(bench.path("void")).unwrap();
    check(&bench, json!({"path": "void"}), "The directory is empty.").await;
}

#[tokio::test]
async fn images_are_detected_by_content() {
    let bench = Bench::new();
    let bytes = b"\x89PNG\r\n\x1a\n\0\0rest";
    let path = bench.path("picture");
    fs::write(&path, bytes).unwrap();
    let result = bench.run(&View, json!({"path": path})).await;
    assert_eq!(result.text_result_for_llm, "Viewed image file successfully.");
    let [image] = result.binary_results_for_llm.as_slice() else { panic!("one image") };
    assert_eq!((image.kind.as_str(), image.mime_type.as_str()), ("image", "image/png"));
    assert_eq!(BASE64_STANDARD.decode(&image.data).unwrap(), bytes);
    assert_eq!(image.description.as_deref(), Some(format!("Image file at path {path}").as_str()));
}

#[tokio::test]
async fn impossible_view_is_explained() {
    let bench = Bench::new();
    let path = bench.write("a.txt", "x\ny");
    fs::write(bench.path("binary"), b"ELF\0\x01").unwrap();
    let gone = bench.path("does_not_exist.txt");
    for (arguments, hint) in [
        (json!({"path": gone}), format!("Path {gone} does not exist. Please provide a valid path.")),
        (json!({"path": format!("{path}/inside")}), "does not exist".into()),
        (json!({"path": "binary"}), "binary file (5 bytes)".into()),
        (json!({"path": "/dev/zero"}), "not a regular file".into()),
        (json!({"path": path, "view_range": [3, 4]}), "has 2 lines, so line 3".into()),
        (json!({"path": path, "view_range": [0, 4]}), "view_range".into()),
        (json!({"path": path, "view_range": [5, 4]}), "view_range".into()),
        (json!({"path": path, "view_range": [1]}), "view_range".into()),
        (json!({"path": path, "view_range": "1-2"}), "view_range".into()),
        (json!({"path": "nul\u{0}"}), "Could not read".into()),
        (json!(null), "missing field `path`".into()),
    ] {
        let result = bench.run(&View, arguments).await;
        assert_eq!(result.result_type, ResultType::Failure);
        assert!(result.text_result_for_llm.contains(&hint), "{}", result.text_result_for_llm);
    }
    assert_eq!(bench.run(&View, json!({"path": gone})).await.error.as_deref(), Some("Path does not exist"));
}

#[tokio::test]
async fn large_files_are_shown_in_parts() {
    let bench = Bench::new();
    let text: String = (1..=100_000).map(|n| format!("this is line {n}\n")).collect();
    bench.write("huge.txt", &text);
    let result = bench.run(&View, json!({"path": "huge.txt"})).await.text_result_for_llm;
    assert!(result.len() < crate::tools::spill::DEFAULT_LIMIT, "{}", result.len());
    let (_, next) = result.rsplit_once("view_range [").unwrap();
    let next: usize = next.split(',').next().unwrap().parse().unwrap();
    let last = next - 1;
    assert!(
        result.contains(&format!("\n{last}. this is line {last}\n[The file goes on")),
        "{}",
        &result[result.len() - 200..]
    );
    check(
        &bench,
        json!({"path": "huge.txt", "view_range": [99_999, 100_000]}),
        "99999. this is line 99999\n100000. this is line 100000",
    )
    .await;

    bench.write("long.txt", &("x".repeat(1_000_000) + "\nend"));
    let result = bench.run(&View, json!({"path": "long.txt"})).await.text_result_for_llm;
    assert!(result.len() < crate::tools::spill::DEFAULT_LIMIT);
    assert!(
        result.contains("\n[Line 1 has 928.6 KB more, too much to show.]\n2. end")
            || result.ends_with("[The file goes on: use view_range [2, -1] to see more.]"),
        "{}",
        &result[result.len() - 200..]
    );
    check(&bench, json!({"path": "long.txt", "view_range": [2, 2]}), "2. end").await;
}

#[tokio::test]
async fn request_names_the_absolute_path() {
    let bench = Bench::new();
    let path = bench.path("does_not_exist.txt");
    let Prepared::Needs(PermissionRequest::Read { path: asked, intention, tool_call_id }) =
        bench.prepare(&View, json!({"path": "x/../does_not_exist.txt"})).await
    else {
        panic!("reading needs permission")
    };
    assert_eq!((asked, intention), (path.clone(), format!("Read file: {path}")));
    assert_eq!(tool_call_id, Some("call-1".into()));
    let Prepared::Needs(PermissionRequest::Read { intention, .. }) =
        bench.prepare(&View, json!({"path": "."})).await
    else {
        panic!("listing needs permission")
    };
    assert!(intention.starts_with("List directory: /"));
}
