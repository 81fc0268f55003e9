//! Servers that share a database: entering, the secret that they share, `baton servers`.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_peer::{ClusterSecret, PeerDoor, PeerLinks};
use baton_runtime::Runtime;
use baton_runtime::cluster::Entry;
use baton_store::members::Member;
use serde_json::json;
use tokio::net::TcpListener;

use crate::args::{Cli, ModelArgs, PeerArgs, ServersArgs};
use crate::config::{self, Config, Environment};
use crate::discovery::RunningServer;
use crate::rows::List;
use crate::{logging, operate, setup, terminal};

/// Name of the file with the secret, in the user's directory for state.
const SECRET_FILE: &str = "peer-secret";

/// Enters the servers of the database, and listens for the others. Does nothing for sessions in a file.
pub(crate) async fn enter(
    server: &Arc<Runtime>,
    config: &Config,
    environment: &Environment,
    args: &PeerArgs,
) -> anyhow::Result<()> {
    if server.store.members().is_none() {
        return Ok(());
    }
    let secret = secret(environment, args.peer_secret_file.as_deref())?;
    let address = args.peer.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    anyhow::ensure!(
        !address.ip().is_unspecified(),
        "--peer needs the address under which the other servers reach this one, not {}",
        address.ip()
    );
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?.to_string();
    let entry = Entry {
        address,
        place: config.place.value.clone(),
        recovery: config.recovery.value,
        peers: Some(Arc::new(PeerLinks::new(server, secret.clone()))),
    };
    server.enter(entry).await?;
    let door = PeerDoor::new(server, secret);
    server.tasks.spawn(async move {
        if let Err(error) = door.serve(listener).await {
            tracing::error!(%error, "the listener for other servers failed; sessions here cannot be used from there");
        }
    });
    Ok(())
}

/// Returns the secret that all servers share: from the environment, from a file, or from a file of this user, which is
/// enough for servers of one user on one machine.
fn secret(environment: &Environment, file: Option<&Path>) -> anyhow::Result<ClusterSecret> {
    let text = match (environment.get("BATON_PEER_SECRET"), file) {
        (_, Some(file)) => {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
        }
        (Some(text), None) => text.to_owned(),
        (None, None) => {
            let directory = environment.directory("XDG_STATE_HOME", ".local/state").join("baton");
            shared_file(&directory).with_context(|| format!("cannot write to {}", directory.display()))?
        }
    };
    ClusterSecret::new(&text).map_err(anyhow::Error::msg)
}

/// Reads the secret of this user, or creates it. Of several servers that do so at once, one wins.
fn shared_file(directory: &Path) -> std::io::Result<String> {
    let path: PathBuf = directory.join(SECRET_FILE);
    if let Ok(text) = std::fs::read_to_string(&path) {
        return Ok(text);
    }
    baton_disk::private::create_dir_all(directory)?;
    let own = directory.join(format!("{SECRET_FILE}.{}", std::process::id()));
    let random = || baton_protocol::SessionId::random().to_string();
    baton_disk::private::write(&own, format!("{}{}\n", random(), random()).as_bytes())?;
    let linked = std::fs::hard_link(&own, &path);
    let _ = std::fs::remove_file(&own);
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => std::fs::read_to_string(&path),
    }
}

