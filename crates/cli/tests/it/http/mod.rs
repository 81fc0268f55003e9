//! The HTTP door of the real program, over real sockets.

mod admission;
mod bodies;
mod crash;
mod cross_door;
mod grants;
mod limits;
mod streams;
mod tls;

use baton_testkit::http::Http;
use baton_testkit::model_server::ModelServer;
use baton_testkit::program::{Program, Running};
use serde_json::{Value, json};

use crate::scripted;

/// A server with an HTTP door and a scripted model.
struct House {
    program: Program,
    model: ModelServer,
    server: Running,
    http: Http,
}

impl House {
    async fn open() -> Self {
        Self::open_with(&[]).await
    }

    /// With more flags.
    async fn open_with(flags: &[&str]) -> Self {
        let (program, model) = scripted().await;
        let server = program.serve_http(flags).await;
        let http = Http::new(&program, &server);
        Self { program, model, server, http }
    }

    /// With this text as configuration file.
    async fn configured(config: &str) -> Self {
        let (program, model) = scripted().await;
        let file = program.work().join("config.toml");
        std::fs::write(&file, config).unwrap();
        let server = program.serve_http(&["--config", file.to_str().unwrap()]).await;
        let http = Http::new(&program, &server);
        Self { program, model, server, http }
    }

    /// The power fails, and somebody starts the server again.
    async fn kill_and_restart(&mut self) {
        self.server.kill().await;
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

    async fn usable(&self, session: &str) {
        let prompt = self.http.prompt(session, "[[text:still here]]").await;
        assert_eq!(self.http.outcome(session, &prompt).await, "completed");
    }
}
