//! The ACP dialect, with the peculiarities of different agents.

use baton_engines::{Mode, Report, RunOutcome, ThreadSpec};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::ResultType;

use crate::common::{Fixture, run, run_prompt, run_prompt_with_verdict};
use crate::setup::engine;

/// An agent that handles a prompt with `work(request)` and has the capabilities `can`.
const AGENT: &str = r#"
can = dict(loadSession=True)
opened = dict(sessionId='s-1')
refused = {}
def respond(request, **result): send({'jsonrpc': '2.0', 'id': request['id'], 'result': result})
def fail(request, error): send({'jsonrpc': '2.0', 'id': request['id'], 'error': error})
def update(what, session='s-1', **more):
    send({'jsonrpc': '2.0', 'method': 'session/update', 'params': {'sessionId': session, 'update': {'sessionUpdate': what, **more}}})
def chunk(text, kind='agent_message_chunk', **more): update(kind, content={'type': 'text', 'text': text}, **more)
def ask(id, method, **params):
    send({'jsonrpc': '2.0', 'id': id, 'method': method, 'params': {'sessionId': 's-1', **params}})
    return next_line()
OPTIONS = [{'optionId': 'all', 'name': 'Always', 'kind': 'allow_always'},
    {'optionId': 'yes', 'name': 'Yes', 'kind': 'allow_once'}, {'optionId': 'no', 'name': 'No', 'kind': 'reject_once'}]
def serve(work):
    while True:
        request = next_line()
        method = request.get('method')
        if method in refused: fail(request, refused[method])
        elif method == 'initialize': respond(request, protocolVersion=1, agentCapabilities=can)
        elif method == 'session/new': respond(request, **opened)
        elif method == 'session/load':
            chunk('an old message')
            respond(request)
        elif method == 'session/prompt': work(request)
        elif method and 'id' in request: respond(request)
"#;

fn agent(script: &str) -> Fixture {
    engine("acp:other", Mode::Interactive, &format!("{AGENT}{script}"))
}

