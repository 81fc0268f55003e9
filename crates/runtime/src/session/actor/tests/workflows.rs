//! Workflows of clients that are connected to another server.

use baton_ask::Ask;
use baton_ask::workflows::{
    CancelRun, GetRun, RecallStep, RecordStep, ResumeRun, RunOutcome, RunStatus, StartRun, WorkflowError,
};
use baton_core::Profile;
use baton_protocol::Json;
use baton_protocol::workflow::{Definition, Limits, Vocabulary};
use serde_json::{Value, json};

use super::links::{CLIENT, link};
use super::world::{Client, World, joining, noted};
use crate::session::remote::{FromOwner, Link, ToOwner};
use crate::session::{Handle, JoinKind};

/// Links another server, with a client that joins and declares the workflow `double`.
async fn declaring(world: &World) -> Link {
    let link = link(world).await;
    let mut params = world.params();
    params.workflows = Some(vec![Definition { name: "double".into(), ..Definition::default() }]);
    let joining = Box::new(joining(CLIENT, Profile::default(), params, JoinKind::Resume));
    link.to_owner.send(ToOwner::Join { id: 1, joining }).unwrap();
    link
}

/// Sends an ask that must not fail as such.
async fn ask<T: Send + 'static, A: Ask<Reply = Result<T, WorkflowError>>>(
    handle: &Handle,
    ask: A,
) -> Result<T, WorkflowError> {
    handle.ask(ask).await.unwrap()
}

async fn start(handle: &Handle) -> Result<RunOutcome, WorkflowError> {
    let (args, limits) = (json!([1, 2]), Limits::default());
    ask(handle, StartRun { name: "double".into(), args, limits, events: Vocabulary::Workflow }).await
}

async fn outcome(handle: &Handle, run: &str) -> RunOutcome {
    ask(handle, GetRun { run: run.to_owned() }).await.unwrap()
}

/// A run that a client of another server executes.
struct Running {
    handle: Handle,
    local: Client,
    link: Link,
    run: String,
    /// Id and parameters of the call that executes it.
    call: (u64, Value),
}

async fn running(world: &World) -> Running {
    let (handle, local) = world.create().await;
    let mut link = declaring(world).await;
    while !matches!(link.from_owner.recv().await.unwrap(), FromOwner::Joined { result: Ok(_), .. }) {}
    let run = start(&handle).await.unwrap().run_id;
    let call = called(&mut link, "workflow.execute").await;
    Running { handle, local, link, run, call }
}

/// Waits for a call to the client of the other server.
async fn called(link: &mut Link, name: &str) -> (u64, Value) {
    loop {
        match link.from_owner.recv().await.unwrap() {
            FromOwner::Call { id, client, method, params } if method == name => {
                assert_eq!(client, CLIENT);
                break (id, params);
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_of_another_server_executes_what_any_client_starts() {
    let world = World::new();
    let Running { handle, mut local, link, run, call: (id, params) } = running(&world).await;
    assert_eq!(params["args"], json!([1, 2]));

    let token = params["executionToken"].as_str().unwrap().to_owned();
    let (key, result) = (|| "step".to_owned(), json!("kept"));
    ask(&handle, RecordStep { run: run.clone(), token: token.clone(), key: key(), result }).await.unwrap();
    let wrong = RecallStep { run: run.clone(), token: "other".into(), key: key() };
    assert_eq!(ask(&handle, wrong).await.unwrap_err().code.as_deref(), Some("not_active"));
    let recall = RecallStep { run: run.clone(), token, key: key() };
    assert_eq!(ask(&handle, recall).await.unwrap(), Some(json!("kept")));

    let result = Ok(Json::from(json!({ "result": [2, 4] })));
    link.to_owner.send(ToOwner::Called { id, result }).unwrap();
    let settled = local.next("workflow.run_settled").await;
    assert_eq!((&settled["runId"], &settled["status"]), (&json!(run), &json!("completed")));
    assert_eq!(outcome(&handle, &run).await.result, Some(json!([2, 4])));
}

#[tokio::test(start_paused = true)]
async fn run_is_halted_with_its_link_and_its_client_is_told_when_it_returns() {
    let world = World::new();
    let Running { handle, mut local, link, run, call: (_, params) } = running(&world).await;
    drop(link);
    assert_eq!(local.next("workflow.run_settled").await["status"], "halted");
    assert_eq!(start(&handle).await.unwrap_err().code.as_deref(), Some("factory_not_found"));

    let mut second = declaring(&world).await;
    let (_, aborted) = called(&mut second, "workflow.abort").await;
    assert_eq!((&aborted["runId"], &aborted["executionToken"]), (&json!(run), &params["executionToken"]));
    // It can be resumed, with its journal.
    let resume = ResumeRun { run, limits: Limits::default(), events: Vocabulary::Workflow };
    ask(&handle, resume).await.unwrap();
    called(&mut second, "workflow.execute").await;
}

#[tokio::test(start_paused = true)]
async fn run_ends_with_the_client_that_executes_it() {
    let world = World::new();
    let Running { handle, mut local, link, run, .. } = running(&world).await;
    link.to_owner.send(ToOwner::Leave { client: CLIENT }).unwrap();
    assert_eq!(local.next("workflow.run_settled").await["runId"], json!(run));
    assert_eq!(outcome(&handle, &run).await.status, RunStatus::Halted);
}

#[tokio::test(start_paused = true)]
async fn run_is_interrupted_when_the_session_is_opened_again() {
    let world = World::new();
    let Running { handle, mut local, link: _link, run, .. } = running(&world).await;
    world.take_over().await;
    noted(&handle, "not ours any more").await.unwrap_err();
    local.closed().await;
    let again = world.open();
    let read = outcome(&again, &run).await;
    assert_eq!((read.status, read.end.reason.as_deref()), (RunStatus::Halted, Some("it was interrupted")));
    assert_eq!(ask(&again, CancelRun { run }).await.unwrap().status, RunStatus::Halted);
}
