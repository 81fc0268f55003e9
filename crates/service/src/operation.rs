//! The operations, and the role that each needs: the one table of what a client can do to a server.
//!
//! An operation has the name under which the HTTP API offers it, where it does. `docs/security.md` shows this table, with
//! the routes and methods of each door; a test keeps it up to date.

use baton_people::Role;

/// Generates [`Operation`] from a list of `Name: Role, "what a client does with it"`, by subject.
macro_rules! operations {
    ($( $subject:literal { $( $name:ident: $role:ident, $summary:literal; )* } )*) => {
        /// Something that a client can do to a server.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Operation {
            $( $( #[doc = $summary] $name, )* )*
        }

        impl Operation {
            /// All operations, by subject.
            pub const ALL: &[Self] = &[$( $( Self::$name, )* )*];

            /// Returns the weakest role that may perform it.
            #[must_use]
            pub const fn role(self) -> Role {
                match self {
                    $( $( Self::$name => Role::$role, )* )*
                }
            }

            /// Returns what a client does with it, as a phrase that starts with a verb.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self {
                    $( $( Self::$name => $summary, )* )*
                }
            }

            /// Returns the subject that it belongs to.
            #[must_use]
            pub const fn subject(self) -> &'static str {
                match self {
                    $( $( Self::$name => $subject, )* )*
                }
            }

            const fn variant(self) -> &'static str {
                match self {
                    $( $( Self::$name => stringify!($name), )* )*
                }
            }
        }
    };
}

operations! {
    "Server" {
        Connect: Driver, "Connect an SDK, an extension or crush's client, which register tools and hooks";
        ShowIdentity: Viewer, "See who you are to the server";
        ShowServer: Viewer, "Read the version, the account and the state of the server";
        LogOut: Viewer, "End the login of a browser";
        LogInAsOwner: Admin, "Log a browser in with the server's token in a link";
        ReadApiDescription: Viewer, "Read the OpenAPI document";
        ReadMetrics: Viewer, "Read the metrics";
        RenderMarkdown: Viewer, "Render Markdown as HTML";
        ListModels: Viewer, "List the models that sessions can use";
        ListBuiltInTools: Viewer, "List the built-in tools and commands";
        ServeModelRequests: Admin, "Carry the model requests of all sessions, with the server's keys";
        StopServer: Admin, "Stop the server";
        ReadSettings: Driver, "Read the settings of the user";
        ChangeSettings: Admin, "Change the settings of the user";
        ReadAccounts: Driver, "List the accounts that are logged in, and read their quota";
        ChangeAccounts: Admin, "Log in or out at a provider";
        HideSecrets: Driver, "Have texts redacted from what models see";
    }
    "Sessions" {
        ListSessions: Viewer, "List sessions";
        ShowSession: Viewer, "Show a session";
        ShowSessionState: Viewer, "Show the state of a session: modes, queue, pending requests, usage";
        ReadEvents: Viewer, "Read or watch the events of a session";
        WatchSessions: Viewer, "Watch the changes of all sessions";
        SearchSessions: Viewer, "Search titles and conversations";
        ExportSession: Viewer, "Export a session";
        ListSessionTools: Viewer, "List the tools, instructions and to-dos of a session, and measure its context";
        CreateSession: Driver, "Create a session";
        ResumeSession: Driver, "Attach to a session, and continue the work that a stopped server left";
        ChangeSession: Driver, "Change the name, model, provider, mode, permissions or options of a session";
        SetSandbox: Admin, "Set what the programs of a session may touch";
        ForkSession: Driver, "Copy a session";
        RewindSession: Driver, "Rewind a session";
        PreviewRewind: Viewer, "Show what a rewind would do";
        CompactSession: Driver, "Summarise a conversation, or stop that";
        EndSession: Driver, "Detach from a session, suspend or end it";
        DeleteSession: Driver, "Delete a session and its files";
        PruneSessions: Driver, "Delete sessions that were not used for long";
        AskAside: Driver, "Ask the model a question outside the conversation";
        RevealEndpoint: Driver, "Read the model endpoint of a session, with its credentials";
    }
    "Prompts" {
        SendPrompt: Driver, "Send a prompt";
        ListCommands: Viewer, "List the slash commands of a session";
        EnqueueCommand: Driver, "Add a slash command to the queue";
        RunCommand: Driver, "Run a slash command at once";
        ShowPrompt: Viewer, "Show the state of a prompt, and its answer";
        CancelPrompts: Driver, "Cancel the running turn, and end or hold the queue";
        ListQueue: Viewer, "List the queue";
        ChangeQueuedPrompt: Driver, "Change, move, copy or steer with a queued prompt";
        HoldQueue: Driver, "Pause or release the queue";
        WithdrawPrompt: Driver, "Withdraw a queued prompt";
        ServeCommands: Driver, "Run queued slash commands, and answer offers of fallback models";
        RunShellCommand: Driver, "Run or end a shell command of the user";
        RunSubAgent: Driver, "Start or stop sub-agents and background commands";
    }
    "Requests and grants" {
        ListRequests: Viewer, "List the pending requests of all sessions";
        ListSessionRequests: Viewer, "List the pending requests of a session";
        AnswerRequest: Approver, "Answer a request";
        LinkRequest: Approver, "Get a fresh link for a pending login";
        AskUser: Driver, "Put a form to the user";
        ListGrants: Viewer, "List the grants and rules of a session";
        RevokeGrant: Approver, "Revoke a grant of a session";
        RevokeAllGrants: Approver, "Revoke all grants and allow rules of a session";
        ListLocations: Viewer, "List the grants of all locations";
        RevokeLocationGrants: Approver, "Revoke grants of a location";
        GrantAtLocation: Driver, "Add grants to a location, and trust a directory";
    }
    "Files" {
        CompletePath: Driver, "Complete a path below the working directory of a session";
        ReadSessionFiles: Driver, "Read the plan, checkpoints and other files of a session, and compare its working directory";
        WriteSessionFiles: Driver, "Write the plan, checkpoints and other files of a session";
    }
    "MCP servers" {
        ListSessionMcpServers: Viewer, "List the MCP servers of a session, with status and tools";
        ShowSessionMcpServer: Viewer, "Show an MCP server of a session";
        ReadSessionMcpLog: Viewer, "Read the log of an MCP server of a session";
        StartSessionMcpServers: Driver, "Start the MCP servers of a session";
        EnableSessionMcpServer: Driver, "Use an MCP server in a session again";
        DisableSessionMcpServer: Driver, "Stop using an MCP server in a session";
        RestartSessionMcpServer: Driver, "Start, stop or restart an MCP server of a session";
        ListSessionMcpResources: Driver, "List the resources of an MCP server";
        ReadSessionMcpResource: Driver, "Read a resource of an MCP server";
        ListSessionMcpPrompts: Driver, "List the prompts of an MCP server";
        GetSessionMcpPrompt: Driver, "Fill in a prompt of an MCP server";
        CallSessionMcpServer: Driver, "Call a tool of an MCP server, or send it another request";
        LogInSessionMcpServer: Driver, "Log in or out at an MCP server, or supply its credentials";
        ListMcpServers: Driver, "List the MCP servers outside of sessions";
        AddMcpServer: Admin, "Add an MCP server for all sessions, or change one";
        RemoveMcpServer: Admin, "Remove an MCP server for all sessions";
        EnableMcpServer: Admin, "Use an MCP server in new sessions again";
        DisableMcpServer: Admin, "Use an MCP server in no new session";
    }
    "Skills and agents" {
        ListSessionSkills: Viewer, "List the skills of a session";
        ShowSessionSkill: Viewer, "Show a skill of a session";
        ReloadSessionSkills: Driver, "Look for the skills of a session again";
        EnableSessionSkill: Driver, "Use a skill in a session again";
        DisableSessionSkill: Driver, "Stop using a skill in a session";
        ListSkills: Driver, "List the skills, agents and instructions of a directory";
        ShowSkill: Driver, "Show a skill of a directory";
        EnableSkill: Admin, "Use a skill in new sessions again";
        DisableSkill: Admin, "Use a skill in no new session";
    }
    "Plugins" {
        ListPlugins: Viewer, "List the installed plugins";
        InstallPlugin: Admin, "Install a plugin";
        UninstallPlugin: Admin, "Uninstall a plugin";
        UpdatePlugin: Admin, "Update a plugin";
        EnablePlugin: Admin, "Use a plugin in new sessions again";
        DisablePlugin: Admin, "Stop using a plugin in new sessions";
        SetServerPlugins: Admin, "Give plugins to all sessions of this server";
        ListMarketplaces: Viewer, "List the marketplaces";
        AddMarketplace: Admin, "Add a marketplace";
        RemoveMarketplace: Admin, "Remove a marketplace";
        BrowseMarketplace: Viewer, "List the plugins of a marketplace";
        RefreshMarketplaces: Admin, "Read marketplaces again";
    }
    "Extensions and workflows" {
        ListExtensions: Driver, "List extensions";
        ReloadExtensions: Driver, "Start the extensions of a session, or look for them again";
        EnableExtension: Admin, "Turn an extension on or off, for all sessions";
        RunWorkflows: Driver, "Start, watch and cancel runs of workflows";
    }
    "Notifications" {
        ShowNotifications: Viewer, "See which notifications are set up";
        Subscribe: Viewer, "Subscribe your own browser";
        Unsubscribe: Viewer, "Unsubscribe your own browser";
        TestSubscription: Viewer, "Send a test to your own browser";
    }
}