/// Lists the servers of the database.
pub(crate) fn servers(cli: &Cli, args: &ServersArgs) -> anyhow::Result<ExitCode> {
    let config = config::load(&cli.global, &ModelArgs::default(), None, &Environment::of_process())?;
    logging::start(&config);
    setup::run(async {
        let store = setup::store(&config, None)?;
        let local = RunningServer::servers(&config.home.value);
        let Some(members) = store.members() else {
            store.close().await?;
            anyhow::ensure!(
                args.drain.is_none(),
                "sessions are stored in a file; only servers that share a database (--store) can be drained"
            );
            return Ok(show_local(&local, args.json));
        };
        let all = members.list().await?;
        if let Some(wanted) = &args.drain {
            let found = all.iter().find(|member| [&member.owner.server, &member.address].contains(&wanted));
            let Some(found) = found else {
                store.close().await?;
                terminal::error(&format!("no server {wanted:?}; `baton servers` lists them"));
                return Ok(ExitCode::from(operate::NOTHING_TO_DO));
            };
            anyhow::ensure!(members.ask_to_drain(&found.owner.server).await?, "server {wanted:?} has left");
        }
        let all = if args.drain.is_some() { members.list().await? } else { all };
        if args.json {
            let rows: Vec<_> = all.iter().map(|member| as_json(member, &local)).collect();
            terminal::json(&serde_json::to_string_pretty(&json!({ "servers": rows }))?);
        } else if all.is_empty() {
            terminal::note("no server uses this database; start one with `baton serve`");
        } else {
            let rows: Vec<Vec<String>> = all.iter().map(|member| as_row(member, &local)).collect();
            let header =
                ["PEER", "PLACE", "PID", "VERSION", "STATE", "SESSIONS", "BUSY", "LAST SEEN", "CLIENTS"];
            List { header: &header, rows: &rows, notes: &[], heading: 1, flexible: &[] }.print_wrapped();
        }
        store.close().await?;
        Ok(ExitCode::SUCCESS)
    })
}

fn state(member: &Member) -> &'static str {
    match (member.is_alive(), member.draining) {
        (true, false) => "alive",
        (true, true) => "draining",
        (false, _) => "dead",
    }
}

/// Shows the servers of a home whose sessions are stored in a file.
fn show_local(servers: &[RunningServer], as_json: bool) -> ExitCode {
    if as_json {
        let row = |server: &RunningServer| json!({ "pid": server.pid(), "clientAddresses": server.doors() });
        let rows: Vec<_> = servers.iter().map(row).collect();
        terminal::json(&json!({ "servers": rows }).to_string());
    } else if servers.is_empty() {
        terminal::note("no server of this home runs; start one with `baton serve`");
    } else {
        let row = |server: &RunningServer| vec![server.pid().to_string(), server.doors().join(" ")];
        let rows: Vec<Vec<String>> = servers.iter().map(row).collect();
        List { header: &["PID", "CLIENTS"], rows: &rows, notes: &[], heading: 1, flexible: &[] }
            .print_wrapped();
    }
    ExitCode::SUCCESS
}

/// Returns the addresses for clients of a server of the same home; those of other machines are known to them only.
fn doors_of(member: &Member, local: &[RunningServer]) -> Vec<String> {
    let found = local.iter().find(|server| server.owner == member.owner);
    found.map(RunningServer::doors).unwrap_or_default()
}

fn as_json(member: &Member, local: &[RunningServer]) -> serde_json::Value {
    json!({
        "clientAddresses": doors_of(member, local),
        "id": member.owner.server, "address": member.address, "place": member.place, "version": member.version,
        "host": member.owner.host, "pid": member.owner.pid, "state": state(member), "sessions": member.sessions,
        "busy": member.busy, "secondsSinceSeen": member.age.as_secs_f64(),
    })
}

fn as_row(member: &Member, local: &[RunningServer]) -> Vec<String> {
    vec![
        member.address.clone(),
        member.place.clone(),
        member.owner.pid.to_string(),
        member.version.clone(),
        state(member).to_owned(),
        member.sessions.to_string(),
        member.busy.to_string(),
        format!("{:.1} s ago", member.age.as_secs_f64()),
        doors_of(member, local).join(" "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_one_user_share_a_private_secret() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("baton");
        let first = shared_file(&directory).unwrap();
        assert!(first.trim().len() > 60);
        assert_eq!(shared_file(&directory).unwrap(), first);
        let mode = std::fs::metadata(directory.join(SECRET_FILE)).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, std::fs::read_dir(&directory).unwrap().count()), (0o600, 1));
    }
}
