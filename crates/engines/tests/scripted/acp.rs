//! Agents that speak ACP, each in its own way.

use baton_engines::{Mode, Outcome, Report, ThreadSpec};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::ResultType;

use crate::common::{Bench, run, say, say_and_decide};
use crate::setup::engine;

/// An agent whose behaviour on a prompt is `work(request)`, and whose abilities are `can`.
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
    return hear()
OPTIONS = [{'optionId': 'all', 'name': 'Always', 'kind': 'allow_always'},
    {'optionId': 'yes', 'name': 'Yes', 'kind': 'allow_once'}, {'optionId': 'no', 'name': 'No', 'kind': 'reject_once'}]
def serve(work):
    while True:
        request = hear()
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

fn agent(script: &str) -> Bench {
    engine("acp:other", Mode::Interactive, &format!("{AGENT}{script}"))
}

#[tokio::test]
async fn chunks_are_messages_and_thoughts() {
    let bench = agent(
        "
def work(request):
    chunk('hm', kind='agent_thought_chunk')
    chunk('one ', messageId='a'); chunk('two', messageId='a'); chunk('three', messageId='b')
    update('plan', entries=[{'content': 'go', 'priority': 'high', 'status': 'completed'}])
    update('unheard_of', x=1); chunk('not ours', session='s-2')
    respond(request, stopReason='end_turn', usage={'inputTokens': 60, 'cachedReadTokens': 40, 'outputTokens': 5})
serve(work)",
    );
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    let messages: Vec<_> = told
        .reports
        .iter()
        .filter_map(|report| match report {
            Report::Message { text, reasoning } => Some((text.as_str(), reasoning.as_deref())),
            _ => None,
        })
        .collect();
    assert_eq!(messages, [("one two", Some("hm")), ("three", None)]);
    assert_eq!((told.streamed().as_str(), told.notes()), ("one twothree", vec![(false, "Plan:\n[x] go")]));
    let used = told.reports.iter().find_map(|report| match report {
        Report::Usage(usage) => usage.input_tokens,
        _ => None,
    });
    assert_eq!(used, Some(100));
}