impl Operation {
    /// Returns the name for programs, as in the OpenAPI document: `listSessions`.
    #[must_use]
    pub fn name(self) -> String {
        let variant = self.variant();
        let (first, rest) = variant.split_at(1);
        first.to_ascii_lowercase() + rest
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_summaries_are_phrases() {
        let names: BTreeSet<String> = Operation::ALL.iter().map(|operation| operation.name()).collect();
        assert_eq!(names.len(), Operation::ALL.len());
        assert_eq!(Operation::ListSessions.name(), "listSessions");
        for operation in Operation::ALL {
            let summary = operation.summary();
            assert!(summary.starts_with(char::is_uppercase) && !summary.ends_with('.'), "{summary}");
        }
    }

    /// A viewer watches, and an approver answers. Whoever changes something else drives; what concerns all sessions is for
    /// admins.
    #[test]
    fn weak_roles_change_nothing_else() {
        let needed = |role| {
            let of_role = Operation::ALL.iter().filter(move |operation| operation.role() == role);
            of_role.map(|operation| operation.name()).collect::<BTreeSet<_>>()
        };
        let changes = ["logOut", "subscribe", "unsubscribe", "testSubscription"];
        let reads = ["show", "read", "list", "search", "export", "watch", "render", "preview", "browse"];
        for name in needed(Role::Viewer) {
            let is_read = reads.iter().any(|verb| name.starts_with(verb));
            assert!(is_read || changes.contains(&&*name), "{name}");
        }
        let answers =
            ["answerRequest", "linkRequest", "revokeAllGrants", "revokeGrant", "revokeLocationGrants"];
        assert_eq!(needed(Role::Approver), answers.map(str::to_owned).into());
    }
}
