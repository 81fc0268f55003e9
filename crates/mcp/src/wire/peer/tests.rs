//! The peer, with a transport in memory.

use std::path::PathBuf;

use tokio::sync::mpsc;

use super::*;
use crate::client::{McpClient, Notice, ServerQuestion};
use crate::log::ServerLog;

/// A client that never answers, and reports when a question is dropped.
struct Silent(mpsc::UnboundedSender<&'static str>);

struct Reported(mpsc::UnboundedSender<&'static str>);

impl Drop for Reported {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

impl McpClient for Silent {
    fn place(&self) -> crate::Working<'_, Result<baton_sandbox::Place, String>> {
        Box::pin(async { Ok(baton_sandbox::Place::Outside) })
    }

    fn notice(&self, _: &str, _: Notice) {
        let _ = self.0.send("notice");
    }

    fn answer(&self, _: &str, _: ServerQuestion) -> Working<'_, Result<Value, String>> {
        let _ = self.0.send("asked");
        let reported = Reported(self.0.clone());
        Box::pin(async move {
            let _reported = reported;
            std::future::pending().await
        })
    }
}

/// Sends into a channel, which holds as many messages as the server reads.
struct Sent(mpsc::Sender<Message>);

impl Outlet for Sent {
    fn send(&self, message: Message) -> Working<'static, Result<(), Failure>> {
        let sender = self.0.clone();
        Box::pin(async move { sender.send(message).await.map_err(|_| Failure::NotSent("no reader".into())) })
    }

    fn close(&self) -> Working<'_, ()> {
        Box::pin(async {})
    }
}

struct Received(mpsc::Receiver<Message>);

impl Inlet for Received {
    fn next(&mut self) -> Working<'_, Option<Message>> {
        Box::pin(self.0.recv())
    }
}

/// A peer, and the server's side of it.
struct World {
    peer: Peer,
    server: mpsc::Sender<Message>,
    sent: mpsc::Receiver<Message>,
    events: mpsc::UnboundedReceiver<&'static str>,
    tasks: TaskTracker,
}

impl World {
    fn new(reads: usize) -> Self {
        let (sender, sent) = mpsc::channel(reads);
        let (server, received) = mpsc::channel(1);
        let (note, events) = mpsc::unbounded_channel();
        let tasks = TaskTracker::new();
        let (log, root) = (ServerLog::default(), PathBuf::from("/"));
        let handler = Handler::new("s".into(), Arc::new(Silent(note)), log, root, Arc::new(|| {}));
        let (outlet, inlet) = (Box::new(Sent(sender)), Box::new(Received(received)));
        let peer = Peer::start(outlet, inlet, Arc::new(handler), &tasks);
        Self { peer, server, sent, events, tasks }
    }

    /// Creates a peer whose first request was answered.
    async fn ready() -> Self {
        let mut world = Self::new(100);
        let mut first = world.peer.plain_request("initialize", Value::Null);
        world.sent.recv().await.unwrap();
        world.respond(json!(first.id), json!({})).await;
        first.response().await.unwrap();
        world
    }

    async fn respond(&self, id: Value, result: Value) {
        self.server.send(Message::Response { id, result: Ok(result) }).await.unwrap();
    }

    async fn ask(&self, id: Value, method: &str, params: Value) {
        self.server.send(Message::Request { id, method: method.into(), params }).await.unwrap();
    }

    async fn notify(&self, method: &str, params: Value) {
        self.server.send(Message::Notification { method: method.into(), params }).await.unwrap();
    }

    fn request(&self, method: &str) -> Waiting {
        self.peer.request(method, Map::new(), None)
    }
}

