//! Everything that can be called, in one table.
//!
//! A method is handled in the order in which its call arrives as far as a session's order depends on it: prompts,
//! cancels and answers are in the session's mailbox before the next frame is looked at. What takes time goes on beside
//! the connection.

mod absent;
mod accounts;
mod agents;
mod answers;
mod aside;
mod catalog;
mod commands;
mod compaction;
mod events;
mod files;
mod greeting;
mod history;
mod identity;
mod inference;
mod lists;
mod locations;
mod offers;
mod open;
mod permissions;
mod providers;
mod queue;
mod sessions;
mod settings;
mod shell;
mod state;
mod tasks;
mod user_settings;
mod window;
mod workspaces;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use baton_core::Reply;
use baton_protocol::params::{self, OnlySession};
use baton_protocol::rpc::{CallId, RpcError};
use baton_protocol::{Json, SessionId};
use futures_util::FutureExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) use self::answers::UserInput;
use super::connection::Connection;
use super::dialect::Dialect;
use super::errors;
use crate::session::{Handle, Mail, Responder};

/// What a call gives.
pub(crate) type Outcome = Result<Json, RpcError>;

/// What a call gives, to be awaited.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// How a call is answered.
pub(crate) enum Handled {
    /// At once.
    Now(Outcome),
    /// When this is ready.
    Later(Pending),
    /// By a responder that a session was given.
    ByResponder,
    /// When this is ready; and then the server stops.
    Farewell(Pending),
}

type Handling = Result<Handled, RpcError>;

/// A call, as its method sees it.
pub(crate) struct Call<'a> {
    connection: &'a Arc<Connection>,
    id: &'a CallId,
    method: &'a str,
    params: Json,
}

/// Handles a call.
pub(crate) fn dispatch(connection: &Arc<Connection>, id: &CallId, method: &str, params: Json) -> Handled {
    connection.note_dialect(Dialect::of_first_call(method));
    let call = Call { connection, id, method, params };
    if method != "connect" && !connection.is_admitted() {
        return Handled::Now(Err(greeting::not_admitted()));
    }
    route(&call).unwrap_or_else(|error| Handled::Now(Err(error)))
}

