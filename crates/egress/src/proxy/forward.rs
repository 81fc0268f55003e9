//! Plain HTTP requests.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Scheme};
use http::{Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio_util::task::AbortOnDropHandle;

use super::problem::Problem;
use super::{MAX_HEAD, Server};
use crate::body::ResponseBody;
use crate::host::HTTP_PORT;
use crate::{Target, Transport};

/// Headers that are about one connection, and about the proxy. `Expect` is answered by the proxy itself.
const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    header::EXPECT,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Sends a request to its server, and returns the response.
pub(super) async fn forward(
    server: &Server,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Problem> {
    let target = target(request.uri())?;
    let request = outgoing(request, &target)?;
    let stream = server.connect(&target).await?;
    let failed = |error: hyper::Error| Problem::unreachable(&target, &error);
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Its errors are those of the response and its body.
    let connection = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
    let mut response = sender.send_request(request).await.map_err(failed)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Problem::protocol(&target));
    }
    remove_hop_by_hop(response.headers_mut());
    *response.version_mut() = Version::HTTP_11;
    Ok(response.map(|body| ResponseBody::Forwarded { body, _connection: connection }))
}

/// Returns the target of a request with an absolute URL.
fn target(uri: &Uri) -> Result<Target, Problem> {
    match (uri.scheme(), uri.authority()) {
        (Some(scheme), Some(authority)) if *scheme == Scheme::HTTP => {
            Target::parse(Transport::PlainHttp, authority.as_str()).map_err(Problem::bad_target)
        }
        (Some(_), _) => Err(Problem::malformed("only http:// URLs are forwarded; use CONNECT for others")),
        _ => Err(Problem::malformed("this is an HTTP proxy: send the whole URL, or CONNECT")),
    }
}

/// Rewrites a request for its server. The URL decides which host is asked for, whatever the headers say.
fn outgoing(request: Request<Incoming>, target: &Target) -> Result<Request<Incoming>, Problem> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    head.uri = Uri::from(path);
    head.version = Version::HTTP_11;
    remove_hop_by_hop(&mut head.headers);
    let host = if target.port == HTTP_PORT { target.host.to_string() } else { target.to_string() };
    let host = HeaderValue::try_from(host).map_err(|_| Problem::malformed("the host is no header value"))?;
    head.headers.insert(header::HOST, host);
    Ok(Request::from_parts(head, body))
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}
