//! Tests of asks and replies: each survives serialisation, and a reply belongs to one kind of ask.

use std::collections::BTreeSet;

use baton_protocol::Author;
use baton_protocol::attachment::Attachment;
use baton_protocol::event::{
    AgentForgotten, AgentMode, ExecutionMode, PermissionMode, PlanAction, PlanAnswer, SendMode, SwitchAnswer,
    WorkContext,
};
use baton_protocol::permission::{Approval, PermissionRequest, Verdict};
use baton_protocol::rules::{Rule, RuleKind, RuleListEdit, RulesEdit};
use baton_protocol::tool::ToolResult;
use uuid::Uuid;

use super::*;

const ITEM: PromptId = PromptId(Uuid::from_u128(7));
const EVENT: EventId = EventId(Uuid::from_u128(8));

/// JSON that a serialiser would spell in another way: the order of keys and the form of numbers must survive.
fn json() -> Json {
    Json::from_text(r#"{"b":1.50,"a":[null,"x"]}"#).unwrap()
}

fn prompt() -> Box<Prompt> {
    Box::new(Prompt {
        text: "text".into(),
        display: Some("shown".into()),
        attachments: vec![Attachment::from(json())],
        mode: SendMode::Immediate,
        agent_mode: Some(AgentMode::Plan),
        key: Some("key".into()),
        by: Some(Author::crush()),
        request_headers: [("authorization".to_owned(), "secret".to_owned())].into(),
    })
}

fn answers() -> Vec<RequestAnswer> {
    let approval = Some(Approval::Commands { command_identifiers: vec!["echo".into()] });
    let verdicts = [
        Verdict::ApproveOnce,
        Verdict::ApproveForSession(None),
        Verdict::ApproveForSession(approval.clone()),
        Verdict::ApproveForLocation { approval, location_key: "/work".into() },
        Verdict::Reject { feedback: Some("no".into()) },
        Verdict::UserNotAvailable,
        Verdict::DeniedByRules,
    ];
    let mut answers: Vec<RequestAnswer> =
        verdicts.into_iter().map(|verdict| RequestAnswer::Permission(verdict, Author::http())).collect();
    answers.extend([
        RequestAnswer::ApproveUnattended(Author::unattended()),
        RequestAnswer::Tool(ToolResult { contents: Some(json()), ..ToolResult::failure("no") }),
        RequestAnswer::UserInput { answer: "left".into(), was_freeform: true },
        RequestAnswer::NoUser,
        RequestAnswer::Sampling(Some(json())),
        RequestAnswer::NoLogin,
        RequestAnswer::Elicitation(Elicited { action: "accept".into(), content: Some(json()) }),
        RequestAnswer::Plan(PlanAnswer::Refused { feedback: None }),
        RequestAnswer::Plan(PlanAnswer::Approved {
            action: PlanAction::ExitOnly,
            approves_edits: true,
            defers: true,
            feedback: Some("good".into()),
        }),
        RequestAnswer::Switch(SwitchAnswer::YesAlways),
        RequestAnswer::Command { by: ClientId(3), error: Some("no".into()) },
        RequestAnswer::QueuedCommand { handled: true, stop: false },
    ]);
    answers
}

fn changes() -> Vec<Change> {
    let denied =
        RuleListEdit { add: vec![Rule::new(RuleKind::Shell, Some("rm"))], ..RuleListEdit::default() };
    let by = Author::crush();
    vec![
        Change::Model { model: "m".into(), reasoning_effort: Some("high".into()) },
        Change::Mode(AgentMode::Autopilot),
        Change::Permissions(PermissionMode::AllowAll),
        Change::Sandbox(Some(Box::default())),
        Change::Sandbox(None),
        Change::Rules { edit: Box::new(RulesEdit { denied, ..RulesEdit::default() }), by: by.clone() },
        Change::Rules { edit: Box::new(RulesEdit::disarming()), by: by.clone() },
        Change::Revoke { grant: Some(EVENT), by: by.clone() },
        Change::Revoke { grant: None, by },
        Change::Name { name: "n".into(), by_user: true },
        Change::Context(WorkContext { cwd: "/work".into(), ..WorkContext::default() }),
        Change::Log { level: LogLevel::Warning, message: "m".into(), url: None, ephemeral: true },
        Change::Noted(Box::new(AgentForgotten { agent_id: "a".into() }.into())),
        Change::Shown(Box::new(baton_protocol::event::Body::Unknown { kind: "x.z".into(), data: json() })),
        Change::Noted(Box::new(baton_protocol::event::Body::Unknown { kind: "x.y".into(), data: json() })),
    ]
}

fn wants() -> PermissionRequest {
    PermissionRequest::Hook {
        tool_call_id: None,
        tool_name: "trust".into(),
        // A request keeps the value of its arguments and not their spelling: consent runs nothing that it shows.
        tool_args: Some(Json::from_text(r#"{"b":1.5}"#).unwrap()),
        hook_message: Some("m".into()),
    }
}

fn task() -> Box<Handoff> {
    Box::new(Handoff {
        kind: "explore".into(),
        name: "look".into(),
        description: "Looking".into(),
        prompt: "Look.".into(),
        system: "You look.".into(),
        model: None,
        mode: ExecutionMode::Background,
    })
}

fn asks() -> Vec<Ask> {
    let cut = HistoryTruncated {
        from_event_id: EVENT,
        from_seq: 3,
        events_removed: 2,
        last_kept: Some(EVENT),
        has_prompts: true,
        by: None,
    };
    let mut asks: Vec<Ask> = vec![
        SendPrompt { prompt: prompt() }.into(),
        SendPrompt { prompt: Box::default() }.into(),
        EnqueueCommand { command: "/deploy now".into(), by: None }.into(),
        MoveQueued { prompt: ITEM, position: 2 }.into(),
        InsertPrompt { prompt: prompt(), position: 0 }.into(),
        DuplicateQueued { prompt: ITEM }.into(),
        RewordQueued { prompt: ITEM, text: "t".into(), display: Some("d".into()) }.into(),
        SteerQueued { prompt: ITEM }.into(),
        HoldQueue { hold: true }.into(),
        RegisterRunner { client: ClientId(1), handle: "h".into(), registered: true }.into(),
        Withdraw { which: Withdrawn::Newest }.into(),
        Withdraw { which: Withdrawn::One(ITEM) }.into(),
        Withdraw { which: Withdrawn::All }.into(),
        Abort { reason: AbortReason::RemoteCommand, by: Some(Author::http()) }.into(),
        CancelTurn { turn: Some("t".into()), reason: AbortReason::UserInitiated, by: None }.into(),
        Elicit {
            message: "m".into(),
            schema: Some(json()),
            source: Some("s".into()),
            url: None,
            key: Some("k".into()),
        }
        .into(),
        Sample { server: "s".into(), id: "1".into(), request: json(), key: "k".into() }.into(),
        Consent { wants: Box::new(wants()), message: "m".into(), key: "k".into() }.into(),
        WithdrawAsk { key: "k".into() }.into(),
        RequestLogin { server: "s".into(), url: "https://x/".into(), reason: "initial".into() }.into(),
        CloseLogin { server: "s".into(), outcome: "token".into() }.into(),
        RequestHost { call: Some("c".into()), origin: "https://x".into() }.into(),
        ReportFile { call: None, path: ".envrc".into(), kept: "k".into(), content: "c".into() }.into(),
        InvokeCommand { name: "deploy".into(), args: "now".into() }.into(),
        ListenForSwitch { client: ClientId(1) }.into(),
        StopListening { listener: "l".into() }.into(),
        Suspend {}.into(),
        StartAgent { task: task() }.into(),
        RunAgent { task: task(), key: "k".into() }.into(),
        StopAgent { agent: "a".into() }.into(),
        Truncate { cut }.into(),
    ];
    asks.extend(answers().into_iter().map(|answer| {
        let answer = Box::new(answer);
        Ask::from(AnswerRequest { request: "r".into(), answer, by: Some(Author::http()) })
    }));
    asks.extend(changes().into_iter().map(|change| Ask::from(Amend::unsigned(change))));
    asks
}

fn replies() -> Vec<Reply> {
    let mut replies = vec![
        SendPrompt::reply(ITEM),
        EnqueueCommand::reply(ITEM),
        MoveQueued::reply(true),
        InsertPrompt::reply(ITEM),
        DuplicateQueued::reply(ITEM),
        RewordQueued::reply(false),
        SteerQueued::reply(true),
        HoldQueue::reply(true),
        RegisterRunner::reply(()),
        Withdraw::reply(2),
        Abort::reply(true),
        CancelTurn::reply(Some(2)),
        Elicit::reply(Elicited { action: "accept".into(), content: Some(json()) }),
        Elicit::reply(Elicited::cancelled()),
        Sample::reply(Some(json())),
        Consent::reply(Some(TrustTerm::Session)),
        RunAgent::reply(AgentReport { answer: "a".into(), error: Some("e".into()) }),
        WithdrawAsk::reply(true),
        RequestLogin::reply("r".into()),
        CloseLogin::reply(false),
        RequestHost::reply(HostAnswer::Allowed),
        RequestHost::reply(HostAnswer::Denied { reason: "no".into() }),
        ReportFile::reply(FileVerdict::Asked),
        InvokeCommand::reply(None),
        InvokeCommand::reply(Some("no".into())),
        ListenForSwitch::reply("l".into()),
        StopListening::reply(true),
        Suspend::reply(()),
        Amend::reply(None),
        Amend::reply(Some(EVENT)),
        StartAgent::reply("a".into()),
        StopAgent::reply(false),
        Truncate::reply(3),
    ];
    replies.extend(
        [
            AnswerOutcome::Counted,
            AnswerOutcome::TooLate,
            AnswerOutcome::NoSuchRequest,
            AnswerOutcome::Mismatch,
            AnswerOutcome::NotOffered("why".into()),
            AnswerOutcome::Refused("why".into()),
        ]
        .map(AnswerRequest::reply),
    );
    replies
}

/// Serialises a value, and reads it back.
fn returned<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    baton_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the tag of a serialised ask or reply.
fn tag(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap();
    value.as_object().unwrap().keys().next().unwrap().clone()
}

#[test]
fn every_ask_survives_serialisation() {
    let asks = asks();
    asks.iter().for_each(|ask| assert_eq!(returned(ask), *ask));
    let names: BTreeSet<&str> = asks.iter().map(Ask::name).collect();
    assert_eq!(names, Ask::NAMES.iter().copied().collect(), "the table names every ask");
}

#[test]
fn every_reply_survives_serialisation() {
    let replies = replies();
    for reply in replies.iter().cloned().map(Ok).chain([Err(Refusal::from("why"))]) {
        assert_eq!(returned(&reply), reply);
    }
    let tags = |values: Vec<String>| values.into_iter().collect::<BTreeSet<_>>();
    let of_replies = tags(replies.iter().map(tag).collect());
    assert_eq!(of_replies, tags(asks().iter().map(tag).collect()), "the table names every reply");
}

#[test]
fn reply_belongs_to_one_kind_of_ask() {
    assert_eq!(HoldQueue::of(HoldQueue::reply(true)), Some(true));
    assert_eq!(Abort::of(HoldQueue::reply(true)), None);
}
