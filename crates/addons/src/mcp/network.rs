//! The server's HTTP client, for remote MCP servers.

use std::sync::Arc;

use baton_mcp::{ByteStream, Http, HttpError, HttpRequest, HttpResponse, Method, Working};
use baton_model::http::{self, HttpClient, Transport, Url};
use futures_util::StreamExt;

/// Sends requests with the server's HTTP client.
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
