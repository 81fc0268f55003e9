//! Translation of the output of `codex exec` into reports.

use baton_engines::{Mode, Report, ThreadSpec};
use baton_protocol::tool::ResultType;

use crate::common::run_prompt;
use crate::setup::{codex, configured, engine};

fn kinds(reports: &[Report]) -> Vec<&str> {
    let kinds = reports.iter().map(|report| match report {
        Report::Note { warning: true, .. } | Report::StandingWarning(_) => "warning",
        Report::Note { warning: false, .. } => "note",
        Report::Started { .. } => "started",
        Report::Message { .. } => "message",
        Report::CallStarted { .. } => "call",
        Report::CallFinished { .. } => "result",
        Report::Usage(_) => "usage",
        Report::Retries(_) => "retry",
        _ => "other",
    });
    kinds.collect()
}

#[tokio::test]
async fn warning_before_the_start_is_reported_first() {
    let fixture = codex("say(type='error', message='warning one')\nstarted()\nmessage('ok')");
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    assert_eq!(kinds(&record.reports), ["warning", "started", "message"]);
    assert_eq!((record.notes()[0], record.answer()), ((true, "warning one"), "ok"));
}

#[tokio::test]
async fn reconnecting_is_reported_as_a_retry() {
    let fixture = codex(
        "say(type='error', message='Reconnecting... 1/5')\nsay(type='error', message='Reconnecting... 2/5')\n\
         started()\nmessage('ok')\ncompleted()",
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    assert_eq!(kinds(&record.reports), ["retry", "retry", "started", "message", "usage"]);
    let failed = |text| (text, None, Some(0));
    assert_eq!(
        record.retries(),
        [failed("codex: the model call failed (1 of 5)."), failed("codex: the model call failed (2 of 5).")]
    );
}

#[tokio::test]
async fn answer_is_the_final_answer_else_the_last_message() {
    let phases = codex(
        "started()\nmessage('Working.', phase='commentary')\nmessage('Done.', phase='final_answer')\n\
         message('By the way.')\ncompleted()",
    );
    let record = run_prompt(phases.thread().as_mut(), "hi").await.completed();
    assert_eq!((record.answer(), record.notes()), ("Done.", vec![(false, "By the way.")]));
    let plain = codex("started()\nmessage('first')\nmessage('second')\ncompleted()");
    assert_eq!(run_prompt(plain.thread().as_mut(), "hi").await.completed().answer(), "second");
}

#[tokio::test]
async fn unknown_items_are_skipped() {
    let fixture = codex(
        "started()\nsay(type='turn.started')\nsay(type='moon.phase', full=True)\nsend([1])\nsend('x')\n\
         item('item_0', 'future_item', foo='bar')\n\
         item('item_1', 'collab_tool_call', what='started', tool='spawn_agent', prompt='check')\n\
         item('item_1', 'collab_tool_call', tool='spawn_agent', prompt='check', status='completed',\
              agents_states={'worker': {'status': 'completed', 'message': 'fine'}})\nmessage('ok')\ncompleted()",
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    let [(tool, result)] = record.calls()[..] else { panic!("{record:#?}") };
    assert_eq!((tool, result.text_result_for_llm.as_str()), ("spawn_agent", "worker: completed fine"));
    assert_eq!((record.answer(), record.notes().len()), ("ok", 0));
}

#[tokio::test]
async fn call_ids_are_unique_across_runs() {
    let fixture = codex(
        "started()\ncommand = dict(command=\"/bin/bash -lc 'ls'\")\n\
         item('item_0', 'command_execution', what='started', status='in_progress', **command)\n\
         item('item_0', 'command_execution', status='failed', exit_code=2, aggregated_output='no', **command)\n\
         message('ok')\ncompleted()",
    );
    let mut thread = fixture.thread();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let record = run_prompt(thread.as_mut(), "hi").await.completed();
        let [(tool, result)] = record.calls()[..] else { panic!("{record:#?}") };
        assert_eq!((tool, result.result_type), ("bash", ResultType::Failure));
        ids.extend(record.reports.iter().find_map(|report| match report {
            Report::CallStarted { id, arguments, .. } => Some((id.clone(), format!("{arguments:?}"))),
            _ => None,
        }));
    }
    assert_eq!(ids[0].1, r#"{"command":"ls"}"#);
    assert_ne!(ids[0].0, ids[1].0);
}

#[tokio::test]
async fn usage_of_a_turn_is_the_difference_of_thread_totals() {
    let fixture = codex(
        "total = 100 * (1 + is_marked('one') + is_marked('two'))\nmark('two' if is_marked('one') else 'one')\n\
         started()\nmessage('ok')\ncompleted(total)",
    );
    let used = |reports: &[Report]| -> Vec<Option<u64>> {
        let used = reports.iter().filter_map(|report| match report {
            Report::Usage(usage) => Some(usage.input_tokens),
            _ => None,
        });
        used.collect()
    };
    let mut thread = fixture.thread();
    let first = run_prompt(thread.as_mut(), "hi").await.completed();
    let second = run_prompt(thread.as_mut(), "hi").await.completed();
    assert_eq!((used(&first.reports), used(&second.reports)), (vec![Some(100)], vec![Some(100)]));
    // The earlier usage of a resumed thread is unknown, so nothing is reported.
    let resumed = run_prompt(fixture.resumed(&first.token()).as_mut(), "hi").await.completed();
    assert_eq!(used(&resumed.reports), []);
}

#[tokio::test]
async fn arguments_are_in_the_order_that_codex_expects() {
    let fixture = configured("codex", "started()\nmessage(json.dumps(args))\ncompleted()", |settings| {
        settings.mode = Mode::Exec;
        settings.extra_args = vec!["-c".into(), "notify=[]".into()];
    });
    let new = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    assert_eq!(
        new.answer(),
        r#"["-c", "notify=[]", "exec", "--json", "--skip-git-repo-check", "--color=never", "-"]"#
    );
    let spec = ThreadSpec {
        model: Some("m".into()),
        resume: Some(new.token()),
        allow_all: true,
        reasoning_effort: Some("low".into()),
        ..fixture.spec()
    };
    let resumed = run_prompt(fixture.engine.thread(spec).as_mut(), "hi").await.completed();
    assert_eq!(
        resumed.answer(),
        r#"["-c", "notify=[]", "-c", "model_reasoning_effort=low", "--model", "m", "exec", "--json", "--skip-git-repo-check", "--color=never", "--sandbox", "danger-full-access", "resume", "t-1", "-"]"#
    );
}

#[tokio::test]
async fn reserved_arguments_are_refused_before_the_program_starts() {
    for argument in ["--skip-git-repo-check", "--color=never", "--output-last-message=out.txt", "-o"] {
        let fixture = configured("codex", "mark('ran')", |settings| {
            settings.extra_args = vec!["-c".into(), argument.into()];
        });
        let record = run_prompt(fixture.thread().as_mut(), "hi").await;
        assert!(record.failure().contains(argument) && record.failure().contains("Remove it"), "{record:#?}");
        assert!(!fixture.directory.path().join("ran").exists());
    }
}

/// `codex app-server` that is not logged in, and whose model does not answer.
const LOGGED_OUT: &str = "
def respond(request, **result): send({'id': request['id'], 'result': result})
while True:
    request = next_line()
    method = request.get('method')
    if method == 'account/read': respond(request, **account)
    elif method == 'thread/start': respond(request, thread={'id': 't-1'}, model='m')
    elif method == 'turn/start':
        respond(request, turn={'id': 'u-1'})
        failed = {'message': 'Reconnecting... 2/5', 'additionalDetails': 'Unauthorized',
            'codexErrorInfo': {'responseStreamDisconnected': {'httpStatusCode': 401}}}
        say(method='error', params={'threadId': 't-1', 'willRetry': True, 'error': failed})
        say(method='turn/completed', params={'threadId': 't-1', 'turn': {'id': 'u-1', 'status': 'failed', 'error': {'message': 'no'}}})
    elif 'id' in request: respond(request)
";

#[tokio::test]
async fn missing_login_and_retries_of_the_app_server_are_reported() {
    let fixture = engine(
        "codex",
        Mode::Interactive,
        &format!("account = {{'account': None, 'requiresOpenaiAuth': True}}{LOGGED_OUT}"),
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert_eq!(kinds(&record.reports), ["warning", "started", "retry"]);
    assert!(
        record.notes()[0].1.starts_with("codex is not logged in. Log in with `codex login`"),
        "{record:#?}"
    );
    assert_eq!(record.retries(), [("codex: Unauthorized (2 of 5).", Some(401), Some(0))]);
    assert_eq!(record.failure(), "no");
}

#[tokio::test]
async fn provider_without_a_login_is_no_reason_for_a_warning() {
    for account in [
        "{'account': None, 'requiresOpenaiAuth': False}",
        "{'account': {'type': 'apiKey'}, 'requiresOpenaiAuth': True}",
    ] {
        let fixture = engine("codex", Mode::Interactive, &format!("account = {account}{LOGGED_OUT}"));
        let record = run_prompt(fixture.thread().as_mut(), "hi").await;
        assert_eq!(kinds(&record.reports), ["started", "retry"], "{account}");
    }
}
