//! Walls between the crates: their allowed dependencies, as ARCHITECTURE.md describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each crate, and the crates of the workspace that it depends on. A new dependency is a decision: justify it in
/// ARCHITECTURE.md. One that nobody needs is removed from the list too, so that it cannot come back unnoticed.
const MAY_USE: &[(&str, &[&str])] = &[
    // The only crate with `unsafe`.
    ("allocator", &[]),
    // Vocabularies and tools without policy.
    ("json", &[]),
    ("protocol", &["json"]),
    ("disk", &[]),
    ("process", &["disk"]),
    ("markup", &[]),
    ("terminal", &["markup"]),
    // Crates that know nothing of a live session.
    ("core", &["protocol"]),
    ("store", &["disk", "protocol"]),
    ("postgres", &["protocol", "store"]),
    ("model", &["json", "markup", "protocol"]),
    ("sql", &["disk", "json", "process"]),
    ("agent", &["core", "disk", "json", "markup", "model", "process", "protocol", "sql"]),
    ("engines", &["agent", "disk", "json", "markup", "process", "protocol"]),
    ("git", &["agent", "disk", "protocol"]),
    ("mcp", &["json", "markup", "process", "protocol"]),
    ("skills", &["disk", "json", "protocol"]),
    // Sessions that are not live: their histories in the store, and their files beside it.
    ("history", &["core", "json", "process", "protocol", "store"]),
    ("files", &["core", "disk", "git", "history", "json", "markup", "mcp", "protocol", "store"]),
    // Which model a session calls, with which credentials.
    ("providers", &["disk", "json", "model", "protocol"]),
    // What a session is set to, beside its history.
    ("settings", &["agent", "protocol", "providers"]),
    // What can be asked of a live session.
    ("ask", &["agent", "core", "files", "markup", "protocol", "settings", "store"]),
    // MCP servers, skills, plugins, extensions and workflows of sessions, without an actor.
    (
        "addons",
        &[
            "agent",
            "ask",
            "core",
            "disk",
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
        ],
    ),
    // Who may use a server.
    ("people", &["protocol", "store"]),
    // Live sessions as others see them: handles, fan-out of events; no actor, no add-on.
    ("handle", &["ask", "core", "protocol", "providers", "settings", "store"]),
    // Live sessions, without a wire.
    (
        "runtime",
        &[
            "addons",
            "agent",
            "ask",
            "core",
            "disk",
            "engines",
            "files",
            "git",
            "handle",
            "history",
            "json",
            "mcp",
            "model",
            "process",
            "protocol",
            "providers",
            "settings",
            "store",
        ],
    ),
    // Notifications: the outbox and its channels, fed by live sessions.
    ("notify", &["core", "json", "markup", "model", "people", "protocol", "runtime", "store"]),
    // The doors: they see the runtime, which re-exports what they need of histories and files, and never each other.
    ("wire", &["protocol", "runtime", "store"]),
    (
        "rpc",
        &["agent", "ask", "core", "disk", "git", "json", "people", "protocol", "runtime", "store", "wire"],
    ),
    (
        "http",
        &[
            "ask", "core", "json", "markup", "model", "notify", "people", "protocol", "runtime", "store",
            "wire",
        ],
    ),
    ("crush", &["ask", "core", "json", "protocol", "runtime", "store", "wire"]),
    // Links between servers: sessions of one at another.
    ("peer", &["protocol", "runtime", "store"]),
    // The web application: files, and routes that serve them.
    ("page", &[]),
    // Backups, services: they know the home and its store, and no live session.
    ("ops", &["disk", "json", "protocol", "store"]),
    // The command line, and the program, which tests the whole.
    ("baton", &["cli"]),
    (
        "cli",
        &[
            "allocator",
            "crush",
            "disk",
            "engines",
            "http",
            "json",
            "markup",
            "model",
            "notify",
            "ops",
            "page",
            "peer",
            "people",
            "postgres",
            "protocol",
            "rpc",
            "runtime",
            "sql",
            "store",
            "terminal",
        ],
    ),
    // For tests.
    ("testkit", &["protocol"]),
    ("fuzz", &["core", "json", "markup", "mcp", "ops", "protocol", "store"]),
];

/// Files that read JSON without the limits of `baton_json`.
const WITHOUT_LIMITS: &[&str] = &[
    // JSON that Baton wrote: stored events and documents, messages of peers, replies of its own server.
    "cli/src/client/http.rs",
    "files/src/json_file.rs",
    "files/src/mirror.rs",
    "files/src/tokens.rs",
    "handle/src/message.rs",
    "history/src/backwards.rs",
    "history/src/metadata.rs",
    "history/src/stored.rs",
    "model/src/opaque.rs",
    "notify/src/documents.rs",
    "ops/src/restore/apply.rs",
    "peer/src/frame.rs",
    "people/src/list.rs",
    "postgres/src/members.rs",
    "postgres/src/read.rs",
    "process/src/ledger/entries.rs",
    "protocol/src/event/parse.rs",
    "protocol/src/json.rs",
    "rpc/src/dialect.rs",
    "rpc/src/methods/send_and_wait.rs",
    "runtime/src/session/actor/open.rs",
    "store/src/sqlite/values.rs",
    // Skip a message without building anything, to find its id or the mistake in it.
    "http/src/api/extract.rs",
    "mcp/src/wire/message.rs",
    "protocol/src/rpc.rs",
];

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
fn crates_have_exactly_the_allowed_dependencies() {
    let rules: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    assert_eq!(all(), rules.keys().map(|name| (*name).to_owned()).collect(), "each crate has a rule");
    for (name, allowed) in rules {
        let used = dependencies(name);
        let used: BTreeSet<&str> = used.iter().filter_map(|name| name.strip_prefix("baton-")).collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        assert!(used.is_subset(&allowed), "{name} must not depend on {:?}", used.difference(&allowed));
        assert!(allowed.is_subset(&used), "{name} no longer depends on {:?}", allowed.difference(&used));
        let code: String =
            sources(&crates().join(name).join("src")).into_iter().map(|(_, text)| text).collect();
        let idle: Vec<_> = used.iter().filter(|used| !code.contains(&format!("baton_{used}"))).collect();
        assert!(idle.is_empty(), "{name} names {idle:?} in its manifest and nowhere else");
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

/// JSON from outside is read by `baton_json`, which limits it. Exceptions that nobody uses are mistakes in the list.
#[test]
fn json_from_outside_is_read_within_limits() {
    let readers =
        ["from_str", "from_slice", "from_value", "from_reader"].map(|name| format!("serde_json::{name}"));
    let mut found = BTreeSet::new();
    for name in all().iter().filter(|name| !["json", "testkit"].contains(&name.as_str())) {
        for (path, text) in sources(&crates().join(name).join("src")) {
            if readers.iter().any(|reader| text.contains(reader.as_str())) {
                let path = path.strip_prefix(crates()).expect("a file of a crate");
                found.insert(path.to_str().expect("a name in UTF-8").to_owned());
            }
        }
    }
    assert_eq!(found, WITHOUT_LIMITS.iter().map(|path| (*path).to_owned()).collect());
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
