//! Commands for operators: `stop`, `backup`, `restore`, `grants`, `audit`, `service`.

mod audit;
mod copy;
mod grant_words;
mod grants;
mod service;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::args::{BackupArgs, Cli, ModelArgs, RestoreArgs, StopArgs};
use baton_history::owner;
use baton_ops::backup::{BackupOptions, BackupStep, Pace};
use baton_ops::restore::{RestoreOptions, RestoreReport};
use serde_json::json;

use crate::config::{self, Config, Environment};
use crate::discovery::{self, ProcessRole, RunningServer};
use crate::words::counted;
use crate::{logging, setup, terminal};

pub(crate) use self::audit::audit;
pub(crate) use self::copy::store;
pub(crate) use self::grants::grants;
pub(crate) use self::service::service;

/// Exit code of a command that found nothing to do, or for which there is no such thing.
pub(crate) const NOTHING_TO_DO: u8 = 3;
/// Pause between two notes of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// Priority of a backup: the server comes first.
const BACKUP_NICENESS: i32 = 10;

/// Loads the configuration of a command that uses the home.
pub(crate) fn load(cli: &Cli) -> anyhow::Result<Config> {
    let config = config::load(&cli.global, &ModelArgs::default(), None, &Environment::of_process())?;
    logging::start(&config);
    setup::check_home(&config.home.value)?;
    Ok(config)
}

/// Reports an error which says that something does not exist with an exit code of its own.
pub(crate) fn or_not_found(
    done: anyhow::Result<ExitCode>,
    says_so: impl Fn(&anyhow::Error) -> bool,
) -> anyhow::Result<ExitCode> {
    match done {
        Err(error) if says_so(&error) => {
            terminal::error(&format!("{error:#}"));
            Ok(ExitCode::from(NOTHING_TO_DO))
        }
        done => done,
    }
}

/// Prints notes of progress, not more often than people read them.
struct ProgressNotes {
    quiet: bool,
    last: Instant,
}

impl ProgressNotes {
    fn new(quiet: bool) -> Self {
        Self { quiet, last: Instant::now() }
    }

    fn note(&mut self, doing: &str, done: u64, total: u64) {
        if !self.quiet && self.last.elapsed() >= PROGRESS_EVERY {
            self.last = Instant::now();
            terminal::note(&format!("{doing}: {} %", (done * 100).checked_div(total).unwrap_or(100)));
        }
    }
}

pub(crate) fn stop(cli: &Cli, args: &StopArgs) -> anyhow::Result<ExitCode> {
    let config = load(cli)?;
    discovery::check_user(&config.home.value)?;
    let servers = RunningServer::servers(&config.home.value);
    let limit = Duration::from_secs(args.timeout);
    let stopped = setup::run(async {
        let stopping = servers.iter().map(|server| owner::stop(&server.owner, limit));
        Ok(futures_util::future::join_all(stopping).await)
    })?;
    let pids = |wanted: bool| -> Vec<u32> {
        let pairs = servers.iter().zip(&stopped);
        pairs.filter(|(_, stopped)| **stopped == wanted).map(|(server, _)| server.owner.pid).collect()
    };
    let (ended, running) = (pids(true), pids(false));
    if args.json {
        terminal::json_line(&json!({ "stopped": ended, "running": running }).to_string());
    } else {
        ended.iter().for_each(|pid| terminal::note(&format!("stopped the server with process id {pid}")));
        if servers.is_empty() {
            terminal::note(&format!("no server is running for the home {}", config.home.value.display()));
        }
    }
    for pid in &running {
        let limit = args.timeout;
        terminal::error(&format!(
            "process {pid} still runs after {limit} s; look at its log, or wait with --timeout"
        ));
    }
    Ok(match (running.is_empty(), servers.is_empty()) {
        (true, true) => ExitCode::from(NOTHING_TO_DO),
        (true, false) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    })
}

