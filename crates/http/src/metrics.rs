//! Metrics in Prometheus' text format.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

use baton_notify::Statistics;
use baton_runtime::cluster::ClusterSnapshot;
use baton_runtime::metrics::Snapshot;
use baton_service::server::ServerMetrics;

/// Counters and gauges of the door.
#[derive(Default)]
pub(crate) struct DoorMetrics {
    /// Responses, by the first digit of their status.
    responses: [AtomicU64; 6],
    /// Open connections.
    pub(super) connections: AtomicU64,
    /// Open event streams.
    pub(super) streams: AtomicU64,
}

/// Counts something as open in a gauge until it is dropped, also when its task panics.
pub(super) struct Open<'a>(&'a AtomicU64);

impl<'a> Open<'a> {
    pub(super) fn count(gauge: &'a AtomicU64) -> Self {
        gauge.fetch_add(1, Ordering::Relaxed);
        Self(gauge)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DoorMetrics {
    pub(super) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of responses.
    pub(super) fn responses(&self) -> u64 {
        self.responses.iter().map(|class| class.load(Ordering::Relaxed)).sum()
    }

    /// Renders all metrics as text.
    pub(super) fn render(&self, version: &str, server: ServerMetrics) -> String {
        let mut text = Exposition::default();
        let responses =
            (1..=5).map(|class| (format!("{class}xx"), self.responses[class].load(Ordering::Relaxed)));
        text.labelled(
            "baton_http_responses_total",
            "HTTP responses, by class of status.",
            "class",
            responses,
        );
        let connections = self.connections.load(Ordering::Relaxed);
        text.gauge("baton_http_connections", "Open HTTP connections.", connections);
        text.gauge("baton_http_streams", "Open event streams.", self.streams.load(Ordering::Relaxed));
        let version = [(version, 1)];
        text.labelled("baton_build_info", "Version of the server.", "version", version);
        text.gauge("baton_sessions_live", "Sessions in memory.", server.live_sessions);
        text.gauge("baton_clients", "Clients attached to sessions.", server.clients);
        text.sessions(&server.sessions);
        if let Some(commits) = server.commits {
            text.counter("baton_store_commits_total", "Committed transactions of the store.", commits);
        }
        if let Some(cluster) = server.cluster {
            text.cluster(&cluster);
        }
        if let Some(notifications) = server.notifications {
            text.notifications(&notifications);
        }
        text.gauge("baton_resident_bytes", "Resident memory of the process.", resident());
        text.0
    }
}

/// Metrics as text, with the lines that describe them. A name that ends in `_total` is a counter, any other a gauge.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    /// Adds what sessions do.
    fn sessions(&mut self, read: &Snapshot) {
        let pending = || read.pending.iter();
        self.counter("baton_prompts_total", "Accepted prompts.", read.prompts);
        self.labelled("baton_turns_total", "Turns, by outcome.", "outcome", read.turns);
        self.counter("baton_model_calls_total", "Answered model calls.", read.model_calls);
        let failed = "Failed attempts of model calls, by cause.";
        self.labelled("baton_model_errors_total", failed, "cause", read.model_errors);
        self.labelled("baton_tokens_total", "Tokens of model calls, by kind.", "kind", read.tokens);
        let cost = "Cost of model calls in US dollars, as far as it is reported.";
        self.counter("baton_cost_usd_total", cost, read.cost);
        self.labelled("baton_tool_calls_total", "Ended tool calls, by outcome.", "outcome", read.tool_calls);
        let counts = pending().map(|(kind, count, _)| (*kind, *count));
        self.labelled(
            "baton_requests_pending",
            "Pending requests of live sessions, by kind.",
            "kind",
            counts,
        );
        let ages = pending().map(|(kind, _, oldest)| (*kind, oldest.as_secs_f64()));
        let age = "Age of the oldest pending request, by kind; 0 if there is none.";
        self.labelled("baton_requests_oldest_age_seconds", age, "kind", ages);
    }

    /// Adds what happens between servers that share a store.
    fn cluster(&mut self, read: &ClusterSnapshot) {
        self.counter("baton_takeovers_total", "Sessions taken over from dead servers.", read.takeovers);
        self.counter("baton_peer_links_lost_total", "Lost links to owners of sessions.", read.lost_links);
        self.gauge("baton_sessions_relayed", "Live sessions that another server holds.", read.relayed);
        let missed = "Heartbeats that the database did not acknowledge.";
        self.counter("baton_heartbeats_missed_total", missed, read.missed_heartbeats);
        let age = "Time since the last acknowledged heartbeat was sent.";
        self.gauge("baton_heartbeat_age_seconds", age, read.heartbeat_age.as_secs_f64());
        let fenced = "Whether this server starts nothing, because it has no contact with the database.";
        self.gauge("baton_fenced", fenced, u8::from(read.is_fenced));
    }
    /// Adds the results of notifications.
    fn notifications(&mut self, read: &Statistics) {
        let attempts = "Attempts to deliver or withdraw a notification, by result.";
        self.labelled("baton_notifications_total", attempts, "result", read.deliveries);
        let pending = "Deliveries of notifications that are not finished.";
        self.gauge("baton_notifications_pending", pending, read.pending);
        let oldest = "Age of the oldest notification with an unfinished delivery; 0 if there is none.";
        self.gauge("baton_notifications_oldest_age_seconds", oldest, read.oldest.as_secs_f64());
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.describe(name, help);
        self.line(format_args!("{name} {value}"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.counter(name, help, value);
    }

    /// Adds a metric with one label.
    fn labelled<L: Display, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        rows: impl IntoIterator<Item = (L, V)>,
    ) {
        self.describe(name, help);
        for (value, count) in rows {
            self.line(format_args!("{name}{{{label}=\"{value}\"}} {count}"));
        }
    }

    fn describe(&mut self, name: &str, help: &str) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

/// Returns the resident memory of this process, in bytes.
#[expect(clippy::disallowed_methods, reason = "files of /proc are memory, and do not hang")]
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
