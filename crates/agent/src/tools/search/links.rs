//! Files that a search skips: links, pipes, Baton's home.

use std::fs;
use std::os::unix::fs::symlink;

use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::ResultType;
use rustix::fs::{CWD, Mode};
use serde_json::{Value, json};

use super::{Glob, Grep};
use crate::tools::testing::Bench;
use crate::tools::{Prepared, Tool};

const TOOLS: [&dyn Tool; 2] = [&Grep, &Glob];

/// Returns the arguments to search for the word `secret`, or for files named `secret.txt`.
fn arguments(tool: &dyn Tool, path: &str) -> Value {
    match tool.spec().name.as_str() {
        "grep" => json!({"pattern": "secret", "path": path}),
        _ => json!({"pattern": "**/secret.txt", "path": path}),
    }
}

fn pipe(path: &str) {
    rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

#[tokio::test]
async fn links_below_a_root_are_not_followed() {
    let (bench, outside) = (Bench::new(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret.txt"), "secret").unwrap();
    symlink(outside.path(), bench.path("link")).unwrap();
    symlink(outside.path().join("secret.txt"), bench.path("file")).unwrap();
    bench.write("own/secret.txt", "secret");
    for tool in TOOLS {
        let arguments = arguments(tool, ".");
        bench.prepare(tool, arguments.clone()).await;
        assert_eq!(bench.run(tool, arguments).await.text_result_for_llm, "./own/secret.txt");
    }
}

#[tokio::test]
async fn request_names_the_target_of_a_link() {
    let (bench, outside) = (Bench::new(), tempfile::tempdir().unwrap());
    let real = outside.path().canonicalize().unwrap();
    fs::write(real.join("secret.txt"), "secret").unwrap();
    symlink(&real, bench.path("link")).unwrap();
    for tool in TOOLS {
        let arguments = arguments(tool, "link");
        let Prepared::Needs(PermissionRequest::Read { path, intention, .. }) =
            bench.prepare(tool, arguments.clone()).await
        else {
            panic!("searching needs permission")
        };
        assert_eq!(path, real.display().to_string());
        assert!(intention.contains("through a link"), "{intention}");
        assert_eq!(bench.run(tool, arguments).await.text_result_for_llm, "link/secret.txt");
    }
}

#[tokio::test]
async fn root_replaced_by_a_link_after_the_request_is_not_searched() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.txt"), "secret").unwrap();
    for tool in TOOLS {
        let bench = Bench::new();
        bench.write("sub/a.txt", "");
        let arguments = arguments(tool, "sub");
        bench.prepare(tool, arguments.clone()).await;
        fs::rename(bench.path("sub"), bench.path("was")).unwrap();
        symlink(outside.path(), bench.path("sub")).unwrap();
        let result = bench.run(tool, arguments).await;
        assert_eq!(result.result_type, ResultType::Failure, "{}", result.text_result_for_llm);
    }
}

#[tokio::test]
async fn pipes_do_not_hang_a_search() {
    let bench = Bench::new();
    bench.write("own/secret.txt", "secret");
    pipe(&bench.path("secret.pipe"));
    fs::create_dir_all(bench.path("hostile/sub")).unwrap();
    pipe(&bench.path("hostile/.gitignore"));
    symlink("/dev/zero", bench.path("hostile/sub/.ignore")).unwrap();
    for tool in TOOLS {
        assert_eq!(bench.run(tool, arguments(tool, ".")).await.text_result_for_llm, "./own/secret.txt");
        for root in ["hostile", "hostile/sub"] {
            bench.run(tool, arguments(tool, root)).await;
        }
    }
    let named = bench.run(&Grep, arguments(&Grep, "secret.pipe")).await;
    assert!(named.text_result_for_llm.contains("not a regular file"), "{}", named.text_result_for_llm);
}

#[tokio::test]
async fn home_is_skipped_unless_requested() {
    let mut bench = Bench::new();
    bench.write("own/secret.txt", "secret");
    bench.write("baton/secret.txt", "secret");
    bench.context.home = Some(bench.context.cwd.join("baton"));
    for tool in TOOLS {
        for (root, found) in [(".", "./own/secret.txt"), ("baton", "baton/secret.txt")] {
            assert_eq!(bench.run(tool, arguments(tool, root)).await.text_result_for_llm, found, "{root}");
        }
    }
}

#[tokio::test]
async fn roots_outside_the_session_are_named_one_by_one() {
    let mut bench = Bench::new();
    bench.context.home = Some(bench.context.cwd.join("baton"));
    let named =
        async |roots: &[&str]| match bench.prepare(&Grep, json!({"pattern": "x", "paths": roots})).await {
            Prepared::Needs(PermissionRequest::Read { path, .. }) => path,
            other => panic!("{other:?}"),
        };
    let cwd = bench.context.cwd.display().to_string();
    assert_eq!(named(&["own", "src"]).await, cwd, "all are in the working directory");
    assert_eq!(named(&["own", "baton"]).await, format!("{}\n{}", bench.path("own"), bench.path("baton")));
    assert_eq!(named(&["own", "/etc"]).await, format!("{}\n/etc", bench.path("own")));
}
