//! The permission policy: decides from a request and the session's rules, grants and mode whether to allow, deny or ask.
//!
//! Built-in tools, sub-agents, engines and every door go through [`decide`]; nothing else allows or denies anything. The
//! policy does no I/O: paths in requests must be resolved by the caller.
//!
//! Four laws hold for every input (`core/tests/policy.rs`):
//!
//! 1. A deny rule that names a request wins over every grant, rule, hook and mode.
//! 2. A grant covers no more than the user who gave it was shown: [`offers`] lists what can be granted, each with its
//!    meaning, and [`grant_of`] refuses anything else.
//! 3. A request that cannot be parsed needs approval. If a deny rule may name it, only a user's answer to that very
//!    request allows it.
//! 4. A command that leaves the session's sandbox is allowed by a user's answer to that very request, or by allow-all mode. No
//!    grant, rule or hook covers it, and it offers no grant.

pub mod address;
mod allow;
mod deny;
mod inside;
mod offer;
pub mod shell;
pub mod territory;

use std::fmt;

use baton_protocol::event::PermissionMode;
use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::rules::{Rule, RuleKind, Rules};
use baton_protocol::sandbox::SandboxLevel;
use baton_protocol::{Author, EventId, Timestamp};
use serde::{Deserialize, Serialize};

pub(crate) use self::offer::marked;
pub use self::offer::{NotOffered, Offer, grant_of, offers, with_offers};
use self::territory::Territory;

/// Whether a rule names a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// It names the request.
    Yes,
    /// It does not.
    No,
    /// It may name the request; the request does not tell.
    Unknown,
}

impl Match {
    /// Combines two matches: the request is named if either names it.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::No, Self::No) => Self::No,
        }
    }
}

/// A grant of a session, with its author and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// What is granted.
    #[serde(flatten)]
    pub approval: Approval,
    /// The event that gave it, which identifies it for revocation. None in snapshots of older versions.
    #[serde(default)]
    pub id: Option<EventId>,
    /// Author.
    #[serde(default)]
    pub by: Option<Author>,
    /// Time.
    #[serde(default)]
    pub at: Option<Timestamp>,
    /// Working directory in which it was given. A shell line or a write means something else in another directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Digest of the MCP server and tool that the user was shown ([`PermissionRequest::Mcp`]). None for other grants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

impl Grant {
    /// Whether the grant holds for a call of this tool. A server whose configuration has changed, or a tool that describes
    /// itself in another way, is not what the user was shown.
    fn covers_mcp(&self, server: &str, tool: &str, binding: Option<&str>) -> bool {
        let Approval::Mcp { server_name, tool_name } = &self.approval else { return false };
        let is_named = server_name == server && tool_name.as_ref().is_none_or(|name| name == tool);
        is_named && is_shown(self.binding.as_deref(), binding, tool_name.is_some())
    }

    /// Whether the grant holds in a working directory. Grants of older versions have no directory; those for shell lines and
    /// writes hold nowhere.
    #[must_use]
    pub fn holds_in(&self, cwd: &str) -> bool {
        match self.approval {
            Approval::Commands { .. } | Approval::Write {} => self.cwd.as_deref() == Some(cwd),
            Approval::Read {}
            | Approval::Mcp { .. }
            | Approval::Url { .. }
            | Approval::Memory {}
            | Approval::CustomTool { .. } => true,
        }
    }
}

/// Whether a grant that was given for one binding holds for another. Without one, it goes by names.
fn is_shown(shown: Option<&str>, now: Option<&str>, is_for_tool: bool) -> bool {
    match (shown, now) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(shown), Some(now)) if is_for_tool => shown == now,
        // Tools that the server adds later are covered: only its configuration counts.
        (Some(shown), Some(now)) => configuration(shown) == configuration(now),
    }
}

/// Returns the part of a binding that is about the server's configuration: `CONFIGURATION:TOOL`.
fn configuration(binding: &str) -> &str {
    binding.split(':').next().unwrap_or(binding)
}

/// Advice about a request from outside the policy: from a hook, the declaration of a client tool, or a built-in tool that
/// has inspected its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice {
    /// No advice.
    #[default]
    None,
    /// The request needs no approval. Deny rules still hold.
    Allow,
    /// No grant covers the request. Allow-all mode does.
    EachTime,
    /// A user must approve, even in allow-all mode.
    Ask,
}

/// Context of a decision: everything that it depends on besides the request.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Permission mode.
    pub mode: PermissionMode,
    /// Standing rules.
    pub rules: &'a Rules,
    /// Grants of the session.
    pub grants: &'a [Grant],
    /// Files that grants cover.
    pub territory: Territory<'a>,
    /// Advice from outside.
    pub advice: Advice,
    /// Working directory, with links as they are.
    pub cwd: &'a str,
    /// The sandbox that the session's programs run in now. In assisted mode, what cannot leave it needs no approval.
    pub sandbox: SandboxLevel,
}

/// Decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed.
    Allow(Reason),
    /// Denied.
    Deny(Reason),
    /// A user decides.
    Ask(Reason),
}

