//! Permission requests, decisions and grants.
#![allow(missing_docs, reason = "field names are those of the wire; the variant is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::ToolCallId;
use crate::json::{Json, read_buffered};
use crate::sandbox::{Placed, SandboxLevel};

/// The action of a tool that needs permission, as shown to the user who decides.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum PermissionRequest {
    /// Run a command.
    Shell {
        tool_call_id: Option<ToolCallId>,
        full_command_text: String,
        intention: String,
        #[serde(default)]
        commands: Vec<ShellCommand>,
        #[serde(default)]
        possible_paths: Vec<String>,
        #[serde(default)]
        possible_urls: Vec<PossibleUrl>,
        #[serde(default)]
        has_write_file_redirection: bool,
        #[serde(default)]
        can_offer_session_approval: bool,
        warning: Option<String>,
        /// The running shell that receives the text as input; `None` for a separate command.
        input_to: Option<String>,
        /// The setting of the repository's own configuration that can make a git command of the line run a program.
        repository_runs: Option<String>,
        /// The sandbox that the command runs in if it is approved. `None`: it runs outside.
        sandbox: Option<SandboxLevel>,
        /// The model wants the command to run outside, although the session has a sandbox.
        request_sandbox_bypass: Option<bool>,
        /// Why, in the model's words.
        request_sandbox_bypass_reason: Option<String>,
    },
    /// Change a file.
    Write {
        tool_call_id: Option<ToolCallId>,
        file_name: String,
        diff: String,
        intention: String,
        new_file_contents: Option<String>,
        #[serde(default)]
        can_offer_session_approval: bool,
    },
    /// Read a file or a directory.
    Read { tool_call_id: Option<ToolCallId>, path: String, intention: String },
    /// Fetch from the network.
    Url { tool_call_id: Option<ToolCallId>, url: String, intention: String },
    /// Call a tool of an MCP server.
    Mcp {
        tool_call_id: Option<ToolCallId>,
        server_name: String,
        tool_name: String,
        tool_title: String,
        #[serde(default, deserialize_with = "read_buffered")]
        args: Option<Json>,
        #[serde(default)]
        read_only: bool,
        /// Digest of the server's configuration and of the tool as the server describes it. An approval is for exactly these.
        binding: Option<String>,
    },
    /// Store a fact in memory.
    Memory { tool_call_id: Option<ToolCallId>, fact: Option<String> },
    /// Call a client tool.
    CustomTool {
        tool_call_id: Option<ToolCallId>,
        tool_name: String,
        tool_description: String,
        #[serde(default, deserialize_with = "read_buffered")]
        args: Option<Json>,
    },
    /// A hook requires a user to decide.
    Hook {
        tool_call_id: Option<ToolCallId>,
        tool_name: String,
        #[serde(default, deserialize_with = "read_buffered")]
        tool_args: Option<Json>,
        hook_message: Option<String>,
    },
}

/// One command of a shell line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellCommand {
    pub identifier: String,
    #[serde(default)]
    pub read_only: bool,
}

/// A URL that a shell line mentions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PossibleUrl {
    pub url: String,
}

/// A decision of a client, in either of the two vocabularies that clients have used. Parsed into [`Verdict`]
/// at once.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionDecision {
    pub kind: String,
    pub feedback: Option<String>,
    /// For `approve-for-session` and `approve-for-location`: the exact grant.
    pub approval: Option<Approval>,
    /// For `approve-for-session` and `approve-permanently` of a URL.
    pub domain: Option<String>,
    pub location_key: Option<String>,
}

/// A parsed decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    ApproveOnce,
    /// Approves the request and grants what it covers for the lifetime of the session. `None`: the default
    /// grant of the request.
    ApproveForSession(Option<Approval>),
    /// Approves and grants for every session that applies the location's grants.
    ApproveForLocation {
        approval: Option<Approval>,
        location_key: String,
    },
    Reject {
        feedback: Option<String>,
    },
    UserNotAvailable,
    DeniedByRules,
}

/// Error for an unknown decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown permission decision {0:?}: use approve-once, approve-for-session, approve-for-location, \
     approve-permanently, reject or user-not-available"
)]
pub struct UnknownDecision(pub String);

impl TryFrom<PermissionDecision> for Verdict {
    type Error = UnknownDecision;

    fn try_from(decision: PermissionDecision) -> Result<Self, Self::Error> {
        Ok(match decision.kind.as_str() {
            "approve-once" | "approved" => Self::ApproveOnce,
            // A permanent grant covers a domain, and lasts as long as the session: only grants for locations
            // outlive sessions.
            "approve-for-session" | "approved-for-session" | "approve-permanently" => {
                let domain = decision.domain.map(|domain| Approval::Url { domain });
                Self::ApproveForSession(decision.approval.or(domain))
            }
            "approve-for-location" | "approved-for-location" => Self::ApproveForLocation {
                approval: decision.approval,
                location_key: decision.location_key.unwrap_or_default(),
            },
            "reject" | "denied-interactively-by-user" => Self::Reject { feedback: decision.feedback },
            "user-not-available" | "denied-no-approval-rule-and-could-not-request-from-user" => {
                Self::UserNotAvailable
            }
            "denied-by-rules"
            | "denied-by-content-exclusion-policy"
            | "denied-by-permission-request-hook" => Self::DeniedByRules,
            _ => return Err(UnknownDecision(decision.kind)),
        })
    }
}

