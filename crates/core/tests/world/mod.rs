//! A shell without I/O: it keeps the one rule of the core, remembers everything, and can crash at any moment.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    reason = "shared by test files, each of which uses a part of it"
)]

use std::collections::{BTreeMap, BTreeSet};

use baton_core::policy::Advice;
use baton_core::{
    Answer, Arrangement, Arrival, Ask, CallStage, Change, Delegation, Durable, EngineReport, Input, Instead,
    Output, Prepared, PreparedPrompt, Profile, Reply, ReplyTo, Route, Said, Session, Stamp, Unanswered,
    Withdrawn, Work, WorkId, WorkResult,
};
use baton_protocol::event::{
    AgentMode, Body, ExecutionMode, HistoryTruncated, PlanAction, PlanAnswer, Prompt, ProposedPlan, Question,
    SendMode, SessionError, ToolRequest, UserQuestion, WorkContext,
};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::rules::{Rule, RuleKind, RuleListEdit, RulesEdit};
use baton_protocol::tool::{ToolResult, ToolSpec};
use baton_protocol::{
    AgentId, Author, ClientId, Event, EventId, Json, PromptId, RequestId, Timestamp, ToolCallId,
};

pub struct World {
    pub session: Session,
    pub log: Vec<Event>,
    pub shown: Vec<Event>,
    pub running: BTreeMap<WorkId, Work>,
    pub replies: BTreeMap<ReplyTo, Reply>,
    pub accepted: BTreeSet<PromptId>,
    steps: u64,
}

impl World {
    pub fn new() -> Self {
        let session = Session::new("s".parse().unwrap());
        let mut world = Self {
            session,
            log: Vec::new(),
            shown: Vec::new(),
            running: BTreeMap::new(),
            replies: BTreeMap::new(),
            accepted: BTreeSet::new(),
            steps: 0,
        };
        let context = WorkContext { cwd: "/work".into(), ..WorkContext::default() };
        world.take(Input::Create { context, model: None, reasoning_effort: None, version: "test".into() });
        world.attach(1, &["client_tool"]);
        world
    }

    pub fn take(&mut self, input: Input) -> Vec<Output> {
        self.steps += 1;
        let stamp = Stamp::new(Timestamp(1_794_774_653_000 + self.steps as i64), u128::from(self.steps));
        let outputs = self.session.step(input, stamp);
        for output in &outputs {
            match output {
                Output::Record(event) => self.log.push(event.clone()),
                Output::Show(event) => self.shown.push(event.clone()),
                Output::Reply(to, reply) => {
                    assert!(self.replies.insert(*to, reply.clone()).is_none(), "{to:?} was answered twice");
                    if let Reply::Accepted(id) = reply {
                        self.accepted.insert(*id);
                    }
                }
                Output::Start(id, work) => {
                    assert!(self.running.insert(*id, work.clone()).is_none());
                }
                Output::Tell(id, _) => assert!(self.running.contains_key(id), "told what was not running"),
                Output::Stop(id) => {
                    assert!(self.running.remove(id).is_some(), "stopped what was not running");
                }
            }
        }
        outputs
    }

    pub fn reply_to(&mut self) -> ReplyTo {
        self.steps += 1;
        ReplyTo(self.steps)
    }

    pub fn prompt(&mut self, mode: SendMode) -> ReplyTo {
        let reply = self.reply_to();
        let prompt = Prompt { text: format!("prompt {}", reply.0), mode, ..Prompt::default() };
        self.take(Input::Prompt { reply, prompt });
        reply
    }

    /// Sends a prompt for a turn in a mode of its own.
    pub fn prompt_in(&mut self, mode: AgentMode) {
        let reply = self.reply_to();
        let prompt = Prompt { text: "plan it".into(), agent_mode: Some(mode), ..Prompt::default() };
        self.take(Input::Prompt { reply, prompt });
    }

    pub fn change(&mut self, change: Change) {
        let reply = self.reply_to();
        self.take(Input::Change { reply, change });
    }

