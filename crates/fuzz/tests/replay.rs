//! Calls the fuzz targets on stable Rust: with the corpus, and with the same mutations of it each time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "tests may block")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use baton_fuzz::{TARGETS, Target};

/// Mutations for each target. A restore writes files, so there are fewer of them.
const MUTATIONS: usize = 5000;
const RESTORES: usize = 200;

/// Length of the longest mutation, which is cargo-fuzz's default, too.
const LONGEST: usize = 4096;

/// Pieces that parsers give a meaning to.
const PIECES: [&[u8]; 16] = [
    b"\n",
    b"\r\n\r\n",
    b"\\",
    b"'",
    b"\"",
    b"`",
    b"$",
    b"{",
    b"}",
    b"[",
    b"<",
    b">",
    b"../",
    b"\0",
    b"\xff",
    b"\xe2\x80\xae",
];

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The corpus of a target, in the order of the names.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(fuzz().join("corpus").join(target)).expect("a corpus");
    let entries = entries.map(|entry| entry.unwrap());
    // Inputs that cargo-fuzz has found are named by their digests. They are not of the repository.
    let named = entries.filter(|entry| entry.path().extension().is_some());
    let mut corpus: Vec<_> = named
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    corpus.sort();
    assert!(corpus.len() >= 10, "{target} has a corpus");
    corpus
}

/// Prints the input of a target that panics.
struct Failing<'a> {
    name: &'a str,
    input: &'a [u8],
}

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} fails for b\"{}\"", self.name, self.input.escape_ascii());
        }
    }
}

fn call(target: Target, name: &str, input: &[u8]) {
    let _failing = Failing { name, input };
    target(input);
}

/// A sequence of numbers that is the same in each run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Returns a part of an input.
    fn part<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        let start = self.below(input.len() + 1);
        &input[start..start + self.below((input.len() - start).min(64) + 1)]
    }
}

/// Changes an input in one to four places: removes, repeats or inserts a part, or flips a bit.
fn mutated(corpus: &[(String, Vec<u8>)], numbers: &mut Numbers) -> Vec<u8> {
    let mut input = corpus[numbers.below(corpus.len())].1.clone();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(input.len() + 1);
        match numbers.below(5) {
            0 => drop(input.splice(at..at + numbers.below((input.len() - at).min(16) + 1), [])),
            1 => {
                let part = numbers.part(&input).to_vec();
                input.splice(at..at, part);
            }
            2 => {
                let other = numbers.below(corpus.len());
                let part = numbers.part(&corpus[other].1);
                input.splice(at..at, part.iter().copied());
            }
            3 => drop(input.splice(at..at, PIECES[numbers.below(PIECES.len())].iter().copied())),
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << numbers.below(8);
                }
            }
        }
    }
    input.truncate(LONGEST);
    input
}

fn replay(name: &str, mutations: usize) {
    let (_, target) = TARGETS.into_iter().find(|(target, _)| *target == name).expect("a target");
    let corpus = corpus(name);
    for (file, input) in &corpus {
        call(target, file, input);
    }
    let mut numbers = Numbers(1);
    for _ in 0..mutations {
        call(target, "a mutation", &mutated(&corpus, &mut numbers));
    }
}

#[test]
fn archives_are_restored_within_their_home() {
    replay("archive", RESTORES);
}

#[test]
fn frames_and_messages_are_read_as_they_were_written() {
    replay("frames", MUTATIONS);
}

#[test]
fn markdown_yields_allowed_elements_only() {
    replay("markdown", MUTATIONS);
}

#[test]
fn mcp_lines_are_messages_or_logged() {
    replay("mcp", MUTATIONS);
}

#[test]
fn shell_grants_cover_what_was_shown() {
    replay("shell", MUTATIONS);
}

/// Each target has a program for cargo-fuzz, and nothing is fuzzed without a target here.
#[test]
fn each_target_has_a_fuzzer() {
    let targets: BTreeSet<&str> = TARGETS.into_iter().map(|(name, _)| name).collect();
    let manifest: toml::Table = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap().parse().unwrap();
    let programs = manifest["bin"].as_array().unwrap().iter();
    let programs: BTreeSet<&str> = programs.map(|program| program["name"].as_str().unwrap()).collect();
    assert_eq!(programs, targets);
    for name in targets {
        let source = std::fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(source.contains(&format!("baton_fuzz::{name}(")), "{name}: {source}");
    }
}
