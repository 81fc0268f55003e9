//! Serving asks about the workflows of a session, and the sub-agents of their runs.

use baton_addons::workflows::Execution;
use baton_ask::workflows::{AgentTask, RunWorkflowAgent, WorkflowError, WorkflowsAsk, WorkflowsReply};
use baton_ask::{NewTask, RunTask};
use baton_core::ask::WithdrawAsk;

use super::WorkScope;

/// Serves an ask about workflows.
pub(super) async fn serve(scope: &WorkScope, ask: WorkflowsAsk) -> WorkflowsReply {
    match ask {
        WorkflowsAsk::RunWorkflowAgent(ask) => {
            WorkflowsReply::RunWorkflowAgent(Box::new(serve_agent(scope, ask).await))
        }
        ask => scope.tools.workflows().serve(ask).await,
    }
}

async fn serve_agent(scope: &WorkScope, ask: RunWorkflowAgent) -> Result<String, WorkflowError> {
    let RunWorkflowAgent { run, token, task } = ask;
    let workflows = scope.tools.workflows();
    let execution = workflows.execution(&run, &token)?;
    let _permit = tokio::select! {
        permit = execution.agents.clone().acquire_owned() => permit.map_err(|error| failed(&error))?,
        () = execution.ended() => return Err(ended()),
    };
    workflows.count_agent(&run, &token).await?;
    run_agent(scope, &execution, &run, task).await
}

/// Runs a sub-agent to its end, or to that of the execution.
async fn run_agent(
    scope: &WorkScope,
    execution: &Execution,
    run: &str,
    task: AgentTask,
) -> Result<String, WorkflowError> {
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
        None => Ok(report.answer),
    }
}

fn ended() -> WorkflowError {
    WorkflowError::coded("not_active", "the run has ended")
}

fn failed(error: &dyn std::fmt::Display) -> WorkflowError {
    WorkflowError::failed(error.to_string())
}
