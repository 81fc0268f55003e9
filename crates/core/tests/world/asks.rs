//! Asks of clients, in short.

use baton_core::ask::{
    Abort, Amend, AnswerRequest, CancelTurn, EnqueueCommand, HoldQueue, InvokeCommand, ListenForSwitch,
    RegisterRunner, SendPrompt, StartAgent, StopAgent, StopListening, Truncate, Withdraw,
};
use baton_core::{AnswerOutcome, AskId, Asking, Change, Input, Output, Refusal, RequestAnswer, Withdrawn};
use baton_protocol::event::{AgentMode, ExecutionMode, HistoryTruncated, PermissionMode, Prompt, SendMode};
use baton_protocol::rules::{Rule, RuleListEdit, RulesEdit};
use baton_protocol::{AgentId, Author, ClientId, EventId, PromptId, RequestId};

use super::{World, over_the_wire, task};

impl World {
    /// Asks. The reply, now or later, has the returned id.
    pub fn send<A: Asking>(&mut self, ask: A) -> AskId {
        self.send_for_outputs(ask).0
    }

    /// Asks, and returns all outputs of the step as well.
    pub fn send_for_outputs<A: Asking>(&mut self, ask: A) -> (AskId, Vec<Output>) {
        let id = self.next_ask();
        let outputs = self.take(Input::Ask { id, ask: over_the_wire(&ask.into()) });
        (id, outputs)
    }

    /// Asks something that is replied to in the same step.
    #[track_caller]
    pub fn ask<A: Asking>(&mut self, ask: A) -> Result<A::Reply, Refusal> {
        let id = self.send(ask);
        self.reply::<A>(id).expect("no reply yet")
    }

    /// The reply to an ask of a kind.
    pub fn reply<A: Asking>(&self, id: AskId) -> Option<Result<A::Reply, Refusal>> {
        let reply = self.replies.get(&id)?.clone();
        Some(reply.map(|reply| A::of(reply).expect("a reply of another kind")))
    }

    pub fn prompt(&mut self, mode: SendMode) -> PromptId {
        let text = format!("prompt {}", self.replies.len());
        self.prompt_with(Prompt { text, mode, ..Prompt::default() })
    }

    /// Sends a prompt with a mode for its turn.
    pub fn prompt_in(&mut self, mode: AgentMode) -> PromptId {
        self.prompt_with(Prompt { text: "plan it".into(), agent_mode: Some(mode), ..Prompt::default() })
    }

    pub fn prompt_with(&mut self, prompt: Prompt) -> PromptId {
        self.ask(SendPrompt { prompt: Box::new(prompt) }).expect("a prompt is accepted")
    }

    pub fn change(&mut self, change: Change) -> Option<EventId> {
        self.ask(Amend::unsigned(change)).expect("a change is never refused")
    }

    pub fn allow_all(&mut self) {
        self.change(Change::Permissions(PermissionMode::AllowAll));
    }

    /// Edits the standing rules.
    pub fn edit_rules(&mut self, edit: RulesEdit) {
        self.change(Change::Rules { edit: Box::new(edit), by: Author::http() });
    }

    /// Adds a deny rule.
    pub fn deny(&mut self, rule: Rule) {
        let denied = RuleListEdit { add: vec![rule], ..RuleListEdit::default() };
        self.edit_rules(RulesEdit { denied, ..RulesEdit::default() });
    }

    pub fn listen(&mut self, client: u64) -> String {
        self.ask(ListenForSwitch { client: ClientId(client) }).expect("a listener's name")
    }

    pub fn stop_listening(&mut self, listener: &str) -> bool {
        self.ask(StopListening { listener: listener.to_owned() }) == Ok(true)
    }

    pub fn abort(&mut self) -> bool {
        self.ask(Abort { reason: Default::default(), by: None }).expect("an abort is never refused")
    }

    /// Cancels what runs, by its name, and holds the queue. Returns how many items are held.
    pub fn cancel_turn(&mut self, turn: Option<&str>) -> Option<usize> {
        let turn = turn.map(ToOwned::to_owned);
        self.ask(CancelTurn { turn, reason: Default::default(), by: None }).expect("never refused")
    }

    pub fn withdraw(&mut self, which: Withdrawn) -> usize {
        self.ask(Withdraw { which }).expect("never refused")
    }

    pub fn enqueue(&mut self, command: &str) -> PromptId {
        self.ask(EnqueueCommand { command: command.to_owned(), by: None }).expect("a command is accepted")
    }

    /// Registers or unregisters a client as a runner.
    pub fn register_runner(&mut self, client: u64, registered: bool) {
        let handle = format!("runner-{client}");
        self.ask(RegisterRunner { client: ClientId(client), handle, registered }).expect("never refused");
    }

    pub fn resume_queue(&mut self) -> Result<bool, Refusal> {
        self.ask(HoldQueue { hold: false })
    }

    /// Answers a request. [`Self::outcome_of`] tells whether the answer counted.
    pub fn answer(&mut self, request: &RequestId, answer: RequestAnswer) -> AskId {
        self.answer_for_outputs(request, answer).0
    }

    pub fn answer_for_outputs(&mut self, request: &RequestId, answer: RequestAnswer) -> (AskId, Vec<Output>) {
        self.send_for_outputs(AnswerRequest {
            request: request.clone(),
            answer: Box::new(answer),
            by: Some(Author::http()),
        })
    }

    /// Whether an answer counted; none while that is not decided.
    pub fn outcome_of(&self, answer: AskId) -> Option<AnswerOutcome> {
        self.reply::<AnswerRequest>(answer).map(|reply| reply.expect("answers have outcomes, not refusals"))
    }

    /// Makes a client run a command of its own.
    pub fn invoke(&mut self, name: &str) -> AskId {
        self.send(InvokeCommand { name: name.to_owned(), args: String::new() })
    }

    pub fn start_agent(&mut self) -> Result<AgentId, Refusal> {
        self.ask(StartAgent { task: Box::new(task(ExecutionMode::Sync)) })
    }

    pub fn stop_agent(&mut self, agent: &AgentId) -> bool {
        self.ask(StopAgent { agent: agent.clone() }).expect("never refused")
    }

    /// Rewinds to one of the events that count. An idle session does so; a busy one refuses, and changes nothing.
    pub fn rewind(&mut self, which: usize) {
        let counting: Vec<(u64, EventId)> = self.counting().map(|(seq, event)| (seq, event.id)).collect();
        let at = which % counting.len();
        let (from_seq, from_event_id) = counting[at];
        let cut = HistoryTruncated {
            from_event_id,
            from_seq,
            events_removed: (counting.len() - at) as u64,
            last_kept: at.checked_sub(1).map(|last| counting[last].1),
            has_prompts: false,
            by: None,
        };
        let (before, is_busy) = (self.session.durable.clone(), self.session.is_busy());
        let rewound = self.ask(Truncate { cut });
        if !is_busy && at > 0 {
            let left: Vec<EventId> = self.counting().map(|(_, event)| event.id).collect();
            let kept: Vec<EventId> = counting[..at].iter().map(|(_, id)| *id).collect();
            assert_eq!(left, kept, "what is left is what was before");
        } else {
            assert_eq!(self.session.durable, before);
            assert!(rewound.is_err());
        }
    }
}
