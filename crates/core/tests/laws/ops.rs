//! Operations on a session, and results and answers for them.

use baton_core::{CallStage, Prepared, RequestAnswer, Route, Withdrawn, Work, WorkResult};
use baton_protocol::event::{ExecutionMode, PlanAction, Question, SendMode, SessionError, SwitchAnswer};
use baton_protocol::permission::Verdict;
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, Author};
use proptest::prelude::*;

use crate::world::*;

/// Something that can happen to a session. Numbers select at random from what there is.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Prompt(SendMode),
    Abort,
    /// Cancels what runs by one of its names, or by one that nothing has, or without a name.
    CancelTurn(usize),
    Suspend,
    Withdraw(Withdrawn),
    /// Enqueues a command.
    Enqueue,
    /// Asks the other clients to fill in a form.
    Elicit,
    /// Asks the other clients to run a command.
    Invoke,
    /// A program in the sandbox wants to reach a host.
    Connect(usize),
    /// A program in the sandbox has created a file that acts.
    CreateFile(usize),
    /// Registers or unregisters a client as a runner.
    RegisterRunner(u64, bool),
    /// Edits the queue at one of its items, or at one that never existed.
    EditQueue {
        which: usize,
        how: usize,
    },
    /// Rewinds to an event.
    Rewind(usize),
    Attach(u64),
    Detach(u64),
    Resume {
        client: u64,
        with_tool: bool,
        continued: Option<bool>,
    },
    /// Finishes running work with one of its possible results.
    Finish {
        which: usize,
        how: usize,
    },
    /// Reports something for the running engine.
    Report {
        what: usize,
    },
    /// Starts a sub-agent for a client.
    StartAgent,
    /// Stops a sub-agent, or one that never existed.
    StopAgent {
        which: usize,
    },
    /// Answers an open request, or one that never existed, twice in a row.
    Answer {
        which: usize,
        how: usize,
    },
    Crash,
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let continued = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    prop_oneof![
        3 => prop_oneof![3 => Just(SendMode::Enqueue), 1 => Just(SendMode::Immediate)].prop_map(Op::Prompt),
        2 => prop_oneof![4 => Just(Op::Abort), 1 => Just(Op::Suspend)],
        2 => any::<usize>().prop_map(Op::CancelTurn),
        1 => prop_oneof![Just(Withdrawn::All), Just(Withdrawn::Newest)].prop_map(Op::Withdraw),
        2 => Just(Op::Enqueue),
        1 => prop_oneof![Just(Op::Elicit), Just(Op::Invoke)],
        2 => prop_oneof![any::<usize>().prop_map(Op::Connect), any::<usize>().prop_map(Op::CreateFile)],
        1 => (1u64..4, any::<bool>()).prop_map(|(client, registered)| Op::RegisterRunner(client, registered)),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(which, how)| Op::EditQueue { which, how }),
        1 => any::<usize>().prop_map(Op::Rewind),
        1 => (1u64..4).prop_map(Op::Attach),
        1 => (1u64..4).prop_map(Op::Detach),
        1 => (1u64..4, any::<bool>(), continued).prop_map(|(client, with_tool, continued)| Op::Resume { client, with_tool, continued }),
        10 => (any::<usize>(), any::<usize>()).prop_map(|(which, how)| Op::Finish { which, how }),
        4 => (any::<usize>(), any::<usize>()).prop_map(|(which, how)| Op::Answer { which, how }),
        6 => any::<usize>().prop_map(|what| Op::Report { what }),
        1 => any::<usize>().prop_map(|which| Op::StopAgent { which }),
        1 => Just(Op::StartAgent),
        1 => Just(Op::Crash),
    ]
}

