//! A host with one server, and the notices that it sent.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_mcp::{
    Declared, Host, HostOptions, Http, HttpError, HttpRequest, HttpResponse, McpClient, Method, Notice,
    Origin, Pool, Progress, Server, ServerCall, ServerQuestion, ServerStatus, ToolCallError, Working, merge,
};
use baton_model::http::{self, HttpClient, Transport};
use baton_process::Ledger;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) const NAME: &str = "odd";
/// Time after which a test fails, instead of waiting forever.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The session: records notices, and accepts every form.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) notices: watch::Sender<Vec<Notice>>,
    pub(crate) questions: Mutex<Vec<ServerQuestion>>,
}

impl McpClient for Session {
    fn place(&self) -> baton_mcp::Working<'_, Result<baton_sandbox::Place, String>> {
        Box::pin(async { Ok(baton_sandbox::Place::Outside) })
    }

    fn notice(&self, server: &str, notice: Notice) {
        assert_eq!(server, NAME);
        self.notices.send_modify(|notices| notices.push(notice));
    }

    fn answer(&self, _: &str, question: ServerQuestion) -> Working<'_, Result<Value, String>> {
        self.questions.lock().unwrap().push(question);
        Box::pin(async { Ok(json!({ "action": "accept", "content": { "name": "Ada" } })) })
    }

    fn elicits(&self) -> bool {
        true
    }
}

/// The HTTP client of the model layer, as the runtime uses it.
#[derive(Default)]
struct Network(HttpClient);

impl Http for Network {
    fn send(&self, request: HttpRequest) -> Working<'_, Result<HttpResponse, HttpError>> {
        Box::pin(async move {
            let method = match request.method {
                Method::Get => http::Method::Get,
                Method::Post => http::Method::Post,
                Method::Delete => http::Method::Delete,
            };
            let url = http::Url::parse(request.url.as_str()).unwrap();
            let request = http::HttpRequest { method, url, headers: request.headers, body: request.body };
            let response = self.0.send(request).await.map_err(|error| HttpError(error.to_string()))?;
            let body = response.body.map(|chunk| chunk.map_err(|error| HttpError(error.to_string())));
            Ok(HttpResponse { status: response.status, headers: response.headers.0, body: Box::pin(body) })
        })
    }
}

pub(crate) struct World {
    pub(crate) host: Host,
    pub(crate) session: Arc<Session>,
    pub(crate) ledger: Ledger,
    pub(crate) tasks: TaskTracker,
}

impl World {
    /// Creates a host with the odd server in a mode.
    pub(crate) fn odd(mode: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/odd_server.py");
        Self::with(
            json!({ "command": "python3", "args": [script, mode], "env": { "GREETING": "${HELLO}!" } }),
        )
    }

    pub(crate) fn with(config: Value) -> Self {
        Self::sharing(config, Arc::default(), Ledger::default())
    }

    /// Creates a host that shares servers with others.
    pub(crate) fn sharing(config: Value, pool: Arc<Pool>, ledger: Ledger) -> Self {
        let session = Arc::new(Session::default());
        let tasks = TaskTracker::new();
        let options = HostOptions {
            client: session.clone(),
            http: Arc::new(Network::default()),
            ledger: ledger.clone(),
            tasks: tasks.clone(),
            environment: vec![
                ("PATH".into(), std::env::var_os("PATH").unwrap()),
                ("HELLO".into(), "hi".into()),
            ],
            cwd: std::env::temp_dir(),
            session: "the-session".into(),
            pool,
            tag: format!("{}/", uuid()),
        };
        let servers = merge([Declared::parse(NAME, &config, Origin::Session)]);
        let host = Host::new(options, servers, BTreeSet::new());
        Self { host, session, ledger, tasks }
    }

    /// Starts the server and returns its status when it has settled.
    pub(crate) async fn started(&self) -> ServerStatus {
        self.host.start();
        self.host.settle().await;
        self.server().status()
    }

    pub(crate) fn server(&self) -> Arc<Server> {
        self.host.server(NAME).unwrap()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, ToolCallError> {
        self.server().call(call(tool, arguments)).await
    }

    /// Waits for a notice.
    pub(crate) async fn noticed(&self, notice: impl Fn(&Notice) -> bool) {
        let mut notices = self.session.notices.subscribe();
        notices.wait_for(|notices| notices.iter().any(&notice)).await.unwrap();
    }
}

pub(crate) fn call(tool: &str, arguments: Value) -> ServerCall {
    ServerCall {
        tool: tool.into(),
        approved: None,
        arguments: arguments.as_object().unwrap().clone(),
        meta: None,
        patience: Duration::from_secs(60),
        cancel: CancellationToken::new(),
        progress: Arc::new(|_: Progress| {}),
    }
}

fn uuid() -> String {
    format!("{}-{:?}", std::process::id(), std::thread::current().id())
}
