//! The program's log: which entries are written, in which format, and how panics get into it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use baton_terminal::LogLines;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};

use crate::args::LogFormat;
use crate::config::Config;
use crate::terminal;

/// Names of levels, from few entries to many, and none.
pub(crate) const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "none"];

fn lines(format: LogFormat) -> LogLines {
    match format {
        LogFormat::Text => LogLines::Text,
        LogFormat::Json => LogLines::Json,
    }
}

/// Starts logging to standard error, at the configured level and in the configured format.
pub(crate) fn start(config: &Config) {
    let format = config.log_format.value;
    let level = parse_level(&config.log_level.value);
    let writer = move || terminal::log_writer(lines(format));
    // Fails only if the process has a subscriber already; that one stays.
    let _ = tracing::subscriber::set_global_default(subscriber(
        level.unwrap_or(LevelFilter::WARN),
        format,
        writer,
    ));
    if level.is_none() {
        tracing::warn!(level = config.log_level.value, "unknown log level; using warn");
    }
}

/// Whether a level has this name.
pub(crate) fn is_level(name: &str) -> bool {
    parse_level(name).is_some()
}

/// Parses the name of a level. Accepts the names that SDKs use.
fn parse_level(name: &str) -> Option<LevelFilter> {
    match name {
        "none" => Some(LevelFilter::OFF),
        "all" => Some(LevelFilter::TRACE),
        "warning" => Some(LevelFilter::WARN),
        other => other.parse().ok(),
    }
}

fn subscriber<W>(level: LevelFilter, format: LogFormat, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // A writer that fails has no reader: there is nowhere to report that, and no reason to end.
    let layer = fmt::layer().with_ansi(false).log_internal_errors(false).with_writer(writer);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
    };
    tracing_subscriber::registry().with(layer).with(filter(level))
}

/// Enables entries of Baton's own crates up to a level, and their spans up to info at least: without its span, a warning
/// would not name its session.
fn filter(level: LevelFilter) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let span_level = if level == LevelFilter::OFF { level } else { level.max(LevelFilter::INFO) };
    let enabled = move |metadata: &Metadata<'_>| {
        let limit = if metadata.is_span() { span_level } else { level };
        metadata.target().starts_with("baton") && *metadata.level() <= limit
    };
    FilterFn::new(enabled).with_max_level_hint(span_level)
}

/// Logs the error that ends a server whose log is JSON, so that every line on standard error is an object. Any other error
/// is left to `main`, which prints it.
pub(crate) fn report(config: &Config, ended: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match ended {
        Err(error) if config.log_format.value == LogFormat::Json && tracing::enabled!(Level::ERROR) => {
            tracing::error!("{error:#}");
            Ok(ExitCode::FAILURE)
        }
        other => other,
    }
}

/// Logs panics, within the spans that are active where they happen. Unwinding and exit codes stay as they are.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(log_panic));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("no message");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    if tracing::enabled!(Level::ERROR) {
        tracing::error!(thread, location, backtrace, "panicked: {text}");
    } else {
        // Before logging has started, or with the log turned off: a panic is reported all the same.
        terminal::error(&format!("thread {thread} panicked at {location}: {text}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;
    use baton_terminal::LogWriter;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns what is logged while `work` runs.
    fn logged(level: LevelFilter, format: LogFormat, work: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let out = buffer.clone();
        let subscriber = subscriber(level, format, move || LogWriter::new(out.clone(), lines(format)));
        tracing::subscriber::with_default(subscriber, work);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn json(log: &str) -> Vec<Value> {
        log.lines().map(|line| baton_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    #[test]
    fn json_entry_has_its_fields_and_those_of_its_spans() {
        let log = logged(LevelFilter::WARN, LogFormat::Json, || {
            let connection = tracing::info_span!("connection", id = 7).entered();
            let session = tracing::info_span!("session", session = "s\u{1b}[2K").entered();
            tracing::info!("not written");
            tracing::warn!(error = "disk\nfull\u{202e}", "append failed");
            drop((session, connection));
            tracing::error!("last");
        });
        assert!(!log.contains(['\u{1b}', '\u{202e}']), "{log:?}");
        let [first, last] = &json(&log)[..] else { panic!("{log}") };
        assert_eq!((&first["level"], &first["message"]), (&"WARN".into(), &"append failed".into()));
        assert_eq!(first["error"], "disk\nfull\u{202e}", "escapes mean the same");
        assert!(first["timestamp"].is_string() && first["target"].is_string(), "{first}");
        assert_eq!((&first["spans"][0]["name"], &first["spans"][0]["id"]), (&"connection".into(), &7.into()));
        assert_eq!(first["spans"][1]["session"], "s\u{1b}[2K");
        assert_eq!(last["spans"].as_array().map_or(0, Vec::len), 0, "{last}");
    }

    #[test]
    fn text_entry_names_its_session_on_one_line() {
        let log = logged(LevelFilter::WARN, LogFormat::Text, || {
            let _session = tracing::info_span!("session", session = "s1").entered();
            tracing::warn!("first\nsecond");
        });
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains(r#"session{session="s1"}"#) && log.contains("first\\nsecond"), "{log}");
    }

    #[test]
    fn only_own_entries_of_the_level_are_logged() {
        let work = || {
            tracing::debug!("too verbose");
            tracing::info!(target: "hyper", "not ours");
            tracing::info!(target: "baton_store::sqlite", "ours");
        };
        let log = json(&logged(LevelFilter::INFO, LogFormat::Json, work));
        assert_eq!(log.iter().map(|entry| &entry["message"]).collect::<Vec<_>>(), ["ours"]);
        assert_eq!(logged(LevelFilter::OFF, LogFormat::Text, || tracing::error!("unwanted")), "");
    }

    #[test]
    fn levels_have_the_names_that_sdks_use() {
        for (name, level) in [
            ("none", Some(LevelFilter::OFF)),
            ("error", Some(LevelFilter::ERROR)),
            ("warning", Some(LevelFilter::WARN)),
            ("warn", Some(LevelFilter::WARN)),
            ("info", Some(LevelFilter::INFO)),
            ("all", Some(LevelFilter::TRACE)),
            ("loud", None),
        ] {
            assert_eq!(parse_level(name), level, "{name}");
        }
    }

    /// The hook belongs to the whole process: while this test runs, panics of others are logged by it, too.
    #[test]
    fn panic_is_logged_with_text_location_thread_and_session() {
        let before = std::panic::take_hook();
        log_panics();
        let thread = std::thread::Builder::new().name("worker-7".into()).spawn(|| {
            logged(LevelFilter::ERROR, LogFormat::Json, || {
                let _session = tracing::info_span!("session", session = "s1").entered();
                let ended = std::panic::catch_unwind(|| panic!("lost {}\n", "count"));
                assert!(ended.is_err(), "the hook changes nothing but the report");
            })
        });
        let log = thread.unwrap().join();
        std::panic::set_hook(before);
        let log = log.unwrap();
        let [entry] = &json(&log)[..] else { panic!("{log}") };
        assert_eq!((&entry["level"], &entry["message"]), (&"ERROR".into(), &"panicked: lost count\n".into()));
        assert_eq!((&entry["thread"], &entry["spans"][0]["session"]), (&"worker-7".into(), &"s1".into()));
        assert!(entry["location"].as_str().unwrap().starts_with(file!()), "{entry}");
    }
}