/// The outcome of a permission request, as broadcast to clients. Older SDKs accept exactly these names, which
/// differ from those of the decisions, so they never change.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum PermissionOutcome {
    Approved {},
    ApprovedForSession {
        approval: Approval,
    },
    ApprovedForLocation {
        approval: Approval,
        location_key: String,
    },
    Cancelled {
        reason: Option<String>,
    },
    DeniedByRules {
        #[serde(default, deserialize_with = "read_buffered")]
        rules: Vec<Json>,
    },
    DeniedNoApprovalRuleAndCouldNotRequestFromUser {},
    DeniedInteractivelyByUser {
        feedback: Option<String>,
        force_reject: Option<bool>,
    },
    DeniedByPermissionRequestHook {
        message: Option<String>,
        interrupt: Option<bool>,
    },
}

/// A grant: approval that covers later requests too. The policy in `baton-core` decides what each covers.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Approval {
    /// Commands by identifier, `program:*` for everything a program can do, or one exact line.
    Commands { command_identifiers: Vec<String> },
    /// Changes of files in the working directory.
    Write {},
    /// Reading files.
    Read {},
    /// An MCP server, or one of its tools.
    Mcp { server_name: String, tool_name: Option<String> },
    /// An origin: scheme, host and port.
    Url { domain: String },
    /// Storing facts in memory.
    Memory {},
    /// A client tool.
    CustomTool { tool_name: String },
}

impl PermissionRequest {
    /// Returns the files that a request is about, one for each line of its path: a change by an engine can
    /// touch several. Empty for requests that are not about files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::Write { file_name: names, .. } | Self::Read { path: names, .. } => Some(names),
            _ => None,
        };
        names.into_iter().flat_map(|names| names.split('\n'))
    }

    /// Returns where a command runs if it is approved; none for a request that is not about a sandbox.
    #[must_use]
    pub fn placed(&self) -> Option<Placed> {
        match self {
            Self::Shell { request_sandbox_bypass: Some(true), .. } => Some(Placed::Outside),
            Self::Shell { sandbox: Some(level), .. } if level.is_inside() => Some(Placed::Inside(*level)),
            _ => None,
        }
    }

    /// Returns where a command runs if it is approved, as text for people; none outside of a sandbox. That it leaves the
    /// sandbox of the session is part of its warning.
    #[must_use]
    pub fn sandbox_note(&self) -> Option<String> {
        let Self::Shell { sandbox: Some(level), .. } = self else { return None };
        level.is_inside().then(|| format!("runs in the sandbox: {level}"))
    }

    /// Returns the tool call that needs permission.
    #[must_use]
    pub fn tool_call_id(&self) -> Option<&ToolCallId> {
        match self {
            Self::Shell { tool_call_id, .. }
            | Self::Write { tool_call_id, .. }
            | Self::Read { tool_call_id, .. }
            | Self::Url { tool_call_id, .. }
            | Self::Mcp { tool_call_id, .. }
            | Self::Memory { tool_call_id, .. }
            | Self::CustomTool { tool_call_id, .. }
            | Self::Hook { tool_call_id, .. } => tool_call_id.as_ref(),
        }
    }

    /// Returns the same request for another tool call.
    #[must_use]
    pub fn for_call(mut self, call: &ToolCallId) -> Self {
        match &mut self {
            Self::Shell { tool_call_id, .. }
            | Self::Write { tool_call_id, .. }
            | Self::Read { tool_call_id, .. }
            | Self::Url { tool_call_id, .. }
            | Self::Mcp { tool_call_id, .. }
            | Self::Memory { tool_call_id, .. }
            | Self::CustomTool { tool_call_id, .. }
            | Self::Hook { tool_call_id, .. } => *tool_call_id = Some(call.clone()),
        }
        self
    }

    /// Converts the request to the vocabulary of prompts, in which shell commands have another name.
    #[must_use]
    pub fn as_prompt(&self) -> Json {
        let Self::Shell {
            tool_call_id,
            full_command_text,
            intention,
            commands,
            can_offer_session_approval,
            warning,
            ..
        } = self
        else {
            return Json::from_value(self).unwrap_or_else(|_| Json::null());
        };
        let prompt = CommandsPrompt {
            kind: "commands",
            full_command_text,
            intention,
            command_identifiers: commands.iter().map(|command| command.identifier.as_str()).collect(),
            can_offer_session_approval: *can_offer_session_approval,
            tool_call_id: tool_call_id.as_ref(),
            warning: warning.as_deref(),
        };
        Json::from_value(&prompt).unwrap_or_else(|_| Json::null())
    }
}

/// A shell request in the vocabulary of prompts.
#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommandsPrompt<'a> {
    kind: &'a str,
    full_command_text: &'a str,
    intention: &'a str,
    command_identifiers: Vec<&'a str>,
    can_offer_session_approval: bool,
    tool_call_id: Option<&'a ToolCallId>,
    warning: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(json: &str) -> Result<Verdict, UnknownDecision> {
        baton_json::from_str::<PermissionDecision>(json).unwrap().try_into()
    }

    #[test]
    fn both_vocabularies_are_equivalent() {
        for (old, new) in [
            ("approved", "approve-once"),
            ("denied-interactively-by-user", "reject"),
            ("denied-no-approval-rule-and-could-not-request-from-user", "user-not-available"),
        ] {
            let read = |kind: &str| decide(&format!("{{\"kind\":\"{kind}\"}}")).unwrap();
            assert_eq!(read(old), read(new));
        }
        assert_eq!(decide(r#"{"kind":"maybe"}"#), Err(UnknownDecision("maybe".into())));
    }

    #[test]
    fn outcomes_have_the_names_of_older_sdks() {
        let text = serde_json::to_string(&PermissionOutcome::DeniedInteractivelyByUser {
            feedback: None,
            force_reject: None,
        });
        assert_eq!(text.unwrap(), r#"{"kind":"denied-interactively-by-user"}"#);
        assert_eq!(serde_json::to_string(&PermissionOutcome::Approved {}).unwrap(), r#"{"kind":"approved"}"#);
    }
}