/// Reason of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A deny rule names the request.
    DenyRule(Rule),
    /// A deny rule may name the request.
    MayBeDenied(Rule),
    /// The session is in allow-all mode.
    AllowAll,
    /// The session is in assisted mode, and the request cannot leave its sandbox.
    Inside,
    /// The command would run outside the session's sandbox; with the model's reason.
    LeavesSandbox(Option<String>),
    /// Advice of a hook or of the tool's declaration.
    Advice,
    /// A standing rule, or a grant of the session or its location, covers the request.
    Granted,
    /// The file needs approval each time, and why.
    EachTime(&'static str),
    /// The shell line reaches this file of Baton or of the kernel.
    Guarded(String),
    /// The configuration of the repository can run a program, through this setting.
    Repository(String),
    /// No grant or rule covers the request.
    NothingCovers,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DenyRule(rule) => write!(f, "the rule {} denies it", Named(rule)),
            Self::MayBeDenied(rule) => {
                write!(f, "the rule {} may deny this request; only your approval allows it", Named(rule))
            }
            Self::AllowAll => f.write_str("the session allows all requests"),
            Self::Inside => f.write_str("it runs in the sandbox"),
            Self::LeavesSandbox(None) => f.write_str("it runs outside the sandbox"),
            Self::LeavesSandbox(Some(why)) => {
                write!(f, "it runs outside the sandbox; the model's reason: {why}")
            }
            Self::Advice => f.write_str("a hook or the tool's declaration says so"),
            Self::Granted => f.write_str("a grant or rule covers it"),
            Self::EachTime(why) => f.write_str(why),
            Self::Guarded(path) => write!(
                f,
                "the line reaches {path}, which belongs to Baton or is a view of the running system"
            ),
            Self::Repository(setting) => write!(
                f,
                "git is asked each time here: the repository's own configuration can make it run a program ({setting})"
            ),
            Self::NothingCovers => f.write_str("no grant or rule covers it"),
        }
    }
}

/// Displays a rule as people write it: `shell(rm)`.
struct Named<'a>(&'a Rule);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0.kind {
            RuleKind::Shell => "shell",
            RuleKind::Read => "read",
            RuleKind::Write => "write",
            RuleKind::Memory => "memory",
            RuleKind::Url => "url",
            RuleKind::CustomTool => "custom-tool",
            RuleKind::Mcp => "mcp",
        };
        match &self.0.argument {
            Some(argument) => write!(f, "{kind}({argument})"),
            None => f.write_str(kind),
        }
    }
}

/// Decides about a request.
#[must_use]
pub fn decide(request: &PermissionRequest, situation: &Situation<'_>) -> Decision {
    ParsedRequest::of(request).decide(situation)
}

fn judge(subject: &ParsedRequest<'_>, situation: &Situation<'_>) -> Decision {
    let mut doubt = None;
    for rule in &situation.rules.denied {
        match deny::names(rule, subject) {
            Match::Yes => return Decision::Deny(Reason::DenyRule(rule.clone())),
            Match::Unknown => doubt = doubt.or(Some(rule)),
            Match::No => {}
        }
    }
    if let Some(rule) = doubt {
        return Decision::Ask(Reason::MayBeDenied(rule.clone()));
    }
    match situation.advice {
        Advice::Ask => return Decision::Ask(Reason::Advice),
        Advice::Allow if !subject.leaves_sandbox() => return Decision::Allow(Reason::Advice),
        Advice::Allow | Advice::None | Advice::EachTime => {}
    }
    if situation.mode == PermissionMode::AllowAll {
        return Decision::Allow(Reason::AllowAll);
    }
    if let Some(reason) = leaving(subject.request) {
        return Decision::Ask(reason);
    }
    if situation.advice == Advice::EachTime {
        return Decision::Ask(Reason::NothingCovers);
    }
    if situation.mode == PermissionMode::Assisted && inside::contains(subject.request, situation) {
        return Decision::Allow(Reason::Inside);
    }
    allow::covered(subject, situation)
}

/// Returns why a command is asked about that would run outside the session's sandbox; none for any other request.
pub(crate) fn leaving(request: &PermissionRequest) -> Option<Reason> {
    match request {
        PermissionRequest::Shell {
            request_sandbox_bypass: Some(true),
            request_sandbox_bypass_reason: why,
            ..
        } => Some(Reason::LeavesSandbox(why.clone())),
        _ => None,
    }
}

/// Whether a deny rule names a request. Not even a user's approval overrides it.
#[must_use]
pub fn is_denied(request: &PermissionRequest, rules: &Rules) -> bool {
    if rules.denied.is_empty() {
        return false;
    }
    let subject = ParsedRequest::of(request);
    rules.denied.iter().any(|rule| deny::names(rule, &subject) == Match::Yes)
}

/// A request, with its shell line parsed once.
pub struct ParsedRequest<'a> {
    request: &'a PermissionRequest,
    /// None for requests of other kinds.
    line: Option<Typed<'a>>,
}

/// Input for a shell.
enum Typed<'a> {
    /// A command line.
    Line(shell::Line<'a>),
    /// Text for a program that runs in the shell. Its meaning is unknown.
    Input,
}

impl<'a> ParsedRequest<'a> {
    /// Parses a request.
    #[must_use]
    pub fn of(request: &'a PermissionRequest) -> Self {
        let line = match request {
            PermissionRequest::Shell { input_to: Some(_), .. } => Some(Typed::Input),
            PermissionRequest::Shell { full_command_text, repository_runs, .. } => {
                let line = shell::Line::parse(full_command_text);
                let is_distrusted = repository_runs.is_some();
                Some(Typed::Line(if is_distrusted { line.in_distrusted_repository() } else { line }))
            }
            _ => None,
        };
        Self { request, line }
    }

    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> &'a PermissionRequest {
        self.request
    }

    /// Whether the request is for a command that would run outside the session's sandbox.
    fn leaves_sandbox(&self) -> bool {
        leaving(self.request).is_some()
    }

    /// Decides about the request.
    #[must_use]
    pub fn decide(&self, situation: &Situation<'_>) -> Decision {
        judge(self, situation)
    }

    /// Whether the answer to a request can be a grant, for the kinds of requests that say so to clients.
    #[must_use]
    pub fn is_grantable(&self, territory: Territory<'_>) -> bool {
        offer::is_grantable(self, territory)
    }
}
