//! The network. The only module that knows which HTTP library is used.

use std::error::Error as StdError;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::stream;

use super::{
    Body, Headers, HttpRequest, HttpResponse, Method, Opening, Sending, Socket, Transport, TransportError,
    socket, tls,
};

/// How long a connection may take to be made, with name lookup and TLS handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The HTTP client. Costs nothing until the first request; connections are kept and shared, so have one of
/// it.
///
/// The library below reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` from the environment, and
/// the proxy settings of macOS and Windows. That is what people expect of a program that uses the network,
/// and the one exception to the rule that libraries of Baton do not look around.
#[derive(Default)]
pub struct HttpClient {
    made: OnceLock<Result<reqwest::Client, TransportError>>,
    /// For WebSockets, which begin with a request of HTTP/1.1.
    made_for_sockets: OnceLock<Result<reqwest::Client, TransportError>>,
}

impl HttpClient {
    /// A client that has done nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn client(&self) -> Result<&reqwest::Client, TransportError> {
        self.made.get_or_init(|| make(&[tls::HTTP_2, tls::HTTP_1])).as_ref().map_err(Clone::clone)
    }

    async fn open_one(&self, request: HttpRequest) -> Result<Option<Box<dyn Socket>>, TransportError> {
        let client = self.made_for_sockets.get_or_init(|| make(&[tls::HTTP_1]));
        socket::open(client.as_ref().map_err(Clone::clone)?, request).await
    }

    async fn send_one(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let method = match request.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
        };
        let mut builder = self.client()?.request(method, request.url.into_inner()).body(request.body);
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        let response = builder.send().await.map_err(classify)?;
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

fn make(versions: &[&str]) -> Result<reqwest::Client, TransportError> {
    let tls = tls::offering(versions).map_err(|error| TransportError::Invalid(error.to_string()))?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT_LIMIT)
        // A redirected POST would arrive as a GET, and credentials would go where nobody meant them to go.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(classify)
}

fn body(response: reqwest::Response) -> Body {
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
    // The address may carry a key, and whoever made the request knows it anyway.
    let error = error.without_url();
    let cause = innermost(&error);
    if certificate_problem(&error) {
        TransportError::Untrusted(cause)
    } else if error.is_builder() {
        TransportError::Invalid(cause)
    } else if error.is_connect() && error.is_timeout() {
        TransportError::Unreachable(format!("nobody answered within {} s", CONNECT_LIMIT.as_secs()))
    } else if error.is_connect() {
        TransportError::Unreachable(cause)
    } else {
        TransportError::Broken(cause)
    }
}

/// The causes of an error, itself first. An I/O error hides what it wraps from `source`, so it is opened
/// here.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        let error: &'a (dyn StdError + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

fn innermost(error: &reqwest::Error) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn certificate_problem(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| {
        matches!(
            cause.downcast_ref::<rustls::Error>(),
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::General(_))
        )
    })
}
