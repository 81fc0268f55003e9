//! Permissions: what a tool wants to do, and what is decided about it.
#![allow(missing_docs, reason = "fields carry the names of the wire; the variant says what they are about")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::ids::ToolCallId;
use crate::json::{Json, read_buffered};

/// What a tool wants to do, for the person who decides.
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
        /// The running shell that the text is typed into; none for a line of its own.
        input_to: Option<String>,
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
    /// Fetch something from the network.
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
    },
    /// Remember something.
    Memory { tool_call_id: Option<ToolCallId>, fact: Option<String> },
    /// Call a tool of a client.
    CustomTool {
        tool_call_id: Option<ToolCallId>,
        tool_name: String,
        tool_description: String,
        #[serde(default, deserialize_with = "read_buffered")]
        args: Option<Json>,
    },
    /// A hook wants a person to decide.
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

/// What somebody decided, in either of the two vocabularies that clients have used. Parsed into [`Verdict`] at once.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionDecision {
    pub kind: String,
    pub feedback: Option<String>,
    /// For `approve-for-session` and `approve-for-location`: what exactly is granted.
    pub approval: Option<Approval>,
    /// For `approve-for-session` and `approve-permanently` of a URL.
    pub domain: Option<String>,
    pub location_key: Option<String>,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    ApproveOnce,
    /// This, and what the grant covers, until the session is deleted. `None`: the default offer of the request.
    ApproveForSession(Option<Approval>),
    /// The same for every session of a location that applies its grants.
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

/// A decision in words nobody knows.
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
            // A permanent grant is for a domain, and lasts as long as the session: only locations outlive sessions.
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

/// What came of a permission request, as everybody is told. The names are older than the decisions' and strict in
/// older SDKs, so they never change.
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

/// A grant: approval that covers later requests too. What each covers is decided by the policy in `baton-core`.
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
    /// This MCP server, or one tool of it.
    Mcp { server_name: String, tool_name: Option<String> },
    /// An origin: scheme, host and port.
    Url { domain: String },
    /// Remembering things.
    Memory {},
    /// This tool of a client.
    CustomTool { tool_name: String },
}

impl PermissionRequest {
    /// The files that a request is about, one on each line of its path: an engine's change can touch several. None for
    /// requests that are not about files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::Write { file_name: names, .. } | Self::Read { path: names, .. } => Some(names),
            _ => None,
        };
        names.into_iter().flat_map(|names| names.split('\n'))
    }

    /// The call that asks.
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

    /// The same request, made by another call.
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

    /// The request as clients show it: shell lines go by another name there.
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
        let identifiers: Vec<&str> = commands.iter().map(|command| command.identifier.as_str()).collect();
        let mut prompt = serde_json::json!({
            "kind": "commands",
            "fullCommandText": full_command_text,
            "intention": intention,
            "commandIdentifiers": identifiers,
            "canOfferSessionApproval": can_offer_session_approval,
        });
        if let Some(id) = tool_call_id {
            prompt["toolCallId"] = id.as_str().into();
        }
        if let Some(warning) = warning {
            prompt["warning"] = warning.as_str().into();
        }
        Json::from(prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(json: &str) -> Result<Verdict, UnknownDecision> {
        serde_json::from_str::<PermissionDecision>(json).unwrap().try_into()
    }

    #[test]
    fn both_vocabularies_mean_the_same() {
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
    fn outcomes_have_the_names_that_older_sdks_know() {
        let text = serde_json::to_string(&PermissionOutcome::DeniedInteractivelyByUser {
            feedback: None,
            force_reject: None,
        });
        assert_eq!(text.unwrap(), r#"{"kind":"denied-interactively-by-user"}"#);
        assert_eq!(serde_json::to_string(&PermissionOutcome::Approved {}).unwrap(), r#"{"kind":"approved"}"#);
    }
}
