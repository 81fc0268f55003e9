//! A proxy whose gate and resolver are scripted, servers, and a client that sends what a test says.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_egress::{Admission, Gate, Lookup, Proxy, ProxyOptions, Target};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Decides by the prefix of the host's name: `public`, `denied`, `slow`. All others may be private.
#[derive(Default)]
pub(crate) struct ByName {
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) reached: Mutex<Vec<String>>,
}

impl Gate for ByName {
    fn admit<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Admission> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(target.url());
            match target.host.to_string() {
                host if host.starts_with("public") => Admission::Public,
                host if host.starts_with("denied") => {
                    Admission::Denied { reason: "a rule denies it.".into() }
                }
                host if host.starts_with("slow") => std::future::pending().await,
                _ => Admission::AlsoPrivate,
            }
        })
    }

    fn reached(&self, target: &Target) {
        self.reached.lock().unwrap().push(target.to_string());
    }
}

/// Answers each name with the next of its scripted answers, then with its last one; other names are this machine.
#[derive(Default)]
pub(crate) struct Script(pub(crate) Mutex<HashMap<&'static str, Vec<Vec<IpAddr>>>>);

impl Script {
    pub(crate) fn of(name: &'static str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|answer| answer.iter().map(|at| at.parse().unwrap()).collect());
        Self(Mutex::new(HashMap::from([(name, answers.collect())])))
    }
}

impl Lookup for Script {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let mut script = self.0.lock().unwrap();
        let answer = match script.get_mut(name) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
            None => vec![[127, 0, 0, 1].into()],
        };
        Box::pin(async move { Ok(answer) })
    }
}

/// A proxy under test.
pub(crate) struct Tested {
    pub(crate) proxy: Proxy,
    pub(crate) address: SocketAddr,
    pub(crate) gate: Arc<ByName>,
}

impl Tested {
    pub(crate) fn new() -> Self {
        Self::with(ProxyOptions { lookup: Arc::new(Script::default()), ..ProxyOptions::default() })
    }

    pub(crate) fn resolving(name: &'static str, answers: &[&[&str]]) -> Self {
        let lookup = Arc::new(Script::of(name, answers));
        Self::with(ProxyOptions { lookup, ..ProxyOptions::default() })
    }

    /// With a short time limit for decisions and for heads.
    pub(crate) fn impatient() -> Self {
        Self::with(ProxyOptions {
            lookup: Arc::new(Script::default()),
            admission_time: Duration::from_millis(50),
            head_time: Duration::from_millis(50),
            ..ProxyOptions::default()
        })
    }

    pub(crate) fn with(options: ProxyOptions) -> Self {
        let gate = Arc::new(ByName::default());
        let (proxy, address) = serve(gate.clone(), options);
        Self { proxy, address, gate }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes over one connection, closes its sending half only if the proxy closes, and returns all that comes back.
    pub(crate) async fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_ref()).await.unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        String::from_utf8_lossy(&response).into_owned()
    }

    /// Sends a GET request for a URL, and returns the response.
    pub(crate) async fn get(&self, url: &str) -> String {
        self.exchange(format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
    }

    /// Opens a tunnel; the stream is after the head of the response.
    pub(crate) async fn tunnel(&self, authority: &str) -> Result<TcpStream, String> {
        let mut stream = self.connect().await;
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        if head.starts_with("HTTP/1.1 200") { Ok(stream) } else { Err(head) }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.gate.asked.lock().unwrap().clone()
    }
}

pub(crate) fn serve(gate: Arc<dyn Gate>, options: ProxyOptions) -> (Proxy, SocketAddr) {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Proxy::serve(listener, gate, options).unwrap(), address)
}

/// Reads to the end of a head, byte by byte, so that nothing after it is lost.
pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Starts a server that answers each connection with this text after a request, and passes the requests on.
pub(crate) async fn server(response: impl Into<String>) -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (requests, received) = mpsc::unbounded_channel();
    let response: Arc<str> = response.into().into();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (requests, response) = (requests.clone(), response.clone());
            tokio::spawn(async move {
                let head = read_head(&mut stream).await;
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                stream.read_exact(&mut body).await.unwrap();
                drop(requests.send(head + &String::from_utf8_lossy(&body)));
                drop(stream.write_all(response.as_bytes()).await);
            });
        }
    });
    (port, received)
}

/// A response with a text.
pub(crate) fn ok(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len())
}
