//! Asks and replies survive serialisation: a session may live in another process than its doors.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_agent::prompt::instructions::{Instruction, InstructionScope};
use baton_agent::tools::shell::{Background, CommandProgress};
use baton_agent::tools::sql::{Dependency, Todo};
use baton_agent::tools::{CompletedPath, Completions};
use baton_ask::extensions::*;
use baton_ask::files::*;
use baton_ask::mcp::*;
use baton_ask::skills::*;
use baton_ask::workflows::*;
use baton_ask::*;
use baton_core::ask::{AgentReport, HoldQueue, SendPrompt};
use baton_core::{Asking, Session};
use baton_files::SessionFiles;
use baton_files::checkpoints::Checkpoint;
use baton_files::rewind::{ChangeType, Skip, TouchedFile, Undone};
use baton_protocol::event::{
    CompactionComplete, CompactionTrigger, FileOperation, Preimage, Prompt, ShutdownType,
};
use baton_protocol::json::Json;
use baton_protocol::tool::ToolSpec;
use baton_protocol::workflow::{Limits, Vocabulary};
use baton_protocol::{ClientId, PromptId, SessionId, Timestamp};
use baton_settings::{Settings, SettingsEdit};
use baton_store::Seq;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Serialises a value and reads it back. Compares the debug form too, which shows fields that serialisation skips.
fn assert_survives<T: Serialize + DeserializeOwned + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(format!("{read:?}"), format!("{value:?}"), "{text}");
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

/// An ask, and replies to it.
type Row = (AskMessage, Vec<ReplyMessage>);

/// Rows for all asks of a family. Does not compile when one is missing.
macro_rules! family {
    ($family:ident: $($name:ident $fields:tt => [$($reply:expr),* $(,)?]),* $(,)?) => {{
        let _exhaustive = |ask: &$family| match ask { $( $family::$name(_) => {} )* };
        let rows: Vec<Row> =
            vec![$( (($name $fields).into_message(), vec![$( $name::wrap($reply) ),*]) ),*];
        rows
    }};
}

/// Returns the tag of a family's serialised value, in the spelling of its type.
fn tag(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap();
    let (_, inner) = value.as_object().unwrap().iter().next().unwrap();
    let snake = inner.as_object().unwrap().keys().next().unwrap().clone();
    let capitalised = |word: &str| word[..1].to_uppercase() + &word[1..];
    snake.split('_').map(capitalised).collect()
}

fn session() -> SessionId {
    "s".parse().unwrap()
}