/// One of the possible results of work.
pub(super) fn result_of(work: &Work, how: usize, round: u64, agents: &[AgentId]) -> WorkResult {
    match work {
        Work::PreparePrompt { .. } if how.is_multiple_of(3) => prepared_for_engine(),
        Work::PreparePrompt { .. } => prepared_prompt(),
        Work::RunCommand { .. } if how.is_multiple_of(2) => WorkResult::RunCommand(Err("no".into())),
        Work::RunCommand { .. } => WorkResult::RunCommand(Ok(Some("done".into()))),
        Work::CallModel { .. } => match how % 7 {
            0 => model_failure(),
            6 => rate_limited(),
            1 | 2 => model_answer(round, &[]),
            3 => model_answer(round, &["client_tool"]),
            4 => model_answer(round, &["builtin", "client_tool"]),
            _ => model_answer(round, &["builtin", "client_tool", "terminal_tool"]),
        },
        Work::PrepareCall { call } => match how % 10 {
            0 => runnable(Route::BuiltIn),
            1 => runnable(Route::Client),
            2 => needs_permission(&call.id, Route::BuiltIn),
            3 => needs_permission(&call.id, Route::Client),
            4 => WorkResult::PrepareCall(Prepared::Finished(ToolResult::failure("no such tool"))),
            5 if (how / 10).is_multiple_of(2) => asks_user(Question::UserInput(user_question())),
            5 => asks_user(Question::Plan(proposed_plan())),
            6 | 7 => delegation(ExecutionMode::Background),
            8 => delegation(ExecutionMode::Sync),
            _ => {
                let agent = agents.get(how / 10 % agents.len().max(1));
                let agent = agent.cloned().unwrap_or_else(|| "never".into());
                WorkResult::PrepareCall(Prepared::AfterAgent(agent))
            }
        },
        Work::RunTool { .. } | Work::Trust { .. } | Work::FinishCall { .. } => {
            WorkResult::RunTool(ToolResult::success("ok"))
        }
        Work::SaveGrant { .. } if how.is_multiple_of(2) => WorkResult::SaveGrant(Err("disk full".into())),
        Work::SaveGrant { .. } => WorkResult::SaveGrant(Ok(())),
        Work::RestoreFile { .. } | Work::DropFile { .. } if how % 3 == 1 => {
            WorkResult::HeldFile(Err("exists".into()))
        }
        Work::RestoreFile { .. } | Work::DropFile { .. } => WorkResult::HeldFile(Ok(())),
        Work::DeliverQuestion { .. } => WorkResult::Undelivered,
        Work::Review => WorkResult::Review(None),
        Work::Drive { .. } if how.is_multiple_of(4) => WorkResult::Drive(Err(SessionError::default())),
        Work::Drive { .. } => WorkResult::Drive(Ok(())),
    }
}

pub(super) const YES: RequestAnswer = RequestAnswer::Switch(SwitchAnswer::Yes);
pub(super) const YES_ALWAYS: RequestAnswer = RequestAnswer::Switch(SwitchAnswer::YesAlways);

/// An answer to a request of a program in the sandbox; sometimes of the wrong kind.
pub(super) fn wall_answer(how: usize) -> RequestAnswer {
    match how % 6 {
        0 => reject(),
        1 => permission_answer(Verdict::ApproveForSession(None)),
        2 => permission_answer(Verdict::ApproveForLocation { approval: None, location_key: String::new() }),
        3 => RequestAnswer::ApproveUnattended(Author::http()),
        4 => RequestAnswer::NoUser,
        _ => approve(),
    }
}

/// An answer to a request of a call; sometimes of the wrong kind.
pub(super) fn answer_for(stage: &CallStage, how: usize) -> RequestAnswer {
    match stage {
        _ if how % 7 == 6 => RequestAnswer::Tool(ToolResult::success("of the wrong kind")),
        CallStage::AwaitingPermission { .. } if how.is_multiple_of(3) => reject(),
        CallStage::AwaitingPermission { .. } if how % 5 == 4 => {
            permission_answer(Verdict::ApproveForLocation { approval: None, location_key: String::new() })
        }
        CallStage::AwaitingPermission { .. } => approve(),
        CallStage::AwaitingAnswer { question: Question::Plan(_), .. } => match how % 6 {
            0 => plan_refused(Some("more")),
            4 => RequestAnswer::NoUser,
            way => plan_approved(PlanAction::ALL[(way + 2) % 4]),
        },
        CallStage::AwaitingAnswer { .. } => {
            RequestAnswer::UserInput { answer: "yes".into(), was_freeform: true }
        }
        _ => tool_result(),
    }
}
