//! The table of all methods, and one file for each subject.
//!
//! Calls of a client that affect the order of a session (prompts, cancels, answers) are in the session's mailbox before the
//! connection reads its next frame. Calls that take time run in tasks of their own.

mod accounts;
mod agents;
mod answers;
mod call;
mod catalog;
mod checkpoints;
mod commands;
mod compaction;
mod context_window;
mod diff;
mod ephemeral_query;
mod events;
mod extensions;
mod fallback_model;
mod files;
mod identity;
mod ignored_options;
mod inference;
mod instructions;
mod interest;
mod locations;
mod mcp;
mod mcp_apps;
mod open;
mod permission_paths;
mod permissions;
mod plugins;
mod providers;
mod queue;
mod rewind;
mod send_and_wait;
mod server;
mod session_list;
mod sessions;
mod settings;
mod shell;
mod skills;
mod state;
mod tasks;
mod unsupported;
mod user_settings;
mod workflows;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use baton_protocol::Json;
use baton_protocol::rpc::CallId;

use self::call::{Call, Handled, amend, panicked, success, void};
pub(crate) use self::call::{CallFuture, CallReply, run};
use super::connection::Connection;
use super::dialect::Dialect;
use super::extensions::check_call;

/// Handles a call.
pub(crate) fn dispatch(connection: &Arc<Connection>, id: &CallId, method: &str, params: Json) -> CallReply {
    connection.set_dialect(Dialect::of_first_call(method));
    if method != "connect" && !connection.is_admitted() {
        return CallReply::Now(Err(server::not_admitted()));
    }
    if let Err(error) = server::check_role(connection, method) {
        return CallReply::Now(Err(error));
    }
    if let Some(member) = &connection.extension
        && let Err(error) = check_call(member, method, &params)
    {
        return CallReply::Now(Err(error));
    }
    let call = Call { connection, id, method, params };
    match catch_unwind(AssertUnwindSafe(|| route(&call))) {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => CallReply::Now(Err(error.into_rpc(method))),
        Err(panic) => CallReply::Now(Err(panicked(method, &*panic))),
    }
}

