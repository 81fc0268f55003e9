//! Two servers: one holds the session, a client of the other one carries its requests.

use std::sync::{Arc, Mutex};

use baton_model::http::{HttpRequest, Method, Transport, TransportError, Url};
use baton_protocol::{ClientId, SessionId};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{ClientCall, EdgeOffer, RelayedPart, Relays, ResponsePart, Tunnel};
use crate::CallFailed;

const CLIENT: ClientId = ClientId(7);

/// Calls that the client has received.
type Calls = Arc<Mutex<Vec<(&'static str, Value)>>>;

/// A session at one server, whose requests a client of another one carries.
struct Carried {
    owner: Arc<Tunnel>,
    edge: Arc<Tunnel>,
    offer: Arc<Mutex<Option<EdgeOffer>>>,
    relays: Arc<Mutex<Option<Relays>>>,
    calls: Calls,
}

fn session() -> SessionId {
    "s".parse().unwrap()
}

impl Carried {
    fn new() -> Self {
        let (owner, edge) = (Arc::<Tunnel>::default(), Arc::<Tunnel>::default());
        let calls = Calls::default();
        let received = calls.clone();
        let call: ClientCall = Arc::new(move |method, params| {
            received.lock().unwrap().push((method, params));
            Box::pin(async { Ok(baton_protocol::Json::null()) })
        });
        edge.offer(CLIENT, call);
        let relays = Arc::new(Mutex::new(Some(edge.relays())));
        let offer = Arc::<Mutex<Option<EdgeOffer>>>::default();
        let (link, back) = (relays.clone(), offer.clone());
        let over_the_link: ClientCall = Arc::new(move |method, params| {
            let (request, back) = (params["requestId"].as_str().unwrap().to_owned(), back.clone());
            let deliver = move |part: RelayedPart| {
                let offer = back.lock().unwrap();
                offer.as_ref().inspect(|offer| offer.take(&request, part)).is_some()
            };
            match &*link.lock().unwrap() {
                Some(relays) => relays.call(method, params, deliver),
                None => Box::pin(async { Err(CallFailed::Gone) }),
            }
        });
        *offer.lock().unwrap() = Some(owner.offer_for(&session(), over_the_link));
        Self { owner, edge, offer, relays, calls }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        self.owner.anonymous_transport(Some(&session())).unwrap()
    }

    /// Waits until the client has received a number of calls. Returns the id of the last request, and its parameters.
    async fn call(&self, number: usize) -> (String, Value) {
        loop {
            if let Some((_, params)) = self.calls.lock().unwrap().get(number - 1) {
                return (params["requestId"].as_str().unwrap().to_owned(), params.clone());
            }
            tokio::task::yield_now().await;
        }
    }
}

fn request() -> HttpRequest {
    let url = Url::parse("https://model.example/v1").unwrap();
    HttpRequest { method: Method::Post, url, headers: Vec::new(), body: "ask".into() }
}

#[tokio::test]
async fn response_crosses_both_servers() {
    let carried = Carried::new();
    assert!(carried.owner.is_open(Some(&session())) && !carried.owner.is_open(None));
    let transport = carried.transport();
    let sending = tokio::spawn(async move { transport.send(request()).await });
    let (id, body) = carried.call(2).await;
    assert_eq!((&body["data"], &body["end"]), (&json!("ask"), &json!(true)));
    let head = ResponsePart::Head { status: 200, headers: vec![("a".into(), "b".into())] };
    assert!(carried.edge.take(CLIENT, &id, head));
    let mut response = sending.await.unwrap().unwrap();
    assert_eq!((response.status, response.headers.0.len()), (200, 1));
    assert!(!carried.edge.take(ClientId(8), &id, ResponsePart::End), "another client");
    assert!(carried.edge.take(CLIENT, &id, ResponsePart::Data("text".into())));
    assert!(carried.edge.take(CLIENT, &id, ResponsePart::Data(vec![0xff].into())));
    assert!(carried.edge.take(CLIENT, &id, ResponsePart::End));
    assert!(!carried.edge.take(CLIENT, &id, ResponsePart::End), "the response is complete");
    assert_eq!(response.body.next().await.unwrap().unwrap(), "text");
    assert_eq!(response.body.next().await.unwrap().unwrap(), vec![0xff]);
    assert!(response.body.next().await.is_none());
    assert_eq!(carried.calls.lock().unwrap().len(), 2, "nothing is cancelled");
}

#[tokio::test]
async fn dropped_request_is_cancelled_at_the_client() {
    let carried = Carried::new();
    let transport = carried.transport();
    let sending = tokio::spawn(async move { transport.send(request()).await });
    let (id, _) = carried.call(2).await;
    sending.abort();
    let (cancelled, params) = carried.call(3).await;
    assert_eq!((cancelled, &params["cancel"]), (id.clone(), &json!(true)));
    assert!(!carried.edge.take(CLIENT, &id, ResponsePart::End));
}

#[tokio::test]
async fn lost_link_cancels_at_the_client_and_fails_at_the_owner() {
    let carried = Carried::new();
    let transport = carried.transport();
    let again = transport.clone();
    let sending = tokio::spawn(async move { transport.send(request()).await });
    let (id, _) = carried.call(2).await;
    drop(carried.relays.lock().unwrap().take());
    let (cancelled, params) = carried.call(3).await;
    assert_eq!((cancelled, &params["cancel"]), (id, &json!(true)));
    drop(carried.offer.lock().unwrap().take());
    let failed = sending.await.unwrap().err();
    assert!(matches!(failed, Some(TransportError::Broken(_))));
    // Not the network, although nobody carries requests any more.
    assert!(!carried.owner.is_open(Some(&session())));
    assert!(matches!(again.send(request()).await.err(), Some(TransportError::Unreachable(_))));
}

#[tokio::test]
async fn client_that_disconnects_fails_its_requests_at_the_owner() {
    let carried = Carried::new();
    let transport = carried.transport();
    let sending = tokio::spawn(async move { transport.send(request()).await });
    carried.call(2).await;
    carried.edge.forget(CLIENT);
    let Some(TransportError::Broken(why)) = sending.await.unwrap().err() else { panic!("it has not failed") };
    assert!(why.contains("has disconnected"), "{why}");
}
