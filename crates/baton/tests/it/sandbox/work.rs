//! Real work inside.

use super::arena::{Arena, Level, User, needs_walls};

/// Runs a project's own tests, with the user's tools, if this machine has them.
async fn works(tool: &str, files: &[(&str, &str)], script: &str) {
    let path = std::env::var("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|directory| directory.join(tool).is_file());
    if !is_there {
        return;
    }
    // The tools of whoever runs the tests.
    let user = if rustix::process::geteuid().is_root() { User::Root } else { User::Ordinary };
    let mut arena = Arena::new(user);
    arena.set("PATH", path);
    for name in ["RUSTUP_HOME", "CARGO_HOME", "PYENV_ROOT", "RUSTUP_TOOLCHAIN"] {
        if let Ok(value) = std::env::var(name) {
            arena.set(name, value);
        }
    }
    if let (Ok(home), false) = (std::env::var("HOME"), std::env::var("RUSTUP_HOME").is_ok()) {
        arena.set("RUSTUP_HOME", format!("{home}/.rustup"));
    }
    for (path, text) in files {
        arena.write(&format!("work/{path}"), text);
    }
    let ran = arena.run(Level::Workspace, &format!("{script} && echo finished")).await;
    assert!(ran.stdout.ends_with("finished\n"), "{tool}: {ran:?}");
    // And again, with what the first run has left.
    let ran = arena.run(Level::Workspace, &format!("{script} && echo finished")).await;
    assert!(ran.stdout.ends_with("finished\n"), "{tool} again: {ran:?}");
}

#[tokio::test]
async fn cargo_builds_and_tests() {
    needs_walls!();
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let library = "pub fn two() -> u32 { 2 }\n#[test]\nfn two_is_two() { assert_eq!(two(), 2); }\n";
    works("cargo", &[("Cargo.toml", manifest), ("src/lib.rs", library)], "cargo test --offline --quiet")
        .await;
}

#[tokio::test]
async fn npm_runs_tests() {
    needs_walls!();
    let package = r#"{"name": "small", "version": "1.0.0", "scripts": {"test": "node test.js"}}"#;
    let test = "require('child_process').execSync('true'); require('fs').writeFileSync('result', 'x')";
    works("npm", &[("package.json", package), ("test.js", test)], "npm test --silent").await;
}

#[tokio::test]
async fn pytest_runs() {
    needs_walls!();
    let test = "import subprocess\ndef test_one(tmp_path):\n    (tmp_path / 'x').write_text('x')\n    subprocess.run(['true'], check=True)\n";
    works("pytest", &[("test_one.py", test)], "pytest -q").await;
}

#[tokio::test]
#[ignore = "by hand: compiles Go's library, which takes a minute"]
async fn go_tests_a_module() {
    needs_walls!();
    let test = "package small\nimport \"testing\"\nfunc TestOne(t *testing.T) {}\n";
    works(
        "go",
        &[("go.mod", "module small\n\ngo 1.21\n"), ("one_test.go", test)],
        "GOTOOLCHAIN=local go test ./...",
    )
    .await;
}

#[tokio::test]
async fn go_builds() {
    needs_walls!();
    let code = "package small\nfunc Two() int { return 2 }\n";
    works(
        "go",
        &[("go.mod", "module small\n\ngo 1.21\n"), ("one.go", code)],
        "GOTOOLCHAIN=local go build ./...",
    )
    .await;
}

#[tokio::test]
async fn make_compiles() {
    needs_walls!();
    let files =
        [("Makefile", "one: one.c\n\tcc -o one one.c\n"), ("one.c", "int main(void) { return 0; }\n")];
    works("cc", &files, "make -s && ./one").await;
}
