//! Which operation each ask of a session is.
//!
//! Asks that are not listed here are the server's own: no client can send them.

use baton_ask::extensions::{EnableExtension, ListExtensions, ReloadExtensions, StartExtensions};
use baton_ask::files::{
    AddCheckpoint, CompareFiles, CompletePath, DeletePlan, KeepCheckpoints, ListCheckpoints, ListFiles,
    PreviewUndo, ReadCheckpoint, ReadFile, ReadPlan, WriteFile, WritePlan,
};
use baton_ask::mcp::{
    AnswerMcpServer, ApproveMcpSampling, CallMcpTool, ConnectAfterMcpLogin, DescribeMcpServers,
    DiagnoseMcpServer, DisableMcpServer, EnableMcpServer, FinishMcpLogin, GetMcpAppContext,
    IsMcpServerRunning, ListConfiguredMcpServers, ListMcpServers, ListMcpTools, LogInAtMcpServer,
    LogOutOfMcpServer, ReadMcpLog, ReleaseMcpWait, ReloadMcpServers, SampleForMcpServer, SendToMcpServer,
    SetMcpAppContext, StartMcpServer, StartMcpServers, StopMcpServer, SupplyMcpHeaders, SupplyMcpTokens,
};
use baton_ask::skills::{
    DescribeSkill, DisableSkill, EnableSkill, InvokeSkill, ListInvokedSkills, ListSessionPlugins, ListSkills,
    ReloadSkills,
};
use baton_ask::workflows::{
    CancelRun, DescribeRun, GetRun, ListInterruptedRuns, ListRuns, ReadRunProgress, RecallStep, RecordStep,
    ReportProgress, ResumeRun, RunWorkflowAgent, StartRun,
};
use baton_ask::{
    Ask, AskAside, Close, CompactNow, Configure, EndBackground, EndCommand, ForgetBackground, GitDiff,
    Inspect, ListBackground, ListInstructions, ListTodos, ListTools, MeasureContext, RevealEndpoint, Rewind,
    RunCommand, RunTask, ShutDown, StartCommand, StartTask, StopCompaction, SummariseForHandoff, TruncateAt,
};
use baton_core::Change;
use baton_core::ask::{
    Abort, Amend, AnswerRequest, CancelTurn, DuplicateQueued, Elicit, EnqueueCommand, HoldQueue,
    InsertPrompt, InvokeCommand, ListenForSwitch, MoveQueued, RegisterRunner, RewordQueued, SendPrompt,
    SteerQueued, StopAgent, StopListening, Suspend, Withdraw, WithdrawAsk,
};

use crate::Operation;

/// An ask that clients can send.
pub trait ClientAsk: Ask {
    /// Returns what the client does with it.
    fn operation(&self) -> Operation;
}

/// Generates [`ClientAsk`] from a list of `Operation: asks`.
macro_rules! client_asks {
    ($( $operation:ident: $( $ask:ty ),+; )*) => {
        $( $(
            impl ClientAsk for $ask {
                fn operation(&self) -> Operation {
                    Operation::$operation
                }
            }
        )+ )*
    };
}

client_asks! {
    SendPrompt: SendPrompt, InvokeCommand, InvokeSkill;
    EnqueueCommand: EnqueueCommand;
    CancelPrompts: Abort, CancelTurn;
    ChangeQueuedPrompt: MoveQueued, InsertPrompt, DuplicateQueued, RewordQueued, SteerQueued;
    HoldQueue: HoldQueue;
    WithdrawPrompt: Withdraw;
    ServeCommands: RegisterRunner, ListenForSwitch, StopListening;
    AnswerRequest: AnswerRequest, ApproveMcpSampling, FinishMcpLogin;
    LinkRequest: LogInAtMcpServer;
    AskUser: Elicit, WithdrawAsk;

    ShowSessionState: Inspect, ListBackground;
    ListSessionTools: ListTools, ListInstructions, ListTodos, MeasureContext;
    ChangeSession: Configure;
    EndSession: Suspend, Close, ShutDown;
    RewindSession: TruncateAt, Rewind;
    PreviewRewind: PreviewUndo;
    CompactSession: CompactNow, StopCompaction, SummariseForHandoff;
    AskAside: AskAside;
    RevealEndpoint: RevealEndpoint;
    RunShellCommand: StartCommand, RunCommand, EndCommand;
    RunSubAgent: StartTask, RunTask, StopAgent, EndBackground, ForgetBackground;

    CompletePath: CompletePath;
    ReadSessionFiles: ReadPlan, ListFiles, ReadFile, ListCheckpoints, ReadCheckpoint, CompareFiles, GitDiff;
    WriteSessionFiles: WritePlan, DeletePlan, WriteFile, AddCheckpoint, KeepCheckpoints;

    ListSessionMcpServers: DescribeMcpServers, ListMcpServers, ListConfiguredMcpServers, ListMcpTools,
        IsMcpServerRunning;
    ReadSessionMcpLog: ReadMcpLog;
    StartSessionMcpServers: StartMcpServers, ReleaseMcpWait;
    EnableSessionMcpServer: EnableMcpServer;
    DisableSessionMcpServer: DisableMcpServer;
    RestartSessionMcpServer: StartMcpServer, StopMcpServer, ReloadMcpServers;
    CallSessionMcpServer: CallMcpTool, AnswerMcpServer, SampleForMcpServer, DiagnoseMcpServer, GetMcpAppContext,
        SetMcpAppContext;
    LogInSessionMcpServer: SupplyMcpTokens, SupplyMcpHeaders, ConnectAfterMcpLogin, LogOutOfMcpServer;

    ListSessionSkills: ListSkills, ListSessionPlugins, ListInvokedSkills;
    ShowSessionSkill: DescribeSkill;
    EnableSessionSkill: EnableSkill;
    DisableSessionSkill: DisableSkill;
    ReloadSessionSkills: ReloadSkills;

    ListExtensions: ListExtensions;
    ReloadExtensions: ReloadExtensions, StartExtensions;
    EnableExtension: EnableExtension;
    RunWorkflows: StartRun, ResumeRun, GetRun, DescribeRun, ReadRunProgress, ListRuns, CancelRun, ReportProgress, RecallStep,
        RecordStep, RunWorkflowAgent, ListInterruptedRuns;
}

impl ClientAsk for Amend {
    fn operation(&self) -> Operation {
        match *self.change {
            Change::Revoke { grant: Some(_), .. } => Operation::RevokeGrant,
            Change::Revoke { grant: None, .. } => Operation::RevokeAllGrants,
            Change::Sandbox(_) => Operation::SetSandbox,
            _ => Operation::ChangeSession,
        }
    }
}

impl ClientAsk for SendToMcpServer {
    fn operation(&self) -> Operation {
        match &*self.method {
            "resources/list" => Operation::ListSessionMcpResources,
            "resources/read" => Operation::ReadSessionMcpResource,
            "prompts/list" => Operation::ListSessionMcpPrompts,
            "prompts/get" => Operation::GetSessionMcpPrompt,
            _ => Operation::CallSessionMcpServer,
        }
    }
}