fn form() -> Value {
    json!({ "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } })
}

#[tokio::test]
async fn responses_find_their_requests_in_any_order() {
    let world = World::ready().await;
    let (mut first, mut second) = (world.request("a"), world.request("b"));
    world.respond(json!(1000), json!("of no request")).await;
    world.respond(json!("x"), json!("of no request")).await;
    world.respond(json!(second.id.to_string()), json!(2)).await;
    world.respond(json!(second.id), json!("too late")).await;
    world.respond(json!(first.id), json!(1)).await;
    assert_eq!((first.response().await, second.response().await), (Ok(json!(1)), Ok(json!(2))));
}

#[tokio::test]
async fn request_carries_its_metadata_and_a_progress_token() {
    let mut world = World::ready().await;
    world.peer.agree("v", Some(Map::from_iter([("v".to_owned(), json!(1)), ("w".to_owned(), json!(1))])));
    let params = json!({ "x": 1, "_meta": { "w": 2, "progressToken": "forged" } });
    let request = world.peer.request("a", params.as_object().unwrap().clone(), None);
    let expected = json!({ "x": 1, "_meta": { "v": 1, "w": 2, "progressToken": request.id } });
    let sent = world.sent.recv().await.unwrap();
    assert_eq!(sent, Message::Request { id: json!(request.id), method: "a".into(), params: expected });
}

#[tokio::test]
async fn progress_goes_to_its_own_request_only() {
    let world = World::ready().await;
    let (note, mut seen) = mpsc::unbounded_channel();
    let observer: Observer = Arc::new(move |progress: Progress| note.send(progress).unwrap());
    let request = world.peer.request("a", Map::new(), Some(observer));
    let mut other = world.request("b");
    for (token, progress) in
        [(json!(other.id), json!(1)), (json!(999), json!(2)), (json!(request.id), json!("x"))]
    {
        world.notify("notifications/progress", json!({ "progressToken": token, "progress": progress })).await;
    }
    let own = json!({ "progressToken": request.id, "progress": 3, "total": 4, "message": "a\u{1b}b" });
    world.notify("notifications/progress", own).await;
    let expected = Progress { progress: 3.0, total: Some(4.0), message: Some("ab".into()) };
    assert_eq!(seen.recv().await, Some(expected));
    drop(request);
    world.notify("notifications/progress", json!({ "progressToken": 2, "progress": 5 })).await;
    world.respond(json!(other.id), json!({})).await;
    other.response().await.unwrap();
    assert!(seen.try_recv().is_err(), "a request that was dropped has no progress");
}

#[tokio::test]
async fn only_a_ping_is_answered_before_the_first_response() {
    let mut world = World::new(100);
    world.notify("notifications/tools/list_changed", Value::Null).await;
    world.ask(json!("é-1"), "ping", Value::Null).await;
    let pong = Message::Response { id: json!("é-1"), result: Ok(json!({})) };
    assert_eq!(world.sent.recv().await, Some(pong));
    world.ask(json!(0), "elicitation/create", form()).await;
    let Some(Message::Response { result: Err(Failure::Refused { code, .. }), .. }) = world.sent.recv().await
    else {
        panic!("not refused")
    };
    assert_eq!(code, INVALID_REQUEST);
    assert!(world.events.try_recv().is_err(), "nobody was asked or told");
}

#[tokio::test]
async fn unknown_methods_and_odd_parameters_are_refused() {
    let mut world = World::ready().await;
    for (method, expected) in
        [("a/b", -32601), ("elicitation/create", -32602), ("sampling/createMessage", -32602)]
    {
        world.ask(json!(1.5), method, json!({ "message": 7 })).await;
        match world.sent.recv().await {
            Some(Message::Response { id, result: Err(Failure::Refused { code, .. }) }) => {
                assert_eq!((id, code), (json!(1.5), expected));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn question_that_the_server_cancels_is_dropped_and_not_answered() {
    let mut world = World::ready().await;
    world.ask(json!("q"), "elicitation/create", form()).await;
    assert_eq!(world.events.recv().await, Some("asked"));
    world.notify("notifications/cancelled", json!({ "requestId": "other" })).await;
    world.notify("notifications/cancelled", json!({ "requestId": "q" })).await;
    assert_eq!(world.events.recv().await, Some("dropped"));
    world.ask(json!("p"), "ping", Value::Null).await;
    let pong = Message::Response { id: json!("p"), result: Ok(json!({})) };
    assert_eq!(world.sent.recv().await, Some(pong), "the first answer is that of the ping");
}

#[tokio::test]
async fn question_without_a_handshake_needs_a_running_request() {
    let mut world = World::ready().await;
    world.peer.agree("v", Some(Map::new()));
    world.ask(json!(1), "roots/list", Value::Null).await;
    let refused = world.sent.recv().await;
    assert!(matches!(refused, Some(Message::Response { result: Err(_), .. })), "{refused:?}");
    let _running = world.request("a");
    world.sent.recv().await.unwrap();
    world.ask(json!(1), "roots/list", Value::Null).await;
    let answered = world.sent.recv().await;
    assert!(matches!(answered, Some(Message::Response { result: Ok(_), .. })), "{answered:?}");
}

#[tokio::test]
async fn end_of_the_connection_fails_all_requests_and_ends_all_tasks() {
    let mut world = World::ready().await;
    let (mut first, mut second) = (world.request("a"), world.request("b"));
    world.ask(json!("q"), "elicitation/create", form()).await;
    assert_eq!(world.events.recv().await, Some("asked"));
    drop(world.server);
    assert_eq!(first.response().await, Err(Failure::Closed));
    assert_eq!(second.response().await, Err(Failure::Closed));
    assert_eq!(world.events.recv().await, Some("dropped"));
    world.peer.over().cancelled().await;
    assert_eq!(world.peer.request("c", Map::new(), None).response().await, Err(Failure::Closed));
    world.tasks.close();
    world.tasks.wait().await;
}

#[tokio::test]
async fn dropped_peer_ends_its_tasks() {
    // A server that reads nothing: the messages stay on their way.
    let World { peer, server, sent, tasks, .. } = World::new(1);
    let mut requests: Vec<Waiting> = (0..10).map(|_| peer.request("a", Map::new(), None)).collect();
    drop(peer);
    assert_eq!(requests[9].response().await, Err(Failure::Closed));
    tasks.close();
    tasks.wait().await;
    drop((server, sent));
}

#[tokio::test]
async fn message_that_is_not_sent_fails_its_request() {
    let World { peer, sent, server, .. } = World::ready().await;
    drop(sent);
    let failed = peer.request("a", Map::new(), None).response().await;
    assert_eq!(failed, Err(Failure::NotSent("no reader".into())));
    assert!(!server.is_closed(), "the connection stays");
    assert_eq!(peer.notify("n", Value::Null).await, Err(Failure::NotSent("no reader".into())));
}

#[tokio::test]
async fn server_that_reads_nothing_gets_a_bounded_number_of_messages() {
    let world = World::new(1);
    let mut requests: Vec<Waiting> = (0..=SENDING).map(|_| world.request("a")).collect();
    let refused = requests[SENDING].response().await;
    assert!(matches!(refused, Err(Failure::NotSent(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn server_that_asks_and_does_not_read_is_read_no_further() {
    let world = World::new(1);
    let flood = async {
        for id in 0..10 * ANSWERING {
            world.ask(json!(id), "ping", Value::Null).await;
        }
    };
    assert!(timeout(TELLING / 2, flood).await.is_err(), "reading pauses");
    assert!(lock(&world.peer.core.questions).len() <= ANSWERING);
}

#[tokio::test(start_paused = true)]
async fn request_that_was_answered_is_not_sent_forever() {
    let world = World::new(1);
    let idle = || world.peer.core.sending.available_permits() == SENDING;
    let _fills_the_channel = world.request("m");
    let mut answered = world.request("m");
    let dropped = world.request("m");
    tokio::task::yield_now().await;
    world.respond(json!(answered.id), json!({})).await;
    answered.response().await.unwrap();
    drop(dropped);
    assert!(!idle(), "the server may still receive them");
    tokio::time::sleep(2 * TELLING).await;
    assert!(idle());
}
