//! Offers: the grants that an answer to a request can give.

use std::path::Path;

use baton_protocol::permission::{Approval, PermissionRequest};

use super::territory::{Standing, Territory};
use super::{ParsedRequest, Typed, address};

/// A grant that an answer can give, with its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The grant.
    pub approval: Approval,
    /// What the grant covers, as text for the user.
    pub meaning: String,
}

impl Offer {
    fn new(approval: Approval, meaning: impl Into<String>) -> Self {
        Self { approval, meaning: meaning.into() }
    }
}

/// Error for a grant that the request does not offer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this grant was not offered: {0}")]
pub struct NotOffered(pub String);

/// Sets whether a request offers a grant, before clients see it. For a write this is decided here, because only here the
/// resolved working directory is known.
#[must_use]
pub fn with_offers(request: PermissionRequest, territory: Territory<'_>) -> PermissionRequest {
    let grantable = ParsedRequest::of(&request).is_grantable(territory);
    marked(request, grantable)
}

/// Sets whether a request offers a grant.
pub(crate) fn marked(mut request: PermissionRequest, grantable: bool) -> PermissionRequest {
    if let PermissionRequest::Shell { can_offer_session_approval, .. }
    | PermissionRequest::Write { can_offer_session_approval, .. } = &mut request
    {
        *can_offer_session_approval = grantable;
    }
    request
}

/// Whether a request offers a grant. Other kinds of requests do not say so, and are not examined.
pub(super) fn is_grantable(subject: &ParsedRequest<'_>, territory: Territory<'_>) -> bool {
    let request = subject.request;
    match (&subject.line, request) {
        _ if subject.leaves_sandbox() => false,
        (Some(Typed::Line(line)), _) => line.is_grantable() && guarded_file(request, territory).is_none(),
        (None, PermissionRequest::Write { .. }) => {
            request.files().all(|file| territory.write(&super::deny::lexical(file)) == Standing::Covered)
        }
        _ => false,
    }
}

/// Returns the grants that a request offers: the default first, then wider ones.
#[must_use]
pub fn offers(request: &PermissionRequest, territory: Territory<'_>) -> Vec<Offer> {
    let subject = ParsedRequest::of(request);
    match (&subject.line, request) {
        _ if subject.leaves_sandbox() => Vec::new(),
        (Some(Typed::Line(_)), _) if guarded_file(request, territory).is_some() => Vec::new(),
        (Some(Typed::Line(line)), _) => line
            .offers()
            .into_iter()
            .map(|offer| {
                Offer::new(Approval::Commands { command_identifiers: offer.identifiers }, offer.meaning)
            })
            .collect(),
        (None, PermissionRequest::Write { can_offer_session_approval: false, .. }) => Vec::new(),
        (None, PermissionRequest::Write { .. }) => {
            vec![Offer::new(Approval::Write {}, territory.write_meaning())]
        }
        (None, PermissionRequest::Read { .. }) => {
            let standing = |file: &str| territory.read(&super::deny::lexical(file));
            let is_covered =
                |file: &str| super::deny::is_known(file) && !matches!(standing(file), Standing::EachTime(_));
            match request.files().any(|file| !is_covered(file)) {
                true => Vec::new(),
                false => {
                    vec![Offer::new(
                        Approval::Read {},
                        "any file that the server can read, except Baton's own and those of /proc, /sys and /dev",
                    )]
                }
            }
        }
        (None, PermissionRequest::Url { url, .. }) => address::offer(url)
            .map(|offer| Offer::new(Approval::Url { domain: offer.pattern }, offer.meaning))
            .into_iter()
            .collect(),
        (None, PermissionRequest::Mcp { server_name, tool_name, .. }) => mcp(server_name, tool_name),
        (None, PermissionRequest::CustomTool { tool_name, .. }) => {
            let meaning = format!("any call of the client tool `{tool_name}`, with any arguments");
            vec![Offer::new(Approval::CustomTool { tool_name: tool_name.clone() }, meaning)]
        }
        (None, PermissionRequest::Memory { .. }) => {
            vec![Offer::new(Approval::Memory {}, "remembering any fact")]
        }
        (Some(Typed::Input), _)
        | (None, PermissionRequest::Hook { .. } | PermissionRequest::Shell { .. }) => Vec::new(),
    }
}

/// Returns the first path of a shell request that needs approval each time.
pub(super) fn guarded_file<'a>(request: &'a PermissionRequest, territory: Territory<'_>) -> Option<&'a str> {
    let PermissionRequest::Shell { possible_paths, .. } = request else { return None };
    let is_guarded = |path: &&String| {
        // Discarded output reveals and changes nothing.
        path.as_str() != "/dev/null" && territory.is_guarded(Path::new(path))
    };
    possible_paths.iter().find(is_guarded).map(String::as_str)
}

fn mcp(server: &str, tool: &str) -> Vec<Offer> {
    let grant = |tool: Option<&str>| Approval::Mcp {
        server_name: server.to_owned(),
        tool_name: tool.map(str::to_owned),
    };
    vec![
        Offer::new(grant(Some(tool)), format!("any call of `{tool}` of the MCP server `{server}`")),
        Offer::new(grant(None), format!("any tool of the MCP server `{server}`, also those it adds later")),
    ]
}

/// Returns the grant that an answer gives: the default offer if it names none, otherwise the named grant.
///
/// # Errors
/// If the request does not offer it.
pub fn grant_of(
    request: &PermissionRequest,
    territory: Territory<'_>,
    named: Option<&Approval>,
) -> Result<Approval, NotOffered> {
    let offers = offers(request, territory);
    let Some(named) = named else {
        let default = offers.into_iter().next().map(|offer| offer.approval);
        return default.ok_or_else(|| NotOffered("this request can only be approved once".into()));
    };
    let found = offers.iter().find_map(|offer| narrowed(&offer.approval, named));
    found.ok_or_else(|| {
        let offered: Vec<&str> = offers.iter().map(|offer| offer.meaning.as_str()).collect();
        NotOffered(match offered.as_slice() {
            [] => "this request can only be approved once".into(),
            offered => format!("offered: {}", offered.join("; ")),
        })
    })
}

/// Narrows an offer to a grant that names the same, or a part of it.
fn narrowed(offer: &Approval, named: &Approval) -> Option<Approval> {
    match (offer, named) {
        (
            Approval::Commands { command_identifiers: offered },
            Approval::Commands { command_identifiers: wanted },
        ) => {
            let is_part = !wanted.is_empty() && wanted.iter().all(|one| offered.contains(one));
            is_part.then(|| named.clone())
        }
        // Clients name a host; the offer is an origin.
        (Approval::Url { domain: offered }, Approval::Url { domain: wanted }) => {
            let host = offered.split_once("://").map_or(offered.as_str(), |(_, rest)| rest);
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
            (wanted == offered || wanted.eq_ignore_ascii_case(host)).then(|| offer.clone())
        }
        (offer, named) => (offer == named).then(|| named.clone()),
    }
}
