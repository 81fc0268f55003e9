//! The table of all methods, with the operation of each, and one file for each subject.
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
mod sandbox;
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

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use baton_protocol::Json;
use baton_protocol::rpc::{CallId, RpcError};
use baton_service::Operation;

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
    let found = BY_NAME.get(method);
    let operation = found.map_or(Operation::Connect, |(operation, _)| *operation);
    if let Err(error) = server::check_role(&connection.caller(), method, operation) {
        return CallReply::Now(Err(error));
    }
    if let Some(member) = &connection.extension
        && let Err(error) = check_call(member, method, &params)
    {
        return CallReply::Now(Err(error));
    }
    let Some((_, handler)) = found else {
        return CallReply::Now(Err(RpcError::unknown_method(method)));
    };
    let call = Call { connection, id, method, params };
    match catch_unwind(AssertUnwindSafe(|| handler(&call))) {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => CallReply::Now(Err(error.into_rpc(method))),
        Err(panic) => CallReply::Now(Err(panicked(method, &*panic))),
    }
}

/// Handles calls of a method.
type Handler = fn(&Call<'_>) -> Handled;

/// All methods: what each does, which decides who may, and its handler.
const METHODS: &[(&str, Operation, Handler)] = &{
    use Operation as Op;
    [
        ("connect", Op::Connect, server::connect),
        ("ping", Op::ShowServer, server::ping),
        ("status.get", Op::ShowServer, server::status),
        ("auth.getStatus", Op::ShowServer, server::auth_status),
        ("runtime.shutdown", Op::StopServer, server::shutdown),
        ("models.list", Op::ListModels, catalog::models),
        ("tools.list", Op::ListBuiltInTools, catalog::tools),
        ("session.model.list", Op::ListModels, catalog::session_models),
        ("session.tools.getCurrentMetadata", Op::ListSessionTools, catalog::session_tools),
        ("session.provider.add", Op::ChangeSession, providers::add),
        ("session.provider.getEndpoint", Op::RevealEndpoint, providers::endpoint),
        ("llmInference.setProvider", Op::ServeModelRequests, inference::set_provider),
        ("llmInference.httpResponseStart", Op::Connect, inference::response_start),
        ("llmInference.httpResponseChunk", Op::Connect, inference::response_chunk),
        ("session.create", Op::CreateSession, sessions::create),
        ("session.resume", Op::ResumeSession, sessions::resume),
        ("session.send", Op::SendPrompt, sessions::send),
        ("session.sendAndWait", Op::SendPrompt, send_and_wait::send_and_wait),
        ("session.abort", Op::CancelPrompts, sessions::abort),
        ("session.suspend", Op::EndSession, sessions::suspend),
        ("session.destroy", Op::EndSession, sessions::detach),
        ("session.detach", Op::EndSession, sessions::detach),
        ("session.shutdown", Op::EndSession, sessions::shut_down),
        ("session.delete", Op::DeleteSession, sessions::delete),
        ("sessions.delete", Op::DeleteSession, sessions::delete),
        ("sessions.close", Op::EndSession, sessions::close),
        ("sessions.fork", Op::ForkSession, sessions::fork),
        ("sessions.open", Op::ResumeSession, open::open),
        ("session.list", Op::ListSessions, session_list::list),
        ("sessions.list", Op::ListSessions, session_list::list),
        ("session.getMetadata", Op::ShowSession, session_list::metadata),
        ("sessions.getMetadata", Op::ShowSession, session_list::metadata),
        ("session.getLastId", Op::ListSessions, session_list::last_id),
        ("sessions.findByPrefix", Op::ListSessions, session_list::find_by_prefix),
        ("sessions.getLastForContext", Op::ListSessions, session_list::last_for_context),
        ("sessions.getSizes", Op::ListSessions, session_list::sizes),
        ("sessions.checkInUse", Op::ListSessions, session_list::check_in_use),
        ("sessions.bulkDelete", Op::DeleteSession, session_list::bulk_delete),
        ("sessions.save", Op::Connect, session_list::acknowledge),
        ("sessions.releaseLock", Op::Connect, session_list::acknowledge),
        ("sessions.enrichMetadata", Op::ListSessions, session_list::enrich),
        ("sessions.pruneOld", Op::PruneSessions, session_list::prune),
        ("session.getForeground", Op::Connect, session_list::foreground),
        ("session.setForeground", Op::Connect, session_list::set_foreground),
        ("session.getMessages", Op::ReadEvents, events::messages),
        ("session.eventLog.read", Op::ReadEvents, events::read),
        ("session.eventLog.tail", Op::ReadEvents, events::tail),
        ("session.eventLog.registerInterest", Op::ServeCommands, interest::register),
        ("session.eventLog.releaseInterest", Op::ServeCommands, interest::release),
        ("session.tools.handlePendingToolCall", Op::AnswerRequest, answers::tool_call),
        ("session.permissions.handlePendingPermissionRequest", Op::AnswerRequest, answers::permission),
        ("session.ui.handlePendingUserInput", Op::AnswerRequest, answers::user_input),
        ("session.commands.handlePendingCommand", Op::AnswerRequest, answers::command),
        ("session.commands.execute", Op::SendPrompt, answers::execute_command),
        ("session.commands.respondToQueuedCommand", Op::AnswerRequest, answers::queued_command),
        ("session.ui.elicitation", Op::AskUser, answers::elicit),
        ("session.ui.handlePendingElicitation", Op::AnswerRequest, answers::elicitation),
        ("session.ui.handlePendingExitPlanMode", Op::AnswerRequest, answers::plan),
        ("session.ui.handlePendingAutoModeSwitch", Op::AnswerRequest, fallback_model::respond),
        (
            "session.ui.registerDirectAutoModeSwitchHandler",
            Op::ServeCommands,
            fallback_model::register_handler,
        ),
        (
            "session.ui.unregisterDirectAutoModeSwitchHandler",
            Op::ServeCommands,
            fallback_model::unregister_handler,
        ),
        ("session.permissions.pendingRequests", Op::ListSessionRequests, answers::pending_permissions),
        ("session.permissions.configure", Op::ChangeSession, permissions::configure),
        ("session.permissions.modifyRules", Op::ChangeSession, permissions::modify_rules),
        ("session.permissions.resetSessionApprovals", Op::RevokeAllGrants, permissions::reset),
        ("session.permissions.listGrants", Op::ListGrants, permissions::list_grants),
        ("session.permissions.revokeGrant", Op::RevokeGrant, permissions::revoke_grant),
        ("session.permissions.setRequired", Op::Connect, permissions::acknowledge),
        ("session.permissions.notifyPromptShown", Op::Connect, permissions::acknowledge),
        ("session.permissions.paths.list", Op::ListGrants, permission_paths::list),
        ("session.permissions.paths.add", Op::ChangeSession, permission_paths::add),
        ("session.permissions.paths.updatePrimary", Op::ChangeSession, permission_paths::update_primary),
        (
            "session.permissions.paths.isPathWithinAllowedDirectories",
            Op::ListGrants,
            permission_paths::is_allowed,
        ),
        (
            "session.permissions.paths.isPathWithinWorkspace",
            Op::ListGrants,
            permission_paths::is_in_workspace,
        ),
        ("session.permissions.urls.setUnrestrictedMode", Op::ChangeSession, permissions::unrestricted_urls),
        ("session.permissions.locations.resolve", Op::ListLocations, locations::resolve),
        ("session.permissions.locations.apply", Op::ChangeSession, locations::apply),
        ("session.permissions.locations.addToolApproval", Op::GrantAtLocation, locations::add_approval),
        ("session.permissions.folderTrust.isTrusted", Op::ListLocations, locations::is_trusted),
        ("session.permissions.folderTrust.addTrusted", Op::GrantAtLocation, locations::trust),
        ("session.commands.list", Op::ListCommands, commands::list),
        ("session.commands.invoke", Op::RunCommand, commands::invoke),
        ("session.commands.enqueue", Op::EnqueueCommand, commands::enqueue),
        ("commands.list", Op::ListBuiltInTools, commands::built_in),
        ("session.ui.ephemeralQuery", Op::AskAside, ephemeral_query::query),
        ("session.model.getCurrent", Op::ShowSessionState, settings::current_model),
        ("session.model.switchTo", Op::ChangeSession, settings::switch_model),
        ("session.model.setReasoningEffort", Op::ChangeSession, settings::reasoning_effort),
        ("session.mode.get", Op::ShowSessionState, settings::mode),
        ("session.mode.set", Op::ChangeSession, settings::set_mode),
        ("session.name.get", Op::ShowSessionState, settings::name),
        ("session.name.set", Op::ChangeSession, settings::set_name),
        ("session.name.setAuto", Op::ChangeSession, settings::set_auto_name),
        ("session.permissions.setApproveAll", Op::ChangeSession, settings::approve_all),
        ("session.permissions.setMode", Op::ChangeSession, settings::set_permission_mode),
        ("session.permissions.getMode", Op::ShowSessionState, settings::permission_mode),
        ("session.options.update", Op::ChangeSession, settings::update_options),
        ("session.log", Op::ChangeSession, settings::log),
        ("session.metadata.snapshot", Op::ShowSessionState, state::snapshot),
        ("session.metadata.isProcessing", Op::ShowSessionState, state::is_processing),
        ("session.metadata.activity", Op::ShowSessionState, state::activity),
        ("session.metadata.setWorkingDirectory", Op::ChangeSession, state::set_working_directory),
        ("session.metadata.recordContextChange", Op::ChangeSession, state::record_context_change),
        ("session.usage.getMetrics", Op::ShowSessionState, state::usage_metrics),
        ("session.metadata.contextInfo", Op::ListSessionTools, context_window::context_info),
        ("session.metadata.getContextAttribution", Op::ListSessionTools, context_window::attribution),
        (
            "session.metadata.getContextHeaviestMessages",
            Op::ListSessionTools,
            context_window::heaviest_messages,
        ),
        ("session.metadata.recomputeContextTokens", Op::ListSessionTools, context_window::recompute),
        ("session.instructions.getSources", Op::ListSessionTools, instructions::session_sources),
        ("session.gitHubAuth.getStatus", Op::ShowSessionState, identity::status),
        ("session.gitHubAuth.setCredentials", Op::ChangeSession, identity::set_credentials),
        ("account.getQuota", Op::ReadAccounts, identity::quota),
        ("account.login", Op::ChangeAccounts, accounts::login),
        ("account.logout", Op::ChangeAccounts, accounts::logout),
        ("account.getCurrentAuth", Op::ReadAccounts, accounts::current),
        ("account.getAllUsers", Op::ReadAccounts, accounts::list_stored),
        ("secrets.addFilterValues", Op::HideSecrets, accounts::add_secrets),
        ("user.settings.get", Op::ReadSettings, user_settings::get),
        ("user.settings.set", Op::ChangeSettings, user_settings::set),
        ("user.settings.reload", Op::ChangeSettings, user_settings::reload),
        ("session.plan.read", Op::ReadSessionFiles, files::read_plan),
        ("session.plan.update", Op::WriteSessionFiles, files::update_plan),
        ("session.plan.delete", Op::WriteSessionFiles, files::delete_plan),
        ("session.plan.readSqlTodos", Op::ListSessionTools, files::todos),
        ("session.plan.readSqlTodosWithDependencies", Op::ListSessionTools, files::todos_with_dependencies),
        ("session.workspaces.getWorkspace", Op::ReadSessionFiles, files::workspace),
        ("session.workspaces.listFiles", Op::ReadSessionFiles, files::list),
        ("session.workspace.listFiles", Op::ReadSessionFiles, files::list),
        ("session.workspaces.readFile", Op::ReadSessionFiles, files::read),
        ("session.workspace.readFile", Op::ReadSessionFiles, files::read),
        ("session.workspaces.createFile", Op::WriteSessionFiles, files::create),
        ("session.workspace.createFile", Op::WriteSessionFiles, files::create),
        ("session.workspaces.listCheckpoints", Op::ReadSessionFiles, checkpoints::list),
        ("session.workspaces.readCheckpoint", Op::ReadSessionFiles, checkpoints::read),
        ("session.workspaces.addSummary", Op::WriteSessionFiles, checkpoints::add),
        ("session.workspaces.truncateSummaries", Op::WriteSessionFiles, checkpoints::truncate),
        ("session.workspaces.saveLargePaste", Op::WriteSessionFiles, files::save_large_paste),
        ("session.workspaces.diff", Op::ReadSessionFiles, diff::diff),
        ("session.shell.exec", Op::RunShellCommand, shell::exec),
        ("session.shell.kill", Op::RunShellCommand, shell::kill),
        ("session.shell.executeUserRequested", Op::RunShellCommand, shell::execute_user_requested),
        ("session.shell.cancelUserRequested", Op::RunShellCommand, shell::cancel_user_requested),
        ("session.agent.list", Op::ListSessionTools, agents::list),
        ("session.agent.reload", Op::ReloadSessionSkills, agents::reload),
        ("session.agent.getCurrent", Op::ListSessionTools, agents::current),
        ("session.agent.select", Op::ChangeSession, agents::select),
        ("session.agent.deselect", Op::ChangeSession, agents::deselect),
        ("session.tools.updateSubagentSettings", Op::ChangeSession, agents::update_settings),
        ("session.fleet.start", Op::SendPrompt, agents::start_fleet),
        ("session.tasks.list", Op::ShowSessionState, tasks::list),
        ("session.tasks.refresh", Op::Connect, tasks::acknowledge),
        ("session.tasks.waitForPending", Op::Connect, tasks::acknowledge),
        ("session.tasks.getProgress", Op::ShowSessionState, tasks::progress),
        ("session.tasks.cancel", Op::RunSubAgent, tasks::cancel),
        ("session.tasks.remove", Op::RunSubAgent, tasks::remove),
        ("session.tasks.startAgent", Op::RunSubAgent, tasks::start_agent),
        ("session.history.compact", Op::CompactSession, compaction::compact),
        ("session.compaction.compact", Op::CompactSession, compaction::compact),
        ("session.history.cancelBackgroundCompaction", Op::CompactSession, compaction::cancel_background),
        ("session.history.abortManualCompaction", Op::CompactSession, compaction::abort_manual),
        ("session.history.summarizeForHandoff", Op::CompactSession, compaction::summarise_for_handoff),
        ("session.history.truncate", Op::RewindSession, rewind::truncate),
        ("session.history.listRewindPoints", Op::PreviewRewind, rewind::list_points),
        ("session.history.previewRewind", Op::PreviewRewind, rewind::preview),
        ("session.history.rewind", Op::RewindSession, rewind::rewind),
        ("sessions.setAdditionalPlugins", Op::SetServerPlugins, plugins::set_additional),
        ("session.plugins.list", Op::ListSessionSkills, skills::list_plugins),
        ("session.plugins.reload", Op::ReloadSessionSkills, skills::reload_plugins),
        ("agents.discover", Op::ListSkills, skills::discover_agents),
        ("agents.getDiscoveryPaths", Op::ListSkills, skills::agent_directories),
        ("instructions.discover", Op::ListSkills, instructions::discover),
        ("instructions.getDiscoveryPaths", Op::ListSkills, instructions::discovery_paths),
        ("session.ui.handlePendingSampling", Op::AnswerRequest, mcp::answer_sampling),
        ("mcp.discover", Op::ListMcpServers, mcp::discover),
        ("session.queue.pendingItems", Op::ListQueue, queue::list),
        ("session.queue.removeMostRecent", Op::WithdrawPrompt, queue::remove_most_recent),
        ("session.queue.clear", Op::WithdrawPrompt, queue::clear),
        ("session.queue.removeAt", Op::WithdrawPrompt, queue::remove),
        ("session.queue.moveItem", Op::ChangeQueuedPrompt, queue::move_item),
        ("session.queue.insertAt", Op::ChangeQueuedPrompt, queue::insert),
        ("session.queue.duplicateAt", Op::ChangeQueuedPrompt, queue::duplicate),
        ("session.queue.updateText", Op::ChangeQueuedPrompt, queue::update_text),
        ("session.queue.sendNow", Op::ChangeQueuedPrompt, queue::send_now),
        ("session.queue.setDrainPaused", Op::HoldQueue, queue::set_drain_paused),
        ("plugins.list", Op::ListPlugins, plugins::list),
        ("plugins.install", Op::InstallPlugin, plugins::install),
        ("plugins.uninstall", Op::UninstallPlugin, plugins::uninstall),
        ("plugins.update", Op::UpdatePlugin, plugins::update),
        ("plugins.updateAll", Op::UpdatePlugin, plugins::update_all),
        ("plugins.enable", Op::EnablePlugin, plugins::enable),
        ("plugins.disable", Op::DisablePlugin, plugins::disable),
        ("plugins.marketplaces.list", Op::ListMarketplaces, plugins::marketplaces),
        ("plugins.marketplaces.add", Op::AddMarketplace, plugins::add_marketplace),
        ("plugins.marketplaces.remove", Op::RemoveMarketplace, plugins::remove_marketplace),
        ("plugins.marketplaces.browse", Op::BrowseMarketplace, plugins::browse),
        ("plugins.marketplaces.refresh", Op::RefreshMarketplaces, plugins::refresh),
        ("plugins.builtin.set", Op::SetServerPlugins, plugins::set_built_in),
        ("session.skills.list", Op::ListSessionSkills, skills::list),
        ("session.skills.ensureLoaded", Op::ListSessionSkills, skills::load),
        ("session.skills.enable", Op::EnableSessionSkill, skills::enable),
        ("session.skills.disable", Op::DisableSessionSkill, skills::disable),
        ("session.skills.reload", Op::ReloadSessionSkills, skills::reload),
        ("session.skills.getInvoked", Op::ListSessionSkills, skills::list_invoked),
        ("skills.discover", Op::ListSkills, skills::discover),
        ("skills.getDiscoveryPaths", Op::ListSkills, skills::directories),
        ("skills.config.setDisabledSkills", Op::DisableSkill, skills::set_disabled),
        ("skills.config.setSkillDisabled", Op::DisableSkill, skills::turn),
        ("mcp.config.list", Op::ListMcpServers, mcp::list_configured),
        ("mcp.config.add", Op::AddMcpServer, mcp::add_configured),
        ("mcp.config.update", Op::AddMcpServer, mcp::update_configured),
        ("mcp.config.remove", Op::RemoveMcpServer, mcp::remove_configured),
        ("mcp.config.enable", Op::EnableMcpServer, mcp::enable_configured),
        ("mcp.config.disable", Op::DisableMcpServer, mcp::disable_configured),
        ("mcp.config.reload", Op::AddMcpServer, mcp::reload_configured),
        ("session.mcp.list", Op::ListSessionMcpServers, mcp::session),
        ("session.mcp.listConfigured", Op::ListSessionMcpServers, mcp::session),
        ("session.mcp.listTools", Op::ListSessionMcpServers, mcp::session),
        ("session.mcp.enable", Op::EnableSessionMcpServer, mcp::session),
        ("session.mcp.disable", Op::DisableSessionMcpServer, mcp::session),
        ("session.mcp.reload", Op::RestartSessionMcpServer, mcp::session),
        ("session.mcp.stopServer", Op::RestartSessionMcpServer, mcp::session),
        ("session.mcp.startServer", Op::RestartSessionMcpServer, mcp::session),
        ("session.mcp.restartServer", Op::RestartSessionMcpServer, mcp::session),
        ("session.mcp.isServerRunning", Op::ListSessionMcpServers, mcp::session),
        ("session.mcp.moveLoadingToBackground", Op::StartSessionMcpServers, mcp::session),
        ("session.mcp.getLog", Op::ReadSessionMcpLog, mcp::session),
        ("session.mcp.setEnvValueMode", Op::RestartSessionMcpServer, mcp::session),
        ("session.mcp.removeGitHub", Op::RestartSessionMcpServer, mcp::session),
        ("session.mcp.resources.list", Op::ListSessionMcpResources, mcp::session),
        ("session.mcp.resources.listTemplates", Op::ListSessionMcpResources, mcp::session),
        ("session.mcp.resources.read", Op::ReadSessionMcpResource, mcp::session),
        ("session.mcp.resources.subscribe", Op::CallSessionMcpServer, mcp::session),
        ("session.mcp.resources.unsubscribe", Op::CallSessionMcpServer, mcp::session),
        ("session.mcp.prompts.list", Op::ListSessionMcpPrompts, mcp::session),
        ("session.mcp.prompts.get", Op::GetSessionMcpPrompt, mcp::session),
        ("session.mcp.executeSampling", Op::CallSessionMcpServer, mcp::session),
        ("session.mcp.cancelSamplingExecution", Op::CallSessionMcpServer, mcp::session),
        ("session.mcp.oauth.login", Op::LogInSessionMcpServer, mcp::session),
        ("session.mcp.oauth.handlePendingRequest", Op::LogInSessionMcpServer, mcp::session),
        ("session.mcp.oauth.respond", Op::LogInSessionMcpServer, mcp::session),
        ("session.mcp.headers.handlePendingHeadersRefreshRequest", Op::LogInSessionMcpServer, mcp::session),
        ("session.mcp.apps.setHostContext", Op::CallSessionMcpServer, mcp::session),
        ("session.mcp.apps.getHostContext", Op::CallSessionMcpServer, mcp::session),
        ("session.mcp.apps.diagnose", Op::CallSessionMcpServer, mcp::session),
        ("session.mcp.apps.listTools", Op::ListSessionMcpServers, mcp::session),
        ("session.mcp.apps.callTool", Op::CallSessionMcpServer, mcp::session),
        ("session.mcp.apps.readResource", Op::ReadSessionMcpResource, mcp::session),
        ("session.extensions.list", Op::ListExtensions, extensions::session),
        ("session.extensions.reload", Op::ReloadExtensions, extensions::session),
        ("session.extensions.enable", Op::EnableExtension, extensions::session),
        ("session.extensions.disable", Op::EnableExtension, extensions::session),
        ("session.extensions.sendAttachmentsToMessage", Op::ChangeSession, extensions::session),
        ("extensions.discover", Op::ListExtensions, extensions::user),
        ("extensions.enable", Op::EnableExtension, extensions::user),
        ("extensions.disable", Op::EnableExtension, extensions::user),
        ("session.factory.run", Op::RunWorkflows, workflows::route),
        ("session.factory.resume", Op::RunWorkflows, workflows::route),
        ("session.factory.getRun", Op::RunWorkflows, workflows::route),
        ("session.factory.getRunDetail", Op::RunWorkflows, workflows::route),
        ("session.factory.getRunProgress", Op::RunWorkflows, workflows::route),
        ("session.factory.listRuns", Op::RunWorkflows, workflows::route),
        ("session.factory.cancel", Op::RunWorkflows, workflows::route),
        ("session.factory.agent", Op::RunWorkflows, workflows::route),
        ("session.factory.log", Op::RunWorkflows, workflows::route),
        ("session.factory.journal.get", Op::RunWorkflows, workflows::route),
        ("session.factory.journal.put", Op::RunWorkflows, workflows::route),
        ("session.workflow.run", Op::RunWorkflows, workflows::route),
        ("session.workflow.resume", Op::RunWorkflows, workflows::route),
        ("session.workflow.getRun", Op::RunWorkflows, workflows::route),
        ("session.workflow.getRunDetail", Op::RunWorkflows, workflows::route),
        ("session.workflow.getRunProgress", Op::RunWorkflows, workflows::route),
        ("session.workflow.listRuns", Op::RunWorkflows, workflows::route),
        ("session.workflow.cancel", Op::RunWorkflows, workflows::route),
        ("session.workflow.agent", Op::RunWorkflows, workflows::route),
        ("session.workflow.log", Op::RunWorkflows, workflows::route),
        ("session.workflow.journal.get", Op::RunWorkflows, workflows::route),
        ("session.workflow.journal.put", Op::RunWorkflows, workflows::route),
        ("session.sandbox.getEnforcementStatus", Op::ShowSessionState, sandbox::enforcement),
        ("session.sandbox.getCredentialSuggestions", Op::ShowSessionState, sandbox::credential_suggestions),
        ("session.sandbox.disableForSession", Op::SetSandbox, sandbox::disable),
        ("session.sandbox.grantPathForRequest", Op::AnswerRequest, sandbox::grant_path),
        ("sandbox.getHostSupport", Op::ShowServer, sandbox::host_support),
        ("sandbox.proxyCa.checkInstallationSupport", Op::Connect, sandbox::no_authority),
        ("sandbox.proxyCa.checkRelevance", Op::Connect, sandbox::no_authority),
        ("sandbox.proxyCa.getStatus", Op::Connect, sandbox::no_authority),
        ("sandbox.proxyCa.create", Op::Connect, sandbox::no_authority),
        ("sandbox.proxyCa.rotate", Op::Connect, sandbox::no_authority),
        ("sandbox.proxyCa.trust", Op::Connect, sandbox::no_authority),
        ("sandbox.proxyCa.remove", Op::Connect, sandbox::no_authority),
        ("session.completions.getTriggerCharacters", Op::Connect, unsupported::route),
        ("session.completions.request", Op::Connect, unsupported::route),
        ("session.visibility.get", Op::Connect, unsupported::route),
        ("session.visibility.set", Op::Connect, unsupported::route),
        ("session.schedule.list", Op::Connect, unsupported::route),
        ("session.schedule.stop", Op::Connect, unsupported::route),
        ("session.tools.initializeAndValidate", Op::Connect, unsupported::route),
        ("session.lsp.initialize", Op::Connect, unsupported::route),
        ("session.telemetry.setFeatureOverrides", Op::Connect, unsupported::route),
        ("session.telemetry.getEngagementId", Op::Connect, unsupported::route),
        ("session.remote.enable", Op::Connect, unsupported::route),
        ("session.remote.disable", Op::Connect, unsupported::route),
        ("session.remote.notifySteerableChanged", Op::ChangeSession, unsupported::route),
        ("sessions.getRemoteControlStatus", Op::Connect, unsupported::route),
        ("sessions.setRemoteControlSteering", Op::Connect, unsupported::route),
        ("sessions.stopRemoteControl", Op::Connect, unsupported::route),
        ("sessions.transferRemoteControl", Op::Connect, unsupported::route),
        ("sessions.startRemoteControl", Op::Connect, unsupported::route),
        ("sessions.connect", Op::Connect, unsupported::route),
        ("sessions.findByTaskId", Op::Connect, unsupported::route),
        ("sessions.reloadPluginHooks", Op::Connect, unsupported::route),
        ("sessions.loadDeferredRepoHooks", Op::Connect, unsupported::route),
        ("agentRegistry.spawn", Op::Connect, unsupported::route),
        ("session.tasks.getCurrentPromotable", Op::Connect, unsupported::route),
        ("session.tasks.promoteCurrentToBackground", Op::Connect, unsupported::route),
        ("session.tasks.promoteToBackground", Op::Connect, unsupported::route),
        ("session.tasks.sendMessage", Op::Connect, unsupported::route),
        ("session.ui.handlePendingSessionLimitsExhausted", Op::Connect, unsupported::route),
    ]
};

/// Returns each method with its operation.
pub(crate) fn operations() -> impl Iterator<Item = (&'static str, Operation)> {
    METHODS.iter().map(|(name, operation, _)| (*name, *operation))
}

/// The table by name.
static BY_NAME: LazyLock<HashMap<&str, (Operation, Handler)>> = LazyLock::new(|| {
    METHODS.iter().map(|(name, operation, handler)| (*name, (*operation, *handler))).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_listed_once() {
        assert_eq!(BY_NAME.len(), METHODS.len());
    }
}
