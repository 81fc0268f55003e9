//! Starts extensions: finds them, checks trust, starts their processes and joins them to the session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_addons::extensions::{Available, Problem, Process, Source};
use baton_ask::extensions::ExtensionStatus;
use baton_core::TrustTerm;
use baton_core::ask::{Consent, WithdrawAsk};
use baton_protocol::Json;
use baton_protocol::permission::PermissionRequest;
use baton_runtime::session::Handle;
use baton_sandbox::Place;
use baton_wire::stdio::{Input, Output};
use futures_util::future::join_all;
use serde_json::json;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::member::Membership;
use super::{PATIENCE, SessionExtensions};
use crate::RpcDoor;
use crate::connection::{ClientTransport, Connection};

/// How long an open question to a user delays the client that asked for extensions. Clients that answer by themselves do it
/// at once.
const QUESTION_GRACE: Duration = Duration::from_secs(1);

/// Starts all extensions of a session. Returns when they have settled.
pub(super) async fn all(session: &Arc<SessionExtensions>, door: &RpcDoor, ended: &CancellationToken) {
    let Ok(view) = session.handle.inspect().await else { return };
    let cwd = view.session.durable.facts.context.cwd.clone();
    let (found, problems) = match find(&session.handle, door).await {
        Ok(found) => found,
        Err(error) => return session.warn(format!("Extensions cannot be found: {error}.")),
    };
    for problem in problems {
        session.warn(format!("The extension {problem}."));
    }
    let starts = found.into_iter().map(|found| {
        let member = Membership::new(found, &session.handle.id);
        session.add(member.clone());
        let start = Start { session: session.clone(), door: door.clone(), member, cwd: cwd.clone().into() };
        start.settled(ended.clone())
    });
    let starts: Vec<_> = starts.collect();
    if starts.is_empty() {
        return;
    }
    join_all(starts).await;
    session.announce();
}

/// Finds the extensions of a session, as its directory and settings are now.
async fn find(handle: &Handle, door: &RpcDoor) -> Result<(Vec<Available>, Vec<Problem>), String> {
    let view = handle.inspect().await.map_err(|failure| failure.to_string())?;
    door.runtime.addons.find_extensions(view.cwd().as_ref(), Some(&view.settings)).await
}

/// The start of one extension.
struct Start {
    session: Arc<SessionExtensions>,
    door: RpcDoor,
    member: Arc<Membership>,
    cwd: PathBuf,
}

impl Start {
    /// Starts the extension in a task of its own. Returns when it has joined or failed, or waits for a user.
    async fn settled(self, ended: CancellationToken) {
        let (member, tasks) = (self.member.clone(), self.door.service.tasks().clone());
        let over = CancellationToken::new();
        let stopping = self.door.service.stopping().clone();
        let task = {
            let over = over.clone();
            async move {
                tokio::select! {
                    () = self.run() => {}
                    () = ended.cancelled() => self.withdraw().await,
                    () = stopping.cancelled() => self.member.stop(),
                }
                over.cancel();
            }
        };
        tasks.spawn(task.in_current_span());
        tokio::select! {
            () = member.joined() => {}
            () = over.cancelled() => {}
            () = member.undecided(QUESTION_GRACE) => {}
        }
    }

    /// Runs the extension until it ends.
    async fn run(&self) {
        let outcome = match self.permitted().await {
            Ok(Permitted::Yes) => self.execute().await,
            Ok(Permitted::Disabled) => return self.member.set_status(ExtensionStatus::Disabled),
            Err(why) => Err(why),
        };
        if let Err(why) = outcome {
            self.member.set_status(ExtensionStatus::Failed);
            tracing::warn!(extension = self.member.id(), reason = why, "extension failed");
            self.session.warn(format!("The extension {} is not running: {why}.", self.member.id()));
            self.session.announce();
        }
    }

    /// Decides whether the extension may be started.
    async fn permitted(&self) -> Result<Permitted, String> {
        let extensions = &self.door.runtime.addons.extensions;
        let found = self.member.found();
        if extensions.is_disabled(self.member.id()).await? {
            return Ok(Permitted::Disabled);
        }
        if extensions.is_trusted(found).await? {
            return Ok(Permitted::Yes);
        }
        let (wants, message) = question(found);
        let key = self.key();
        let Some(term) = consent(&self.member, &self.session.handle, wants, message, key).await? else {
            return Err("it is not trusted".into());
        };
        // What was approved is what runs: the files may have changed while the question was open.
        let (now, _) = find(&self.session.handle, &self.door).await?;
        if !now.contains(found) {
            return Err("its code has changed since the question; reload extensions".into());
        }
        if term == TrustTerm::UntilChanged {
            extensions.approve(&found.extension).await?;
        }
        Ok(Permitted::Yes)
    }

