//! The tool `web_fetch`.

use std::net::IpAddr;

use baton_core::policy::address;
use baton_protocol::Json;
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ToolResult, ToolSpec};
use encoding_rs::{Encoding, UTF_8};
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::fetch::{AllowedAddresses, FetchError, FetchedPage};
use super::html;
use crate::tools::arguments::{self, Count};
use crate::tools::text::without_partial_end;
use crate::tools::{Prepared, Tool, ToolContext, ToolRefusal, Working, blocking, either, schema, spec};

const NAME: &str = "web_fetch";

/// Bytes of a page that are read.
const LARGEST_PAGE: usize = 5 * 1024 * 1024;
const MOST_REDIRECTS: usize = 5;
const DEFAULT_LENGTH: usize = 5000;
const MOST_LENGTH: usize = 20_000;

#[derive(Deserialize)]
struct Arguments {
    url: String,
    #[serde(alias = "maxLength")]
    max_length: Option<Count>,
    #[serde(alias = "startIndex")]
    start_index: Option<Count>,
    raw: Option<bool>,
}

/// Fetches a web page.
pub(crate) struct WebFetch;

impl Tool for WebFetch {
    fn spec(&self) -> ToolSpec {
        spec(
            NAME,
            "Fetches a page from the web and returns its text, HTML simplified to Markdown. Long pages come \
             in parts: call again with the start_index that the result names.",
            schema::object(
                &json!({
                    "url": schema::string("The address, beginning with http:// or https://."),
                    "max_length": schema::number("Characters to return: 5000 by default, at most 20000."),
                    "start_index": schema::number("The character to begin with. Default 0."),
                    "raw": schema::boolean("Return the page as it is, without simplifying it."),
                }),
                &["url"],
            ),
        )
    }

    fn prepare<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async move {
            let url = match read(arguments) {
                Ok((url, _)) => url,
                Err(refusal) => return refusal.into(),
            };
            let hosts = &context.services.private_hosts;
            let addresses = url.host_str().map_or_else(Vec::new, |host| hosts.request(&context.call, host));
            let request = |intention| PermissionRequest::Url {
                tool_call_id: Some(context.call.clone()),
                intention,
                url: url.to_string(),
            };
            match addresses.as_slice() {
                [] => Prepared::Needs(request(format!("Fetch web content: {url}"))),
                known => Prepared::NeedsEachTime(request(format!(
                    "Fetch web content from the private network ({}): {url}",
                    listed(known)
                ))),
            }
        })
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let run = async {
                let (url, arguments) = read(arguments)?;
                let page = follow(context, url).await?;
                // Simplifying a large page takes a while.
                blocking(move || show(&page, &arguments)).await
            };
            either(run.await)
        })
    }
}

