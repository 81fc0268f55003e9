//! Tests of directories and files that are replaced by links between a request and its call.

use std::fs;
use std::os::unix::fs::symlink;

use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ResultType, ToolResult};
use rustix::fs::{CWD, Mode};
use serde_json::{Value, json};

use super::{Create, Edit, View};
use crate::tools::testing::Bench;
use crate::tools::{Prepared, Tool};

/// Creates a directory outside the working directory, with a file in it.
fn outside() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file.txt"), "secret").unwrap();
    dir
}

fn requested(prepared: Prepared) -> (String, String) {
    match prepared {
        Prepared::Needs(PermissionRequest::Write { file_name, intention, .. }) => (file_name, intention),
        Prepared::Needs(PermissionRequest::Read { path, intention, .. }) => (path, intention),
        other => panic!("{other:?}"),
    }
}

/// Requests a call in `sub`, replaces `sub` by a link to `outside`, and runs the call.
async fn run_after_swap(tool: &dyn Tool, arguments: Value, outside: &tempfile::TempDir) -> ToolResult {
    let bench = Bench::new();
    bench.write("sub/file.txt", "ours");
    let (path, _) = requested(bench.prepare(tool, arguments.clone()).await);
    assert!(path.starts_with(&bench.path("sub/")), "{path}");
    fs::rename(bench.path("sub"), bench.path("was")).unwrap();
    symlink(outside.path(), bench.path("sub")).unwrap();
    bench.run(tool, arguments).await
}

#[tokio::test]
async fn directory_replaced_by_a_link_after_the_request_is_refused() {
    let outside = outside();
    let calls: [(&dyn Tool, Value); 4] = [
        (&Create, json!({"path": "sub/new.txt", "file_text": "x"})),
        (&Create, json!({"path": "sub/deep/er/new.txt", "file_text": "x"})),
        (&Edit::default(), json!({"path": "sub/file.txt", "old_str": "ours", "new_str": "x"})),
        (&View, json!({"path": "sub/file.txt"})),
    ];
    for (tool, arguments) in calls {
        let result = run_after_swap(tool, arguments, &outside).await;
        assert_eq!(result.result_type, ResultType::Failure, "{}", result.text_result_for_llm);
        assert!(
            result.text_result_for_llm.contains("a symbolic link appeared"),
            "{}",
            result.text_result_for_llm
        );
    }
    assert_eq!(fs::read_to_string(outside.path().join("file.txt")).unwrap(), "secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn file_replaced_by_a_link_after_the_request_is_refused() {
    let (bench, outside) = (Bench::new(), outside());
    let secret = outside.path().join("file.txt");
    let path = bench.write("a.txt", "secret");
    let (view, edit) = (json!({"path": path}), json!({"path": path, "old_str": "secret", "new_str": "x"}));
    bench.prepare(&View, view.clone()).await;
    bench.prepare(&Edit::default(), edit.clone()).await;
    fs::remove_file(&path).unwrap();
    symlink(&secret, &path).unwrap();
    assert_eq!(bench.run(&View, view).await.result_type, ResultType::Failure);
    assert_eq!(bench.run(&Edit::default(), edit).await.result_type, ResultType::Failure);
    assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
}

#[tokio::test]
async fn request_through_a_link_names_the_real_path() {
    let (bench, outside) = (Bench::new(), outside());
    let real = outside.path().canonicalize().unwrap();
    symlink(&real, bench.path("link")).unwrap();
    let calls: [(&dyn Tool, Value, &str); 4] = [
        (&View, json!({"path": "link/file.txt"}), "file.txt"),
        (&View, json!({"path": "link"}), ""),
        (
            &Edit::default(),
            json!({"path": "link/file.txt", "old_str": "secret", "new_str": "open"}),
            "file.txt",
        ),
        (&Create, json!({"path": "link/a/new.txt", "file_text": "x"}), "a/new.txt"),
    ];
    for (tool, arguments, below) in calls {
        let (path, intention) = requested(bench.prepare(tool, arguments.clone()).await);
        assert_eq!(path.trim_end_matches('/'), real.join(below).display().to_string().trim_end_matches('/'));
        assert!(intention.contains(&format!("through a link: {}", bench.path("link"))), "{intention}");
        let result = bench.run(tool, arguments).await;
        assert_eq!(result.result_type, ResultType::Success, "{}", result.text_result_for_llm);
    }
    assert_eq!(fs::read_to_string(real.join("file.txt")).unwrap(), "open", "the approved change was made");
}

#[tokio::test]
async fn call_without_a_request_follows_no_link() {
    let (bench, outside) = (Bench::new(), outside());
    symlink(outside.path(), bench.path("link")).unwrap();
    let result = bench.run(&View, json!({"path": "link/file.txt"})).await;
    assert!(
        result.text_result_for_llm.contains("a symbolic link appeared"),
        "{}",
        result.text_result_for_llm
    );
}

#[tokio::test]
async fn pipes_and_devices_are_neither_read_nor_written() {
    let bench = Bench::new();
    rustix::fs::mkfifoat(CWD, bench.path("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    symlink("/dev/zero", bench.path("zero")).unwrap();
    let change = |path: &str| json!({"path": path, "old_str": "a", "new_str": "b"});
    for path in ["pipe", "zero", "/dev/zero"] {
        bench.prepare(&View, json!({"path": path})).await;
        let viewed = bench.run(&View, json!({"path": path})).await;
        assert!(viewed.text_result_for_llm.contains("not a regular file"), "{}", viewed.text_result_for_llm);
        assert!(
            matches!(bench.prepare(&Edit::default(), change(path)).await, Prepared::Refused(_)),
            "{path}"
        );
        let edited = bench.run(&Edit::default(), change(path)).await;
        assert!(edited.text_result_for_llm.contains("not a regular file"), "{}", edited.text_result_for_llm);
    }
}
