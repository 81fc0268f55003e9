//! Questions of agents to people, and what is said to agents while they work.

use baton_engines::{Mode, Report};
use baton_protocol::event::UserQuestion;
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::ResultType;

use crate::common::run;
use crate::setup::engine;

#[tokio::test]
async fn questions_of_claude_are_answered_together() {
    let script = "
hear()
say(type='system', subtype='init', session_id='s', model='m')
questions = [{'question': 'Colour?', 'options': [{'label': 'red'}, {'label': 'blue'}]}, {'question': 'Why?'}]
say(type='control_request', request_id='r', request={'subtype': 'can_use_tool', 'tool_name': 'AskUserQuestion',
    'input': {'questions': questions}, 'tool_use_id': 'c'})
answer = hear()['response']['response']['updatedInput']['answers']
say(type='result', subtype='success', is_error=False, result=json.dumps(answer))
time.sleep(1000)
";
    let bench = engine("claude", Mode::Interactive, script);
    let mut asked = Vec::new();
    let told = run(bench.thread().as_mut(), "hi", |report, desk| {
        if let Report::Asks { reference, question: UserQuestion { question, choices, .. } } = report {
            desk.answer(reference, if choices.is_some() { "blue" } else { "because" });
            asked.push((question.clone(), choices.clone()));
        }
    })
    .await
    .completed();
    assert_eq!(told.answer(), r#"{"Colour?": "blue", "Why?": "because"}"#);
    assert_eq!(asked[0], ("Colour?".to_owned(), Some(vec!["red".to_owned(), "blue".to_owned()])));
}

#[tokio::test]
async fn a_change_of_a_file_is_shown_as_a_diff_and_denied_with_words() {
    let script = "
hear()
say(type='system', subtype='init', session_id='s', model='m')
call = {'type': 'tool_use', 'id': 'c', 'name': 'Write', 'input': {'file_path': 'a.txt', 'content': 'new\\n'}}
say(type='assistant', message={'content': [call]})
say(type='control_request', request_id='r', request={'subtype': 'can_use_tool', 'tool_name': 'Write',
    'input': call['input'], 'tool_use_id': 'c'})
answer = hear()['response']['response']
result = {'type': 'tool_result', 'tool_use_id': 'c', 'is_error': True, 'content': answer['message']}
say(type='user', message={'content': [result]})
say(type='result', subtype='success', is_error=False, result='done')
time.sleep(1000)
";
    let bench = engine("claude", Mode::Interactive, script);
    std::fs::write(bench.work().join("a.txt"), "old\n").unwrap();
    let mut shown = None;
    let told = run(bench.thread().as_mut(), "hi", |report, desk| {
        if let Report::Wants { reference, wants, .. } = report {
            shown = Some(wants.as_ref().clone());
            desk.decide(reference, Verdict::Reject { feedback: Some("not this file".to_owned()) });
        }
    })
    .await
    .completed();
    let Some(PermissionRequest::Write { diff, .. }) = shown else { panic!("{shown:?}") };
    assert!(diff.contains("-old") && diff.contains("+new"), "{diff}");
    let [("create", result)] = told.calls()[..] else { panic!("{told:#?}") };
    assert_eq!(
        (result.result_type, result.text_result_for_llm.as_str()),
        (ResultType::Denied, "not this file")
    );
}

#[tokio::test]
async fn what_is_not_waited_for_any_more_is_withdrawn() {
    let script = "
hear()
say(type='system', subtype='init', session_id='s', model='m')
say(type='control_request', request_id='r', request={'subtype': 'can_use_tool', 'tool_name': 'Bash',
    'input': {'command': 'ls'}, 'tool_use_id': 'c'})
say(type='control_cancel_request', request_id='r')
say(type='result', subtype='success', is_error=False, result='done')
time.sleep(1000)
";
    let bench = engine("claude", Mode::Interactive, script);
    let told = run(bench.thread().as_mut(), "hi", |_, _| {}).await.completed();
    assert!(told.reports.contains(&Report::Withdrawn { reference: "r".to_owned() }), "{told:#?}");
}

#[tokio::test]
async fn questions_of_extensions_of_pi_reach_people() {
    let script = "
def respond(request, **data): say(type='response', id=request.get('id'), command=request['type'], success=True, data=data)
respond(hear(), sessionId='s', model={'id': 'm'})
respond(hear())
say(type='agent_start')
say(type='extension_ui_request', id='q', method='confirm', title='Clear?', message='All of it.')
say(type='extension_ui_request', id='n', method='notify', message='Look!', notifyType='warning')
said = 'cleared' if hear()['confirmed'] else 'kept'
text = [{'type': 'text', 'text': said}]
say(type='message_end', message={'role': 'assistant', 'stopReason': 'stop', 'content': text})
say(type='agent_end', messages=[])
respond(hear(), sessionId='s', isStreaming=False)
time.sleep(1000)
";
    let bench = engine("pi", Mode::Interactive, script);
    let told = run(bench.thread().as_mut(), "hi", |report, desk| {
        if let Report::Asks { reference, .. } = report {
            desk.answer(reference, "Yes");
        }
    })
    .await
    .completed();
    assert_eq!((told.answer(), told.notes()), ("cleared", vec![(true, "Look!")]));
}
