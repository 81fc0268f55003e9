//! Walls between the crates: their allowed dependencies, as ARCHITECTURE.md describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each crate, and the crates of the workspace that it may depend on. A new dependency is a decision: justify it in
/// ARCHITECTURE.md.
const MAY_USE: &[(&str, &[&str])] = &[
    // Vocabularies and tools without policy.
    ("json", &[]),
    ("toml", &["json"]),
    ("protocol", &["json"]),
    ("private", &[]),
    ("tasks", &[]),
    ("diff", &[]),
    ("process", &["json", "private", "tasks"]),
    ("markup", &[]),
    ("terminal", &["markup"]),
    ("watch", &["protocol"]),
    // Crates that know nothing of a live session.
    ("core", &["protocol"]),
    ("store", &["json", "private", "protocol", "tasks"]),
    ("postgres", &["json", "protocol", "store", "tasks"]),
    ("model", &["diff", "json", "protocol", "tasks"]),
    ("agent", &["core", "diff", "json", "model", "private", "process", "protocol", "tasks"]),
    ("engines", &["agent", "json", "private", "process", "protocol", "tasks"]),
    ("git", &["agent", "private", "protocol"]),
    ("mcp", &["json", "private", "process", "protocol", "tasks"]),
    ("skills", &["agent", "json", "protocol"]),
    // Sessions that are not live: their histories in the store, and their files beside it.
    ("history", &["core", "json", "process", "protocol", "store"]),
    ("files", &["agent", "core", "git", "history", "json", "mcp", "private", "protocol", "store", "tasks"]),
    // Counters, fed by live sessions.
    ("metrics", &["core", "protocol"]),
    // Which model a session calls, with which credentials.
    ("providers", &["agent", "json", "model", "protocol", "tasks"]),
    // What a session is set to, beside its history.
    ("settings", &["agent", "protocol", "providers"]),
    // MCP servers, skills and plugins of sessions, without an actor.
    (
        "addons",
        &[
            "agent",
            "core",
            "files",
            "git",
            "history",
            "json",
            "mcp",
            "model",
            "process",
            "protocol",
            "providers",
            "settings",
            "skills",
            "tasks",
        ],
    ),
    // Who may use a server.
    ("people", &["json", "protocol", "store"]),
    // Live sessions as others see them: handles, asks, fan-out of events; no actor.
    (
        "handle",
        &["addons", "agent", "core", "files", "json", "protocol", "providers", "settings", "store", "tasks"],
    ),
    // Live sessions, without a wire.
    (
        "runtime",
        &[
            "addons",
            "agent",
            "core",
            "engines",
            "files",
            "git",
            "handle",
            "history",
            "json",
            "mcp",
            "metrics",
            "model",
            "private",
            "process",
            "protocol",
            "providers",
            "settings",
            "store",
            "tasks",
        ],
    ),
    // Notifications: the outbox and its channels, fed by live sessions.
    ("notify", &["core", "json", "markup", "model", "people", "protocol", "runtime", "store"]),
    // The doors: they see the runtime, which re-exports what they need of histories and files, and never each other.
    ("wire", &["protocol", "runtime", "store"]),
    ("rpc", &["agent", "core", "git", "json", "people", "protocol", "runtime", "store", "tasks", "wire"]),
    (
        "http",
        &[
            "core", "json", "markup", "model", "notify", "people", "protocol", "runtime", "store", "tasks",
            "wire",
        ],
    ),
    ("crush", &["core", "json", "protocol", "runtime", "store", "wire"]),
    // Links between servers: sessions of one at another.
    ("peer", &["json", "protocol", "runtime", "store", "tasks"]),
    // The web application: files, and routes that serve them.
    ("page", &[]),
    // Backups, services: they know the home and its store, and no live session.
    ("ops", &["agent", "json", "private", "protocol", "store"]),
    // The command line: what can be written, what it does, and the program, which tests the whole.
    ("args", &["people"]),
    ("baton", &["cli"]),
    (
        "cli",
        &[
            "args", "crush", "engines", "http", "json", "markup", "model", "notify", "ops", "page", "peer",
            "people", "postgres", "private", "protocol", "rpc", "runtime", "store", "tasks", "terminal",
            "toml", "watch",
        ],
    ),
    ("testkit", &["protocol"]),
];

/// Maximum number of lines in the sources of a crate, with their unit tests.
const MAX_LINES: usize = 12_000;

/// Wire libraries that the runtime, and the crates below it, must not use.
const WIRE: &[&str] = &["axum", "hyper", "hyper-util", "tower", "utoipa", "tokio-rustls"];

/// The doors and what they share, and what reaches other servers and the database over a network.
const DOORS: &[&str] =
    &["wire", "rpc", "http", "crush", "page", "cli", "baton", "testkit", "postgres", "peer"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the directory of all crates").to_owned()
}

/// The dependencies of a crate, without those of its tests.
fn dependencies(name: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = text.parse().expect("TOML");
    manifest["dependencies"].as_table().expect("a table").keys().cloned().collect()
}