/// The table.
fn route(call: &Call<'_>) -> Handling {
    match call.method {
        "connect" => greeting::connect(call),
        "ping" => greeting::ping(call),
        "status.get" => greeting::status(call),
        "auth.getStatus" => greeting::auth_status(call),
        "runtime.shutdown" => greeting::shutdown(call),

        "models.list" => catalog::models(call),
        "tools.list" => catalog::tools(call),
        "session.model.list" => catalog::session_models(call),
        "session.tools.getCurrentMetadata" => catalog::offered_tools(call),

        "session.provider.add" => providers::add(call),
        "session.provider.getEndpoint" => providers::endpoint(call),
        "llmInference.setProvider" => inference::set_provider(call),
        "llmInference.httpResponseStart" => inference::response_start(call),
        "llmInference.httpResponseChunk" => inference::response_chunk(call),

        "session.create" => sessions::create(call),
        "session.resume" => sessions::resume(call),
        "session.send" => sessions::send(call),
        "session.abort" => sessions::abort(call),
        "session.suspend" => sessions::suspend(call),
        "session.destroy" | "session.detach" => sessions::leave(call),
        "session.shutdown" => sessions::shut_down(call),
        "session.delete" | "sessions.delete" => sessions::delete(call),
        "sessions.close" => sessions::close(call),
        "sessions.fork" => sessions::fork(call),
        "sessions.open" => open::open(call),

        "session.list" | "sessions.list" => lists::list(call),
        "session.getMetadata" | "sessions.getMetadata" => lists::metadata(call),
        "session.getLastId" => lists::last_id(call),
        "sessions.findByPrefix" => lists::find_by_prefix(call),
        "sessions.getLastForContext" => lists::last_for_context(call),
        "sessions.getSizes" => lists::sizes(call),
        "sessions.checkInUse" => lists::in_use(call),
        "sessions.bulkDelete" => lists::bulk_delete(call),
        "sessions.save" | "sessions.releaseLock" => lists::nothing_to_do(call),
        "sessions.enrichMetadata" => lists::enrich(call),
        "sessions.pruneOld" => lists::prune(call),
        "session.getForeground" => lists::foreground(call),
        "session.setForeground" => lists::set_foreground(call),

        "session.getMessages" => events::messages(call),
        "session.eventLog.read" => events::read(call),
        "session.eventLog.tail" => events::tail(call),
        "session.eventLog.registerInterest" => events::register_interest(call),
        "session.eventLog.releaseInterest" => events::release_interest(call),

        "session.tools.handlePendingToolCall" => answers::tool_call(call),
        "session.permissions.handlePendingPermissionRequest" => answers::permission(call),
        "session.ui.handlePendingUserInput" => answers::user_input(call),
        "session.commands.handlePendingCommand" => answers::command(call),
        "session.commands.execute" => answers::execute_command(call),
        "session.commands.respondToQueuedCommand" => answers::queued_command(call),
        "session.ui.elicitation" => answers::elicit(call),
        "session.ui.handlePendingElicitation" => answers::elicitation(call),
        "session.ui.handlePendingExitPlanMode" => answers::plan(call),
        "session.ui.handlePendingAutoModeSwitch" => offers::respond(call),
        "session.ui.registerDirectAutoModeSwitchHandler" => offers::listen(call),
        "session.ui.unregisterDirectAutoModeSwitchHandler" => offers::stop_listening(call),
        "session.permissions.pendingRequests" => answers::pending_permissions(call),

        "session.permissions.configure" => permissions::configure(call),
        "session.permissions.modifyRules" => permissions::modify_rules(call),
        "session.permissions.resetSessionApprovals" => permissions::reset(call),
        "session.permissions.listGrants" => permissions::list_grants(call),
        "session.permissions.revokeGrant" => permissions::revoke_grant(call),
        "session.permissions.setRequired" | "session.permissions.notifyPromptShown" => {
            permissions::noted(call)
        }
        "session.permissions.paths.list" => permissions::list_paths(call),
        "session.permissions.paths.add" => permissions::add_path(call),
        "session.permissions.paths.updatePrimary" => permissions::update_primary(call),
        "session.permissions.paths.isPathWithinAllowedDirectories" => permissions::is_allowed(call),
        "session.permissions.paths.isPathWithinWorkspace" => permissions::is_in_workspace(call),
        "session.permissions.urls.setUnrestrictedMode" => permissions::unrestricted_urls(call),
        "session.permissions.locations.resolve" => locations::resolve(call),
        "session.permissions.locations.apply" => locations::apply(call),
        "session.permissions.locations.addToolApproval" => locations::add_approval(call),
        "session.permissions.folderTrust.isTrusted" => locations::is_trusted(call),
        "session.permissions.folderTrust.addTrusted" => locations::trust(call),

        "session.commands.list" => commands::list(call),
        "session.commands.invoke" => commands::invoke(call),
        "session.commands.enqueue" => commands::enqueue(call),
        "commands.list" => commands::own(call),
        "session.ui.ephemeralQuery" => aside::query(call),

        "session.model.getCurrent" => settings::current_model(call),
        "session.model.switchTo" => settings::switch_model(call),
        "session.model.setReasoningEffort" => settings::reasoning_effort(call),
        "session.mode.get" => settings::mode(call),
        "session.mode.set" => settings::set_mode(call),
        "session.name.get" => settings::name(call),
        "session.name.set" => settings::set_name(call),
        "session.name.setAuto" => settings::set_auto_name(call),
        "session.permissions.setApproveAll" => settings::approve_all(call),
        "session.permissions.setMode" => settings::set_permission_mode(call),
        "session.permissions.getMode" => settings::permission_mode(call),
        "session.options.update" => settings::update_options(call),
        "session.log" => settings::log(call),

        "session.metadata.snapshot" => state::snapshot(call),
        "session.metadata.isProcessing" => state::is_processing(call),
        "session.metadata.activity" => state::activity(call),
        "session.metadata.setWorkingDirectory" => state::set_working_directory(call),
        "session.metadata.recordContextChange" => state::record_context_change(call),
        "session.usage.getMetrics" => state::usage(call),

        "session.metadata.contextInfo" => window::context_info(call),
        "session.metadata.getContextAttribution" => window::attribution(call),
        "session.metadata.getContextHeaviestMessages" => window::heaviest_messages(call),
        "session.metadata.recomputeContextTokens" => window::recompute(call),
        "session.instructions.getSources" => window::instruction_sources(call),

        "session.gitHubAuth.getStatus" => identity::status(call),
        "session.gitHubAuth.setCredentials" => identity::set_credentials(call),
        "account.getQuota" => identity::quota(call),
        "account.login" => accounts::login(call),
        "account.logout" => accounts::logout(call),
        "account.getCurrentAuth" => accounts::current(call),
        "account.getAllUsers" => accounts::stored(call),
        "secrets.addFilterValues" => accounts::add_secrets(call),
        "user.settings.get" => user_settings::get(call),
        "user.settings.set" => user_settings::set(call),
        "user.settings.reload" => user_settings::reload(call),

        "session.plan.read" => files::read_plan(call),
        "session.plan.update" => files::update_plan(call),
        "session.plan.delete" => files::delete_plan(call),
        "session.plan.readSqlTodos" => files::todos(call),
        "session.plan.readSqlTodosWithDependencies" => files::todos_with_dependencies(call),
        "session.workspaces.getWorkspace" => files::workspace(call),
        "session.workspaces.listFiles" | "session.workspace.listFiles" => files::list(call),
        "session.workspaces.readFile" | "session.workspace.readFile" => files::read(call),
        "session.workspaces.createFile" | "session.workspace.createFile" => files::create(call),

        "session.workspaces.listCheckpoints" => workspaces::checkpoints(call),
        "session.workspaces.readCheckpoint" => workspaces::read_checkpoint(call),
        "session.workspaces.addSummary" => workspaces::add_summary(call),
        "session.workspaces.truncateSummaries" => workspaces::truncate_summaries(call),
        "session.workspaces.saveLargePaste" => workspaces::save_large_paste(call),
        "session.workspaces.diff" => workspaces::diff(call),

        "session.shell.exec" => shell::exec(call),
        "session.shell.kill" => shell::kill(call),
        "session.shell.executeUserRequested" => shell::execute_user_requested(call),
        "session.shell.cancelUserRequested" => shell::cancel_user_requested(call),

        "session.agent.list" => agents::list(call),
        "session.agent.reload" => agents::reload(call),
        "session.agent.getCurrent" => agents::current(call),
        "session.agent.select" => agents::select(call),
        "session.agent.deselect" => agents::deselect(call),

        "session.tools.updateSubagentSettings" => agents::update_settings(call),
        "session.fleet.start" => agents::start_fleet(call),

        "session.tasks.list" => tasks::list(call),
        "session.tasks.refresh" | "session.tasks.waitForPending" => tasks::settled(call),
        "session.tasks.getProgress" => tasks::progress(call),
        "session.tasks.cancel" => tasks::cancel(call),
        "session.tasks.remove" => tasks::remove(call),
        "session.tasks.startAgent" => tasks::start_agent(call),

        "session.history.compact" | "session.compaction.compact" => compaction::compact(call),
        "session.history.cancelBackgroundCompaction" => compaction::cancel_background(call),
        "session.history.abortManualCompaction" => compaction::abort_manual(call),
        "session.history.summarizeForHandoff" => compaction::for_handoff(call),
        "session.history.truncate" => history::truncate(call),
        "session.history.listRewindPoints" => history::rewind_points(call),
        "session.history.previewRewind" => history::preview_rewind(call),
        "session.history.rewind" => history::rewind(call),

        "session.queue.pendingItems" => queue::pending(call),
        "session.queue.removeMostRecent" => queue::remove_most_recent(call),
        "session.queue.clear" => queue::clear(call),
        "session.queue.removeAt" => queue::remove(call),
        "session.queue.moveItem" => queue::move_item(call),
        "session.queue.insertAt" => queue::insert(call),
        "session.queue.duplicateAt" => queue::duplicate(call),
        "session.queue.updateText" => queue::update_text(call),
        "session.queue.sendNow" => queue::send_now(call),
        "session.queue.setDrainPaused" => queue::set_drain_paused(call),

        _ => absent::route(call),
    }
}

