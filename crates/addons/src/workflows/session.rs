//! Workflows of a live session, at the server that holds it: who declared what, which runs are executing, and requests of
//! clients about them.
//!
//! The code of a workflow is in a client, which may be connected to another server. The run belongs to the session: it ends
//! with it, and a server that takes the session over settles what was executing as interrupted, as after a restart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_ask::workflows::{
    RecallStep, RecordStep, ReportProgress, RunList, RunOutcome, RunStatus, StartRun, WorkflowError,
    WorkflowsAsk, WorkflowsReply,
};
use baton_protocol::event::Body;
use baton_protocol::params::SessionParams;
use baton_protocol::workflow::{Definition, Limits, Vocabulary};
use baton_protocol::{ClientId, Json, SessionId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::execution::{Execution, Executor};
use super::run::{Run, Settled};
use super::{Workflows, now};
use crate::SessionPort;

/// Most runs of a session that execute at a time.
const MOST_EXECUTING: usize = 32;

/// Workflows of a live session.
pub struct SessionWorkflows {
    session: SessionId,
    port: Arc<dyn SessionPort>,
    runs: Workflows,
    tasks: TaskTracker,
    /// Cancelled when the session is not here any more, or the server stops.
    closed: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest last.
    declared: Vec<Declaration>,
    executing: HashMap<String, Execution>,
    /// Executions that have ended without their clients, and their runs.
    orphans: Vec<(String, Executor)>,
    /// Runs that were interrupted when the session was taken over, with their revisions.
    interrupted: Vec<(String, u64)>,
}

/// A workflow, and the client that has its code.
#[derive(Clone)]
struct Declaration {
    client: ClientId,
    definition: Definition,
    vocabulary: Vocabulary,
}

impl SessionWorkflows {
    /// Creates the workflows of a session. Reads nothing.
    #[must_use]
    pub fn new(
        session: SessionId,
        port: Arc<dyn SessionPort>,
        runs: Workflows,
        tasks: TaskTracker,
        stopping: &CancellationToken,
    ) -> Arc<Self> {
        let closed = stopping.child_token();
        Arc::new(Self { session, port, runs, tasks, closed, state: Mutex::default() })
    }

    /// Attaches a client: declares its workflows in place of those that it declared before, and aborts what it still
    /// executes for an earlier owner of the session.
    pub fn join(&self, client: ClientId, params: &SessionParams) {
        let vocabulary = match params.workflows.is_some() {
            true => Vocabulary::Workflow,
            false => Vocabulary::Factory,
        };
        let definitions = params.workflows.as_ref().or(params.factories.as_ref());
        let mut state = self.lock();
        state.declared.retain(|declaration| declaration.client != client);
        let declare =
            |definition: &Definition| Declaration { client, definition: definition.clone(), vocabulary };
        state.declared.extend(definitions.into_iter().flatten().map(declare));
        let (own, others) = std::mem::take(&mut state.orphans)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, executor)| executor.client == client);
        state.orphans = others;
        drop(state);
        for (run, executor) in own {
            executor.abort(&*self.port, &self.session, &run);
        }
    }

    /// Detaches a client. Runs that it executes are halted.
    pub fn leave(&self, client: ClientId) {
        let mut state = self.lock();
        state.declared.retain(|declaration| declaration.client != client);
        let executing = state.executing.values().filter(|execution| execution.executor.client == client);
        executing.for_each(|execution| execution.abandoned.cancel());
    }

    /// Ends all executions. Not an outcome: their runs were interrupted, like all work of a session that is unloaded.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// Settles the runs that an earlier owner of the session was executing. Clients are shown them with
    /// [`show_interrupted`](Self::show_interrupted) when they are attached.
    pub async fn recover(&self) {
        let runs = match self.runs.list().await {
            Ok(runs) => runs,
            Err(error) => return tracing::warn!(error, "cannot read the runs of workflows"),
        };
        for run in runs.iter().filter(|run| run.status == RunStatus::Running) {
            match self.interrupt(&run.id).await {
                Ok(Some(run)) => self.lock().interrupted.push((run.id.clone(), run.revision())),
                Ok(None) => {}
                Err(error) => tracing::warn!(error = error.message, run = run.id, "cannot settle a workflow"),
            }
        }
    }

    /// Shows the runs that were interrupted when the session was taken over.
    pub async fn show_interrupted(&self) {
        for (kind, data) in self.interrupted().await {
            self.show(kind, data);
        }
    }

    /// Returns the events of the runs that were interrupted when the session was taken over, and are as they were then.
    async fn interrupted(&self) -> Vec<(String, Value)> {
        let interrupted = self.lock().interrupted.clone();
        let mut events = Vec::new();
        for (id, revision) in interrupted {
            if let Ok(Some(run)) = self.runs.get(&id).await
                && run.revision() == revision
            {
                events.extend(settled_events(&run));
            }
        }
        events
    }

    /// Serves an ask, except for sub-agents: they are work of the session.
    pub async fn serve(self: &Arc<Self>, ask: WorkflowsAsk) -> WorkflowsReply {
        use WorkflowsReply as Reply;
        match ask {
            WorkflowsAsk::StartRun(ask) => Reply::StartRun(Box::new(self.start(ask).await)),
            WorkflowsAsk::ResumeRun(ask) => {
                let resumed = self.resume(&ask.run, ask.limits, ask.events).await;
                let shown = resumed.map(|run| (run.definition.name.clone(), run.outcome()));
                Reply::ResumeRun(Box::new(shown))
            }
            WorkflowsAsk::GetRun(ask) => {
                Reply::GetRun(Box::new(self.read(&ask.run).await.map(|run| run.outcome())))
            }
            WorkflowsAsk::DescribeRun(ask) => {
                Reply::DescribeRun(Box::new(self.read(&ask.run).await.map(|run| run.details(now()))))
            }
            WorkflowsAsk::ReadRunProgress(ask) => {
                let read = self.read(&ask.run).await;
                Reply::ReadRunProgress(Box::new(read.map(|run| run.progress(&ask.page))))
            }
            WorkflowsAsk::ListRuns(ask) => Reply::ListRuns(Box::new(self.list(ask.limit).await)),
            WorkflowsAsk::CancelRun(ask) => Reply::CancelRun(Box::new(self.cancel(&ask.run).await)),
            WorkflowsAsk::ReportProgress(ReportProgress { run, token, lines }) => {
                let now = now();
                let reported = self.report(&run, &token, move |run| run.report(lines, now)).await;
                Reply::ReportProgress(Box::new(reported))
            }
            WorkflowsAsk::RecallStep(ask) => Reply::RecallStep(Box::new(self.recall(ask).await)),
            WorkflowsAsk::RecordStep(RecordStep { run, token, key, result }) => {
                let now = now();
                let put = self.report(&run, &token, move |run| run.journal(key, result, now)).await;
                Reply::RecordStep(Box::new(put.and_then(|put| put.map_err(WorkflowError::failed))))
            }
            WorkflowsAsk::ListInterruptedRuns(_) => {
                Reply::ListInterruptedRuns(Box::new(Ok(self.interrupted().await)))
            }
            WorkflowsAsk::RunWorkflowAgent(_) => {
                Reply::RunWorkflowAgent(Box::new(Err(WorkflowError::failed("the session runs sub-agents"))))
            }
        }
    }

    async fn cancel(self: &Arc<Self>, run: &str) -> Result<RunOutcome, WorkflowError> {
        let execution = self.lock().executing.get(run).cloned();
        if let Some(execution) = execution {
            execution.cancel.cancel();
            execution.over.cancelled().await;
        }
        Ok(self.read(run).await?.outcome())
    }

    async fn recall(&self, ask: RecallStep) -> Result<Option<Value>, WorkflowError> {
        self.execution(&ask.run, &ask.token)?;
        Ok(self.stored(&ask.run).await?.journaled(&ask.key).cloned())
    }

    /// Returns the current execution of a run, if the token is its.
    ///
    /// # Errors
    /// When the run is not executing, or with another token.
    pub fn execution(&self, run: &str, token: &str) -> Result<Execution, WorkflowError> {
        let current = self.lock().executing.get(run).cloned();
        let current = current.filter(|execution| execution.executor.token == token);
        current.ok_or_else(|| not_active(run))
    }

    /// Counts a sub-agent of a run.
    ///
    /// # Errors
    /// When the limit does not allow it, or the run is not executing with this token.
    pub async fn count_agent(&self, run: &str, token: &str) -> Result<(), WorkflowError> {
        let now = now();
        match self.report(run, token, move |run| run.spawn(now)).await? {
            true => Ok(()),
            false => {
                Err(WorkflowError::coded("factory_limit_reached", "the limit maxTotalSubagents was reached"))
            }
        }
    }

    async fn start(self: &Arc<Self>, ask: StartRun) -> Result<RunOutcome, WorkflowError> {
        let StartRun { name, args, limits, events } = ask;
        let Some(declared) = self.declaration(&name) else {
            let message = format!("no attached client has a workflow named {name:?}");
            return Err(WorkflowError::coded("factory_not_found", message));
        };
        let limits = declared.definition.limits.replaced_by(limits);
        let executor = Executor::new(declared.client, declared.vocabulary, events);
        let mut run = Run::new(uuid::Uuid::now_v7().to_string(), declared.definition, args, limits, now());
        run.executor = json!(executor);
        // Before it is stored: a run that is stored as running and does not execute was interrupted.
        let execution = self.register(&run, executor)?;
        if let Err(why) = self.runs.add(run.clone()).await {
            self.forget(&run.id, &execution);
            return Err(storage(why));
        }
        self.execute(&run, execution);
        Ok(run.outcome())
    }

    async fn resume(
        self: &Arc<Self>,
        id: &str,
        limits: Limits,
        events: Vocabulary,
    ) -> Result<Run, WorkflowError> {
        let run = self.read(id).await?;
        // A run that cannot be resumed says so, whether or not its code is here.
        run.clone().resume(limits, now()).map_err(|(code, why)| WorkflowError::coded(code, why))?;
        let name = &run.definition.name;
        let Some(declared) = self.declaration(name) else {
            return Err(WorkflowError::failed(format!("no attached client has {name:?}")));
        };
        let executor = Executor::new(declared.client, declared.vocabulary, events);
        let execution = self.register(&run, executor.clone())?;
        let resume = move |run: &mut Run| {
            run.resume(limits, now())?;
            run.executor = json!(executor);
            Ok::<(), (&'static str, String)>(())
        };
        let resumed = match self.runs.change(id, resume).await {
            Ok(Some((Ok(()), run))) => Ok(run),
            Ok(Some((Err((code, why)), _))) => Err(WorkflowError::coded(code, why)),
            Ok(None) => Err(not_found(id)),
            Err(why) => Err(storage(why)),
        };
        let run = resumed.inspect_err(|_| self.forget(id, &execution))?;
        self.execute(&run, execution);
        Ok(run)
    }

    async fn list(&self, limit: usize) -> Result<RunList, WorkflowError> {
        let all = self.runs.list().await.map_err(storage)?;
        let omitted = all.len().saturating_sub(limit);
        let mut shown = Vec::new();
        for run in all.iter().rev().take(limit) {
            let run = self.read(&run.id).await?;
            shown.push(run.summary(now()));
        }
        Ok(RunList { runs: shown, has_more_newer: false, omitted_older: omitted })
    }

    /// Returns the newest declaration of a workflow.
    fn declaration(&self, name: &str) -> Option<Declaration> {
        let state = self.lock();
        state.declared.iter().rev().find(|declared| declared.definition.name == name).cloned()
    }

    /// Reserves the execution of a run.
    fn register(&self, run: &Run, executor: Executor) -> Result<Execution, WorkflowError> {
        let mut state = self.lock();
        if state.executing.contains_key(&run.id) {
            return Err(WorkflowError::coded("already_active", format!("run \"{}\" is running", run.id)));
        }
        if state.executing.len() >= MOST_EXECUTING {
            let message = "too many workflows of this session are running";
            return Err(WorkflowError::coded("factory_already_running", message));
        }
        let execution = Execution::new(run, executor);
        state.executing.insert(run.id.clone(), execution.clone());
        Ok(execution)
    }

    fn forget(&self, run: &str, execution: &Execution) {
        self.lock().executing.remove(run);
        execution.over.cancel();
    }

    /// Executes a run that is registered and stored as running. Its outcome is durable before it is shown.
    fn execute(self: &Arc<Self>, run: &Run, execution: Execution) {
        let events = execution.executor.events;
        let started =
            json!({ "runId": run.id, events.name_field(): run.definition.name, "attempt": run.attempt });
        self.show(format!("{}.run_started", events.events()), started);
        self.show_update(run, events);
        let (workflows, run) = (self.clone(), run.clone());
        let task = async move {
            let ended = tokio::select! {
                ended = execution.execute(&*workflows.port, &workflows.session, &run) => Some(ended),
                () = workflows.closed.cancelled() => None,
            };
            match ended {
                Some(ended) => {
                    if ended.is_orphan {
                        workflows.adopt(&run.id, &execution.executor);
                    }
                    workflows.settle(&run.id, ended.settled).await;
                }
                None => execution.executor.abort(&*workflows.port, &workflows.session, &run.id),
            }
            workflows.forget(&run.id, &execution);
        };
        self.tasks.spawn(task.in_current_span());
    }

    /// Remembers an execution whose client has left without being told to stop.
    fn adopt(&self, run: &str, executor: &Executor) {
        let mut state = self.lock();
        state.orphans.push((run.to_owned(), executor.clone()));
        let surplus = state.orphans.len().saturating_sub(MOST_EXECUTING);
        state.orphans.drain(..surplus);
    }

    /// Stores the outcome of a run, and shows it.
    async fn settle(&self, run: &str, settled: Settled) {
        match self.try_settle(run, settled).await {
            Ok(Some(run)) => settled_events(&run).into_iter().for_each(|(kind, data)| self.show(kind, data)),
            Ok(None) => {}
            Err(error) => {
                tracing::error!(run, error = error.message, "the outcome of a workflow cannot be stored");
            }
        }
    }

    /// Stores the outcome of a run. Returns the run if it was running.
    async fn try_settle(&self, run: &str, settled: Settled) -> Result<Option<Run>, WorkflowError> {
        let now = now();
        let settle = move |run: &mut Run| {
            let was_running = run.status == RunStatus::Running;
            run.settle(settled, now);
            was_running
        };
        let changed = self.runs.change(run, settle).await.map_err(storage)?;
        Ok(changed.and_then(|(was_running, run)| was_running.then_some(run)))
    }

    /// Settles a run as interrupted. Asks its client to stop, if that returns.
    async fn interrupt(&self, run: &str) -> Result<Option<Run>, WorkflowError> {
        let interrupted = self.try_settle(run, Settled::halted("it was interrupted")).await?;
        if let Some(executor) = interrupted.as_ref().and_then(Executor::of) {
            self.adopt(run, &executor);
        }
        Ok(interrupted)
    }

    async fn stored(&self, id: &str) -> Result<Run, WorkflowError> {
        let run = self.runs.get(id).await.map_err(storage)?;
        run.ok_or_else(|| not_found(id))
    }

    /// Reads a run. One that was interrupted is settled as that first.
    async fn read(&self, id: &str) -> Result<Run, WorkflowError> {
        // Looked up first: an execution that ends meanwhile has stored its outcome.
        let is_executing = self.lock().executing.contains_key(id);
        let run = self.stored(id).await?;
        if run.status != RunStatus::Running || is_executing {
            return Ok(run);
        }
        if let Some(run) = self.interrupt(id).await? {
            settled_events(&run).into_iter().for_each(|(kind, data)| self.show(kind, data));
        }
        self.stored(id).await
    }

    /// Stores a change that the code of a run reports.
    async fn report<R: Send + 'static>(
        &self,
        id: &str,
        token: &str,
        change: impl FnOnce(&mut Run) -> R + Clone + Send + 'static,
    ) -> Result<R, WorkflowError> {
        let execution = self.execution(id, token)?;
        let changed = self.runs.change(id, change).await.map_err(storage)?;
        let (result, run) = changed.ok_or_else(|| not_found(id))?;
        self.show_update(&run, execution.executor.events);
        Ok(result)
    }

    fn show_update(&self, run: &Run, vocabulary: Vocabulary) {
        let (kind, data) = updated(run, vocabulary);
        self.show(kind, data);
    }

    fn show(&self, kind: String, data: Value) {
        self.port.show(Body::Unknown { kind, data: Json::from(data) });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_found(run: &str) -> WorkflowError {
    WorkflowError::coded("not_found", format!("this session has no run \"{run}\""))
}

fn not_active(run: &str) -> WorkflowError {
    WorkflowError::coded("not_active", format!("run \"{run}\" is not executed with this token"))
}

fn storage(why: String) -> WorkflowError {
    WorkflowError::coded("factory_storage_unavailable", why)
}

/// Returns the event that a run has changed.
fn updated(run: &Run, vocabulary: Vocabulary) -> (String, Value) {
    let data = json!({ "runId": run.id, "revision": run.revision() });
    (format!("{}.run_updated", vocabulary.events()), data)
}

/// Returns the events of a run that has ended.
fn settled_events(run: &Run) -> [(String, Value); 2] {
    let vocabulary = Executor::of(run).map_or(Vocabulary::Factory, |executor| executor.events);
    [(format!("{}.run_settled", vocabulary.events()), run.settled()), updated(run, vocabulary)]
}

#[cfg(test)]
mod tests;
