//! The options of SDKs that this server does not implement, and what ignoring each of them means.
//!
//! `tests/sdk/session-options.txt` lists every option that published SDKs can send. A test fails if one of them is neither
//! implemented (a field of [`SessionParams`](baton_protocol::params::SessionParams)) nor listed here.

/// Values with which an option asks for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// Every value that is not off or empty.
    WhenSet,
    /// As [`Asks::WhenSet`], except for the value that this server obeys.
    Unless(&'static str),
    /// `false`.
    WhenFalse,
    /// Every value but `null`; an empty list asks for something, too.
    WhenPresent,
    /// This value, in a session with MCP servers.
    WithServers(&'static str),
}

/// An option that has no effect, with the consequence for users.
pub(super) struct Ignored {
    pub(super) name: &'static str,
    pub(super) asks: Asks,
    pub(super) consequence: &'static str,
}

const fn ignored(name: &'static str, consequence: &'static str) -> Ignored {
    Ignored { name, asks: Asks::WhenSet, consequence }
}

const fn ignored_if(name: &'static str, asks: Asks, consequence: &'static str) -> Ignored {
    Ignored { name, asks, consequence }
}

const REMOTE: &str = "sessions run on this server only; other clients can attach to it";
const NO_CANVASES: &str = "this server has no canvases";
const NO_MANAGED_SETTINGS: &str = "this server does not apply managed settings";
const NO_EVENT_LOG: &str = "this server writes no such file; export the session instead";
const NO_FLAGS: &str = "this server has no feature flags";
const MODEL_DEFAULT: &str = "the model's default applies";
const SHELL: &str = "commands run in bash with the server's environment";

/// Options that a client has to be warned of.
pub(super) const IGNORED: &[Ignored] = &[
    // Protection that a client would otherwise rely on.
    ignored(
        "additionalContentExclusionPolicies",
        "no file is excluded; deny paths with permission rules instead",
    ),
    ignored("disabledInstructionSources", "only skipCustomInstructions switches instruction files off"),
    ignored("ignoredSkillsLocations", "name the skills in disabledSkills instead"),
    ignored_if("includedBuiltinAgents", Asks::WhenPresent, "use excludedBuiltinAgents instead"),
    ignored_if(
        "mcpOAuthTokenStorage",
        Asks::WithServers("in-memory"),
        "tokens from logins at MCP servers are stored encrypted, for all sessions",
    ),
    ignored_if(
        "allowTranscriptRecovery",
        Asks::WhenFalse,
        "damaged records are skipped, and the session opens",
    ),
    ignored("sessionLimits", "the model is informed of the limit, but nothing enforces it"),
    ignored("autopilot", "a turn ends when the model ends it; nothing continues it or counts continuations"),
    // Trust and code that a client cannot switch on here.
    ignored("trustWorkingDirectory", "trust the directory with session.permissions.folderTrust.addTrusted"),
    ignored("enableFileHooks", "hooks in repositories do not run; put them in a plugin"),
    ignored("hookDirectories", "their hooks do not run; put them in a plugin"),
    ignored("installedPlugins", "use pluginDirectories instead"),
    ignored("managedMcpServers", "use mcpServers instead"),
    ignored("managedSettings", NO_MANAGED_SETTINGS),
    ignored("enableManagedSettings", NO_MANAGED_SETTINGS),
    ignored("enforceManagedModelDefaults", NO_MANAGED_SETTINGS),
    // Accounts and endpoints.
    ignored("gitHubTokenProviderRegistrationId", "the session has no GitHub token; pass gitHubToken instead"),
    ignored("authInfo", "pass gitHubToken instead"),
    ignored("copilotUrl", "pass provider instead"),
    ignored("authClientIdMetadataUrl", "Baton identifies itself at MCP servers"),
    ignored_if("envValueMode", Asks::Unless("direct"), "variables of MCP servers are passed as they are"),
    // Where sessions run, and what they record.
    ignored("cloud", "sessions run on this server only"),
    ignored("remoteSession", REMOTE),
    ignored("remoteSteerable", REMOTE),
    ignored("remoteExporting", REMOTE),
    ignored("remoteDefaultedOn", REMOTE),
    ignored("enableSessionTelemetry", "this server sends no telemetry"),
    ignored("enableGitHubTelemetryForwarding", "this server has no GitHub telemetry to forward"),
    ignored("diagnostics", "this server forwards no diagnostics; read its log"),
    ignored("eventsLogDirectory", NO_EVENT_LOG),
    ignored("trajectoryFile", NO_EVENT_LOG),
    ignored("enableSessionStore", "sessions do not read each other"),
    ignored("memory", "this server keeps no memory between sessions"),
    // What the model gets.
    ignored("additionalDirectories", "add them with session.permissions.paths.add"),
    ignored("agentDirectories", "pass customAgents instead"),
    ignored("askUserDisabled", "set it with session.options.update"),
    ignored("skipCustomInstructions", "set it with session.options.update"),
    ignored_if("askUserVariant", Asks::Unless("legacy"), "ask_user asks one question with choices"),
    ignored("includedBuiltinSkills", "this server has no built-in skills"),
    ignored("organizationCustomInstructions", "pass them in systemMessage instead"),
    ignored("enableOnDemandInstructionDiscovery", "only instruction files that apply at the start are used"),
    ignored("suppressCustomAgentPrompt", "the prompt of the selected agent is used"),
    ignored("allowAllMcpServerInstructions", "instructions of MCP servers are not used"),
    ignored("manageScheduleEnabled", "this server has no schedules"),
    ignored("imageGeneration", "this server generates no images"),
    ignored("toolSearch", "the model gets all tools at once"),
    ignored("modelCapabilitiesOverrides", "use modelCapabilities instead"),
    ignored("reasoningSummary", MODEL_DEFAULT),
    ignored("enableReasoningSummaries", MODEL_DEFAULT),
    ignored("contextTier", MODEL_DEFAULT),
    ignored("verbosity", MODEL_DEFAULT),
    ignored("continueOnAutoMode", "requests for a fallback model are answered by clients"),
    ignored("sessionCapabilities", "capabilities follow from the handlers of the client"),
    ignored("isExperimentalMode", "this server has no experimental mode"),
    ignored("featureFlags", NO_FLAGS),
    ignored("expAssignments", NO_FLAGS),
    ignored("canvases", NO_CANVASES),
    ignored("canvasProvider", NO_CANVASES),
    ignored("openCanvases", NO_CANVASES),
    ignored("requestCanvasRenderer", NO_CANVASES),
    ignored("shell", SHELL),
    ignored("shellInitProfile", SHELL),
    ignored("shellProcessFlags", SHELL),
    ignored("coauthorEnabled", "this server adds no co-author to commits"),
];

/// Options that are implemented, and that `session.options.update` cannot change.
pub(super) const FIXED: &[Ignored] = &[
    fixed("capi"),
    fixed("disabledSkills"),
    fixed("enableSkills"),
    fixed("excludedBuiltinAgents"),
    fixed("instructionDirectories"),
    fixed("skillDirectories"),
];

const fn fixed(name: &'static str) -> Ignored {
    ignored_if(name, Asks::WhenPresent, "set it when you create or resume the session")
}

/// Options of `session.create` and `session.resume` that `session.options.update` implements.
pub(super) const ONLY_LATER: &[&str] = &["askUserDisabled", "skipCustomInstructions"];

/// Options that can be ignored without a warning, with the reason.
#[cfg(test)]
pub(super) const HARMLESS: &[(&str, &str)] = &[
    // Obeyed, because the server never does what they switch off, or always does what they switch on.
    ("customAgentsLocalOnly", "agents are never loaded from elsewhere"),
    ("skipEmbeddingRetrieval", "there are no embeddings"),
    ("embeddingCacheStorage", "there are no embeddings"),
    ("excludedManagedSettings", "no managed settings apply"),
    ("refreshCustomInstructions", "instruction files are not cached"),
    (
        "enableHostGitOperations",
        "the server reads the branch; git runs when a client or an approved command asks",
    ),
    ("enableScriptSafety", "commands are always analysed before they are approved"),
    ("workingDirectoryContext", "the context is read from the directory"),
    ("enableStreaming", "alias of streaming"),
    // Identity, provenance and telemetry.
    ("agentContext", "telemetry and filters of the official runtime"),
    ("autoTierIsExplicit", "provenance of another option"),
    ("clientKind", "identity of the client"),
    ("detachedFromSpawningParentEngagementId", "telemetry"),
    ("detachedFromSpawningParentSessionId", "telemetry"),
    ("extensionInfo", "identity of the client"),
    ("integrationId", "identity of the client"),
    ("interactiveUser", "telemetry"),
    ("lspClientName", "identity of the client"),
    ("runningInInteractiveMode", "identity of the client"),
    ("sandboxConfigSource", "provenance of another option"),
    // Part of another option that is described.
    ("eventsLogIncludesSubagents", "with eventsLogDirectory"),
    ("logInteractiveShells", "log of the official runtime"),
    ("maxInlineBinaryBytes", "size of events; this server has its own limit"),
];
