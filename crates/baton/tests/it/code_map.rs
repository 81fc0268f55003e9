//! The papers for people who change the code: every file and function that they name exists, and the map has every crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::walls::{all, crates, dependencies};

/// The papers, by path from the root.
fn papers() -> BTreeMap<String, String> {
    let root = crates().parent().expect("the root").to_owned();
    let pages = ["docs/decisions", "docs/extending"].into_iter().flat_map(|directory| {
        let entries = std::fs::read_dir(root.join(directory)).expect("a directory of papers");
        entries.map(move |entry| Path::new(directory).join(entry.expect("an entry").file_name()))
    });
    let paths = pages.chain([PathBuf::from("ARCHITECTURE.md")]);
    let read = |path: PathBuf| {
        (path.display().to_string(), std::fs::read_to_string(root.join(path)).expect("a page"))
    };
    paths.map(read).collect()
}

/// Source paths in a text, such as `core/src/step/{prompt,cancel}.rs`, with their braces expanded.
fn source_paths(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_source = |path: &&str| path.contains("/src/") || path.contains("/tests/");
    // In recipes, `NAME` stands for a file that does not exist yet.
    let is_named = |path: &&str| !path.contains([' ', '\n']) && !path.contains("NAME");
    quoted.filter(is_source).filter(is_named).flat_map(expanded).collect()
}

fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (choices, after) = rest.split_once('}').expect("a closing brace");
    choices.split(',').map(|choice| format!("{before}{choice}{after}")).collect()
}

/// Resolves a path of a paper: the crates are named without their directory, everything else from the root.
fn resolved(path: &str) -> PathBuf {
    let in_crates = crates().join(path);
    if in_crates.exists() { in_crates } else { crates().with_file_name(path) }
}

#[test]
fn papers_name_existing_files() {
    let papers = papers();
    let named = |text: &String| source_paths(text).len();
    assert!(named(&papers["ARCHITECTURE.md"]) > 60, "the code map was not read");
    assert!(papers.values().map(named).sum::<usize>() > 160, "the other papers were not read");
    let missing: Vec<_> = papers
        .iter()
        .flat_map(|(paper, text)| source_paths(text).into_iter().map(move |path| (paper, path)))
        .filter(|(_, path)| !resolved(path).exists())
        .collect();
    assert!(missing.is_empty(), "papers name files that do not exist: {missing:#?}");
}

/// Functions that a text names in parentheses behind the file that has them: `file.rs` (`function`, ...).
fn named_functions(text: &str) -> Vec<(&str, &str)> {
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let behind_a_file = |(at, _): (usize, &str)| {
        let (before, rest) = (&text[..at], &text[at + "` (".len()..]);
        let (file, inside) = (before.rsplit('`').next()?, rest.split(')').next()?);
        let names = inside.split('`').skip(1).step_by(2).filter(is_name);
        (file.ends_with(".rs") && file.contains('/')).then(|| names.map(move |name| (file, name)))
    };
    text.match_indices("` (").filter_map(behind_a_file).flatten().collect()
}

#[test]
fn papers_name_existing_functions() {
    let papers = papers();
    assert!(named_functions(&papers["ARCHITECTURE.md"]).len() > 50, "the code map was not read");
    for (paper, text) in &papers {
        for (file, function) in named_functions(text) {
            let has_it = expanded(file).iter().any(|path| {
                let source = std::fs::read_to_string(resolved(path)).expect("a file of the map");
                [format!("fn {function}("), format!("fn {function}<")]
                    .iter()
                    .any(|start| source.contains(start))
            });
            assert!(has_it, "{paper} says that {file} has the function {function}");
        }
    }
}

/// The map of the crates in ARCHITECTURE.md.
fn map() -> String {
    let text = std::fs::read_to_string(crates().with_file_name("ARCHITECTURE.md")).expect("the page");
    let map = text.split("## The map").nth(1).and_then(|rest| rest.split("\n## ").next());
    map.expect("the map").to_owned()
}

/// The groups of crates in the map, top down.
fn groups() -> Vec<BTreeSet<String>> {
    let mut groups = Vec::new();
    for row in map().lines().filter_map(|line| line.strip_prefix("| ")) {
        if row.starts_with("**") {
            groups.push(BTreeSet::new());
        } else if let (Some(name), Some(group)) =
            (row.strip_prefix('`').and_then(|row| row.split('`').next()), groups.last_mut())
        {
            group.insert(name.to_owned());
        }
    }
    groups
}

#[test]
fn map_has_every_crate_in_a_group_that_depends_on_no_later_one() {
    let groups = groups();
    let mapped: BTreeSet<String> = groups.iter().flatten().cloned().collect();
    assert_eq!(mapped, all(), "the map of ARCHITECTURE.md has a row for each crate");
    assert_eq!(groups.iter().map(BTreeSet::len).sum::<usize>(), mapped.len(), "a crate has two rows");
    let mut seen = BTreeSet::new();
    for group in groups {
        seen.extend(group.iter().cloned());
        for name in group {
            let used = dependencies(&name, "dependencies");
            let later: Vec<_> = used
                .iter()
                .filter_map(|name| name.strip_prefix("baton-"))
                .filter(|name| !seen.contains(*name))
                .collect();
            assert!(later.is_empty(), "the map has {name} above {later:?}, which it depends on");
        }
    }
}

#[test]
fn map_says_what_each_wall_keeps_apart() {
    let map = map();
    let rows = map.lines().filter(|line| line.starts_with("| `"));
    let walls: Vec<&str> = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next()).collect();
    let different: BTreeSet<&str> = walls.iter().copied().collect();
    assert_eq!(different.len(), all().len(), "each wall has a reason of its own");
    let short: Vec<_> = walls.iter().filter(|wall| wall.split(' ').count() < 4).collect();
    assert!(short.is_empty(), "these say too little about what the wall keeps apart: {short:?}");
}

#[test]
fn every_decision_is_in_the_index_with_context_choice_and_price() {
    let mut decisions = papers();
    decisions.retain(|path, _| path.starts_with("docs/decisions/"));
    let index = decisions.remove("docs/decisions/README.md").expect("an index");
    for (path, text) in &decisions {
        let name = Path::new(path).file_name().expect("a name").to_string_lossy();
        assert!(index.contains(&format!("]({name})")), "docs/decisions/README.md does not list {name}");
        let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, ["Context", "Choice", "Price"], "{path}");
    }
}