#[tokio::test]
async fn a_call_is_one_call_however_it_is_told() {
    let bench = agent(
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
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    let results: Vec<_> = told
        .calls()
        .into_iter()
        .map(|(tool, result)| (tool, result.text_result_for_llm.as_str(), result.result_type))
        .collect();
    assert_eq!(results, [("bash", "xy", ResultType::Success), ("view", "gone", ResultType::Failure)]);
    let output: String = told
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
async fn what_is_allowed_is_allowed_once_and_what_is_not_is_told_why_afterwards() {
    let bench = agent(ASKS);
    let mut thread = bench.thread();
    let told = say_and_decide(thread.as_mut(), "hi", &Verdict::ApproveOnce).await.completed();
    assert_eq!((told.answer(), told.calls()[0].1.result_type), ("yes", ResultType::Success));
    let wanted = told.reports.iter().find_map(|report| match report {
        Report::Wants { wants, .. } => Some(wants.as_ref()),
        _ => None,
    });
    let Some(PermissionRequest::Shell { full_command_text, .. }) = wanted else { panic!("{told:#?}") };
    // The program shows a title and no command, so that no grant may take the one for the other.
    assert_eq!(full_command_text, "# touch a");
    let denied = Verdict::Reject { feedback: None };
    let told = say_and_decide(thread.as_mut(), "hi", &denied).await.completed();
    assert_eq!((told.answer(), told.calls()[0].1.result_type), ("no", ResultType::Denied));
}

#[tokio::test]
async fn an_interrupt_answers_what_is_still_asked() {
    let bench = agent(
        "
def work(request):
    call = dict(toolCallId='c', title='touch a', kind='execute')
    send({'jsonrpc': '2.0', 'id': 1, 'method': 'session/request_permission',
        'params': {'sessionId': 's-1', 'toolCall': call, 'options': OPTIONS}})
    said = [hear(), hear()]
    assert said[0]['result']['outcome']['outcome'] == 'cancelled' and said[1]['method'] == 'session/cancel'
    mark('stopped')
    respond(request, stopReason='cancelled')
serve(work)",
    );
    let mut thread = bench.thread();
    let told = run(thread.as_mut(), "hi", |report, desk| {
        if matches!(report, Report::Wants { .. }) {
            desk.interrupt.cancel();
        }
    })
    .await;
    assert_eq!(told.outcome, Outcome::Interrupted);
    assert!(bench.directory.path().join("stopped").exists());
    assert_eq!(told.calls()[0].1.result_type, ResultType::Failure);
}

#[tokio::test]
async fn a_conversation_is_opened_again_without_its_past() {
    let script = "
def work(request):
    chunk('new')
    respond(request, stopReason='end_turn')
serve(work)";
    let bench = agent(script);
    let first = say(bench.thread().as_mut(), "hi").await.completed();
    let told = say(bench.resumed(&first.token()).as_mut(), "hi").await.completed();
    assert_eq!((told.streamed().as_str(), told.token()), ("new", first.token()));
    let boastful = agent(&format!(
        "can = dict(loadSession=True, sessionCapabilities={{'resume': {{}}}})\n\
         refused = {{'session/resume': {{'code': -32601, 'message': 'Method not found'}}}}\n{script}"
    ));
    say(boastful.resumed(&first.token()).as_mut(), "hi").await.completed();
    let forgetful = agent(&format!("can = dict()\n{script}"));
    let told = say(forgetful.resumed(&first.token()).as_mut(), "hi").await;
    assert!(told.failure().contains("Start a new session"), "{told:#?}");
    // One that forgets begins anew when its process has gone, rather than asking for what is not there.
    let mut thread = forgetful.thread();
    say(thread.as_mut(), "hi").await.completed();
    thread.close().await;
    let told = say(thread.as_mut(), "hi").await.completed();
    assert_eq!((told.answer(), told.notes().len()), ("new", 1), "{told:#?}");
}

#[tokio::test]
async fn a_model_is_set_where_the_agent_wants_it_set() {
    let script = "
opened = dict(sessionId='s-1', configOptions=[{'id': 'which', 'name': 'Model', 'category': 'model', 'type': 'select',
    'currentValue': 'a', 'options': [{'value': 'a', 'name': 'A'}]}])
refused = {'session/set_config_option': {'code': -32602, 'message': 'Invalid params', 'data': 'no such model'}}
def work(request): respond(request, stopReason='end_turn')
serve(work)";
    let bench = agent(script);
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    assert!(matches!(&told.reports[0], Report::Started { model: Some(model), .. } if model == "a"));
    let spec = ThreadSpec { model: Some("b".into()), ..bench.spec() };
    let told = say(bench.engine.thread(spec).as_mut(), "hi").await;
    assert_eq!(told.failure(), "acp:other does not accept the model b: Invalid params: no such model");
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let refuse = |method: &str, error: &str| {
        agent(&format!(
            "refused = {{'{method}': {error}}}\nserve(lambda request: respond(request, stopReason='refusal'))"
        ))
    };
    let bench = refuse("session/new", "{'code': -32000, 'message': 'Authentication required'}");
    let told = say(bench.thread().as_mut(), "hi").await;
    assert!(told.failure().contains("Authentication required Log in"), "{told:#?}");
    let bench = refuse(
        "session/prompt",
        "{'code': -32603, 'message': 'Internal error', 'data': {'details': 'no luck'}}",
    );
    assert_eq!(say(bench.thread().as_mut(), "hi").await.failure(), "Internal error: no luck");
    let bench = refuse("nothing", "{}");
    assert_eq!(say(bench.thread().as_mut(), "hi").await.failure(), "The model refuses to go on.");
}

#[tokio::test]
async fn what_we_do_not_offer_is_refused_at_once() {
    let bench = agent(
        "
def work(request):
    answer = ask(5, 'fs/read_text_file', path='/etc/passwd')
    chunk(str(answer['error']['code']))
    respond(request, stopReason='end_turn')
serve(work)",
    );
    assert_eq!(say(bench.thread().as_mut(), "hi").await.completed().answer(), "-32601");
}
