//! HTTP over the network. The only module that depends on the HTTP library.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::stream;

use super::certificate::{causes, certificate_problem};
use super::gate::{Closed, Gate};
use super::{
    BodyStream, Headers, HttpRequest, HttpResponse, Method, Opening, Sending, Socket, Transport,
    TransportError, dial, socket, tls,
};

/// Time limit for a connection, including name lookup and TLS handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The HTTP client. Costs nothing until the first request; connections are pooled, so share one client.
///
/// The library reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` from the environment, and the
/// proxy settings of macOS and Windows. Users expect that of a program that uses the network; it is the one
/// exception to the rule that libraries of Baton do not read the environment.
#[derive(Default)]
pub struct HttpClient {
    made: OnceLock<Result<reqwest::Client, TransportError>>,
    /// Restricts the addresses that names may resolve to.
    gate: Option<Gate>,
    /// Whether the gate applies to addresses in URLs, too.
    checks_urls: bool,
}

impl HttpClient {
    /// Creates a client without any restriction.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a client that connects only to allowed addresses when it resolves a name. An IP address in the
    /// URL itself is not checked: the author of the URL chose it.
    #[must_use]
    pub fn reaching(allows: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self { gate: Some(Gate::new(Arc::new(allows))), ..Self::default() }
    }

    /// Creates a client that connects only to allowed addresses, also if the URL itself contains one: for URLs of
    /// strangers.
    #[must_use]
    pub fn confined(allows: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self { checks_urls: true, ..Self::reaching(allows) }
    }

    /// Applies the gate to a request: to the address in its URL, or later to those of its host.
    fn admit(&self, request: &HttpRequest) -> Result<(), TransportError> {
        let Some(gate) = &self.gate else { return Ok(()) };
        gate.watch(request.url.host_name());
        let address = request.url.address().filter(|address| self.checks_urls && !gate.allows(*address));
        address.map_or(Ok(()), |address| Err(TransportError::Closed(vec![address])))
    }

    fn client(&self) -> Result<&reqwest::Client, TransportError> {
        self.made.get_or_init(|| make(self.gate.clone())).as_ref().map_err(Clone::clone)
    }

    async fn open_one(&self, request: HttpRequest) -> Result<Option<Box<dyn Socket>>, TransportError> {
        self.admit(&request)?;
        socket::open(self.client()?, request).await
    }

    async fn send_one(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.admit(&request)?;
        let method = match request.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
            Method::Delete => reqwest::Method::DELETE,
        };
        let mut builder = self.client()?.request(method, request.url.into_inner()).body(request.body);
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        let response = dial::request(builder.send()).await.map_err(classify)?;
        let text =
            |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers =
            response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        Ok(HttpResponse {
            status: response.status().as_u16(),
            headers: Headers(headers),
            body: body(response),
        })
    }
}

impl Transport for HttpClient {
    fn send(&self, request: HttpRequest) -> Sending<'_> {
        Box::pin(self.send_one(request))
    }

    fn open(&self, request: HttpRequest) -> Opening<'_> {
        Box::pin(self.open_one(request))
    }
}

fn make(gate: Option<Gate>) -> Result<reqwest::Client, TransportError> {
    let tls = tls::config().map_err(|error| TransportError::Invalid(error.to_string()))?;
    let mut builder = reqwest::Client::builder();
    if let Some(gate) = gate {
        builder = builder.dns_resolver(gate);
    }
    builder
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT_LIMIT)
        .connector_layer(dial::DialLayer::default())
        // A redirected POST would arrive as a GET, and credentials would be sent to an unintended host.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(classify)
}

fn body(response: reqwest::Response) -> BodyStream {
    Box::pin(stream::unfold(Some(response), |response| async {
        let mut response = response?;
        match response.chunk().await {
            Ok(Some(bytes)) => Some((Ok(bytes), Some(response))),
            Ok(None) => None,
            Err(error) => Some((Err(classify(error)), None)),
        }
    }))
}

pub(super) fn classify(error: reqwest::Error) -> TransportError {
    // The URL may contain a key, and the caller knows it anyway.
    let error = error.without_url();
    let cause = innermost(&error);
    if let Some(Closed(addresses)) = causes(&error).find_map(|cause| cause.downcast_ref()) {
        TransportError::Closed(addresses.clone())
    } else if let Some(problem) = certificate_problem(&error) {
        TransportError::Untrusted(problem.to_string())
    } else if error.is_builder() {
        TransportError::Invalid(cause)
    } else if error.is_connect() && error.is_timeout() {
        TransportError::Unreachable(format!("no response within {} s", CONNECT_LIMIT.as_secs()))
    } else if error.is_connect() && is_refused(&error) {
        TransportError::Refused(cause)
    } else if error.is_connect() {
        TransportError::Unreachable(cause)
    } else {
        TransportError::Broken(cause)
    }
}

fn innermost(error: &reqwest::Error) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn is_refused(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused)
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::http::Url;

    /// Returns the status of a local server, requested by name and by address.
    async fn statuses(client: &HttpClient) -> [Result<u16, TransportError>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                drop(stream.read(&mut [0; 1024]).await);
                drop(stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await);
            }
        });
        let ask = async |host: &str| {
            let url = Url::parse(&format!("http://{host}:{port}/")).unwrap();
            let request = HttpRequest { method: Method::Get, url, headers: Vec::new(), body: Bytes::new() };
            client.send(request).await.map(|response| response.status)
        };
        let statuses = [ask("localhost").await, ask("127.0.0.1").await];
        serve.abort();
        statuses
    }

    #[tokio::test]
    async fn name_that_resolves_to_a_forbidden_address_is_refused() {
        let open = statuses(&HttpClient::reaching(|address| address.is_loopback())).await;
        assert_eq!(open, [Ok(204), Ok(204)]);
        let [by_name, by_address] = statuses(&HttpClient::reaching(|address| !address.is_loopback())).await;
        let Err(TransportError::Closed(addresses)) = by_name else { panic!("{by_name:?}") };
        assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback));
        assert_eq!(by_address, Ok(204), "an address is not checked");
    }

    #[tokio::test]
    async fn confined_client_checks_addresses_in_urls() {
        let open = statuses(&HttpClient::confined(|address| address.is_loopback())).await;
        assert_eq!(open, [Ok(204), Ok(204)]);
        for refused in statuses(&HttpClient::confined(|address| !address.is_loopback())).await {
            assert!(matches!(refused, Err(TransportError::Closed(_))), "{refused:?}");
        }
    }
}
