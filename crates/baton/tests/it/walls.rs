//! Walls between the crates: their allowed dependencies, as ARCHITECTURE.md describes them. A permission that nobody uses
//! fails like a dependency that nobody allowed, so that these tables say what is, and nothing else.

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
    // Walls around programs; how a program is ended.
    ("sandbox", &["disk", "protocol"]),
    ("process", &["disk", "sandbox"]),
    ("markup", &[]),
    ("terminal", &["markup"]),
    // Crates that know nothing of a live session.
    ("core", &["protocol"]),
    ("store", &["disk", "protocol"]),
    ("postgres", &["protocol", "store"]),
    ("model", &["json", "markup", "protocol"]),
    ("sql", &["disk", "json", "process", "sandbox"]),
    ("agent", &["core", "disk", "json", "markup", "model", "process", "protocol", "sandbox", "sql"]),
    ("egress", &["core"]),
    ("engines", &["agent", "disk", "json", "markup", "process", "protocol", "sandbox"]),
    ("git", &["agent", "disk", "protocol"]),
    ("mcp", &["json", "markup", "process", "protocol", "sandbox"]),
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
            "sandbox",
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
            "egress",
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
            "sandbox",
            "settings",
            "store",
        ],
    ),
    // Notifications: the outbox and its channels, fed by live sessions.
    ("notify", &["core", "history", "json", "markup", "model", "people", "protocol", "runtime", "store"]),
    // What doors share: how events reach clients, and what clients may do.
    ("wire", &["protocol", "runtime", "store"]),
    (
        "service",
        &[
            "addons",
            "ask",
            "core",
            "files",
            "history",
            "model",
            "notify",
            "people",
            "protocol",
            "providers",
            "runtime",
            "settings",
            "store",
            "wire",
        ],
    ),
    // The doors: they ask the service layer, and never see each other, nor `handle`, of which the runtime passes on what is theirs.
    (
        "rpc",
        &[
            "addons",
            "agent",
            "ask",
            "core",
            "disk",
            "files",
            "git",
            "history",
            "json",
            "people",
            "protocol",
            "providers",
            "runtime",
            "sandbox",
            "service",
            "settings",
            "store",
            "wire",
        ],
    ),
    (
        "http",
        &[
            "addons",
            "ask",
            "core",
            "files",
            "history",
            "json",
            "markup",
            "model",
            "notify",
            "people",
            "protocol",
            "providers",
            "runtime",
            "service",
            "settings",
            "store",
            "wire",
        ],
    ),
    (
        "crush",
        &[
            "addons", "ask", "core", "files", "history", "json", "people", "protocol", "runtime", "service",
            "store", "wire",
        ],
    ),
    // Links between servers: sessions of one at another.
    ("peer", &["protocol", "runtime", "store"]),
    // The web application: files, and routes that serve them.
    ("page", &[]),
    // Backups, services: they know the home and its store, and no live session.
    ("ops", &["disk", "json", "protocol", "store"]),
    // Clients of the HTTP API: they find servers, and see no session but through the API.
    ("client", &["disk", "history", "json", "model", "protocol", "store"]),
    ("tui", &["client", "disk", "json", "markup", "protocol"]),
    // The command line, and the program, which tests the whole.
    ("baton", &["cli"]),
    (
        "cli",
        &[
            "addons",
            "allocator",
            "client",
            "core",
            "crush",
            "disk",
            "egress",
            "engines",
            "files",
            "history",
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
            "process",
            "protocol",
            "providers",
            "rpc",
            "runtime",
            "sandbox",
            "service",
            "sql",
            "store",
            "terminal",
            "tui",
        ],
    ),
    // For tests.
    ("testkit", &["protocol"]),
    ("fuzz", &["core", "json", "markup", "mcp", "ops", "protocol", "store"]),
];

/// Files that read JSON without the limits of `baton_json`.
const WITHOUT_LIMITS: &[&str] = &[
    // JSON that Baton wrote: stored events and documents, messages of peers, replies of its own server.
    "client/src/http.rs",
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
    "process/src/inside.rs",
    "process/src/ledger/entries.rs",
    "protocol/src/event/parse.rs",
    "protocol/src/json.rs",
    "rpc/src/dialect.rs",
    "rpc/src/methods/send_and_wait.rs",
    "runtime/src/session/actor/open.rs",
    "sandbox/src/helper/inside.rs",
    "sandbox/src/network.rs",
    "store/src/sqlite/values.rs",
    // Skip a message without building anything, to find its id or the mistake in it.
    "http/src/api/extract.rs",
    "mcp/src/wire/message.rs",
    "protocol/src/rpc.rs",
];