    /// Starts the program, and serves it until it ends.
    async fn execute(&self) -> Result<(), String> {
        let (runtime, session) = (&self.door.runtime, &self.session);
        let sdk = session.sdk.as_deref();
        let place = match self.member.found().source {
            Source::Project => runtime.place(&session.handle.id).await?,
            Source::User | Source::Plugin { .. } => Place::Outside,
        };
        let found = self.member.found();
        let started = runtime.addons.start_extension(found, &session.handle.id, &self.cwd, sdk, place).await;
        let (process, reads, writes) = started.map_err(|error| format!("node cannot be started: {error}"))?;
        let output = pipe::Sender::from_owned_fd(reads).map_err(|error| error.to_string())?;
        let input = pipe::Receiver::from_owned_fd(writes).map_err(|error| error.to_string())?;
        let (connection, writer) = Connection::open(
            &self.door,
            Output::Fifo(output),
            ClientTransport::Extension(self.member.clone()),
        );
        let process = Arc::new(process);
        self.member.run(&process, &connection);
        let ended = self.serve(&connection, Input::Fifo(input), &process).await;
        connection.close();
        process.end();
        process.gone().await;
        drop(writer.await);
        Err(match (ended, process.diagnostics.reason()) {
            (Ended::Late, _) => format!("it did not join the session within {} s", PATIENCE.as_secs()),
            (Ended::Exited, Some(line)) => format!("its program has exited: {line}"),
            (Ended::Exited, None) => "its program has exited".into(),
        })
    }

    async fn serve(&self, connection: &Arc<Connection>, input: Input, process: &Process) -> Ended {
        let late = async {
            // A user may take longer to let it read variables.
            while tokio::time::timeout(PATIENCE, self.member.joined()).await.is_err() {
                if !self.member.is_undecided() {
                    return;
                }
                self.member.decided().await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = crate::read_pipe(connection, input).instrument(connection.span()) => Ended::Exited,
            () = process.exited() => Ended::Exited,
            () = late => Ended::Late,
        }
    }

    /// Withdraws the question, if it is open.
    async fn withdraw(&self) {
        // A session that has ended has no question.
        let _ = self.session.handle.ask(WithdrawAsk { key: self.key() }).await;
    }

    fn key(&self) -> String {
        format!("extension {}", self.member.id())
    }
}

enum Permitted {
    Yes,
    Disabled,
}

/// The reason why an extension is no longer served.
enum Ended {
    Exited,
    Late,
}

/// Asks a user of the session. Returns how long the action is allowed; none if it is refused.
async fn consent(
    member: &Membership,
    handle: &Handle,
    wants: PermissionRequest,
    message: String,
    key: String,
) -> Result<Option<TrustTerm>, String> {
    let _open = member.question();
    let ask = Consent { wants: Box::new(wants), message, key };
    handle.ask(ask).await.map_err(|failure| failure.to_string())
}

/// Builds the question whether to start an extension. It shows what would be started.
fn question(found: &Available) -> (PermissionRequest, String) {
    let id = found.id();
    let entry = found.extension.entry.display();
    let origin = match found.plugin() {
        Some(plugin) => format!("The plugin {plugin:?}"),
        None => "The workspace".to_owned(),
    };
    let message = format!(
        "{origin} has the extension {id}. Trust it, and run {entry} with Node.js? It is a program with your rights; it \
         can add tools, commands and hooks to this session."
    );
    let arguments =
        json!({ "extension": id, "program": found.extension.entry, "digest": found.extension.digest });
    (hook("extension", Some(arguments), &message), message)
}

/// Returns the sensitive variables that an extension requests, if a user lets it read exactly these.
///
/// # Errors
/// When it may not, or the user cannot be asked.
pub(crate) async fn granted_variables(
    door: &RpcDoor,
    member: &Membership,
    requested: &[String],
) -> Result<BTreeMap<String, String>, String> {
    let extensions = &door.runtime.addons.extensions;
    let values = extensions.environment.requested(requested)?;
    let names: Vec<String> = values.keys().cloned().collect();
    let extension = &member.found().extension;
    if names.is_empty() || extensions.may_read(extension, &names).await? {
        return Ok(values);
    }
    let (wants, message) = variables_question(member.found(), &names);
    let key = format!("variables of {}", member.id());
    let session = door.runtime.registry.open(&door.runtime, member.session());
    let Some(term) = consent(member, &session, wants, message, key).await? else {
        return Err(format!(
            "Extension \"{}\" was denied access to sensitive environment variables: {}",
            member.found().extension.name,
            names.join(", ")
        ));
    };
    if term == TrustTerm::UntilChanged {
        extensions.let_read(extension, names).await?;
    }
    Ok(values)
}

/// Builds the question whether an extension may read variables.
fn variables_question(found: &Available, names: &[String]) -> (PermissionRequest, String) {
    let id = found.id();
    let message = format!("Let the extension {id} read these environment variables: {}?", names.join(", "));
    let arguments = json!({ "extension": id, "environmentVariables": names });
    (hook("extension", Some(arguments), &message), message)
}

fn hook(tool_name: &str, arguments: Option<serde_json::Value>, message: &str) -> PermissionRequest {
    PermissionRequest::Hook {
        tool_call_id: None,
        tool_name: tool_name.into(),
        tool_args: arguments.map(Json::from),
        hook_message: Some(message.to_owned()),
    }
}