fn text_json() -> Json {
    Json::from_text(r#"{"b":1.50,"a":[null,"x"]}"#).unwrap()
}

fn actor() -> Vec<Row> {
    let settings = Settings { client_name: Some("n".into()), ..Settings::default() };
    let view = View {
        session: Session::new(session()),
        settings: Arc::new(settings),
        head: Seq(3),
        files: SessionFiles::of("/home".as_ref(), &"s".parse().unwrap()),
    };
    let rewound = Rewound {
        outcome: RewindOutcome::FilesRolledBack,
        removed: Some(2),
        restored: vec!["/w/a".into()],
        skipped: vec![("/w/b".into(), Skip::UserModified), ("/w/c".into(), Skip::SkippedCapture)],
        error: Some("e".into()),
    };
    let edit = || Box::new(SettingsEdit::SelectAgent(Some("a".into())));
    family! { ActorAsk:
        Inspect {} => [view],
        Configure { edit: edit() } => [()],
        Close { client: ClientId(1) } => [()],
        ShutDown { how: ShutdownType::Routine, reason: "r".into() } => [()],
        TruncateAt { event: "e".into(), by: None } => [2],
        Rewind { event: "e".into(), with_files: true, by: None } => [rewound],
        StopCompaction { manual: true } => [true],
    }
}

fn tools() -> Vec<Row> {
    let tool = ToolSpec {
        name: "t".into(),
        description: "d".into(),
        parameters: Some(text_json()),
        overrides_built_in_tool: true,
        skip_permission: false,
        is_terminal: true,
    };
    let states = [CommandProgress::Running, CommandProgress::Exited(-1), CommandProgress::Ended];
    let background = states.map(|progress| Background {
        id: "1".into(),
        command: "ls".into(),
        pid: 7,
        started: Timestamp::now(),
        progress,
    });
    let todo = Todo {
        id: "1".into(),
        title: Some("t".into()),
        description: None,
        status: Some("pending".into()),
        created_at: None,
        updated_at: None,
    };
    let dependency = Dependency { todo_id: "1".into(), depends_on: "2".into() };
    let window = Window {
        model: "m".into(),
        limit: 100,
        compaction_at: 80,
        summaries: 1,
        system: 10,
        tools: vec![("t".into(), 5)],
        messages: Vec::new(),
    };
    let instruction = Instruction {
        path: "/w/AGENTS.md".into(),
        text: "be brief".into(),
        scope: InstructionScope::Root,
        apply_to: vec!["*.rs".into()],
        description: None,
    };
    let complete =
        CompactionComplete { success: true, token_limit: Some(7), ..CompactionComplete::default() };
    let options = CompactionOptions {
        custom_instructions: Some("i".into()),
        token_limit: Some(7),
        trigger: Some(CompactionTrigger::Manual),
    };
    let task = || NewTask {
        agent_type: "explore".into(),
        prompt: "p".into(),
        name: Some("n".into()),
        description: None,
        model: Some("m".into()),
    };
    let limit = Some(Duration::from_millis(1500));
    let run = CommandRun { output: "o".into(), exit_code: Some(1) };
    family! { BesideAsk:
        ListTools {} => [vec![tool]],
        StartCommand { name: "c".into(), cwd: Some("/w".into()), command: "ls".into(), limit, by: None } => [()],
        RunCommand { name: "c".into(), command: "ls".into(), by: None } => [Some(run), None],
        EndCommand { name: "c".into() } => [true],
        ListBackground {} => [background.into()],
        EndBackground { id: "1".into() } => [false],
        ForgetBackground { id: "1".into() } => [true],
        ListTodos {} => [(vec![todo], vec![dependency])],
        GitDiff { from_fork: true, ignore_whitespace: false } => [(Some("main".into()), "diff --git".into())],
        ListInstructions {} => [vec![instruction]],
        MeasureContext {} => [Some(window)],
        AskAside { question: "q".into() } => ["a".into()],
        SummariseForHandoff {} => [String::new()],
        CompactNow { options } => [Some(complete), None],
        StartTask { task: Box::new(task()) } => ["a".into()],
        RunTask { task: Box::new(task()), key: "k".into() } => [AgentReport { answer: "a".into(), error: None }],
        RevealEndpoint { model: Some("m".into()) } => [json!({ "url": "u", "headers": [] })],
    }
}

fn files() -> Vec<Row> {
    let text = || TextFile { content: Some("p".into()), path: "/plan.md".into() };
    let change = || FileChange { operation: Some(FileOperation::Create), path: "/plan.md".into() };
    let checkpoint = || Checkpoint { number: 1, title: "t".into(), filename: "f".into() };
    let touched = || {
        BTreeMap::from([(
            PathBuf::from("/w/a"),
            TouchedFile { before: Preimage::Absent, last: None, gap: Some(Skip::UserModified) },
        )])
    };
    let undone =
        Undone { path: "/w/a".into(), change_type: ChangeType::Deleted, lines_added: 1, lines_removed: 2 };
    let found = CompletedPath { path: "a".into(), directory: true };
    let completions = Completions { files: vec![found], truncated: true };
    let compared = ComparedFile { path: "a".into(), change: FileChangeKind::Added, diff: None };
    family! { FilesAsk:
        ReadPlan {} => [text()],
        WritePlan { content: "c".into() } => [change()],
        DeletePlan {} => [FileChange { operation: None, ..change() }],
        ListFiles {} => [vec!["a".into()]],
        ReadFile { path: "a".into() } => [TextFile { content: None, ..text() }],
        WriteFile { path: "a".into(), content: "b".into() } => [change()],
        ListCheckpoints {} => [vec![checkpoint()]],
        ReadCheckpoint { number: 1 } => [Some("c".into()), None],
        AddCheckpoint { title: "t".into(), content: "c".into() } => [(checkpoint(), "/c.md".into())],
        KeepCheckpoints { count: 1 } => [vec![checkpoint()]],
        PreviewUndo { touched: touched() } => [vec![undone]],
        CompletePath { cwd: "/w".into(), query: "a".into(), limit: 7 } => [completions],
        CompareFiles { touched: touched(), cwd: "/w".into() } => [vec![compared]],
    }
}

fn mcp() -> Vec<Row> {
    let live = || McpServer {
        name: "s".into(),
        status: "connected".into(),
        source: None,
        transport: Some("stdio".into()),
        error: None,
    };
    let problem = McpProblem { timestamp: 1, message: None };
    let host = McpConnections {
        clients: vec!["s".into()],
        failed_servers: BTreeMap::from([("x".into(), problem)]),
        ..McpConnections::default()
    };
    let overview = || McpServerOverview {
        name: "s".into(),
        status: "connected".into(),
        error: None,
        source: Some("user".into()),
        transport: None,
        enabled: true,
        tools: vec![McpToolOverview {
            name: "t".into(),
            title: "T".into(),
            description: "d".into(),
            read_only_hint: true,
            offered_as: None,
        }],
    };
    let diagnosis = McpDiagnosis {
        connected: true,
        tool_count: 1,
        tools_with_ui_meta: 1,
        sample_tool_names: vec!["t".into()],
    };
    let login = McpLogin { authorization_url: Some("https://a".into()), ..McpLogin::default() };
    let server = || "s".to_owned();
    family! { McpAsk:
        ListMcpServers {} => [McpServers { servers: vec![live()], host }],
        ListConfiguredMcpServers {} =>
            [vec![ConfiguredMcpServer { name: server(), enabled: true, live: live() }]],
        DescribeMcpServers {} => [vec![overview()]],
        StartMcpServers {} => [vec![overview()]],
        ListMcpTools { server: server() } => [vec![json!({ "name": "t" })]],
        EnableMcpServer { server: server() } => [()],
        DisableMcpServer { server: server() } => [()],
        ReloadMcpServers {} => [()],
        StopMcpServer { server: server() } => [()],
        StartMcpServer { server: server(), config: Some(text_json()), restart: true } => [()],
        IsMcpServerRunning { server: server() } => [true],
        ReleaseMcpWait {} => [false],
        ReadMcpLog { server: server() } => [vec!["line".into()]],
        SendToMcpServer { server: server(), method: "resources/list".into(), params: text_json() } => [json!({})],
        CallMcpTool { server: server(), tool: "t".into(), arguments: text_json() } => [json!({ "content": [] })],
        DiagnoseMcpServer { server: server() } => [diagnosis],
        GetMcpAppContext {} => [text_json()],
        SetMcpAppContext { context: text_json() } => [()],
        SupplyMcpTokens { supplied: true } => [()],
        SupplyMcpHeaders {} => [()],
        AnswerMcpServer { request: "r".into(), answer: text_json() } => [true],
        SampleForMcpServer { request: text_json() } =>
            [McpSampled::Success { result: json!({}) }, McpSampled::Failure { error: "e".into() }],
        ApproveMcpSampling { request: "r".into() } => [()],
        LogInAtMcpServer { server: server(), redirect: None, again: true } => [login, McpLogin::default()],
        FinishMcpLogin { server: server(), pasted: "p".into() } => [Some("connected".into()), None],
        ConnectAfterMcpLogin { server: server() } => [None],
        LogOutOfMcpServer { server: server() } => [true],
    }
}

fn skills() -> Vec<Row> {
    let skill = || SkillEntry {
        name: "s".into(),
        command_name: "s".into(),
        description: "d".into(),
        source: "project".into(),
        user_invocable: true,
        enabled: true,
        path: "/w/SKILL.md".into(),
        plugin_name: None,
        project_path: Some("/w".into()),
        argument_hint: None,
    };
    let details = SkillDetails {
        skill: skill(),
        content: "c".into(),
        allowed_tools: vec!["bash".into()],
        model_invocable: true,
    };
    let plugin = SessionPlugin {
        name: "p".into(),
        marketplace: String::new(),
        enabled: true,
        version: Some("1".into()),
        problem: None,
    };
    let invoked = InvokedSkill {
        name: "s".into(),
        path: "/w/SKILL.md".into(),
        content: "c".into(),
        allowed_tools: Vec::new(),
        invoked_at_turn: 2,
    };
    let problems = SkillProblems { warnings: vec!["w".into()], errors: Vec::new() };
    let prompt = SkillPrompt { prompt: "p".into(), display_prompt: "/s".into() };
    family! { SkillsAsk:
        ListSkills {} => [SkillList { skills: vec![skill()], problems: vec!["p".into()] }],
        DescribeSkill { name: "s".into() } => [details],
        EnableSkill { name: "s".into() } => [()],
        DisableSkill { name: "s".into() } => [()],
        ReloadSkills {} => [problems],
        ListSessionPlugins {} => [vec![plugin]],
        ListInvokedSkills {} => [vec![invoked]],
        InvokeSkill { name: "s".into(), input: "i".into() } => [prompt],
    }
}

fn extensions() -> Vec<Row> {
    let extension = ExtensionEntry {
        id: "user:e".into(),
        name: "e".into(),
        source: "user".into(),
        status: ExtensionStatus::Running,
        pid: Some(7),
    };
    family! { ExtensionsAsk:
        StartExtensions { client: ClientId(1), sdk: Some("/sdk".into()) } => [()],
        ListExtensions {} => [vec![extension]],
        ReloadExtensions {} => [()],
        EnableExtension { id: "user:e".into(), enabled: false } => [()],
    }
}

fn workflows() -> Vec<Row> {
    let outcome = || RunOutcome {
        run_id: "r".into(),
        status: RunStatus::Completed,
        result: Some(json!([1])),
        end: RunEnd::default(),
    };
    let line = ProgressLine {
        seq: 1,
        attempt: 1,
        phase_id: None,
        recorded_at: 2,
        kind: LineKind::Log,
        text: "t".into(),
    };
    let page = || ProgressPage {
        records: vec![line.clone()],
        oldest_seq: Some(1),
        newest_seq: Some(1),
        has_more_older: false,
        has_more_newer: false,
        revision: 3,
    };
    let summary = || RunSummary {
        run_id: "r".into(),
        workflow: "w".into(),
        description: "d".into(),
        status: RunStatus::Halted,
        revision: 3,
        created_at: 1,
        started_at: 1,
        updated_at: 2,
        completed_at: Some(2),
        current_phase: Some(CurrentPhase { id: "p".into(), ordinal: Some(0) }),
        declared_phase_count: 1,
        live_agent_count: 0,
        total_spawned_agent_count: 1,
        consumed: Consumption { subagents: 1, nano_aiu: 0, active_ms: 1 },
        declared_limits: Limits::default(),
        approved: Limits { timeout_seconds: Some(1.5), ..Limits::default() },
        observed_at: 3,
        active_segment_started_at: None,
        terminal: Some(RunEnd { reason: Some("r".into()), ..RunEnd::default() }),
    };
    let phase = RunPhase {
        id: "p".into(),
        ordinal: Some(0),
        title: "p".into(),
        status: PhaseStatus::Completed,
        last_entered_run_attempt: 1,
        entry_count: 1,
        accumulated_active_ms: 1,
        current_active_ms: 0,
        total_agent_count: 0,
        live_agent_count: 0,
        detail: None,
        started_at: Some(1),
        completed_at: Some(2),
    };
    let details =
        RunDetails { summary: summary(), phases: vec![phase], agents: Vec::new(), progress: page() };
    let list = RunList { runs: vec![summary()], has_more_newer: false, omitted_older: 2 };
    let (run, token, key) = (|| "r".to_owned(), || "t".to_owned(), || "k".to_owned());
    let (limits, events) = (Limits::default(), Vocabulary::Workflow);
    let line = ReportedLine { kind: LineKind::Phase, text: "p".into() };
    let task = AgentTask { agent_type: "task".into(), prompt: "p".into(), label: None, model: None };
    family! { WorkflowsAsk:
        StartRun { name: "w".into(), args: json!([1]), limits, events } =>
            [Ok(outcome()), Err(WorkflowError::coded("not_found", "why"))],
        ResumeRun { run: run(), limits, events } => [Ok(("w".into(), outcome()))],
        GetRun { run: run() } => [Ok(outcome())],
        DescribeRun { run: run() } => [Ok(details)],
        ReadRunProgress { run: run(), page: ProgressRange::default() } => [Ok(page())],
        ListRuns { limit: 5 } => [Ok(list)],
        CancelRun { run: run() } => [Ok(outcome())],
        ReportProgress { run: run(), token: token(), lines: vec![line] } => [Ok(())],
        RecallStep { run: run(), token: token(), key: key() } => [Ok(Some(json!(1))), Ok(None)],
        RecordStep { run: run(), token: token(), key: key(), result: json!({}) } => [Ok(())],
        RunWorkflowAgent { run: run(), token: token(), task } => [Ok("a".into())],
        ListInterruptedRuns {} => [Ok(vec![("workflow.run_settled".into(), json!({}))])],
    }
}

#[test]
fn every_ask_and_every_reply_survives_serialisation() {
    for (ask, replies) in [actor(), tools(), files(), mcp(), skills(), extensions(), workflows()].concat() {
        assert_survives(&ask);
        assert_eq!(tag(&ask), ask.name());
        for reply in replies {
            assert_survives(&reply);
            assert_eq!(tag(&reply), ask.name());
        }
    }
}

#[test]
fn asks_and_replies_of_the_core_survive_serialisation() {
    let prompt = Prompt { text: "p".into(), ..Prompt::default() };
    assert_survives(&SendPrompt { prompt: Box::new(prompt) }.into_message());
    for reply in [SendPrompt::reply(PromptId(uuid::Uuid::from_u128(7))), HoldQueue::reply(true)] {
        assert_survives(&ReplyMessage::Core(Box::new(reply)));
    }
}