/// Calls the handler of a method.
fn route(call: &Call<'_>) -> Handled {
    match call.method {
        "connect" => server::connect(call),
        "ping" => server::ping(call),
        "status.get" => server::status(call),
        "auth.getStatus" => server::auth_status(call),
        "runtime.shutdown" => server::shutdown(call),

        "models.list" => catalog::models(call),
        "tools.list" => catalog::tools(call),
        "session.model.list" => catalog::session_models(call),
        "session.tools.getCurrentMetadata" => catalog::session_tools(call),

        "session.provider.add" => providers::add(call),
        "session.provider.getEndpoint" => providers::endpoint(call),
        "llmInference.setProvider" => inference::set_provider(call),
        "llmInference.httpResponseStart" => inference::response_start(call),
        "llmInference.httpResponseChunk" => inference::response_chunk(call),

        "session.create" => sessions::create(call),
        "session.resume" => sessions::resume(call),
        "session.send" => sessions::send(call),
        "session.sendAndWait" => send_and_wait::send_and_wait(call),
        "session.abort" => sessions::abort(call),
        "session.suspend" => sessions::suspend(call),
        "session.destroy" | "session.detach" => sessions::detach(call),
        "session.shutdown" => sessions::shut_down(call),
        "session.delete" | "sessions.delete" => sessions::delete(call),
        "sessions.close" => sessions::close(call),
        "sessions.fork" => sessions::fork(call),
        "sessions.open" => open::open(call),

        "session.list" | "sessions.list" => session_list::list(call),
        "session.getMetadata" | "sessions.getMetadata" => session_list::metadata(call),
        "session.getLastId" => session_list::last_id(call),
        "sessions.findByPrefix" => session_list::find_by_prefix(call),
        "sessions.getLastForContext" => session_list::last_for_context(call),
        "sessions.getSizes" => session_list::sizes(call),
        "sessions.checkInUse" => session_list::check_in_use(call),
        "sessions.bulkDelete" => session_list::bulk_delete(call),
        "sessions.save" | "sessions.releaseLock" => session_list::acknowledge(call),
        "sessions.enrichMetadata" => session_list::enrich(call),
        "sessions.pruneOld" => session_list::prune(call),
        "session.getForeground" => session_list::foreground(call),
        "session.setForeground" => session_list::set_foreground(call),

        "session.getMessages" => events::messages(call),
        "session.eventLog.read" => events::read(call),
        "session.eventLog.tail" => events::tail(call),
        "session.eventLog.registerInterest" => interest::register(call),
        "session.eventLog.releaseInterest" => interest::release(call),

        "session.tools.handlePendingToolCall" => answers::tool_call(call),
        "session.permissions.handlePendingPermissionRequest" => answers::permission(call),
        "session.ui.handlePendingUserInput" => answers::user_input(call),
        "session.commands.handlePendingCommand" => answers::command(call),
        "session.commands.execute" => answers::execute_command(call),
        "session.commands.respondToQueuedCommand" => answers::queued_command(call),
        "session.ui.elicitation" => answers::elicit(call),
        "session.ui.handlePendingElicitation" => answers::elicitation(call),
        "session.ui.handlePendingExitPlanMode" => answers::plan(call),
        "session.ui.handlePendingAutoModeSwitch" => fallback_model::respond(call),
        "session.ui.registerDirectAutoModeSwitchHandler" => fallback_model::register_handler(call),
        "session.ui.unregisterDirectAutoModeSwitchHandler" => fallback_model::unregister_handler(call),
        "session.permissions.pendingRequests" => answers::pending_permissions(call),

        "session.permissions.configure" => permissions::configure(call),
        "session.permissions.modifyRules" => permissions::modify_rules(call),
        "session.permissions.resetSessionApprovals" => permissions::reset(call),
        "session.permissions.listGrants" => permissions::list_grants(call),
        "session.permissions.revokeGrant" => permissions::revoke_grant(call),
        "session.permissions.setRequired" | "session.permissions.notifyPromptShown" => {
            permissions::acknowledge(call)
        }
        "session.permissions.paths.list" => permission_paths::list(call),
        "session.permissions.paths.add" => permission_paths::add(call),
        "session.permissions.paths.updatePrimary" => permission_paths::update_primary(call),
        "session.permissions.paths.isPathWithinAllowedDirectories" => permission_paths::is_allowed(call),
        "session.permissions.paths.isPathWithinWorkspace" => permission_paths::is_in_workspace(call),
        "session.permissions.urls.setUnrestrictedMode" => permissions::unrestricted_urls(call),
        "session.permissions.locations.resolve" => locations::resolve(call),
        "session.permissions.locations.apply" => locations::apply(call),
        "session.permissions.locations.addToolApproval" => locations::add_approval(call),
        "session.permissions.folderTrust.isTrusted" => locations::is_trusted(call),
        "session.permissions.folderTrust.addTrusted" => locations::trust(call),

        "session.commands.list" => commands::list(call),
        "session.commands.invoke" => commands::invoke(call),
        "session.commands.enqueue" => commands::enqueue(call),
        "commands.list" => commands::built_in(call),
        "session.ui.ephemeralQuery" => ephemeral_query::query(call),

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
        "session.usage.getMetrics" => state::usage_metrics(call),

        "session.metadata.contextInfo" => context_window::context_info(call),
        "session.metadata.getContextAttribution" => context_window::attribution(call),
        "session.metadata.getContextHeaviestMessages" => context_window::heaviest_messages(call),
        "session.metadata.recomputeContextTokens" => context_window::recompute(call),
        "session.instructions.getSources" => instructions::session_sources(call),

        "session.gitHubAuth.getStatus" => identity::status(call),
        "session.gitHubAuth.setCredentials" => identity::set_credentials(call),
        "account.getQuota" => identity::quota(call),
        "account.login" => accounts::login(call),
        "account.logout" => accounts::logout(call),
        "account.getCurrentAuth" => accounts::current(call),
        "account.getAllUsers" => accounts::list_stored(call),
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

        "session.workspaces.listCheckpoints" => checkpoints::list(call),
        "session.workspaces.readCheckpoint" => checkpoints::read(call),
        "session.workspaces.addSummary" => checkpoints::add(call),
        "session.workspaces.truncateSummaries" => checkpoints::truncate(call),
        "session.workspaces.saveLargePaste" => files::save_large_paste(call),
        "session.workspaces.diff" => diff::diff(call),

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
        "session.tasks.refresh" | "session.tasks.waitForPending" => tasks::acknowledge(call),
        "session.tasks.getProgress" => tasks::progress(call),
        "session.tasks.cancel" => tasks::cancel(call),
        "session.tasks.remove" => tasks::remove(call),
        "session.tasks.startAgent" => tasks::start_agent(call),

        "session.history.compact" | "session.compaction.compact" => compaction::compact(call),
        "session.history.cancelBackgroundCompaction" => compaction::cancel_background(call),
        "session.history.abortManualCompaction" => compaction::abort_manual(call),
        "session.history.summarizeForHandoff" => compaction::summarise_for_handoff(call),
        "session.history.truncate" => rewind::truncate(call),
        "session.history.listRewindPoints" => rewind::list_points(call),
        "session.history.previewRewind" => rewind::preview(call),
        "session.history.rewind" => rewind::rewind(call),

        method if method.starts_with("plugins.") => plugins::user(call),
        "sessions.setAdditionalPlugins" => plugins::set_additional(call),
        "session.plugins.list" | "session.plugins.reload" => skills::session(call),
        method if method.starts_with("session.skills.") => skills::session(call),
        method if method.starts_with("skills.") => skills::user(call),
        "agents.discover" | "agents.getDiscoveryPaths" => skills::user(call),
        "instructions.discover" => instructions::discover(call),
        "instructions.getDiscoveryPaths" => instructions::discovery_paths(call),

        "session.ui.handlePendingSampling" => mcp::answer_sampling(call),
        "mcp.discover" => mcp::user(call),
        method if method.starts_with("mcp.config.") => mcp::user(call),
        method if method.starts_with("session.mcp.") => mcp::session(call),

        method if method.starts_with("session.extensions.") => extensions::session(call),
        method if method.starts_with("extensions.") => extensions::user(call),
        method if workflows::is_method(method) => workflows::route(call),

        "session.queue.pendingItems" => queue::list(call),
        "session.queue.removeMostRecent" => queue::remove_most_recent(call),
        "session.queue.clear" => queue::clear(call),
        "session.queue.removeAt" => queue::remove(call),
        "session.queue.moveItem" => queue::move_item(call),
        "session.queue.insertAt" => queue::insert(call),
        "session.queue.duplicateAt" => queue::duplicate(call),
        "session.queue.updateText" => queue::update_text(call),
        "session.queue.sendNow" => queue::send_now(call),
        "session.queue.setDrainPaused" => queue::set_drain_paused(call),

        _ => unsupported::route(call),
    }
}
