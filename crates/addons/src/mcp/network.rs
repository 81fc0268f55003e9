//! The server's HTTP client, for remote MCP servers.

use std::sync::Arc;

use baton_mcp::{ByteStream, Http, HttpError, HttpRequest, HttpResponse, Method, Working};
use baton_model::http::{self, HttpClient, Transport, Url};
use futures_util::StreamExt;

/// Sends requests with the server's HTTP client.
#[derive(Clone)]
pub(super) struct Network(pub(super) Arc<HttpClient>);

impl Http for Network {
    fn send(&self, request: HttpRequest) -> Working<'_, Result<HttpResponse, HttpError>> {
        Box::pin(async move {
            let method = match request.method {
                Method::Get => http::Method::Get,
                Method::Post => http::Method::Post,
                Method::Delete => http::Method::Delete,
            };
            let url = Url::parse(request.url.as_str()).map_err(|error| HttpError(error.to_string()))?;
            let request = http::HttpRequest { method, url, headers: request.headers, body: request.body };
            let response = self.0.send(request).await.map_err(|error| HttpError(error.to_string()))?;
            let body = response.body.map(|chunk| chunk.map_err(|error| HttpError(error.to_string())));
            let body: ByteStream = Box::pin(body);
            Ok(HttpResponse { status: response.status, headers: response.headers.0, body })
        })
    }
}

/// Sends the requests of a login at an MCP server: to the host of that server, and to hosts that a stranger named.
pub(super) struct LoginNetwork {
    /// The host of the MCP server.
    pub(super) host: String,
    /// For that host.
    pub(super) own: Network,
    /// For all others.
    pub(super) named: Network,
}

impl Http for LoginNetwork {
    fn send(&self, request: HttpRequest) -> Working<'_, Result<HttpResponse, HttpError>> {
        let is_own = request.url.host_str() == Some(&*self.host);
        if is_own { self.own.send(request) } else { self.named.send(request) }
    }
}
