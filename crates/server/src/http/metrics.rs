//! Numbers for whoever watches the server, in Prometheus' text form.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

use crate::Server;

/// Counters of the door.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Answers, by the first digit of their status.
    answers: [AtomicU64; 6],
    /// Connections that are open now.
    pub(super) connections: AtomicU64,
    /// Streams that are open now.
    pub(super) streams: AtomicU64,
}

impl Metrics {
    pub(super) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.answers[class].fetch_add(1, Ordering::Relaxed);
    }

    /// All numbers, as text.
    pub(super) fn render(&self, server: &Server) -> String {
        let mut text = String::new();
        let mut put = |name: &str, kind: &str, help: &str, rows: &[(String, u64)]| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in rows {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let plain = |value: u64| vec![(String::new(), value)];
        let answers: Vec<(String, u64)> = (1..=5)
            .map(|class| (format!("{{class=\"{class}xx\"}}"), self.answers[class].load(Ordering::Relaxed)))
            .collect();
        put(
            "baton_http_responses_total",
            "counter",
            "Answers of the HTTP door, by class of status.",
            &answers,
        );
        let connections = self.connections.load(Ordering::Relaxed);
        put("baton_http_connections", "gauge", "Connections that are open.", &plain(connections));
        let streams = self.streams.load(Ordering::Relaxed);
        put("baton_http_streams", "gauge", "Event streams that are open.", &plain(streams));
        let version = format!("{{version=\"{}\"}}", server.options.version);
        put("baton_build_info", "gauge", "The version that runs.", &[(version, 1)]);
        let live = server.registry.all().len() as u64;
        put("baton_sessions_live", "gauge", "Sessions in memory.", &plain(live));
        if let Some(commits) = server.store.commits() {
            put("baton_store_commits_total", "counter", "Transactions of the store.", &plain(commits));
        }
        put("baton_resident_bytes", "gauge", "Memory of the process.", &plain(resident()));
        text
    }
}

#[expect(clippy::disallowed_methods, reason = "files of /proc are memory, and do not hang")]
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
