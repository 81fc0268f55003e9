//! A port for browsers that return from logins, for a server that has no HTTP port. It is opened on this machine only, when
//! the first login needs it. Every other path needs a token, and nobody has one.

use std::net::Ipv4Addr;
use std::sync::{Arc, Weak};

use anyhow::Context;
use baton_http::{HttpDoor, HttpListener, HttpOptions};
use baton_protocol::SessionId;
use baton_runtime::Runtime;
use baton_service::Service;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

/// Lets logins open the port.
pub(crate) fn offer(runtime: &Arc<Runtime>) {
    let (weak, opened) = (Arc::downgrade(runtime), Arc::new(Mutex::new(None::<String>)));
    runtime.addons.logins.set_landing(Arc::new(move || {
        let (weak, opened) = (weak.clone(), opened.clone());
        Box::pin(async move {
            let mut opened = opened.lock().await;
            if opened.is_none() {
                *opened = open(&weak).await;
            }
            opened.clone()
        })
    }));
}

async fn open(runtime: &Weak<Runtime>) -> Option<String> {
    open_at(&runtime.upgrade()?, 0).await.ok()
}

/// Opens a port, any free one for 0. Returns the address for browsers.
pub(crate) async fn open_at(runtime: &Arc<Runtime>, port: u16) -> anyhow::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.with_context(|| format!("cannot open the port {port} for the browser"))?;
    let port = listener.local_addr()?.port();
    let token = Some(format!("{}{}", SessionId::random(), SessionId::random()));
    let options = HttpOptions { token, max_connections: 16, max_streams: 0, ..HttpOptions::default() };
    let door = HttpDoor::new(&Service::new(runtime), options);
    let tasks = runtime.tasks.clone();
    tasks.spawn(async move { door.serve(HttpListener::Tcp(listener)).await });
    Ok(format!("http://127.0.0.1:{port}/oauth/callback"))
}
