//! One execution of a run: the call to the client that has its code, its limits, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use baton_protocol::workflow::Vocabulary;
use baton_protocol::{ClientId, Json, SessionId};
use baton_providers::CallFailed;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::run::{Run, Settled};
use crate::SessionPort;

/// Sub-agents of a run that work at a time, unless a limit says otherwise.
const CONCURRENT_AGENTS: usize = 4;

/// Who executes a run. Stored with the run: the server that takes the session over aborts what is still executing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Executor {
    pub(super) client: ClientId,
    /// Reports of earlier executions do not count: each has a token of its own.
    pub(super) token: String,
    /// Names that the client knows.
    pub(super) vocabulary: Vocabulary,
    /// Names of the run's events.
    pub(super) events: Vocabulary,
}

impl Executor {
    pub(super) fn new(client: ClientId, vocabulary: Vocabulary, events: Vocabulary) -> Self {
        Self { client, token: uuid::Uuid::new_v4().to_string(), vocabulary, events }
    }

    /// Returns the stored executor of a run. Runs of earlier versions have another form.
    pub(super) fn of(run: &Run) -> Option<Self> {
        Self::deserialize(&run.executor).ok()
    }

    /// Tells the client to stop. It need not obey: what it reports later does not count.
    pub(super) fn abort(&self, port: &dyn SessionPort, session: &SessionId, run: &str) {
        let params = json!({ "sessionId": session, "runId": run, "executionToken": self.token });
        drop(port.call(self.client, self.vocabulary.abort(), params));
    }
}

/// A run that executes.
#[derive(Clone)]
pub struct Execution {
    pub(super) executor: Executor,
    /// Room for sub-agents.
    pub agents: Arc<Semaphore>,
    pub(super) cancel: CancellationToken,
    /// Cancelled when the client has left the session.
    pub(super) abandoned: CancellationToken,
    /// Cancelled when the outcome is durable.
    pub(super) over: CancellationToken,
}

/// The end of an execution.
pub(super) struct ExecutionEnd {
    pub(super) settled: Settled,
    /// Whether the client may still execute the run, because it could not be told to stop.
    pub(super) is_orphan: bool,
}

impl Execution {
    pub(super) fn new(run: &Run, executor: Executor) -> Self {
        let concurrent = run.limits.max_concurrent_subagents.map_or(CONCURRENT_AGENTS, permits);
        Self {
            executor,
            agents: Arc::new(Semaphore::new(concurrent)),
            cancel: CancellationToken::new(),
            abandoned: CancellationToken::new(),
            over: CancellationToken::new(),
        }
    }

    /// Waits until the execution is cancelled or over.
    pub async fn ended(&self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.abandoned.cancelled() => {}
            () = self.over.cancelled() => {}
        }
    }

    /// Has the client execute the run, and waits for its end.
    pub(super) async fn execute(
        &self,
        port: &dyn SessionPort,
        session: &SessionId,
        run: &Run,
    ) -> ExecutionEnd {
        let executor = &self.executor;
        let params = json!({
            "sessionId": session,
            "name": run.definition.name,
            "runId": run.id,
            "executionToken": executor.token,
            "args": run.args,
        });
        let executing = port.call(executor.client, executor.vocabulary.execute(), params);
        let limit = run.limits.timeout_seconds;
        let timeout = async {
            match limit.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let settled = tokio::select! {
            replied = executing => return ExecutionEnd::by_client(replied),
            () = self.abandoned.cancelled() => return ExecutionEnd::by_client(Err(CallFailed::Gone)),
            () = self.cancel.cancelled() => Settled::cancelled(),
            () = timeout => Settled::limited("timeoutSeconds", limit.unwrap_or_default()),
        };
        executor.abort(port, session, &run.id);
        ExecutionEnd { settled, is_orphan: false }
    }
}

impl ExecutionEnd {
    fn by_client(replied: Result<Json, CallFailed>) -> Self {
        let is_orphan = matches!(replied, Err(CallFailed::Gone));
        let settled = match replied {
            Ok(reply) => match reply.parse::<Value>() {
                Ok(mut reply) => Settled::completed(reply.get_mut("result").map(Value::take)),
                Err(error) => Settled::failed(format!("its result cannot be read: {error}")),
            },
            Err(CallFailed::Refused(error)) => Settled::failed(error.message),
            Err(CallFailed::Gone) => Settled::halted("the client that executes it disconnected"),
        };
        Self { settled, is_orphan }
    }
}

/// Returns a limit that was checked as a number of permits.
fn permits(limit: f64) -> usize {
    (1..=1000_u16).rev().find(|permits| f64::from(*permits) <= limit).map_or(1, usize::from)
}
