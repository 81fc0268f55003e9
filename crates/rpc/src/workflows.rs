//! Workflows that clients declare: who owns their code, and which runs are executing.
//!
//! A run executes in its owner, a connection of this door, between `execute` and its reply. What has happened is durable in
//! [`baton_runtime::workflows`]; here is only what a dead process forgets. Each execution has a token, so that reports of
//! an earlier one do not count.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use baton_protocol::{Json, SessionId};
use baton_runtime::Runtime;
use baton_runtime::session::{CallFailed, Handle};
use baton_runtime::workflows::{self as stored, Definition, Run, Settled, Status};
use baton_store::Owner as Holder;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::extensions::show;

/// Most workflows that one client may declare.
pub(crate) const MOST_DECLARED: usize = 200;
/// Most runs of a session that execute at a time.
const MOST_EXECUTING: usize = 32;
/// Sub-agents of a run that work at a time, unless a limit says otherwise.
const CONCURRENT_AGENTS: usize = 4;

/// Names of the protocol: older SDKs say factory where newer ones say workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vocabulary {
    Factory,
    Workflow,
}

impl Vocabulary {
    fn execute(self) -> &'static str {
        match self {
            Self::Factory => "factory.execute",
            Self::Workflow => "workflow.execute",
        }
    }

    fn abort(self) -> &'static str {
        match self {
            Self::Factory => "factory.abort",
            Self::Workflow => "workflow.abort",
        }
    }

    /// Returns the prefix of kinds of events.
    fn events(self) -> &'static str {
        match self {
            Self::Factory => "factory",
            Self::Workflow => "workflow",
        }
    }

    /// Returns the field that names a workflow.
    pub(crate) fn name_field(self) -> &'static str {
        match self {
            Self::Factory => "factoryName",
            Self::Workflow => "workflowName",
        }
    }
}

/// Workflows of all sessions of a door.
#[derive(Default)]
pub(crate) struct Workflows {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    declared: HashMap<SessionId, BTreeMap<String, Declaration>>,
    executing: HashMap<(SessionId, String), Execution>,
}

/// A workflow, and the client that has its code.
#[derive(Clone)]
struct Declaration {
    definition: Definition,
    owner: Weak<Connection>,
    vocabulary: Vocabulary,
}

/// A run that executes.
#[derive(Clone)]
pub(crate) struct Execution {
    pub(crate) token: String,
    pub(crate) agents: Arc<Semaphore>,
    cancel: CancellationToken,
    /// Cancelled when the outcome is durable.
    over: CancellationToken,
}

impl Execution {
    /// Waits until the execution is cancelled or over.
    pub(crate) async fn ended(&self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.over.cancelled() => {}
        }
    }
}

impl Workflows {
    /// Declares the workflows of a client in a session, in place of those that it declared before.
    pub(crate) fn declare(
        &self,
        session: &SessionId,
        owner: &Arc<Connection>,
        definitions: Vec<Definition>,
        vocabulary: Vocabulary,
    ) {
        let mut state = self.lock();
        for declared in state.declared.values_mut() {
            declared.retain(|_, declaration| declaration.owner.strong_count() > 0);
        }
        state.declared.retain(|_, declared| !declared.is_empty());
        let declared = state.declared.entry(session.clone()).or_default();
        declared.retain(|_, declaration| !declaration.owner.ptr_eq(&Arc::downgrade(owner)));
        for definition in definitions {
            let owner = Arc::downgrade(owner);
            declared.insert(definition.name.clone(), Declaration { definition, owner, vocabulary });
        }
    }

    /// Returns the definition of a workflow whose owner is attached.
    pub(crate) fn definition(&self, session: &SessionId, name: &str) -> Option<Definition> {
        self.owner(session, name).map(|(_, declaration)| declaration.definition)
    }

    fn owner(&self, session: &SessionId, name: &str) -> Option<(Arc<Connection>, Declaration)> {
        let declaration = self.lock().declared.get(session)?.get(name)?.clone();
        let owner = declaration.owner.upgrade()?;
        owner.attached(session).is_some().then_some((owner, declaration))
    }

    /// Returns the execution of a run.
    pub(crate) fn execution(&self, session: &SessionId, run: &str) -> Option<Execution> {
        self.lock().executing.get(&(session.clone(), run.to_owned())).cloned()
    }

    /// Whether a session may execute one more run.
    pub(crate) fn has_room(&self, session: &SessionId) -> bool {
        let executing = self.lock().executing.keys().filter(|(of, _)| of == session).count();
        executing < MOST_EXECUTING
    }

