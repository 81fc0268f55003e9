//! The one permission policy: a request, the session's rules, grants and mode go in; allow, deny or ask comes out, with the
//! reason.
//!
//! Native tools, sub-agents, engines and every door go through [`decide`]; nothing else allows or denies anything. The
//! policy is pure: whoever builds a request resolves its paths first, so that names compare as what they are.
//!
//! Three laws hold for every input (`core/tests/policy.rs`):
//!
//! 1. A deny rule that names a request wins over every grant, rule, hook and mode.
//! 2. A grant covers no more than the person who gave it was shown: [`offers`] lists what can be granted, in words, and
//!    [`grant_of`] refuses the rest.
//! 3. What is not understood is asked; while a deny rule stands that might be meant, nothing but a person's answer to
//!    exactly this request allows it.

pub mod address;
mod allow;
mod deny;
mod offer;
pub mod shell;
pub mod territory;

use std::fmt;

use baton_protocol::event::PermissionMode;
use baton_protocol::permission::{Approval, PermissionRequest};
use baton_protocol::rules::{Rule, RuleKind, Rules};
use baton_protocol::{Author, EventId, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::offer::{NotOffered, Offer, grant_of, offers, with_offers};
use self::territory::Territory;

/// Whether a rule's argument names something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It cannot be told.
    Unknown,
}

impl Match {
    /// Whether either is a match.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::No, Self::No) => Self::No,
        }
    }
}

/// A grant of a session, with who gave it and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// What is granted.
    #[serde(flatten)]
    pub approval: Approval,
    /// The event that gave it, by which it can be revoked. Grants in snapshots of older versions have none.
    #[serde(default)]
    pub id: Option<EventId>,
    /// Who gave it.
    #[serde(default)]
    pub by: Option<Author>,
    /// When.
    #[serde(default)]
    pub at: Option<Timestamp>,
    /// The working directory that it was given in. A line or a write means something else in another one.
    #[serde(default)]
    pub cwd: Option<String>,
}

impl Grant {
    /// Whether the grant holds in a working directory. One of an older version, which did not say where it was given, does
    /// not where that matters.
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

/// What somebody other than the policy has already said about a request: a hook, the declaration of a client tool, or a
/// built-in tool that has looked at what it would touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice {
    /// Nothing.
    #[default]
    None,
    /// It needs nobody's approval. Deny rules still hold.
    Allow,
    /// No grant covers it. Where everything is allowed, it is.
    EachTime,
    /// Somebody must be asked, whatever is allowed.
    Ask,
}

/// Everything that a decision depends on, apart from the request.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Whether the session asks at all.
    pub mode: PermissionMode,
    /// Its standing rules.
    pub rules: &'a Rules,
    /// What people granted.
    pub grants: &'a [Grant],
    /// Which files grants reach.
    pub territory: &'a Territory,
    /// What a hook or a tool's declaration says.
    pub advice: Advice,
    /// The working directory, as it is named.
    pub cwd: &'a str,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is allowed.
    Allow(Reason),
    /// It is denied.
    Deny(Reason),
    /// A person decides.
    Ask(Reason),
}

/// Why the policy decided as it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A deny rule names the request.
    DenyRule(Rule),
    /// A deny rule may be meant, and it cannot be told.
    MayBeDenied(Rule),
    /// The session allows everything that no deny rule stands against.
    AllowAll,
    /// A hook, or the tool's declaration.
    Advice,
    /// A standing rule, a grant of the session, or one of its location.
    Granted,
    /// Such a file is asked for each time, and why.
    EachTime(&'static str),
    /// Nothing covers it.
    NothingCovers,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DenyRule(rule) => write!(f, "the rule {} denies it", Named(rule)),
            Self::MayBeDenied(rule) => {
                write!(
                    f,
                    "the rule {} denies what this may do; nothing but your approval allows it",
                    Named(rule)
                )
            }
            Self::AllowAll => f.write_str("the session allows all requests"),
            Self::Advice => f.write_str("a hook or the tool's declaration says so"),
            Self::Granted => f.write_str("a grant or rule covers it"),
            Self::EachTime(why) => f.write_str(why),
            Self::NothingCovers => f.write_str("no grant or rule covers it"),
        }
    }
}

/// A rule as people write it: `shell(rm)`.
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
    let subject = Subject::of(request);
    let mut doubt = None;
    for rule in &situation.rules.denied {
        match deny::names(rule, &subject) {
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
        Advice::Allow => return Decision::Allow(Reason::Advice),
        Advice::None | Advice::EachTime => {}
    }
    if situation.mode == PermissionMode::AllowAll {
        return Decision::Allow(Reason::AllowAll);
    }
    if situation.advice == Advice::EachTime {
        return Decision::Ask(Reason::NothingCovers);
    }
    allow::covered(&subject, situation)
}

/// Whether a deny rule names a request. A person's approval does not count against it.
#[must_use]
pub fn is_denied(request: &PermissionRequest, rules: &Rules) -> bool {
    let subject = Subject::of(request);
    rules.denied.iter().any(|rule| deny::names(rule, &subject) == Match::Yes)
}

/// A request, with its shell line parsed once.
struct Subject<'a> {
    request: &'a PermissionRequest,
    /// None for requests that are no shell lines.
    line: Option<Typed>,
}

/// What a shell would be given.
enum Typed {
    /// A line of its own.
    Line(shell::Line),
    /// Text for whatever runs in a shell already. What it means there cannot be known.
    Input,
}

impl<'a> Subject<'a> {
    fn of(request: &'a PermissionRequest) -> Self {
        let line = match request {
            PermissionRequest::Shell { input_to: Some(_), .. } => Some(Typed::Input),
            PermissionRequest::Shell { full_command_text, .. } => {
                Some(Typed::Line(shell::Line::parse(full_command_text)))
            }
            _ => None,
        };
        Self { request, line }
    }
}
