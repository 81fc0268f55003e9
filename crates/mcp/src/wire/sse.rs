//! Servers that are reached over the older HTTP transport: an event stream whose first event names the address for
//! messages. Responses come on the stream. A stream that ends is the end of the connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::sse::Parser;
use futures_util::StreamExt;
use tokio::time::timeout;
use url::Url;

use super::lines::LONGEST;
use super::message::{Failure, Message};
use super::peer::{Inlet, Outlet};
use super::remote::Authorization;
use crate::Working;
use crate::config::Remote;
use crate::http::{ByteStream, Http, HttpRequest, Method};
use crate::log::ServerLog;

/// How long the response and the first event may take.
const OPENING: Duration = Duration::from_secs(60);

/// The event stream of a server.
pub(super) struct Stream {
    body: ByteStream,
    parser: Parser,
    ready: VecDeque<Message>,
    log: ServerLog,
}

/// The address for messages.
pub(super) struct Endpoint {
    url: Url,
    headers: Vec<(String, String)>,
    http: Arc<dyn Http>,
    access: Arc<Authorization>,
}

impl Stream {
    /// Opens the stream and waits for the address.
    pub(super) async fn open(
        remote: &Remote,
        http: Arc<dyn Http>,
        access: Arc<Authorization>,
        log: &ServerLog,
    ) -> Result<(Endpoint, Self), String> {
        let opened = timeout(OPENING, Self::open_slowly(remote, http, access, log)).await;
        opened.unwrap_or_else(|_| Err(format!("the server sent no endpoint within {} s", OPENING.as_secs())))
    }

    async fn open_slowly(
        remote: &Remote,
        http: Arc<dyn Http>,
        access: Arc<Authorization>,
        log: &ServerLog,
    ) -> Result<(Endpoint, Self), String> {
        let headers: Vec<(String, String)> =
            remote.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut with_accept = headers.clone();
        with_accept.push(("accept".into(), "text/event-stream".into()));
        let request = HttpRequest {
            method: Method::Get,
            url: remote.url.clone(),
            headers: with_accept,
            body: bytes::Bytes::new(),
        };
        let mut response = access.send(&*http, request).await.map_err(|error| error.to_string())?;
        if access.note(&remote.url, &mut response).await {
            return Err("authorization required".into());
        }
        if response.status != 200 || !response.is_of_type("text/event-stream") {
            return Err(format!("HTTP {}: not an event stream", response.status));
        }
        let mut stream = Self {
            body: response.body,
            parser: Parser::new(LONGEST),
            ready: VecDeque::new(),
            log: log.clone(),
        };
        let address = stream.endpoint().await?;
        let url = remote.url.join(&address).map_err(|error| format!("endpoint: {error}"))?;
        // The configured headers may hold a key, which must not go to another host.
        if url.origin() != remote.url.origin() {
            return Err("the server names an endpoint of another origin".into());
        }
        Ok((Endpoint { url, headers, http, access }, stream))
    }

    async fn endpoint(&mut self) -> Result<String, String> {
        loop {
            if let Some(address) = self.read().await? {
                return Ok(address);
            }
        }
    }

    /// Reads more of the stream: messages become ready, and an address is returned.
    async fn read(&mut self) -> Result<Option<String>, String> {
        let bytes =
            self.body.next().await.ok_or("the event stream ended")?.map_err(|error| error.to_string())?;
        let (ready, log, mut address) = (&mut self.ready, &self.log, None);
        let pushed = self.parser.push(&bytes, |event| match event.name.as_str() {
            "endpoint" => address = Some(event.data),
            "" | "message" => ready.extend(Message::parse(event.data.as_bytes(), log)),
            _ => {}
        });
        pushed.map_err(|error| error.to_string())?;
        Ok(address)
    }

    async fn message(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            if let Err(problem) = self.read().await {
                self.log.add(&problem);
                return None;
            }
        }
    }
}

impl Inlet for Stream {
    fn next(&mut self) -> Working<'_, Option<Message>> {
        Box::pin(self.message())
    }
}

impl Outlet for Endpoint {
    fn send(&self, message: Message) -> Working<'static, Result<(), Failure>> {
        let (http, access, url, mut headers) =
            (self.http.clone(), self.access.clone(), self.url.clone(), self.headers.clone());
        headers.push(("content-type".into(), "application/json".into()));
        let body = message.into_bytes().into();
        let request = HttpRequest { method: Method::Post, url: url.clone(), headers, body };
        Box::pin(async move {
            let mut response =
                access.send(&*http, request).await.map_err(|error| Failure::NotSent(error.to_string()))?;
            if access.note(&url, &mut response).await {
                return Err(Failure::NotSent("authorization required".into()));
            }
            match response.status {
                200..300 => Ok(()),
                status => Err(Failure::NotSent(format!("HTTP {status}"))),
            }
        })
    }

    fn close(&self) -> Working<'_, ()> {
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tokio::time::Instant;

    use super::*;
    use crate::config::RemoteKind;
    use crate::http::{HttpError, HttpResponse};

    /// A server that accepts the connection, and then sends nothing, or an endless error.
    struct Silent {
        status: Option<u16>,
    }

    impl Http for Silent {
        fn send(&self, _: HttpRequest) -> Working<'_, Result<HttpResponse, HttpError>> {
            let body = || -> ByteStream { Box::pin(futures_util::stream::pending()) };
            let response =
                self.status.map(|status| HttpResponse { status, headers: Vec::new(), body: body() });
            Box::pin(async move {
                match response {
                    Some(response) => Ok(response),
                    None => std::future::pending().await,
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_server_fails_to_connect() {
        let url = Url::parse("http://x.example/sse").unwrap();
        let remote = Remote { kind: RemoteKind::Sse, url, headers: BTreeMap::new(), supplied_headers: None };
        let log = ServerLog::default();
        for status in [None, Some(401)] {
            let begun = Instant::now();
            let opened = Stream::open(&remote, Arc::new(Silent { status }), Arc::default(), &log);
            let problem = timeout(2 * OPENING, opened).await.unwrap().err().unwrap();
            assert_eq!(problem, "the server sent no endpoint within 60 s");
            assert_eq!(begun.elapsed(), OPENING);
        }
    }
}