#[tokio::test]
async fn chunks_are_joined_to_messages_and_reasoning() {
    let fixture = agent(
        "
def work(request):
    chunk('hm', kind='agent_thought_chunk')
    chunk('one ', messageId='a'); chunk('two', messageId='a'); chunk('three', messageId='b')
    update('plan', entries=[{'content': 'go', 'priority': 'high', 'status': 'completed'}])
    update('unheard_of', x=1); chunk('not ours', session='s-2')
    respond(request, stopReason='end_turn', usage={'inputTokens': 60, 'cachedReadTokens': 40, 'outputTokens': 5})
serve(work)",
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    let messages: Vec<_> = record
        .reports
        .iter()
        .filter_map(|report| match report {
            Report::Message { text, reasoning } => Some((text.as_str(), reasoning.as_deref())),
            _ => None,
        })
        .collect();
    assert_eq!(messages, [("one two", Some("hm")), ("three", None)]);
    assert_eq!(
        (record.streamed().as_str(), record.notes()),
        ("one twothree", vec![(false, "Plan:\n[x] go")])
    );
    let used = record.reports.iter().find_map(|report| match report {
        Report::Usage(usage) => usage.input_tokens,
        _ => None,
    });
    assert_eq!(used, Some(100));
}

#[tokio::test]
async fn updates_of_a_call_are_merged() {
    let fixture = agent(
        "
def work(request):
    update('tool_call', toolCallId='a', title='bash', kind='execute', status='pending', rawInput={})
    update('tool_call_update', toolCallId='a', status='in_progress', rawInput={'command': 'ls'})
    out = lambda text: [{'type': 'content', 'content': {'type': 'text', 'text': text}}]
    update('tool_call_update', toolCallId='a', status='in_progress', content=out('x'))
    update('tool_call_update', toolCallId='a', status='in_progress', content=out('xy'))
    update('tool_call_update', toolCallId='a', status='completed', content=out('xy'))
    update('tool_call_update', toolCallId='b', status='failed', title='Read', kind='read', rawOutput='gone')
    respond(request, stopReason='end_turn')
serve(work)",
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    let results: Vec<_> = record
        .calls()
        .into_iter()
        .map(|(tool, result)| (tool, result.text_result_for_llm.as_str(), result.result_type))
        .collect();
    assert_eq!(results, [("bash", "xy", ResultType::Success), ("view", "gone", ResultType::Failure)]);
    let output: String = record
        .reports
        .iter()
        .filter_map(|report| match report {
            Report::CallOutput { output, .. } => Some(output.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(output, "xy");
}

const ASKS: &str = "
def work(request):
    call = dict(toolCallId='c', title='touch a', kind='execute', status='pending')
    answer = ask('q-1', 'session/request_permission', toolCall=call, options=OPTIONS)['result']['outcome']
    chosen = answer.get('optionId', answer['outcome'])
    if chosen == 'yes': update('tool_call_update', toolCallId='c', status='completed')
    chunk(chosen)
    respond(request, stopReason='end_turn')
serve(work)";

#[tokio::test]
async fn verdicts_select_the_single_use_options() {
    let fixture = agent(ASKS);
    let mut thread = fixture.thread();
    let record = run_prompt_with_verdict(thread.as_mut(), "hi", &Verdict::ApproveOnce).await.completed();
    assert_eq!((record.answer(), record.calls()[0].1.result_type), ("yes", ResultType::Success));
    let wanted = record.reports.iter().find_map(|report| match report {
        Report::Wants { wants, .. } => Some(wants.as_ref()),
        _ => None,
    });
    let Some(PermissionRequest::Shell { full_command_text, .. }) = wanted else { panic!("{record:#?}") };
    // The agent discloses a title and no command: shown as a comment, which no grant covers.
    assert_eq!(full_command_text, "# touch a");
    let denied = Verdict::Reject { feedback: None };
    let record = run_prompt_with_verdict(thread.as_mut(), "hi", &denied).await.completed();
    assert_eq!((record.answer(), record.calls()[0].1.result_type), ("no", ResultType::Denied));
}

#[tokio::test]
async fn interrupt_cancels_open_permission_requests() {
    let fixture = agent(
        "
def work(request):
    call = dict(toolCallId='c', title='touch a', kind='execute')
    send({'jsonrpc': '2.0', 'id': 1, 'method': 'session/request_permission',
        'params': {'sessionId': 's-1', 'toolCall': call, 'options': OPTIONS}})
    said = [next_line(), next_line()]
    assert said[0]['result']['outcome']['outcome'] == 'cancelled' and said[1]['method'] == 'session/cancel'
    mark('stopped')
    respond(request, stopReason='cancelled')
serve(work)",
    );
    let mut thread = fixture.thread();
    let record = run(thread.as_mut(), "hi", |report, handle| {
        if matches!(report, Report::Wants { .. }) {
            handle.interrupt.cancel();
        }
    })
    .await;
    assert_eq!(record.outcome, RunOutcome::Interrupted);
    assert!(fixture.directory.path().join("stopped").exists());
    assert_eq!(record.calls()[0].1.result_type, ResultType::Failure);
}

#[tokio::test]
async fn resumed_conversation_does_not_repeat_its_history() {
    let script = "
def work(request):
    chunk('new')
    respond(request, stopReason='end_turn')
serve(work)";
    let fixture = agent(script);
    let first = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    let record = run_prompt(fixture.resumed(&first.token()).as_mut(), "hi").await.completed();
    assert_eq!((record.streamed().as_str(), record.token()), ("new", first.token()));
    let announces_resume = agent(&format!(
        "can = dict(loadSession=True, sessionCapabilities={{'resume': {{}}}})\n\
         refused = {{'session/resume': {{'code': -32601, 'message': 'Method not found'}}}}\n{script}"
    ));
    run_prompt(announces_resume.resumed(&first.token()).as_mut(), "hi").await.completed();
    let not_resumable = agent(&format!("can = dict()\n{script}"));
    let record = run_prompt(not_resumable.resumed(&first.token()).as_mut(), "hi").await;
    assert!(record.failure().contains("Start a new session"), "{record:#?}");
    // An agent that cannot resume starts a new conversation after its process has exited.
    let mut thread = not_resumable.thread();
    run_prompt(thread.as_mut(), "hi").await.completed();
    thread.close().await;
    let record = run_prompt(thread.as_mut(), "hi").await.completed();
    assert_eq!((record.answer(), record.notes().len()), ("new", 1), "{record:#?}");
}

#[tokio::test]
async fn model_is_set_through_the_config_option() {
    let script = "
opened = dict(sessionId='s-1', configOptions=[{'id': 'which', 'name': 'Model', 'category': 'model', 'type': 'select',
    'currentValue': 'a', 'options': [{'value': 'a', 'name': 'A'}]}])
refused = {'session/set_config_option': {'code': -32602, 'message': 'Invalid params', 'data': 'no such model'}}
def work(request): respond(request, stopReason='end_turn')
serve(work)";
    let fixture = agent(script);
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    assert!(matches!(&record.reports[0], Report::Started { model: Some(model), .. } if model == "a"));
    let spec = ThreadSpec { model: Some("b".into()), ..fixture.spec() };
    let record = run_prompt(fixture.engine.thread(spec).as_mut(), "hi").await;
    assert_eq!(record.failure(), "acp:other does not accept the model b: Invalid params: no such model");
}

#[tokio::test]
async fn errors_of_the_agent_are_reported_with_details() {
    let refuse = |method: &str, error: &str| {
        agent(&format!(
            "refused = {{'{method}': {error}}}\nserve(lambda request: respond(request, stopReason='refusal'))"
        ))
    };
    let fixture = refuse("session/new", "{'code': -32000, 'message': 'Authentication required'}");
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert!(record.failure().contains("Authentication required. Log in"), "{record:#?}");
    let fixture = refuse(
        "session/prompt",
        "{'code': -32603, 'message': 'Internal error', 'data': {'details': 'no luck'}}",
    );
    assert_eq!(run_prompt(fixture.thread().as_mut(), "hi").await.failure(), "Internal error: no luck");
    let fixture = refuse("nothing", "{}");
    assert_eq!(run_prompt(fixture.thread().as_mut(), "hi").await.failure(), "The model refused to continue.");
}

#[tokio::test]
async fn unsupported_requests_are_refused() {
    let fixture = agent(
        "
def work(request):
    answer = ask(5, 'fs/read_text_file', path='/etc/passwd')
    chunk(str(answer['error']['code']))
    respond(request, stopReason='end_turn')
serve(work)",
    );
    assert_eq!(run_prompt(fixture.thread().as_mut(), "hi").await.completed().answer(), "-32601");
}

#[tokio::test]
async fn retries_in_the_log_of_opencode_belong_to_the_conversation() {
    let script = r#"
def failed(reason, session='s-1'):
    sys.stderr.write(f'level=ERROR message="stream error" session.id={session} small=false agent=build '
        f'error.error="AI_APICallError: {reason}"\n')
def work(request):
    failed('one'); failed('not ours', session='s-2'); failed('two')
    wait_for('seen')
    chunk('ok')
    respond(request, stopReason='end_turn')
serve(work)"#;
    let fixture = engine("opencode", Mode::Interactive, &format!("{AGENT}{script}"));
    let seen = fixture.directory.path().join("seen");
    let mut thread = fixture.thread();
    let record = run(thread.as_mut(), "hi", |report, _| {
        if matches!(report, Report::Retries(_)) {
            std::fs::write(&seen, "").unwrap();
        }
    });
    let record = record.await.completed();
    assert_eq!(record.retries(), [("opencode: one.", None, Some(0))]);
    assert_eq!(record.answer(), "ok");
}
