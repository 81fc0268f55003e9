//! The owner's side: gives an edge the session as if it were there.
//!
//! Each edge has one tap, a port that receives every event once, however many clients the edge has. Each client of the edge
//! has a port of its own, too, which carries calls to it and marks where its events begin. The tap's id precedes those of
//! its clients, so that the hub serves it first: at the edge, a batch that is marked for a client has already been
//! delivered to the earlier ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use baton_protocol::{ClientId, Json, SessionId};
use baton_providers::{CallFailed, Calling, ClientCall, EdgeOffer, Tunnel};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::{CallRefused, EdgeLink, FromOwner, RemoteEvent, ToOwner};
use crate::{ActorMessage, Batch, Failure, Handle, Port, Residence, Responder, vanish};

type ToEdge = mpsc::UnboundedSender<FromOwner>;

/// The session, tasks and tunnel with which an edge is served.
pub struct Service {
    /// The session.
    pub handle: Handle,
    /// Tracks asks that have no reply yet.
    pub tasks: TaskTracker,
    /// The tunnel of this server, for edges that carry model requests.
    pub tunnel: Arc<Tunnel>,
}

/// Serves an edge of a session until its link is lost or the session is not here any more. `tap` is an id that precedes
/// those of all clients of the edge.
pub async fn serve(service: Service, tap: ClientId, link: EdgeLink) {
    let Service { handle, tasks, tunnel } = service;
    let EdgeLink { to_edge, mut from_edge } = link;
    let mut residence = handle.hub.residence();
    let found = residence.wait_for(|residence| *residence != Residence::Unknown).await.map(|found| *found);
    match found {
        Ok(Residence::Here) => {}
        Ok(Residence::Elsewhere) => return drop(to_edge.send(FromOwner::Refused { failure: None })),
        _ => return drop(to_edge.send(FromOwner::Refused { failure: Some(handle.hub.gone()) })),
    }
    let hub = handle.hub.clone();
    let port: Arc<dyn Port> = Arc::new(Tap(to_edge.clone()));
    hub.attach_tap(tap, port.clone(), |head, last_public| {
        drop(to_edge.send(FromOwner::Opened { head, last_public }));
    });
    let mut edge =
        Edge { handle, to_edge, clients: BTreeMap::new(), calls: Arc::default(), tasks, tunnel, offer: None };
    loop {
        tokio::select! {
            message = from_edge.recv() => match message {
                Some(message) => edge.take(message),
                // The clients of a lost edge rejoin through another link, or have left.
                None => break edge.leave_all(),
            },
            changed = residence.changed() => {
                let now = *residence.borrow_and_update();
                if changed.is_err() || now != Residence::Here {
                    drop(edge.to_edge.send(FromOwner::Ended { closed: now == Residence::Closed }));
                    break;
                }
            }
        }
    }
    // The edge may have opened another link meanwhile.
    hub.detach_port(tap, &port);
}

/// An edge of a session.
struct Edge {
    tasks: TaskTracker,
    handle: Handle,
    to_edge: ToEdge,
    clients: BTreeMap<ClientId, Arc<dyn Port>>,
    calls: Arc<Calls>,
    tunnel: Arc<Tunnel>,
    /// Set while the edge carries model requests.
    offer: Option<EdgeOffer>,
}

/// Calls to clients of an edge that have no result yet.
#[derive(Default)]
struct Calls {
    last: AtomicU64,
    pending: Mutex<HashMap<u64, oneshot::Sender<Result<Json, CallRefused>>>>,
}

impl Calls {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Result<Json, CallRefused>>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call at once, and returns its result.
    fn send(&self, to_edge: &ToEdge, call: impl FnOnce(u64) -> FromOwner) -> Calling {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(id, sender);
        let sent = to_edge.send(call(id));
        Box::pin(async move {
            if sent.is_err() {
                return Err(CallFailed::Gone);
            }
            receiver.await.unwrap_or(Err(CallRefused::Gone)).map_err(CallFailed::from)
        })
    }
}

