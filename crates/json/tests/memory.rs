//! Memory that hostile texts take, in a process of its own: the peak is that of the process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use serde_json::Value;
use serde_json::value::RawValue;

const SIZE: usize = 15 << 20;

/// Returns the most memory that the process has used so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Returns a list of `count` copies of a value, with a long string, so that the whole has 15 MB.
fn list(value: &str, count: usize) -> String {
    let copies = format!("{value},").repeat(count);
    let rest = "x".repeat(SIZE.saturating_sub(copies.len()));
    format!(r#"[{copies}"{rest}"]"#)
}

#[test]
fn memory_is_in_proportion_to_the_text() {
    let deep = "[".repeat(99) + &"]".repeat(99);
    let objects = r#"{"":"#.repeat(99) + "0" + &"}".repeat(99);
    let mut largest = 0;
    for value in [deep.as_str(), &objects, "[]", "{}", "0", r#"{"":[]}"#, r#""""#] {
        // Far too many values, and just as many as are allowed.
        let own_values = value.bytes().filter(|byte| b"[{:,".contains(byte)).count() + 1;
        for count in [SIZE / (value.len() + 1), baton_json::MAX_VALUES / own_values - 10] {
            let text = list(value, count);
            drop(baton_json::from_str::<Value>(&text));
            drop(baton_json::from_str::<&RawValue>(&text));
            drop(baton_json::path_of::<Vec<u8>>(&text));
            largest = largest.max(text.len());
        }
    }
    // The text, its parts while it is built, and one tree.
    let peak = peak();
    assert!(peak < 4 * largest + (50 << 20), "{} MB for a text of {} MB", peak >> 20, largest >> 20);
}
