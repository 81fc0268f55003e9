//! Test environment for tools: a temporary directory, and services that reach nothing outside it.

use std::path::Path;
use std::sync::Arc;

use baton_process::Ledger;
use baton_protocol::Json;
use baton_protocol::sandbox::{SandboxChoice, SandboxLevel, SandboxPolicy};
use baton_protocol::tool::ToolResult;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::shell::{CommandEnvironment, ShellSettings, Shells};
use super::sql::SessionDatabase;
use super::web::{Fetch, NoNetwork, PrivateHosts};
use super::{NamedPaths, Prepared, Services, Tool, ToolContext};

pub(crate) struct Bench {
    pub(crate) context: ToolContext,
    pub(crate) ledger: Ledger,
    // Last, so that it is removed after everything that may write to it.
    _dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_web(Arc::new(NoNetwork))
    }

    pub(crate) fn with_web(web: Arc<dyn Fetch>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (cwd, session_dir) = (root.join("work"), root.join("session"));
        std::fs::create_dir(&cwd).unwrap();
        std::fs::create_dir(&session_dir).unwrap();
        let ledger = Ledger::default();
        let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        let environment = CommandEnvironment::of_shells([path]);
        let settings = ShellSettings { environment, ledger: ledger.clone(), tasks: TaskTracker::new() };
        let services = Services {
            shells: Shells::new(settings),
            database: SessionDatabase::new(session_dir.join("session.db"), None, Arc::new(|| {})),
            web,
            paths: NamedPaths::default(),
            private_hosts: PrivateHosts::default(),
            enclosure: None,
        };
        let context = ToolContext {
            cwd,
            session_dir,
            home: None,
            exact_pages: false,
            services: Arc::new(services),
            sandbox: SandboxChoice { policy: SandboxPolicy::of(SandboxLevel::Off), chosen: false },
            placed: None,
            call: "call-1".into(),
            cancel: CancellationToken::new(),
            progress: Arc::new(|_| {}),
        };
        Self { context, ledger, _dir: dir }
    }

    pub(crate) fn path(&self, relative: &str) -> String {
        self.context.cwd.join(relative.trim_end_matches('/')).display().to_string()
    }

    pub(crate) fn write(&self, relative: &str, text: &str) -> String {
        let path = self.path(relative);
        std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) async fn prepare(&self, tool: &dyn Tool, arguments: Value) -> Prepared {
        tool.prepare(&self.context, &Json::from(arguments)).await
    }

    pub(crate) async fn run(&self, tool: &dyn Tool, arguments: Value) -> ToolResult {
        tool.run(&self.context, &Json::from(arguments)).await
    }
}