/// Libraries that belong to a concept, and the crates that may use them. A library with a single user is listed: a second
/// user is a decision.
const OWNERS: &[(&str, &[&str])] = &[
    // HTTP servers and TLS: the doors, the proxy of the sandbox, and links to other servers and to the database. The runtime
    // knows no wire.
    ("axum", &["crush", "http", "page"]),
    ("http-body-util", &["crush"]),
    ("hyper", &["egress", "http"]),
    ("hyper-util", &["egress", "http"]),
    ("rustls", &["egress", "http", "model", "peer", "postgres"]),
    ("rustls-platform-verifier", &["model", "postgres"]),
    ("tokio-rustls", &["http", "peer", "postgres"]),
    ("tower", &["http"]),
    ("utoipa", &["http"]),
    // HTTP clients: model providers, and commands that talk to a server.
    ("reqwest", &["client", "model"]),
    ("tokio-tungstenite", &["model", "testkit"]),
    ("tower-layer", &["model"]),
    ("tower-service", &["model"]),
    // Databases.
    ("deadpool-postgres", &["postgres"]),
    ("rusqlite", &["sql", "store"]),
    ("tokio-postgres", &["postgres"]),
    // The command line: flags, configuration, errors for people, logs.
    ("anyhow", &["cli", "client", "tui"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("qrcodegen", &["cli"]),
    ("toml", &["cli"]),
    ("tracing-subscriber", &["cli"]),
    // Tools of the native engine.
    ("encoding_rs", &["agent"]),
    ("globset", &["agent"]),
    ("grep-regex", &["agent"]),
    ("grep-searcher", &["agent"]),
    ("ignore", &["agent"]),
    // One concept each.
    ("close_fds", &["sandbox"]),
    ("landlock", &["sandbox"]),
    ("libc", &["allocator", "sandbox"]),
    ("seccompiler", &["sandbox"]),
    ("memchr", &["json", "testkit"]),
    ("process-wrap", &["process"]),
    ("pulldown-cmark", &["markup"]),
    ("crossterm", &["tui"]),
    ("ratatui", &["tui"]),
    ("rpds", &["core"]),
    ("serde_path_to_error", &["json"]),
    ("similar", &["markup"]),
    ("syntect", &["markup"]),
    ("tar", &["fuzz", "ops"]),
    ("unicode-segmentation", &["tui"]),
    ("unicode-width", &["tui"]),
    ("vt100", &["testkit"]),
];

pub(super) fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the directory of all crates").to_owned()
}

pub(super) fn all() -> BTreeSet<String> {
    let entries = std::fs::read_dir(crates()).expect("the crates");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Dependencies of a crate in a table of its manifest, such as `dev-dependencies`, also those of one platform.
pub(super) fn dependencies(name: &str, table: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = text.parse().expect("TOML");
    let platforms = manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten();
    let tables = platforms.filter_map(|(_, platform)| platform.get(table)).chain(manifest.get(table));
    tables.filter_map(toml::Value::as_table).flat_map(|table| table.keys().cloned()).collect()
}

/// The code of a crate's program: sources without comments and without tests.
fn program_code(name: &str) -> String {
    let is_test = |path: &Path| {
        path.components().any(|part| part.as_os_str() == "tests")
            || path
                .file_stem()
                .is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with("_tests"))
    };
    let directory = crates().join(name).join("src");
    let inside = |path: &Path| path.strip_prefix(&directory).expect("a file of the crate").to_owned();
    let files = sources(&directory).into_iter().filter(|(path, _)| !is_test(&inside(path)));
    files
        .map(|(_, text)| without_comments(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("")))
        .collect()
}

/// All code of a crate, with that of its tests and examples.
fn all_code(name: &str) -> String {
    let directories = ["src", "tests", "examples", "benches"].map(|part| crates().join(name).join(part));
    let files =
        directories.iter().filter(|directory| directory.exists()).flat_map(|directory| sources(directory));
    files.map(|(_, text)| without_comments(&text)).collect()
}

fn without_comments(text: &str) -> String {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| [line, "\n"]).collect()
}

/// Whether code has a path that begins with a library: `name::item`, or `use name;`.
fn names_library(code: &str, library: &str) -> bool {
    let name = library.replace('-', "_");
    code.match_indices(&name).any(|(at, _)| {
        let begins = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        let after = &code[at + name.len()..];
        begins && ["::", ";", ",", "}", " as "].iter().any(|next| after.starts_with(next))
    })
}