fn all() -> BTreeSet<String> {
    let entries = std::fs::read_dir(crates()).expect("the crates");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn crates_have_only_allowed_dependencies() {
    let rules: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    assert_eq!(all(), rules.keys().map(|name| (*name).to_owned()).collect(), "each crate has a rule");
    for (name, allowed) in rules {
        let used = dependencies(name);
        let used: BTreeSet<&str> = used.iter().filter_map(|name| name.strip_prefix("baton-")).collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        assert!(used.is_subset(&allowed), "{name} must not depend on {:?}", used.difference(&allowed));
    }
}

#[test]
fn only_doors_use_wire_libraries() {
    for name in all().iter().filter(|name| !DOORS.contains(&name.as_str())) {
        let used = dependencies(name);
        let wire: Vec<_> = WIRE.iter().filter(|library| used.contains(**library)).collect();
        assert!(wire.is_empty(), "{name} must not depend on {wire:?}");
    }
}

/// Source paths in a text, such as `core/src/step/{prompt,cancel}.rs`, with their braces expanded.
fn source_paths(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_source = |path: &&str| path.contains("/src/") || path.contains("/tests/");
    quoted.filter(is_source).filter(|path| !path.contains(' ')).flat_map(expanded).collect()
}

fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (choices, after) = rest.split_once('}').expect("a closing brace");
    choices.split(',').map(|choice| format!("{before}{choice}{after}")).collect()
}

#[test]
fn code_map_names_existing_files() {
    let root = crates().parent().expect("the root").to_owned();
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page");
    let paths = source_paths(&text);
    assert!(paths.len() > 60, "the map was not read: {paths:?}");
    let missing: Vec<_> = paths.iter().filter(|path| !root.join("crates").join(path).exists()).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names files that do not exist: {missing:#?}");
}

/// Functions that a text names in parentheses behind the file that has them: `file.rs` (`function`, ...).
fn named_functions(text: &str) -> Vec<(&str, &str)> {
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let behind_a_file = |(at, _): (usize, &str)| {
        let (before, rest) = (&text[..at], &text[at + "` (".len()..]);
        let (file, inside) = (before.rsplit('`').next()?, rest.split(')').next()?);
        let names = inside.split('`').skip(1).step_by(2).filter(is_name);
        file.ends_with(".rs").then(|| names.map(move |name| (file, name)))
    };
    text.match_indices("` (").filter_map(behind_a_file).flatten().collect()
}

#[test]
fn code_map_names_existing_functions() {
    let text = std::fs::read_to_string(crates().with_file_name("ARCHITECTURE.md")).expect("the page");
    let named = named_functions(&text);
    assert!(named.len() > 20, "the map was not read: {named:?}");
    for (file, function) in named {
        let has_it = expanded(file).iter().any(|path| {
            let source = std::fs::read_to_string(crates().join(path)).expect("a file of the map");
            [format!("fn {function}("), format!("fn {function}<")].iter().any(|start| source.contains(start))
        });
        assert!(has_it, "ARCHITECTURE.md says that {file} has the function {function}");
    }
}

/// All files of Rust in a directory, and below it.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let entries =
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let files = entries.flat_map(|path| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(extension) if extension == "rs" => {
            let text = std::fs::read_to_string(&path).expect("a text");
            vec![(path, text)]
        }
        _ => Vec::new(),
    });
    files.collect()
}

/// Each type that `serde_json` reads is compiled with a parser of its own.
#[test]
fn json_is_read_by_one_parser() {
    let readers =
        ["from_str", "from_slice", "from_value", "from_reader"].map(|name| format!("serde_json::{name}"));
    for name in all().iter().filter(|name| !["json", "testkit"].contains(&name.as_str())) {
        for (path, text) in sources(&crates().join(name).join("src")) {
            let used = readers.iter().find(|reader| text.contains(reader.as_str()));
            assert!(used.is_none(), "{} uses {}; use baton_json", path.display(), used.expect("it is used"));
        }
    }
}

#[test]
fn no_crate_is_larger_than_the_limit() {
    for name in all() {
        let sources = sources(&crates().join(&name).join("src"));
        let lines: usize = sources.iter().map(|(_, text)| text.lines().count()).sum();
        assert!(
            lines > 0 && lines <= MAX_LINES,
            "{name} has {lines} lines in src; give a part of it a crate of its own"
        );
    }
}

/// Calls `check` for each Rust source of a directory.
fn each_source(directory: &Path, check: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            each_source(&path, check);
        } else {
            check(&path, &std::fs::read_to_string(&path).expect("a text"));
        }
    }
}

#[test]
fn commands_print_through_the_terminal_crate() {
    let sources = crates().join("cli/src");
    let mut seen = 0;
    each_source(&sources, &mut |path, text| {
        seen += 1;
        for way in ["stdout()", "stderr()", "println!", "print!(", "dbg!(", "/dev/tty"] {
            assert!(!text.contains(way), "{} has {way:?}: print through `baton_terminal`", path.display());
        }
    });
    assert!(seen > 10, "the sources are in {}", sources.display());
}

#[test]
fn tasks_are_started_by_the_crate_for_them() {
    let mut seen = 0;
    for name in all().iter().filter(|name| !["tasks", "testkit"].contains(&name.as_str())) {
        each_source(&crates().join(name).join("src"), &mut |path, text| {
            let is_test =
                path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("test"));
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            seen += usize::from(code.contains("baton_tasks::"));
            for way in ["tokio::spawn(", "task::spawn(", "spawn_blocking(", "task::TaskTracker"] {
                let is_ours = |before: &str| before.ends_with("baton_tasks::") || before.ends_with('.');
                let foreign = code.match_indices(way).any(|(at, _)| !is_ours(&code[..at]));
                assert!(is_test || !foreign, "{} has {way:?}: use `baton_tasks`", path.display());
            }
        });
    }
    assert!(seen > 30, "only {seen} sources start tasks");
}