/// Runs a call's future so that a bug in it costs the caller an error, and nobody else anything.
pub(crate) async fn guarded(outcome: Pending) -> Outcome {
    let panicked =
        |_| Err(RpcError::failed("internal error: the call failed from within; see the server's log"));
    AssertUnwindSafe(outcome).catch_unwind().await.unwrap_or_else(panicked)
}

impl Call<'_> {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        params::parse(self.method, &self.params)
    }

    /// The session that the call is about, if the client is attached to it.
    fn session(&self) -> Result<Handle, RpcError> {
        let id = self.parse::<OnlySession>()?.session_id;
        self.attached(&id)
    }

    fn attached(&self, id: &SessionId) -> Result<Handle, RpcError> {
        self.connection.attached(id).ok_or_else(|| errors::not_found(self.method, id))
    }

    fn now(&self, value: Value) -> Handling {
        Ok(Handled::Now(Ok(Json::from(value))))
    }

    fn later(&self, outcome: impl Future<Output = Result<Value, RpcError>> + Send + 'static) -> Handling {
        Ok(Handled::Later(Box::pin(async move { outcome.await.map(Json::from) })))
    }

    /// Sends a message to a session that answers the call itself, through `say`.
    fn by_responder(
        &self,
        handle: &Handle,
        mail: impl FnOnce(Responder) -> Mail,
        say: impl FnOnce(Reply) -> Result<Value, RpcError> + Send + 'static,
    ) -> Handling {
        let (connection, id, method) = (self.connection.clone(), self.id.clone(), self.method.to_owned());
        let respond: Responder = Box::new(move |answer| {
            let outcome = answer.map_err(|failure| errors::of(&method, &failure)).and_then(say);
            connection.answer(&id, &outcome.map(Json::from));
        });
        match handle.send(mail(respond)) {
            Ok(()) => Ok(Handled::ByResponder),
            Err(failure) => Err(errors::of(self.method, &failure)),
        }
    }

    /// Answers from a look at a session's state.
    fn view(&self, look: impl FnOnce(crate::session::View<'_>) -> Value + Send + 'static) -> Handling {
        let (handle, method) = (self.session()?, self.method.to_owned());
        self.later(async move { handle.look(look).await.map_err(|failure| errors::of(&method, &failure)) })
    }
}

/// The answer of methods that have nothing to say.
fn void() -> Value {
    Value::Null
}

/// The answer of methods that say that it worked.
fn success() -> Value {
    json!({ "success": true })
}
