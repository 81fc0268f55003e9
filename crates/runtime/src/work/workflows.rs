//! Requests about the workflows of a session, and the sub-agents of their runs.

use baton_core::ask::WithdrawAsk;
use serde_json::{Value, json};

use super::WorkScope;
use crate::session::ask::{NewTask, RunTask};
use crate::workflows::{AgentTask, Execution, WorkflowAction, WorkflowError, WorkflowRequest};

/// Serves a request about workflows.
pub(super) async fn serve(scope: &WorkScope, request: WorkflowRequest) -> Result<Value, WorkflowError> {
    let workflows = scope.tools.workflows();
    match request.action {
        WorkflowAction::Agent { run, token, task } => {
            let execution = workflows.execution(&run, &token)?;
            let _permit = tokio::select! {
                permit = execution.agents.clone().acquire_owned() => permit.map_err(|error| failed(&error))?,
                () = execution.ended() => return Err(ended()),
            };
            workflows.count_agent(&run, &token).await?;
            run_agent(scope, &execution, &run, task).await
        }
        _ => workflows.serve(request).await,
    }
}

/// Runs a sub-agent to its end, or to that of the execution.
async fn run_agent(
    scope: &WorkScope,
    execution: &Execution,
    run: &str,
    task: AgentTask,
) -> Result<Value, WorkflowError> {
    let AgentTask { agent_type, prompt, label, model } = task;
    let new = NewTask { agent_type, prompt, name: label.clone(), description: label, model };
    let key = format!("workflow {run} {}", uuid::Uuid::new_v4());
    let running = scope.handle().ask(RunTask { task: Box::new(new), key: key.clone() });
    let report = tokio::select! {
        report = running => report.map_err(|failure| failed(&failure))?,
        () = execution.ended() => {
            // A session that has ended has no agents.
            let _ = scope.handle().ask(WithdrawAsk { key }).await;
            return Err(ended());
        }
    };
    match report.error {
        Some(error) => Err(WorkflowError::failed(error)),
        None => Ok(json!(report.answer)),
    }
}

fn ended() -> WorkflowError {
    WorkflowError::coded("not_active", "the run has ended")
}

fn failed(error: &dyn std::fmt::Display) -> WorkflowError {
    WorkflowError::failed(error.to_string())
}