    /// Executes a run that is stored as running. Its outcome is durable before it is shown.
    ///
    /// # Errors
    /// When its owner is not attached.
    pub(crate) fn execute(
        self: &Arc<Self>,
        runtime: &Arc<Runtime>,
        handle: &Handle,
        runs: stored::Workflows,
        run: &Run,
        vocabulary: Vocabulary,
    ) -> Result<(), String> {
        let name = &run.definition.name;
        let (owner, declaration) =
            self.owner(&handle.id, name).ok_or_else(|| format!("no attached client has {name:?}"))?;
        let concurrent = run.limits.max_concurrent_subagents.map_or(CONCURRENT_AGENTS, whole);
        let execution = Execution {
            token: uuid::Uuid::new_v4().to_string(),
            agents: Arc::new(Semaphore::new(concurrent)),
            cancel: CancellationToken::new(),
            over: CancellationToken::new(),
        };
        let key = (handle.id.clone(), run.id.clone());
        self.lock().executing.insert(key.clone(), execution.clone());
        let started = json!({ "runId": run.id, vocabulary.name_field(): name, "attempt": run.attempt });
        show(handle, &format!("{}.run_started", vocabulary.events()), started);
        let (workflows, handle, run) = (self.clone(), handle.clone(), run.clone());
        let stopping = runtime.stopping.clone();
        runtime.tasks.spawn(async move {
            let outcome = tokio::select! {
                settled = outcome(&owner, &handle.id, &run, &declaration, &execution) => Some(settled),
                // Not an outcome: the run stays resumable, like all work of a server that stops.
                () = stopping.cancelled() => None,
            };
            if let Some(settled) = outcome {
                settle(&handle, &runs, &run.id, settled, vocabulary).await;
            }
            workflows.lock().executing.remove(&key);
            execution.over.cancel();
        });
        Ok(())
    }

    /// Cancels a run, and waits until that is durable. Returns whether it was executing.
    pub(crate) async fn cancel(&self, session: &SessionId, run: &str) -> bool {
        let Some(execution) = self.execution(session, run) else { return false };
        execution.cancel.cancel();
        execution.over.cancelled().await;
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the owner execute a run, and returns how it ended.
async fn outcome(
    owner: &Arc<Connection>,
    session: &SessionId,
    run: &Run,
    declaration: &Declaration,
    execution: &Execution,
) -> Settled {
    let vocabulary = declaration.vocabulary;
    let params = json!({
        "sessionId": session,
        "name": run.definition.name,
        "runId": run.id,
        "executionToken": execution.token,
        "args": run.args,
    });
    let executing = owner.call(vocabulary.execute(), params);
    let limit = run.limits.timeout_seconds;
    let timeout = async {
        match limit.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let interrupted = tokio::select! {
        replied = executing => return settled(replied),
        () = execution.cancel.cancelled() => Settled::cancelled(),
        () = timeout => Settled::limited("timeoutSeconds", limit.unwrap_or_default()),
    };
    // The owner need not obey: what it reports later does not count.
    let params = json!({ "sessionId": session, "runId": run.id, "executionToken": execution.token });
    drop(owner.call(vocabulary.abort(), params));
    interrupted
}

fn settled(replied: Result<Json, CallFailed>) -> Settled {
    match replied {
        Ok(reply) => match reply.parse::<Value>() {
            Ok(mut reply) => Settled::completed(reply.get_mut("result").map(Value::take)),
            Err(error) => Settled::failed(format!("its result cannot be read: {error}")),
        },
        Err(CallFailed::Refused(error)) => Settled::failed(error.message),
        Err(CallFailed::Gone) => Settled::halted("the client that executes it disconnected"),
    }
}

/// Stores the outcome of a run, and shows it.
pub(crate) async fn settle(
    handle: &Handle,
    runs: &stored::Workflows,
    run: &str,
    settled: Settled,
    vocabulary: Vocabulary,
) {
    let now = stored::now();
    match runs.change(run, move |run| run.settle(settled, now)).await {
        Ok(Some(((), run))) => {
            show(handle, &format!("{}.run_settled", vocabulary.events()), run.settled());
            show_update(handle, &run, vocabulary);
        }
        Ok(None) => {}
        Err(error) => tracing::error!(run, error, "the outcome of a workflow cannot be stored"),
    }
}

/// Shows that a run has changed.
pub(crate) fn show_update(handle: &Handle, run: &Run, vocabulary: Vocabulary) {
    let data = json!({ "runId": run.id, "revision": run.revision() });
    show(handle, &format!("{}.run_updated", vocabulary.events()), data);
}

/// Whether a run was interrupted: it is stored as running, and the process that executed it is dead or does not.
pub(crate) fn is_interrupted(runtime: &Runtime, run: &Run, is_executing: bool) -> bool {
    let holder = serde_json::from_value::<Holder>(run.executor.clone()).ok();
    let may_execute = match holder {
        Some(holder) if holder == runtime.owner => is_executing,
        Some(holder) => baton_runtime::owner::is_alive(&holder),
        None => false,
    };
    run.status == Status::Running && !may_execute
}

/// Returns a limit that was checked as a number of permits.
fn whole(limit: f64) -> usize {
    (1..=1000_u16).rev().find(|permits| f64::from(*permits) <= limit).map_or(1, usize::from)
}