fn read(arguments: &Json) -> Result<(Url, Arguments), ToolRefusal> {
    let arguments: Arguments = arguments::read(NAME, arguments)?;
    let url = Url::parse(arguments.url.trim())
        .map_err(|error| ToolRefusal::arguments(NAME, &format!("url: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ToolRefusal::arguments(NAME, "url: must begin with http:// or https://"));
    }
    // A password in a URL would be shown to all clients and stay in the history.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ToolRefusal::arguments(NAME, "url: must not contain a user name or a password"));
    }
    Ok((url, arguments))
}

/// Fetches `url`, and follows redirects within its origin: the permission covers only that.
async fn follow(context: &ToolContext, mut url: Url) -> Result<FetchedPage, ToolRefusal> {
    let reach = reach(context, &url);
    for _ in 0..=MOST_REDIRECTS {
        let fetched = tokio::select! {
            fetched = context.services.web.get(url.as_str(), LARGEST_PAGE, &reach) => fetched,
            () = context.cancel.cancelled() => return Err(ToolRefusal::interrupted()),
        };
        let page = fetched.map_err(|error| failed(context, &url, error))?;
        let Some(location) = page.location.as_deref().filter(|_| (300..400).contains(&page.status)) else {
            return if (200..300).contains(&page.status) { Ok(page) } else { Err(refused(&url, &page)) };
        };
        let next = url.join(location).ok().filter(|next| matches!(next.scheme(), "http" | "https"));
        let Some(next) = next else {
            return Err(ToolRefusal::new(format!("{url} redirects to something that is not a web page.")));
        };
        let is_other_page = context.exact_pages && next.path() != url.path();
        let is_elsewhere = !address::same_origin(&next, &url) || is_other_page;
        if is_elsewhere || !next.username().is_empty() || next.password().is_some() {
            let what = if is_other_page { "page" } else { "origin" };
            return Err(ToolRefusal::new(format!(
                "{url} redirects to another {what}: {next}. Call {NAME} with that URL if you want to read it."
            )));
        }
        url = next;
    }
    Err(ToolRefusal::new(format!("Gave up after {MOST_REDIRECTS} redirects, the last to {url}.")))
}

/// Returns the addresses that this call may reach. No grant covers names of this machine and its network, so the URL
/// itself was approved; other names may reach the private addresses that their request named.
fn reach(context: &ToolContext, url: &Url) -> AllowedAddresses {
    match url.host_str().filter(|_| address::is_internet_name(url)) {
        Some(host) => AllowedAddresses::Public(context.services.private_hosts.recall(&context.call, host)),
        None => AllowedAddresses::Anywhere,
    }
}

fn failed(context: &ToolContext, url: &Url, error: FetchError) -> ToolRefusal {
    match (error, url.host_str()) {
        (FetchError::Private(addresses), Some(host)) => {
            context.services.private_hosts.remember(host, &addresses);
            ToolRefusal::new(format!(
                "Nothing was fetched: {host} leads into the private network ({}), which a permission for the name does \
                 not cover. Call {NAME} again if you need the page: then the user is asked about that.",
                listed(&addresses)
            ))
        }
        (error, _) => ToolRefusal::new(format!("Could not fetch {url}: {error}.")),
    }
}

fn listed(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn refused(url: &Url, page: &FetchedPage) -> ToolRefusal {
    let text = text_of(page, false).unwrap_or_default();
    let start: String = text.chars().take(500).collect();
    let answer =
        if start.trim().is_empty() { String::new() } else { format!(" The answer begins:\n{start}") };
    ToolRefusal::new(format!("{url} answered with status {}.{answer}", page.status))
}

fn show(page: &FetchedPage, arguments: &Arguments) -> Result<ToolResult, ToolRefusal> {
    let Some(text) = text_of(page, arguments.raw.unwrap_or(false)) else {
        let kind = page.content_type.as_deref().unwrap_or("unknown");
        return Err(ToolRefusal::new(format!(
            "The page is not text (its type is {kind}). Download it with a command."
        )));
    };
    let start = arguments.start_index.map_or(0, |index| index.0);
    let length = arguments.max_length.map_or(DEFAULT_LENGTH, |length| length.0.clamp(1, MOST_LENGTH));
    let total = text.chars().count();
    if start >= total && start > 0 {
        return Err(ToolRefusal::new(format!(
            "The page has {total} characters, so nothing begins at {start}."
        )));
    }
    let shown: String = text.chars().skip(start).take(length).collect();
    let end = start + shown.chars().count();
    if end < total {
        return Ok(ToolResult::success(format!(
            "{shown}\n\n[Characters {start} to {end} of {total}. Call again with start_index {end} to read \
             on.]"
        )));
    }
    Ok(ToolResult::success(if shown.is_empty() { "The page is empty.".to_owned() } else { shown }))
}

/// Returns the text of a page, simplified unless `raw`; `None` if it is not text.
fn text_of(page: &FetchedPage, raw: bool) -> Option<String> {
    let kind = page.content_type.as_deref().unwrap_or_default().to_ascii_lowercase();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let start = &page.body[..page.body.len().min(1024)];
    let is_text = kind.starts_with("text/")
        || ["json", "xml", "javascript", "yaml"].iter().any(|word| kind.contains(word))
        || kind.is_empty();
    if !is_text || start.contains(&0) {
        return None;
    }
    let text = decode(page);
    let is_html = kind.contains("html") || (kind.is_empty() && text.trim_start().starts_with('<'));
    Some(if is_html && !raw { html::to_markdown(&text) } else { text })
}

/// Decodes the body with the encoding that the server names; UTF-8 by default.
fn decode(page: &FetchedPage) -> String {
    let kind = page.content_type.as_deref().unwrap_or_default();
    let charset = kind.split(';').filter_map(|part| part.trim().strip_prefix("charset=")).next();
    let encoding =
        charset.and_then(|name| Encoding::for_label(name.trim_matches('"').as_bytes())).unwrap_or(UTF_8);
    let body = if encoding == UTF_8 { without_partial_end(&page.body) } else { &page.body };
    encoding.decode(body).0.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests;