impl Edge {
    fn take(&mut self, message: ToOwner) {
        match message {
            ToOwner::Ask { id, ask } => {
                let to_edge = self.to_edge.clone();
                let responder = Responder::new(&self.handle.id, move |reply| {
                    drop(to_edge.send(FromOwner::Reply { id, result: reply.map(Box::new) }));
                });
                // A responder that is dropped replies, too.
                drop(self.send(ActorMessage::Ask(*ask, responder)));
            }
            ToOwner::Join { id, joining } => {
                let client = joining.client;
                let (to_edge, calls) = (self.to_edge.clone(), self.calls.clone());
                let port: Arc<dyn Port> =
                    Arc::new(EdgePort { client, to_edge, calls, marked: AtomicBool::new(false) });
                // Sent at once: what the edge asks next must find the client attached.
                let (sender, receiver) = oneshot::channel();
                self.clients.insert(client, port.clone());
                let sent = self.send(ActorMessage::Join(joining, port, sender));
                let (hub, to_edge) = (self.handle.hub.clone(), self.to_edge.clone());
                self.tasks.spawn(async move {
                    let result = match sent {
                        Ok(()) => receiver.await.unwrap_or_else(|_| Err(hub.gone())),
                        Err(failure) => Err(failure),
                    };
                    drop(to_edge.send(FromOwner::Joined { id, result }));
                });
            }
            ToOwner::Leave { client } => {
                if let Some(port) = self.clients.remove(&client) {
                    drop(self.handle.send(ActorMessage::Unlink(client, port)));
                }
            }
            ToOwner::Called { id, result } => {
                if let Some(waiting) = self.calls.lock().remove(&id) {
                    drop(waiting.send(result));
                }
            }
            ToOwner::Carry {} => {
                let (calls, to_edge) = (self.calls.clone(), self.to_edge.clone());
                let call: ClientCall = Arc::new(move |method, params| {
                    let method = method.to_owned();
                    calls.send(&to_edge, |id| FromOwner::CallCarrier { id, method, params })
                });
                self.offer = Some(self.tunnel.offer_for(&self.handle.id, call));
            }
            ToOwner::Carried { request, part } => {
                if let Some(offer) = &self.offer {
                    offer.take(&request, part);
                }
            }
            ToOwner::Vanish { id } => {
                let (handle, to_edge) = (self.handle.clone(), self.to_edge.clone());
                self.tasks.spawn(async move {
                    vanish(&handle).await;
                    drop(to_edge.send(FromOwner::Vanished { id }));
                });
            }
        }
    }

    fn leave_all(&mut self) {
        self.calls.lock().clear();
        for (client, port) in std::mem::take(&mut self.clients) {
            drop(self.handle.send(ActorMessage::Unlink(client, port)));
        }
    }

    fn send(&self, message: ActorMessage) -> Result<(), Failure> {
        self.handle.send(ActorMessage::Relayed(Box::new(message)))
    }
}

/// Port that receives all events for an edge.
struct Tap(ToEdge);

impl Port for Tap {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        drop(self.0.send(FromOwner::Events(RemoteEvent::all(events))));
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

/// Port of one client of an edge.
struct EdgePort {
    client: ClientId,
    to_edge: ToEdge,
    calls: Arc<Calls>,
    /// Whether the edge was told where the client's events begin.
    marked: AtomicBool,
}

impl Port for EdgePort {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        if !self.marked.swap(true, Ordering::AcqRel) {
            let events = RemoteEvent::all(events);
            drop(self.to_edge.send(FromOwner::Attached { client: self.client, events }));
        }
    }

    fn call(&self, method: &'static str, params: serde_json::Value) -> Calling {
        let (client, method) = (self.client, method.to_owned());
        self.calls.send(&self.to_edge, |id| FromOwner::Call { id, client, method, params })
    }
}
