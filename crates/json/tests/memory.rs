//! Memory of errors, in a process of its own: the peak is that of the process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    params: &'a RawValue,
    method: String,
}

/// Returns the most memory that the process has used so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn error_does_not_take_more_memory_than_the_text() {
    // A lone surrogate is no error of syntax: it is found when the string is read.
    let text = format!(r#"{{"params":[{}0],"method":"\ud800"}}"#, "0,".repeat(4 << 20));
    let before = peak();
    let error = baton_json::from_str::<Message<'_>>(&text).map(|message| (message.params, message.method));
    assert!(error.unwrap_err().to_string().starts_with("unexpected end of hex escape"));
    let taken = peak() - before;
    assert!(taken < text.len(), "{taken} bytes for a text of {}", text.len());
}
