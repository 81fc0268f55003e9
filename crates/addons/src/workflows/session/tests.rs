//! Tests of workflows in a session whose clients never answer.

use baton_core::ask::{CloseLogin, Elicit, Elicited, RequestLogin, Sample};
use baton_protocol::RequestId;
use baton_providers::{CallFailed, Calling, Clients};

use super::*;
use crate::Awaited;

/// A session whose clients never answer.
#[derive(Default)]
struct SilentSession {
    shown: Mutex<Vec<String>>,
    calls: Mutex<Vec<(ClientId, &'static str, Value)>>,
}

impl Clients for SilentSession {
    fn call(&self, client: ClientId, method: &'static str, params: Value) -> Calling {
        self.calls.lock().unwrap().push((client, method, params));
        Box::pin(std::future::pending::<Result<Json, CallFailed>>())
    }
}

impl SessionPort for SilentSession {
    fn show(&self, event: Body) {
        self.shown.lock().unwrap().push(event.kind().to_owned());
    }

    fn place(&self) -> Awaited<Result<baton_sandbox::Place, String>> {
        Box::pin(std::future::pending())
    }

    fn elicit(&self, _: Elicit) -> Awaited<Result<Elicited, String>> {
        Box::pin(std::future::pending())
    }

    fn sample(&self, _: Sample) -> Awaited<Result<Option<Json>, String>> {
        Box::pin(std::future::pending())
    }

    fn withdraw(&self, _: String) {}

    fn request_login(&self, _: RequestLogin) -> Awaited<Result<RequestId, String>> {
        Box::pin(std::future::pending())
    }

    fn close_login(&self, _: CloseLogin) -> Awaited<bool> {
        Box::pin(std::future::pending())
    }
}

/// Opens the session as a server does.
fn open(directory: &std::path::Path) -> (Arc<SilentSession>, Arc<SessionWorkflows>) {
    let port = Arc::new(SilentSession::default());
    let runs = Workflows::new(directory, Arc::new(|| Box::pin(async { Ok(()) })));
    let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
    let session = "s1".parse().unwrap();
    (port.clone(), SessionWorkflows::new(session, port, runs, tasks, &stopping))
}

fn declared() -> SessionParams {
    let definition = Definition { name: "endless".into(), ..Definition::default() };
    SessionParams { factories: Some(vec![definition]), ..SessionParams::default() }
}

async fn start(workflows: &Arc<SessionWorkflows>) -> Result<RunOutcome, WorkflowError> {
    let (args, limits) = (json!({}), Limits::default());
    workflows.start(StartRun { name: "endless".into(), args, limits, events: Vocabulary::Factory }).await
}

#[tokio::test]
async fn next_owner_settles_what_the_dead_one_executed_and_stops_its_client() {
    let directory = tempfile::tempdir().unwrap();
    let client = ClientId(7);
    let (_, first) = open(directory.path());
    first.join(client, &declared());
    let run = start(&first).await.unwrap().run_id;

    let (port, next) = open(directory.path());
    next.recover().await;
    assert!(port.shown.lock().unwrap().is_empty(), "nobody is attached yet");
    next.join(ClientId(8), &SessionParams::default());
    assert!(port.calls.lock().unwrap().is_empty(), "another client");
    next.join(client, &declared());
    let calls = port.calls.lock().unwrap().clone();
    assert_eq!((calls[0].0, calls[0].1, &calls[0].2["runId"]), (client, "factory.abort", &json!(run)));
    next.show_interrupted().await;
    assert_eq!(*port.shown.lock().unwrap(), ["factory.run_settled", "factory.run_updated"]);
    let read = next.read(&run).await.unwrap().outcome();
    assert_eq!((read.status, read.end.reason.as_deref()), (RunStatus::Halted, Some("it was interrupted")));

    // A run that has changed since is not shown as interrupted.
    next.resume(&run, Limits::default(), Vocabulary::Factory).await.unwrap();
    assert_eq!(next.interrupted().await, []);
}

#[tokio::test]
async fn run_is_not_interrupted_while_it_executes() {
    let directory = tempfile::tempdir().unwrap();
    let (_, workflows) = open(directory.path());
    workflows.join(ClientId(7), &declared());
    let run = start(&workflows).await.unwrap().run_id;
    let listed = workflows.list(5).await.unwrap().runs;
    assert_eq!((&listed[0].run_id, listed[0].status), (&run, RunStatus::Running));
}

#[tokio::test]
async fn runs_that_execute_at_a_time_are_limited() {
    let directory = tempfile::tempdir().unwrap();
    let (_, workflows) = open(directory.path());
    workflows.join(ClientId(7), &declared());
    for _ in 0..MOST_EXECUTING {
        start(&workflows).await.unwrap();
    }
    let error = start(&workflows).await.unwrap_err();
    assert_eq!(error.code.as_deref(), Some("factory_already_running"));
}