pub(crate) fn backup(cli: &Cli, args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let config = load(cli)?;
    // Without it, the backup only takes more from the server than it needs to.
    let _ = rustix::process::nice(BACKUP_NICENESS);
    let begun = Instant::now();
    let mut notes = ProgressNotes::new(args.json);
    let options = BackupOptions {
        home: &config.home.value,
        file: &args.file,
        version: env!("CARGO_PKG_VERSION"),
        with_token: args.with_token,
        replace: args.force,
        pace: Pace::Shared,
    };
    baton_ops::restore::finish(&config.home.value)?;
    let report = baton_ops::backup::backup(&options, &mut |step| match step {
        BackupStep::Database(state) => notes.note("copying the database", state.done, state.total),
        BackupStep::Sessions(state) => notes.note("copying files of sessions", state.done, state.total),
    })?;
    for skipped in &report.skipped {
        tracing::warn!(path = %skipped.display(), "left out of the backup: not a plain file with a plain name");
    }
    if args.json {
        let summary = json!({
            "file": args.file, "sessions": report.sessions, "files": report.files, "bytes": report.bytes,
            "skipped": report.skipped, "seconds": begun.elapsed().as_secs_f64(),
        });
        terminal::json_line(&summary.to_string());
    } else {
        let (sessions, files, size) = (report.sessions, report.files, size(report.bytes));
        let file = args.file.display();
        let (sessions, files) = (counted(sessions, "session"), counted(files, "more file"));
        terminal::line(&format!("{file}: {sessions}, {files}, {size}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats a size in the unit that fits it.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} KB", bytes.div_ceil(1_000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

pub(crate) fn restore(cli: &Cli, args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let config = load(cli)?;
    let home = &config.home.value;
    discovery::check_owner(home)?;
    if let Some(running) = RunningServer::all(home).first() {
        let pid = running.pid();
        match running.role {
            ProcessRole::Server => anyhow::bail!(
                "a server of this home is running (process {pid}); stop it first with `baton stop`"
            ),
            ProcessRole::Run => anyhow::bail!(
                "`baton run` uses this home (process {pid}); wait until it has ended, or cancel it there with Ctrl-C"
            ),
        }
    }
    let mut notes = ProgressNotes::new(args.json);
    let options = RestoreOptions { home, file: &args.file, replace: args.force, is_alive: owner::is_alive };
    let report =
        baton_ops::restore::restore(&options, &mut |done, total| notes.note("unpacking", done, total))?;
    if args.json {
        let summary = json!({
            "home": home, "sessions": report.sessions, "files": report.files, "created": report.created,
            "version": report.baton, "movedAside": report.moved_aside, "tokenReplaced": report.token,
            "people": report.people.iter().map(|person| json!({ "name": person.name, "role": person.role })).collect::<Vec<_>>(),
        });
        terminal::json_line(&summary.to_string());
    } else {
        let (sessions, created) = (report.sessions, report.created);
        terminal::line(&format!("{}: {} of {created}", home.display(), counted(sessions, "session")));
        if let Some(aside) = &report.moved_aside {
            let aside = aside.display();
            terminal::note(&format!(
                "the state before the restore is in {aside}; delete it when you are sure"
            ));
        }
        note_access(&report);
    }
    Ok(ExitCode::SUCCESS)
}

/// Says who has access to a restored home.
fn note_access(report: &RestoreReport) {
    if report.token {
        terminal::note("the backup contains the owner's token, which is now the token of this home");
    }
    if !report.people.is_empty() {
        let people: Vec<String> =
            report.people.iter().map(|person| format!("{} ({})", person.name, person.role)).collect();
        terminal::note(&format!(
            "these people have access again, with their tokens of that time; logins and links have ended: {}; \
             remove people with `baton people remove NAME`",
            people.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits_them() {
        assert_eq!(
            [size(346_624), size(999_999), size(1_000_000), size(2_000_001)],
            ["347 KB", "1000 KB", "1 MB", "3 MB"]
        );
    }
}
