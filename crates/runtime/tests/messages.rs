//! Asks, replies, failures and joins survive serialisation: a session may live in another process than its doors.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use baton_agent::prompt::instructions::{Instruction, InstructionScope};
use baton_agent::tools::shell::{Background, CommandProgress};
use baton_agent::tools::sql::{Dependency, Todo};
use baton_core::ask::{AgentReport, HoldQueue, SendPrompt};
use baton_core::{Asking, Profile, Session};
use baton_files::SessionFiles;
use baton_protocol::event::{CompactionComplete, CompactionTrigger, Prompt, ShutdownType};
use baton_protocol::json::Json;
use baton_protocol::params::SessionParams;
use baton_protocol::tool::ToolSpec;
use baton_protocol::{ClientId, PromptId, SessionId, Timestamp};
use baton_store::{Epoch, Holder, Owner, Seq, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use baton_runtime::extensions::ExtensionRequest;
use baton_runtime::mcp::McpRequest;
use baton_runtime::rewind::Skip;
use baton_runtime::session::ask::*;
use baton_runtime::session::file_requests::{ComparedFile, FileChangeKind, FileReply, FileRequest};
use baton_runtime::session::{
    Failure, JoinKind, JoinReply, JoinRequest, McpSwitch, OptionsEdit, Returning, RewindOutcome, Rewound,
    Settings, SettingsChange, SettingsEdit, View,
};
use baton_runtime::skills::SkillsRequest;
use baton_runtime::work::{CommandRun, Window};
use baton_runtime::workflows::{
    Definition, Limits, Vocabulary, WorkflowAction, WorkflowError, WorkflowRequest,
};

/// Serialises a value and reads it back. Compares the debug form too, which shows fields that serialisation skips.
fn assert_survives<T: Serialize + DeserializeOwned + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(format!("{read:?}"), format!("{value:?}"), "{text}");
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

/// Names of all variants of a family, with a match that fails to compile when a variant is missing.
macro_rules! names {
    ($family:ident: $($name:ident),* $(,)?) => {{
        let _exhaustive = |ask: &$family| match ask { $( $family::$name(_) => {} )* };
        [$( stringify!($name) ),*]
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

fn edits() -> Vec<SettingsEdit> {
    let options = OptionsEdit {
        client_name: Some("n".into()),
        available_tools: Some(vec!["bash".into()]),
        streaming: Some(true),
        ..OptionsEdit::default()
    };
    vec![
        SettingsEdit::Options(Box::new(options)),
        SettingsEdit::AddProviders { client: ClientId(1), providers: Some(Vec::new()), models: None },
        SettingsEdit::ModelCapabilities(text_json()),
        SettingsEdit::SelectAgent(Some("a".into())),
        SettingsEdit::SubAgents {
            models: BTreeMap::from([("explore".into(), "m".into())]),
            disabled: vec!["task".into()],
        },
        SettingsEdit::McpServer { name: "m".into(), switch: McpSwitch::Started(Some(text_json())) },
        SettingsEdit::SuppliesTokens(true),
        SettingsEdit::SuppliesHeaders,
        SettingsEdit::AppContext(text_json()),
        SettingsEdit::Credentials(None),
        SettingsEdit::Introduce { identity: None, no_questions: true },
    ]
}

fn actor_asks() -> Vec<AskMessage> {
    let mut asks = vec![
        Inspect {}.into_message(),
        Close { client: ClientId(1) }.into_message(),
        ShutDown { how: ShutdownType::Routine, reason: "r".into() }.into_message(),
        TruncateAt { event: "e".into(), by: None }.into_message(),
        Rewind { event: "e".into(), with_files: true, by: None }.into_message(),
        StopCompaction { manual: true }.into_message(),
    ];
    asks.extend(edits().into_iter().map(|edit| Configure { edit: Box::new(edit) }.into_message()));
    asks
}

fn start() -> WorkflowAction {
    let limits = Limits { timeout_seconds: Some(1.5), ..Limits::default() };
    WorkflowAction::Start { name: "w".into(), args: json!([1]), limits }
}

fn beside_asks() -> Vec<AskMessage> {
    let options = CompactionOptions {
        custom_instructions: Some("i".into()),
        token_limit: Some(7),
        trigger: Some(CompactionTrigger::Manual),
    };
    let task = NewTask {
        agent_type: "explore".into(),
        prompt: "p".into(),
        name: Some("n".into()),
        description: None,
        model: Some("m".into()),
    };
    let limit = Some(Duration::from_millis(1500));
    vec![
        ListTools {}.into_message(),
        StartCommand { name: "c".into(), cwd: Some("/w".into()), command: "ls".into(), limit, by: None }
            .into_message(),
        RunCommand { name: "c".into(), command: "ls".into(), by: None }.into_message(),
        EndCommand { name: "c".into() }.into_message(),
        ListBackground {}.into_message(),
        EndBackground { id: "1".into() }.into_message(),
        ForgetBackground { id: "1".into() }.into_message(),
        UseFiles { request: Box::new(FileRequest::Write { path: "a".into(), content: "b".into() }) }
            .into_message(),
        UseExtensions { request: Box::new(ExtensionRequest::Start { client: ClientId(1), sdk: None }) }
            .into_message(),
        UseWorkflows {
            request: Box::new(WorkflowRequest { vocabulary: Vocabulary::Workflow, action: start() }),
        }
        .into_message(),
        ListTodos {}.into_message(),
        GitDiff { from_fork: true, ignore_whitespace: false }.into_message(),
        ListInstructions {}.into_message(),
        MeasureContext {}.into_message(),
        AskAside { question: "q".into() }.into_message(),
        SummariseForHandoff {}.into_message(),
        CompactNow { options }.into_message(),
        StartTask { task: Box::new(task.clone()) }.into_message(),
        RunTask { task: Box::new(task), key: "k".into() }.into_message(),
        RevealEndpoint { model: Some("m".into()) }.into_message(),
        Mcp { request: Box::new(McpRequest::Stop { server: "s".into() }) }.into_message(),
        Skills { request: Box::new(SkillsRequest::Enable { name: "s".into() }) }.into_message(),
    ]
}

fn actor_replies() -> Vec<ReplyMessage> {
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
    vec![
        Inspect::wrap(view),
        Configure::wrap(()),
        Close::wrap(()),
        ShutDown::wrap(()),
        TruncateAt::wrap(2),
        Rewind::wrap(rewound),
        StopCompaction::wrap(true),
    ]
}

fn beside_replies() -> Vec<ReplyMessage> {
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
    vec![
        ListTools::wrap(vec![tool]),
        StartCommand::wrap(()),
        RunCommand::wrap(Some(CommandRun { output: "o".into(), exit_code: Some(1) })),
        RunCommand::wrap(None),
        EndCommand::wrap(true),
        ListBackground::wrap(background.into()),
        EndBackground::wrap(false),
        ForgetBackground::wrap(true),
        ListTodos::wrap((vec![todo], vec![dependency])),
        GitDiff::wrap((Some("main".into()), "diff --git".into())),
        ListInstructions::wrap(vec![instruction]),
        MeasureContext::wrap(Some(window)),
        AskAside::wrap("a".into()),
        SummariseForHandoff::wrap(String::new()),
        CompactNow::wrap(Some(complete)),
        CompactNow::wrap(None),
        StartTask::wrap("a".into()),
        RunTask::wrap(AgentReport { answer: "a".into(), error: None }),
        RevealEndpoint::wrap(json!({ "url": "u", "headers": [] })),
        Mcp::wrap(json!({ "servers": [] })),
        Skills::wrap(json!({ "skills": [] })),
        UseFiles::wrap(Ok(FileReply::Text { content: Some("p".into()), path: Some("/plan.md".into()) })),
        UseFiles::wrap(Ok(FileReply::Compared(vec![ComparedFile {
            path: "a".into(),
            change: FileChangeKind::Added,
            diff: None,
        }]))),
        UseFiles::wrap(Err("why".into())),
        UseExtensions::wrap(Ok(json!({ "extensions": [] }))),
        UseExtensions::wrap(Err("why".into())),
        UseWorkflows::wrap(Ok(json!({ "runId": "r" }))),
        UseWorkflows::wrap(Err(WorkflowError::coded("not_found", "why"))),
    ]
}

fn failures() -> Vec<Failure> {
    let owner = Owner { server: "x".into(), host: "h".into(), boot: "b".into(), pid: 7, started: 8 };
    let holder = Box::new(Holder { owner, epoch: Epoch(9), busy: true });
    let store = [
        StoreError::Exists(session()),
        StoreError::NotFound(session()),
        StoreError::Held { session: session(), holder },
        StoreError::Fenced(session()),
        StoreError::OutOfStep { session: session(), expected: Seq(1), actual: Seq(2) },
        StoreError::Medium { doing: "write to".into(), path: "/p".into(), cause: "full".into() },
    ];
    let mut failures: Vec<Failure> = store.map(Failure::Store).into();
    failures.extend([
        Failure::NotFound(session()),
        Failure::Refused("why".into()),
        Failure::Internal(session()),
    ]);
    failures
}

#[test]
fn every_ask_survives_serialisation() {
    let (actor, beside) = (actor_asks(), beside_asks());
    actor.iter().chain(&beside).for_each(assert_survives);
    assert_survives(
        &SendPrompt { prompt: Box::new(Prompt { text: "p".into(), ..Prompt::default() }) }.into_message(),
    );
    let names = |asks: &[AskMessage]| asks.iter().map(AskMessage::name).collect::<BTreeSet<_>>();
    assert_eq!(
        names(&actor),
        names!(ActorAsk:
            Inspect, Configure, Close, ShutDown, TruncateAt, Rewind, StopCompaction,
        )
        .into()
    );
    assert_eq!(names(&beside), names!(BesideAsk:
        ListTools, StartCommand, RunCommand, EndCommand, ListBackground, EndBackground, ForgetBackground, ListTodos,
        GitDiff, ListInstructions,
        MeasureContext, AskAside, SummariseForHandoff, CompactNow, StartTask, RunTask, RevealEndpoint, Mcp, Skills,
        UseFiles, UseWorkflows, UseExtensions,
    ).into());
}

#[test]
fn every_reply_survives_serialisation() {
    let (actor, beside) = (actor_replies(), beside_replies());
    actor.iter().chain(&beside).for_each(assert_survives);
    for reply in [SendPrompt::reply(PromptId(uuid::Uuid::from_u128(7))), HoldQueue::reply(true)] {
        assert_survives(&ReplyMessage::Core(Box::new(reply)));
    }
    let tags = |replies: &[ReplyMessage]| replies.iter().map(tag).collect::<BTreeSet<_>>();
    let asked = |asks: &[AskMessage]| asks.iter().map(|ask| ask.name().to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(tags(&actor), asked(&actor_asks()), "the table has every reply");
    assert_eq!(tags(&beside), asked(&beside_asks()), "the table has every reply");
}

#[test]
fn every_failure_survives_serialisation() {
    failures().iter().for_each(assert_survives);
    for failure in failures() {
        let text = failure.to_string();
        let read: Failure = serde_json::from_value(serde_json::to_value(&failure).unwrap()).unwrap();
        assert_eq!(read.to_string(), text, "clients see the same message");
    }
}

#[test]
fn joins_survive_serialisation() {
    let workflows = Some(vec![Definition { name: "w".into(), ..Definition::default() }]);
    let params = SessionParams { keep: true, model: Some("m".into()), workflows, ..SessionParams::default() };
    for kind in [JoinKind::Create, JoinKind::Resume] {
        let params = Box::new(params.clone());
        assert_survives(&JoinRequest {
            client: ClientId(1),
            profile: Profile::default(),
            params,
            legacy: true,
            kind,
            returning: None,
        });
    }
    assert_survives(&JoinReply { elicitation: true, files: "/state/s".into(), at: Seq(3) });
}

#[test]
fn returning_client_brings_all_changes_that_the_other_version_knows() {
    let changes = edits().into_iter().map(|edit| SettingsChange { at: 7, edit }).collect();
    let returning = Returning { joined_at: Seq(3), changes };
    assert_survives(&returning);
    let mut newer = serde_json::to_value(&returning).unwrap();
    newer["changes"][0]["edit"] = json!({ "of_the_next_version": { "a": 1 } });
    let read: Returning = serde_json::from_str(&newer.to_string()).unwrap();
    assert_eq!(read.changes.len(), returning.changes.len() - 1);
    assert_eq!(read.joined_at, Seq(3));
}
