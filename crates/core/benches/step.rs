//! Turns of a session without I/O, the policy included: `cargo bench -p baton-core --bench step`.
//!
//! Instructions depend on no clock. Two runs with different numbers of turns differ by the cost of the turns alone; the path
//! of the program is in the output of `cargo bench -p baton-core --bench step --no-run`:
//!
//! ```text
//! for n in 100 300; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null PROGRAM --bench Ask --sample-count 1 --sample-size $n
//! done
//! ```
#![allow(clippy::expect_used, reason = "a benchmark panics on errors")]

use baton_core::ask::{AnswerRequest, SendPrompt};
use baton_core::policy::Advice;
use baton_core::{
    Arrival, AskId, Input, ModelReply, Output, Prepared, PreparedPrompt, Profile, RequestAnswer, Route,
    Session, Stamp, Work, WorkId, WorkResult,
};
use baton_protocol::event::{Body, Prompt, ToolRequest, WorkContext};
use baton_protocol::permission::{PermissionRequest, ShellCommand, Verdict};
use baton_protocol::tool::ToolResult;
use baton_protocol::{Author, ClientId, RequestId, Timestamp, ToolCallId};
use divan::{Bencher, black_box};

/// Kind of turn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The model answers.
    Plain,
    /// The model calls a tool that needs no permission.
    Tool,
    /// The model calls a tool, and a client approves it once.
    Ask,
    /// The model calls a tool that a grant of the session covers.
    Granted,
}

fn main() {
    divan::main();
}

#[divan::bench(args = [Kind::Plain, Kind::Tool, Kind::Ask, Kind::Granted])]
fn turn(bencher: Bencher<'_, '_>, kind: Kind) {
    let mut shell = Shell::new();
    bencher.bench_local(|| shell.turn(kind));
}

/// Takes steps, and starts no work.
struct Shell {
    session: Session,
    steps: u64,
    work: Option<(WorkId, Work)>,
    request: Option<RequestId>,
}

impl Shell {
    fn new() -> Self {
        let session = Session::new("s".parse().expect("a session id"));
        let mut shell = Self { session, steps: 0, work: None, request: None };
        let context = WorkContext { cwd: "/work".into(), ..WorkContext::default() };
        shell.take(Input::Create {
            context,
            model: None,
            reasoning_effort: None,
            version: "test".into(),
            by: None,
            sandbox: None,
        });
        let (client, profile) = (ClientId(1), Profile::default());
        shell.take(Input::Attach { client, profile, arrival: Arrival::Made });
        shell
    }

    fn take(&mut self, input: Input) {
        self.steps += 1;
        let now = Timestamp(1_794_774_653_000 + self.steps.cast_signed());
        for output in self.session.step(input, Stamp::new(now, u128::from(self.steps))) {
            match output {
                Output::Record(event) | Output::Show(event) => {
                    if let Body::PermissionRequested(requested) = &event.body {
                        self.request = Some(requested.request_id.clone());
                    }
                    black_box(event);
                }
                Output::Start(id, work) => self.work = Some((id, work)),
                _ => {}
            }
        }
    }

    fn finish(&mut self, result: WorkResult) {
        let (work, _) = self.work.take().expect("no work");
        self.take(Input::Finished { work, result: Box::new(result) });
    }

    fn ask(&mut self, ask: baton_core::Ask) {
        self.take(Input::Ask { id: AskId(self.steps + 1), ask });
    }

    fn turn(&mut self, kind: Kind) {
        let prompt = Box::new(Prompt { text: "what is in here?".into(), ..Prompt::default() });
        self.ask(SendPrompt { prompt }.into());
        let content = "what is in here?".into();
        self.finish(WorkResult::PreparePrompt(PreparedPrompt { content, ..PreparedPrompt::default() }));
        if kind != Kind::Plain {
            let call = ToolCallId(format!("call-{}", self.steps));
            self.finish(answer(vec![tool_request(&call)]));
            let wants = (kind != Kind::Tool).then(|| shell_request(&call));
            let (route, advice) = (Route::BuiltIn, Advice::None);
            self.finish(WorkResult::PrepareCall(Prepared::Runnable {
                route,
                wants,
                advice,
                cwd: None,
                arguments: None,
            }));
            if let Some(request) = self.request.take() {
                let verdict =
                    if kind == Kind::Ask { Verdict::ApproveOnce } else { Verdict::ApproveForSession(None) };
                let answer = Box::new(RequestAnswer::Permission(verdict, Author::http()));
                self.ask(AnswerRequest { request, answer, by: None }.into());
            }
            self.finish(WorkResult::RunTool(ToolResult::success("src\nCargo.toml\n")));
        }
        self.finish(answer(Vec::new()));
    }
}

fn answer(tool_requests: Vec<ToolRequest>) -> WorkResult {
    let text = "Two entries: src and Cargo.toml.".into();
    WorkResult::CallModel(Box::new(ModelReply { text, tool_requests, ..ModelReply::default() }))
}

fn tool_request(call: &ToolCallId) -> ToolRequest {
    ToolRequest {
        tool_call_id: call.clone(),
        name: "bash".into(),
        arguments: None,
        kind: None,
        mcp_server_name: None,
        mcp_tool_name: None,
        tool_title: None,
    }
}

fn shell_request(call: &ToolCallId) -> PermissionRequest {
    let identified = |name: &str| ShellCommand { identifier: name.into(), read_only: true };
    PermissionRequest::Shell {
        tool_call_id: Some(call.clone()),
        full_command_text: "git status --short && ls -la src | head -20".into(),
        intention: "Look around".into(),
        commands: ["git status", "ls", "head"].map(identified).to_vec(),
        possible_paths: vec!["/work/src".into()],
        possible_urls: Vec::new(),
        has_write_file_redirection: false,
        can_offer_session_approval: true,
        warning: None,
        input_to: None,
        repository_runs: None,
        sandbox: None,
        request_sandbox_bypass: None,
        request_sandbox_bypass_reason: None,
    }
}
