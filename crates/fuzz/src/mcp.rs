//! Lines of MCP servers.

use baton_mcp::{ServerLog, read_messages};
use futures_util::FutureExt;
use tokio::io::AsyncReadExt;

/// Limit on lines: small, so that short inputs exceed it.
const LONGEST: usize = 1024;
/// Reading pauses after so many lines, and the server's log forgets the oldest after half of them.
const MAX_LINES: usize = 450;

/// Reads the output of a server. The chunks in which it arrives change nothing, each line is a message or in the log, and a
/// message that is sent on is the same message on one line.
pub fn mcp(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    if lines.len() > MAX_LINES {
        return;
    }
    let whole = read(data, b"", LONGEST);
    for cut in [1, data.len() / 2, data.len().saturating_sub(1)] {
        let (first, second) = data.split_at(cut.min(data.len()));
        assert_eq!(read(first, second, LONGEST), whole, "cut at {cut}");
    }
    let (messages, log) = whole;
    for line in &log {
        assert!(!line.contains(|c: char| c.is_control() && c != '\t'), "the log has {line:?}");
    }
    // What is behind the last line feed is not a line yet.
    let complete = &lines[..lines.len() - 1];
    if complete.iter().all(|line| line.len() <= LONGEST) {
        let lines = complete.iter().filter(|line| !line.trim_ascii().is_empty()).count();
        assert!(messages.len() + log.len() >= lines, "{lines} lines: {messages:?} {log:?}");
    }
    for message in messages {
        assert!(!message.contains(&b'\n'), "one line");
        let (again, _) = read(&message, b"\n", usize::MAX);
        assert_eq!(again, [message], "a message that is sent on stays the same");
    }
}

/// Reads output that arrives in two chunks: its messages, as they would be sent on, and the log.
fn read(first: &[u8], second: &[u8], longest: usize) -> (Vec<Vec<u8>>, Vec<String>) {
    let log = ServerLog::default();
    let messages = read_messages(first.chain(second), longest, &log).now_or_never();
    (messages.expect("all output is there"), log.lines())
}