    /// A client sees to offers by itself; the name of that wish.
    pub fn listen(&mut self, client: u64) -> String {
        let reply = self.reply_to();
        self.take(Input::Listen { reply, client: ClientId(client) });
        match &self.replies[&reply] {
            Reply::Listening(name) => name.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn stop_listening(&mut self, listener: &str) -> bool {
        let reply = self.reply_to();
        self.take(Input::StopListening { reply, listener: listener.to_owned() });
        self.replies[&reply] == Reply::StoppedListening(true)
    }

    pub fn abort(&mut self) -> Reply {
        let reply = self.reply_to();
        self.take(Input::Abort { reply, reason: Default::default() });
        self.replies[&reply].clone()
    }

    pub fn withdraw(&mut self, all: bool) {
        let reply = self.reply_to();
        self.take(Input::Withdraw { reply, which: if all { Withdrawn::All } else { Withdrawn::Newest } });
    }

    pub fn withdraw_one(&mut self, id: PromptId) -> Reply {
        let reply = self.reply_to();
        self.take(Input::Withdraw { reply, which: Withdrawn::One(id) });
        self.replies[&reply].clone()
    }

    pub fn enqueue(&mut self, command: &str) -> PromptId {
        let reply = self.reply_to();
        self.take(Input::Enqueue { reply, command: command.to_owned() });
        match self.replies[&reply] {
            Reply::Accepted(id) => id,
            ref other => panic!("a command was not accepted: {other:?}"),
        }
    }

    /// A client offers to run whatever commands come, or takes that back.
    pub fn host(&mut self, client: u64, offers: bool) {
        self.take(Input::Host { client: ClientId(client), handle: format!("host-{client}"), offers });
    }

    pub fn arrange(&mut self, how: Arrangement) -> Reply {
        let reply = self.reply_to();
        self.take(Input::Arrange { reply, how: Box::new(how) });
        self.replies[&reply].clone()
    }

    /// The names of what waits, in order.
    pub fn waiting(&self) -> Vec<PromptId> {
        self.session.waiting().map(|waiting| waiting.id).collect()
    }

    /// The command that clients have been asked to run, by the name of the request.
    pub fn command(&self) -> Option<RequestId> {
        self.session.live.command.map(|id| RequestId(id.to_string()))
    }

    /// The events that clients see of the history as it counts, with their places.
    pub fn counting(&self) -> impl DoubleEndedIterator<Item = (u64, &Event)> {
        let removed = &self.session.durable.removed;
        let places = (1..).zip(&self.log);
        let places: Vec<_> =
            places.filter(|(seq, event)| event.body.is_public() && !removed.contains(*seq)).collect();
        places.into_iter()
    }

    /// Goes back to one of the events that count. At rest that works; otherwise it changes nothing.
    pub fn go_back(&mut self, which: usize) {
        let counting: Vec<(u64, EventId)> = self.counting().map(|(seq, event)| (seq, event.id)).collect();
        let at = which % counting.len();
        let (from_seq, from_event_id) = counting[at];
        let cut = HistoryTruncated {
            from_event_id,
            from_seq,
            events_removed: (counting.len() - at) as u64,
            last_kept: at.checked_sub(1).map(|last| counting[last].1),
            has_prompts: false,
        };
        let (reply, before) = (self.reply_to(), self.session.durable.clone());
        let rests = !self.session.is_busy();
        self.take(Input::Truncate { reply, cut });
        if rests && at > 0 {
            let left: Vec<EventId> = self.counting().map(|(_, event)| event.id).collect();
            let kept: Vec<EventId> = counting[..at].iter().map(|(_, id)| *id).collect();
            assert_eq!(left, kept, "what is left is what was before");
        } else {
            assert_eq!(self.session.durable, before);
            assert!(matches!(self.replies[&reply], Reply::Refused(_)));
        }
    }

    pub fn attach(&mut self, client: u64, tools: &[&str]) {
        self.take(Input::Attach {
            client: ClientId(client),
            profile: profile(tools),
            arrival: Arrival::Made,
        });
    }

    pub fn resume(&mut self, client: u64, tools: &[&str], continue_pending_work: Option<bool>) {
        self.resume_with(client, profile(tools), continue_pending_work);
    }

    pub fn resume_with(&mut self, client: u64, profile: Profile, continue_pending_work: Option<bool>) {
        let arrival = Arrival::Resumed {
            continue_pending_work,
            record: true,
            context: Box::default(),
            model: None,
            reasoning_effort: None,
        };
        self.take(Input::Attach { client: ClientId(client), profile, arrival });
    }

    pub fn detach(&mut self, client: u64) {
        self.take(Input::Detach { client: ClientId(client) });
    }

    pub fn finish(&mut self, work: WorkId, result: WorkResult) {
        self.running.remove(&work);
        self.take(Input::Finished { work, result: Box::new(result) });
    }

    pub fn report(&mut self, work: WorkId, report: EngineReport) -> Vec<Output> {
        self.take(Input::Reported { work, report: Box::new(report) })
    }

    pub fn answer(&mut self, request: &RequestId, answer: Answer) -> ReplyTo {
        let reply = self.reply_to();
        self.take(Input::Answer { reply, request: request.clone(), answer });
        reply
    }

    /// A client asks whoever has a command to run it, and waits for that.
    pub fn invoke(&mut self, name: &str) -> ReplyTo {
        let reply = self.reply_to();
        self.take(Input::Ask { reply, ask: Ask::Command { name: name.to_owned(), args: String::new() } });
        reply
    }

    /// The sub-agents that have not ended, as the state has them.
    pub fn agents(&self) -> Vec<AgentId> {
        let turn = self.session.durable.turn.iter();
        turn.flat_map(|turn| turn.working_agents()).map(|agent| agent.id.clone()).collect()
    }

    pub fn start_agent(&mut self) -> Reply {
        let reply = self.reply_to();
        self.take(Input::StartAgent { reply, task: Box::new(task(ExecutionMode::Sync)) });
        self.replies[&reply].clone()
    }

    pub fn stop_agent(&mut self, agent: &AgentId) -> Reply {
        let reply = self.reply_to();
        self.take(Input::StopAgent { reply, agent: agent.clone() });
        self.replies[&reply].clone()
    }

    /// The server dies and comes back: only the log is left.
    pub fn crash(&mut self) {
        self.running.clear();
        let text: Vec<String> = self.log.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let events: Vec<Event> = text.iter().map(|line| Event::parse(line).unwrap()).collect();
        self.session = Session::recovered(self.session.id.clone(), Durable::of(&events));
    }

    /// Requests that wait for an answer, as the state has them.
    pub fn open_requests(&self) -> Vec<(RequestId, CallStage)> {
        let calls = self.session.durable.turn.iter().flat_map(|turn| &turn.calls);
        calls.filter_map(|call| Some((call.stage.request()?.clone(), call.stage.clone()))).collect()
    }

    /// The offer of another model that waits for an answer.
    pub fn offer(&self) -> Option<RequestId> {
        Some(self.session.durable.turn.as_ref()?.offer.as_ref()?.request_id.clone())
    }

    /// How often each prompt has been given an outcome.
    pub fn outcomes(&self) -> BTreeMap<PromptId, usize> {
        let mut counts = BTreeMap::new();
        for event in &self.log {
            if let Body::TurnSettled(settled) = &event.body {
                settled.prompt_ids.iter().for_each(|id| *counts.entry(*id).or_default() += 1);
            }
        }
        counts
    }

    pub fn kinds(&self) -> Vec<&str> {
        self.log.iter().map(|event| event.body.kind()).collect()
    }

    pub fn last_shown(&self) -> Option<&str> {
        self.shown.last().map(|event| event.body.kind())
    }

    /// The one piece of work of a kind that is running.
    #[track_caller]
    pub fn only(&self, which: impl Fn(&Work) -> bool) -> WorkId {
        let found: Vec<WorkId> = self.running.iter().filter(|(_, w)| which(w)).map(|(id, _)| *id).collect();
        assert_eq!(found.len(), 1, "of {:?}", self.running);
        found[0]
    }
}

pub fn profile(tools: &[&str]) -> Profile {
    let spec = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: None,
        overrides_built_in_tool: false,
        skip_permission: false,
        is_terminal: *name == "terminal_tool",
    };
    Profile {
        tools: tools.iter().map(spec).collect(),
        user_input: true,
        plan_approval: true,
        model_switch: true,
        ..Profile::default()
    }
}

pub fn prepared_prompt() -> WorkResult {
    WorkResult::PreparePrompt(PreparedPrompt { content: "prompt".into(), ..PreparedPrompt::default() })
}

pub fn prepared_for_engine() -> WorkResult {
    let content = "prompt".to_owned();
    let (transformed, engine) = (Some(content.clone()), Some("codex".into()));
    WorkResult::PreparePrompt(PreparedPrompt { content, transformed, engine, ..PreparedPrompt::default() })
}

/// An answer of the model with calls of these tools.
pub fn said(round: u64, tools: &[&str]) -> WorkResult {
    let request = |(n, name): (usize, &&str)| ToolRequest {
        tool_call_id: ToolCallId(format!("call-{round}-{n}")),
        name: (*name).to_owned(),
        arguments: None,
        kind: None,
    };
    let tool_requests = tools.iter().enumerate().map(request).collect();
    WorkResult::Ask(Box::new(Said { text: "text".into(), tool_requests, ..Said::default() }))
}

pub fn failed() -> WorkResult {
    WorkResult::AskFailed(Box::new(unanswered(None)))
}

/// The model wants to be asked less often; another could be asked.
pub fn limited() -> WorkResult {
    let instead = Instead { model: "another".into(), retry_after_seconds: Some(7) };
    WorkResult::AskFailed(Box::new(unanswered(Some(instead))))
}

fn unanswered(instead: Option<Instead>) -> Unanswered {
    let error = SessionError { error_type: "query".into(), message: "no".into(), ..SessionError::default() };
    Unanswered { error, partial: Some(("m".into(), "half an".into())), instead }
}

/// What a call would need.
pub fn wants(call: &ToolCallId, route: Route) -> WorkResult {
    let wants = Some(wish(call, route));
    WorkResult::PrepareCall(Prepared::Runnable {
        route,
        wants,
        advice: Advice::None,
        cwd: None,
        arguments: None,
    })
}

pub fn wish(call: &ToolCallId, route: Route) -> PermissionRequest {
    let tool_call_id = Some(call.clone());
    match route {
        Route::Client => PermissionRequest::CustomTool {
            tool_call_id,
            tool_name: "client_tool".into(),
            tool_description: String::new(),
            args: Some(Json::from_text(r#"{"n":1}"#).unwrap()),
        },
        Route::BuiltIn => {
            PermissionRequest::Read { tool_call_id, path: "/x".into(), intention: String::new() }
        }
    }
}

pub fn runnable(route: Route) -> WorkResult {
    WorkResult::PrepareCall(Prepared::Runnable {
        route,
        wants: None,
        advice: Advice::None,
        cwd: None,
        arguments: None,
    })
}

/// A call that hands a task on.
pub fn delegation(mode: ExecutionMode) -> WorkResult {
    WorkResult::PrepareCall(Prepared::Delegate(Box::new(task(mode))))
}

pub fn task(mode: ExecutionMode) -> Delegation {
    Delegation {
        kind: "explore".into(),
        name: "look".into(),
        description: "Looking".into(),
        prompt: "Look.".into(),
        system: "You look.".into(),
        model: None,
        mode,
    }
}

pub fn user_question() -> UserQuestion {
    UserQuestion { question: "Which?".into(), choices: None, allow_freeform: None }
}

pub fn proposed_plan() -> ProposedPlan {
    ProposedPlan {
        summary: "do it".into(),
        plan_content: "1. do it".into(),
        actions: PlanAction::ALL.to_vec(),
        recommended_action: PlanAction::Interactive,
    }
}

/// A call that asks whoever is there.
pub fn asks(question: Question) -> WorkResult {
    WorkResult::PrepareCall(Prepared::Question(question))
}

pub fn plan_approved(action: PlanAction) -> Answer {
    Answer::Plan(PlanAnswer::Approved { action, approves_edits: false, defers: false, feedback: None })
}

pub fn plan_refused(feedback: Option<&str>) -> Answer {
    Answer::Plan(PlanAnswer::Refused { feedback: feedback.map(str::to_owned) })
}

pub fn decided(verdict: Verdict) -> Answer {
    Answer::Permission(verdict, Author::http())
}

/// Changes the standing rules.
pub fn set_rules(world: &mut World, edit: RulesEdit) {
    let change = Change::Rules { edit: Box::new(edit), by: Author::http() };
    let reply = world.reply_to();
    world.take(Input::Change { reply, change });
}

/// Has every request that a rule names denied, whatever else is allowed.
pub fn deny(world: &mut World, rule: Rule) {
    let denied = RuleListEdit { add: vec![rule], ..RuleListEdit::default() };
    set_rules(world, RulesEdit { denied, ..RulesEdit::default() });
}

/// A rule for what [`wish`] wants of a built-in tool.
pub fn read_rule() -> Rule {
    Rule::new(RuleKind::Read, Some("/x"))
}

/// A request to run a shell line.
pub fn shell_request(line: &str) -> PermissionRequest {
    PermissionRequest::Shell {
        tool_call_id: None,
        full_command_text: line.into(),
        intention: String::new(),
        commands: Vec::new(),
        possible_paths: Vec::new(),
        possible_urls: Vec::new(),
        has_write_file_redirection: false,
        can_offer_session_approval: false,
        warning: None,
        input_to: None,
    }
}

pub fn wants_shell(line: &str) -> WorkResult {
    let wants = Some(shell_request(line));
    let (route, advice) = (Route::BuiltIn, Advice::None);
    WorkResult::PrepareCall(Prepared::Runnable { route, wants, advice, cwd: None, arguments: None })
}

pub fn approve() -> Answer {
    decided(Verdict::ApproveOnce)
}

pub fn reject() -> Answer {
    decided(Verdict::Reject { feedback: None })
}

pub fn tool_result() -> Answer {
    Answer::Tool(ToolResult::success("42"))
}
