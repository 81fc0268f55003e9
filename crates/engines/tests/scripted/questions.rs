//! Permission requests of agents and their questions to the user.

use baton_engines::{Mode, Report};
use baton_protocol::event::UserQuestion;
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::ResultType;

use crate::common::run;
use crate::setup::engine;

#[tokio::test]
async fn claude_gets_the_answers_to_all_questions_together() {
    let script = "
next_line()
say(type='system', subtype='init', session_id='s', model='m')
questions = [{'question': 'Colour?', 'options': [{'label': 'red'}, {'label': 'blue'}]}, {'question': 'Why?'}]
say(type='control_request', request_id='r', request={'subtype': 'can_use_tool', 'tool_name': 'AskUserQuestion',
    'input': {'questions': questions}, 'tool_use_id': 'c'})
answer = next_line()['response']['response']['updatedInput']['answers']
say(type='result', subtype='success', is_error=False, result=json.dumps(answer))
time.sleep(1000)
";
    let fixture = engine("claude", Mode::Interactive, script);
    let mut asked = Vec::new();
    let record = run(fixture.thread().as_mut(), "hi", |report, handle| {
        if let Report::Asks { reference, question: UserQuestion { question, choices, .. } } = report {
            handle.answer(reference, if choices.is_some() { "blue" } else { "because" });
            asked.push((question.clone(), choices.clone()));
        }
    })
    .await
    .completed();
    assert_eq!(record.answer(), r#"{"Colour?": "blue", "Why?": "because"}"#);
    assert_eq!(asked[0], ("Colour?".to_owned(), Some(vec!["red".to_owned(), "blue".to_owned()])));
}

#[tokio::test]
async fn file_change_is_shown_as_a_diff_and_denied_with_feedback() {
    let script = "
next_line()
say(type='system', subtype='init', session_id='s', model='m')
call = {'type': 'tool_use', 'id': 'c', 'name': 'Write', 'input': {'file_path': 'a.txt', 'content': 'new\\n'}}
say(type='assistant', message={'content': [call]})
say(type='control_request', request_id='r', request={'subtype': 'can_use_tool', 'tool_name': 'Write',
    'input': call['input'], 'tool_use_id': 'c'})
answer = next_line()['response']['response']
result = {'type': 'tool_result', 'tool_use_id': 'c', 'is_error': True, 'content': answer['message']}
say(type='user', message={'content': [result]})
say(type='result', subtype='success', is_error=False, result='done')
time.sleep(1000)
";
    let fixture = engine("claude", Mode::Interactive, script);
    std::fs::write(fixture.work().join("a.txt"), "old\n").unwrap();
    let mut shown = None;
    let record = run(fixture.thread().as_mut(), "hi", |report, handle| {
        if let Report::Wants { reference, wants, .. } = report {
            shown = Some(wants.as_ref().clone());
            handle.decide(reference, Verdict::Reject { feedback: Some("not this file".to_owned()) });
        }
    })
    .await
    .completed();
    let Some(PermissionRequest::Write { diff, .. }) = shown else { panic!("{shown:?}") };
    assert!(diff.contains("-old") && diff.contains("+new"), "{diff}");
    let [("create", result)] = record.calls()[..] else { panic!("{record:#?}") };
    assert_eq!(
        (result.result_type, result.text_result_for_llm.as_str()),
        (ResultType::Denied, "not this file")
    );
}

#[tokio::test]
async fn cancelled_request_is_withdrawn() {
    let script = "
next_line()
say(type='system', subtype='init', session_id='s', model='m')
say(type='control_request', request_id='r', request={'subtype': 'can_use_tool', 'tool_name': 'Bash',
    'input': {'command': 'ls'}, 'tool_use_id': 'c'})
say(type='control_cancel_request', request_id='r')
say(type='result', subtype='success', is_error=False, result='done')
time.sleep(1000)
";
    let fixture = engine("claude", Mode::Interactive, script);
    let record = run(fixture.thread().as_mut(), "hi", |_, _| {}).await.completed();
    assert!(record.reports.contains(&Report::Withdrawn { reference: "r".to_owned() }), "{record:#?}");
}

#[tokio::test]
async fn questions_of_pi_extensions_reach_the_user() {
    let script = "
def respond(request, **data): say(type='response', id=request.get('id'), command=request['type'], success=True, data=data)
respond(next_line(), sessionId='s', model={'id': 'm'})
respond(next_line())
say(type='agent_start')
say(type='extension_ui_request', id='q', method='confirm', title='Clear?', message='All of it.')
say(type='extension_ui_request', id='n', method='notify', message='Look!', notifyType='warning')
said = 'cleared' if next_line()['confirmed'] else 'kept'
text = [{'type': 'text', 'text': said}]
say(type='message_end', message={'role': 'assistant', 'stopReason': 'stop', 'content': text})
say(type='agent_end', messages=[])
respond(next_line(), sessionId='s', isStreaming=False)
time.sleep(1000)
";
    let fixture = engine("pi", Mode::Interactive, script);
    let record = run(fixture.thread().as_mut(), "hi", |report, handle| {
        if let Report::Asks { reference, .. } = report {
            handle.answer(reference, "Yes");
        }
    })
    .await
    .completed();
    assert_eq!((record.answer(), record.notes()), ("cleared", vec![(true, "Look!")]));
}
