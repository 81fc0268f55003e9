//! The HTTP API of the program, over sockets.

mod admission;
mod bodies;
mod crash;
mod grants;
mod interactive;
mod limits;
mod operations;
mod outcomes;
mod people;
mod providers;
mod sandbox;
mod streams;
mod tls;
mod with_sdk;

use baton_testkit::http::Http;
use baton_testkit::model_server::ModelServer;
use baton_testkit::program::{Program, Running};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scripted;

/// A server with an HTTP listener and a scripted model.
struct TestServer {
    program: Program,
    model: ModelServer,
    server: Running,
    http: Http,
}

impl TestServer {
    async fn start() -> Self {
        Self::with_flags(&[]).await
    }

    /// Starts with further flags.
    async fn with_flags(flags: &[&str]) -> Self {
        let (program, model) = scripted().await;
        let server = program.serve_http(flags).await;
        let http = Http::new(&program, &server);
        Self { program, model, server, http }
    }

    /// Starts with this configuration file.
    async fn with_config(config: &str) -> Self {
        let (program, model) = scripted().await;
        let file = program.work().join("config.toml");
        std::fs::write(&file, config).unwrap();
        let server = program.serve_http(&["--config", file.to_str().unwrap()]).await;
        let http = Http::new(&program, &server);
        Self { program, model, server, http }
    }

    /// Kills the server, and starts it again.
    async fn kill_and_restart(&mut self) {
        self.server.kill().await;
        self.restart().await;
    }

    /// Stops the server as a service manager does, and starts it again.
    async fn stop_and_restart(&mut self) {
        self.server.signal(Signal::TERM);
        assert!(self.server.ended().await.success());
        self.restart().await;
    }

    async fn restart(&mut self) {
        self.server = self.program.serve_http(&[]).await;
        self.http = Http::new(&self.program, &self.server);
    }

    /// The whole history of a session, page by page.
    async fn history(&self, session: &str) -> Vec<(u64, Value)> {
        let (mut events, mut after) = (Vec::new(), 0);
        loop {
            let path = format!("/api/sessions/{session}/events?after={after}&limit=7");
            let page = self.http.get(&path).await.expect(200);
            let numbered = page["events"].as_array().unwrap().iter();
            events.extend(numbered.map(|entry| (entry["seq"].as_u64().unwrap(), entry["event"].clone())));
            after = page["next"].as_u64().unwrap();
            if page["hasMore"] == json!(false) {
                return events;
            }
        }
    }

    /// Fails if the session cannot complete a prompt.
    async fn assert_usable(&self, session: &str) {
        let prompt = self.http.prompt(session, "[[text:still here]]").await;
        assert_eq!(self.http.outcome(session, &prompt).await, "completed");
    }
}