#[test]
fn crates_have_exactly_the_allowed_dependencies() {
    let rules: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    assert_eq!(all(), rules.keys().map(|name| (*name).to_owned()).collect(), "each crate has a rule");
    for (name, allowed) in rules {
        let used = dependencies(name, "dependencies");
        let used: BTreeSet<&str> = used.iter().filter_map(|name| name.strip_prefix("baton-")).collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        let (new, idle) = (&used - &allowed, &allowed - &used);
        assert!(new.is_empty(), "{name} must not depend on {new:?}");
        assert!(idle.is_empty(), "{name} does not depend on {idle:?}: remove them from MAY_USE");
    }
}

#[test]
fn manifests_have_no_idle_dependencies() {
    let mut used = BTreeSet::new();
    for name in all() {
        let build = std::fs::read_to_string(crates().join(&name).join("build.rs")).unwrap_or_default();
        for (table, code) in [
            ("dependencies", program_code(&name)),
            ("build-dependencies", without_comments(&build)),
            ("dev-dependencies", all_code(&name)),
        ] {
            let listed = dependencies(&name, table);
            let idle: Vec<_> = listed.iter().filter(|library| !names_library(&code, library)).collect();
            assert!(idle.is_empty(), "{name} does not use {idle:?}: remove them from its {table}");
            used.extend(listed);
        }
    }
    let text = std::fs::read_to_string(crates().with_file_name("Cargo.toml")).expect("a manifest");
    let workspace: toml::Table = text.parse().expect("TOML");
    let listed = workspace["workspace"]["dependencies"].as_table().expect("a table").keys().cloned();
    let idle: Vec<_> = listed.filter(|library| !used.contains(library)).collect();
    assert!(idle.is_empty(), "no crate depends on {idle:?}: remove them from the workspace");
}

#[test]
fn libraries_have_exactly_the_allowed_users() {
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in all() {
        for library in dependencies(&name, "dependencies") {
            users.entry(library).or_default().insert(name.clone());
        }
    }
    for (library, owners) in OWNERS {
        let owners = owners.iter().map(|owner| (*owner).to_owned()).collect();
        assert_eq!(users.get(*library), Some(&owners), "the users of {library}, and those that may use it");
    }
    let is_listed = |library: &str| OWNERS.iter().any(|(listed, _)| *listed == library);
    let single = users.iter().filter(|(library, users)| users.len() == 1 && !library.starts_with("baton-"));
    let missing: Vec<_> = single.filter(|(library, _)| !is_listed(library)).collect();
    assert!(missing.is_empty(), "libraries with one user belong into OWNERS: {missing:?}");
}

#[test]
fn library_is_named_by_a_path_only() {
    for code in ["use http::Uri;", "    http::Uri::default()", "use {bytes::Bytes, http};", "use http as h;"]
    {
        assert!(names_library(code, "http"), "{code}");
    }
    for code in ["crate::http::get()", "my_http::get()", "https::x", "let http = 1;", "\"http://x\""] {
        assert!(!names_library(code, "http"), "{code}");
    }
    assert!(names_library("use tower_layer::Layer;", "tower-layer"));
    assert_eq!(without_comments("a\n  // baton_x::y\n/// http::x\nb"), "a\nb\n");
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

/// Files of doors that name the runtime itself, or the handle of a session. With these, a door could ask for what its client
/// may not: everything else goes through `baton_service`, which checks the role.
const BEHIND_THE_SERVICE: &[&str] = &[
    // Extensions are started for the runtime, not for a client.
    "rpc/src/extensions/host.rs",
    "rpc/src/extensions/mod.rs",
    "rpc/src/extensions/start.rs",
    "rpc/src/lib.rs",
];

#[test]
fn doors_do_for_clients_what_the_service_permits() {
    let is_word = |text: &str, word: &str| {
        let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        parts.into_iter().any(|part| part == word)
    };
    let mut found = BTreeSet::new();
    for door in ["rpc", "http", "crush"] {
        let is_test = |path: &Path| path.file_stem().is_some_and(|name| name == "tests");
        for (path, text) in
            sources(&crates().join(door).join("src")).into_iter().filter(|(path, _)| !is_test(path))
        {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let names = |word: &str| code.clone().any(|line| is_word(line, word));
            let path = path.strip_prefix(crates()).expect("a file of a crate");
            if names("Runtime") || names("Handle") {
                found.insert(path.to_str().expect("a name in UTF-8").to_owned());
            }
        }
    }
    assert_eq!(found, BEHIND_THE_SERVICE.iter().map(|path| (*path).to_owned()).collect());
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
