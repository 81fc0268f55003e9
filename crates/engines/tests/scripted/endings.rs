//! Outcomes of runs: from the program's report, its exit status and its output.

use baton_engines::{Mode, Report, RunOutcome};
use baton_protocol::tool::ResultType;

use crate::common::{run, run_prompt};
use crate::setup::{all, codex, configured, engine};

#[tokio::test]
async fn stderr_is_reported_as_diagnostics() {
    let fixture = codex("sys.exit('Not inside a trusted directory')");
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert_eq!(record.failure(), "codex exec failed (rc=1).");
    assert_eq!(record.diagnostics(), "Not inside a trusted directory");
}

#[tokio::test]
async fn failing_exit_after_an_answer_is_a_warning() {
    let fixture = codex("started()\nmessage('ok')\ncompleted()\nsys.exit(3)");
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    assert_eq!(record.notes(), [(true, "codex exec answered, but did not exit properly (rc=3).")]);
}

#[tokio::test]
async fn reported_failure_wins_over_a_successful_exit() {
    let codex = codex("started()\nsay(type='turn.failed', error={'message': 'the API said no'})");
    assert_eq!(run_prompt(codex.thread().as_mut(), "hi").await.failure(), "the API said no");
    // Claude reports an error of the API as a success.
    let claude = engine(
        "claude",
        Mode::Exec,
        "say(type='system', subtype='init', session_id='s')\n\
         say(type='result', subtype='success', is_error=True, result='API Error: 401 no')",
    );
    let record = run_prompt(claude.thread().as_mut(), "hi").await;
    assert_eq!(
        record.failure(),
        "API Error: 401 no. Log in by running `claude` once, or set ANTHROPIC_API_KEY."
    );
    // Pi always exits with 0.
    let pi = engine(
        "pi",
        Mode::Exec,
        "say(type='session', id='s')\nerror = {'role': 'assistant', 'content': [], 'stopReason': 'error', \
         'errorMessage': 'no luck'}\nsay(type='message_end', message=error)\nsay(type='agent_end', messages=[])",
    );
    assert_eq!(run_prompt(pi.thread().as_mut(), "hi").await.failure(), "no luck");
}

#[tokio::test]
async fn answer_of_a_retry_replaces_the_error() {
    let pi = engine(
        "pi",
        Mode::Exec,
        "say(type='session', id='s')\n\
         def end(reason, **more):\n\
         \x20   say(type='message_end', message={'role': 'assistant', 'stopReason': reason, **more})\n\
         \x20   say(type='agent_end', messages=[])\n\
         end('error', errorMessage='503')\n\
         say(type='auto_retry_start', attempt=1, maxAttempts=3, delayMs=2000, errorMessage='503')\n\
         end('stop', content=[{'type': 'text', 'text': 'ok'}])",
    );
    let record = run_prompt(pi.thread().as_mut(), "hi").await.completed();
    assert_eq!(record.retries(), [("pi: 503 (1 of 3).", None, Some(2000))]);
    assert_eq!(record.answer(), "ok");
}

#[tokio::test]
async fn denied_tool_of_opencode_fails_with_advice() {
    let fixture = engine(
        "opencode",
        Mode::Exec,
        "state = {'status': 'error', 'input': {'command': 'ls'}, 'error': 'The user rejected permission to use this.'}\n\
         say(type='tool_use', sessionID='ses_1', part={'tool': 'bash', 'callID': 'c', 'state': state})\n\
         say(type='step_finish', sessionID='ses_1', part={'reason': 'tool-calls', 'tokens': {}})",
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert!(record.failure().contains("may not use"), "{record:#?}");
    assert_eq!(record.calls()[0].1.result_type, ResultType::Denied);
}

#[tokio::test]
async fn unfinished_calls_fail_at_the_end_of_the_run() {
    let fixture = codex("started()\nitem('item_0', 'command_execution', what='started', command='ls')");
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert_eq!(record.failure(), "codex exec ended without an answer.");
    assert_eq!(record.calls()[0].1.result_type, ResultType::Failure);
}

#[tokio::test]
async fn exit_without_output_is_a_failure_in_every_dialect() {
    for (name, mode) in all() {
        let fixture = engine(name, mode, "sys.stderr.write('boom')\nsys.exit(7)");
        let record = run_prompt(fixture.thread().as_mut(), "hi").await;
        assert!(record.failure().contains("failed (rc=7)"), "{name} {mode:?}: {record:#?}");
        assert_eq!(record.diagnostics(), "boom");
        let fixture = engine(name, mode, "sys.exit(0)");
        let record = run_prompt(fixture.thread().as_mut(), "hi").await;
        assert!(record.failure().contains("without a"), "{name} {mode:?}: {record:#?}");
    }
}

#[tokio::test]
async fn start_is_reported_once_and_nothing_after_the_end() {
    let fixture = codex("started()\nstarted()\nmessage('ok')\ncompleted()\nmessage('late')\ncompleted()");
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    let starts = record.reports.iter().filter(|report| matches!(report, Report::Started { .. }));
    assert_eq!((starts.count(), record.answer()), (1, "ok"));
}

#[tokio::test]
async fn program_that_opens_a_different_conversation_is_stopped() {
    let fixture = codex("started('other')\nmessage('ok')\ncompleted()");
    let mut thread = fixture.resumed(&baton_engines::ResumeToken("mine".into()));
    let record = run_prompt(thread.as_mut(), "hi").await;
    let message = record.failure();
    assert!(["mine", "other", "Start a new session"].iter().all(|word| message.contains(word)), "{message}");
    assert!(record.reports.is_empty(), "{record:#?}");
}

#[tokio::test]
async fn missing_working_directory_is_reported() {
    let fixture = codex("started()");
    std::fs::remove_dir(fixture.work()).unwrap();
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert!(
        matches!(&record.outcome, RunOutcome::Failed { message, .. } if message.contains("no such directory"))
    );
}

#[tokio::test]
async fn retries_of_codex_are_reported() {
    let fixture = codex(
        "started()\nsay(type='error', message='Reconnecting... 2/5 (no route)')\nmessage('ok')\ncompleted()",
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    assert_eq!(record.retries(), [("codex: no route (2 of 5).", None, Some(0))]);
}

#[tokio::test]
async fn retries_of_claude_are_reported() {
    let fixture = engine(
        "claude",
        Mode::Exec,
        "say(type='system', subtype='init', session_id='s')\n\
         say(type='system', subtype='api_retry', attempt=1, max_retries=10, retry_delay_ms=562.7, error_status=529, \
         error='overloaded')\n\
         say(type='system', subtype='api_retry', attempt=2, max_retries=10, retry_delay_ms=1000, error_status=None, \
         error='unknown')\nsay(type='result', subtype='success', result='ok')",
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    let overloaded = ("claude: overloaded (1 of 10).", Some(529), Some(562));
    assert_eq!(
        record.retries(),
        [overloaded, ("claude: the model call failed (2 of 10).", None, Some(1000))]
    );
}

#[tokio::test]
async fn retries_in_the_log_of_opencode_are_reported() {
    let fixture = engine(
        "opencode",
        Mode::Exec,
        "def failed(reason):\n\
         \x20   sys.stderr.write('level=ERROR message=\"stream error\" session.id=ses_1 small=false agent=build '\n\
         \x20       f'error.error=\"AI_APICallError: {reason}\"\\n')\n\
         failed('one'); failed('two'); failed('three')\n\
         wait_for('seen')\n\
         say(type='text', sessionID='ses_1', part={'text': 'ok'})\n\
         say(type='step_finish', sessionID='ses_1', part={'reason': 'stop', 'tokens': {}})",
    );
    let seen = fixture.directory.path().join("seen");
    let mut count = 0;
    let mut thread = fixture.thread();
    let record = run(thread.as_mut(), "hi", |report, _| {
        count += usize::from(matches!(report, Report::Retries(_)));
        if count == 2 {
            std::fs::write(&seen, "").unwrap();
        }
    });
    let record = record.await.completed();
    // Nobody knows whether the last one was repeated.
    assert_eq!(record.retries(), [("opencode: one.", None, Some(0)), ("opencode: two.", None, Some(0))]);
}

#[tokio::test]
async fn missing_login_is_a_warning_before_the_first_prompt() {
    let script = "say(type='system', subtype='init', session_id='s')\nsay(type='result', subtype='success', result='ok')";
    let fixture = configured("claude", script, |settings| {
        settings.mode = Mode::Exec;
        settings.environment.insert("ANTHROPIC_API_KEY".into(), String::new());
    });
    let mut thread = fixture.thread();
    let first = run_prompt(thread.as_mut(), "hi").await.completed();
    let [(true, warning)] = first.notes()[..] else { panic!("{first:#?}") };
    assert!(warning.contains("claude is probably not logged in"), "{warning}");
    assert!(matches!(first.reports.first(), Some(Report::Note { .. })), "{first:#?}");
    let second = run_prompt(thread.as_mut(), "hi").await.completed();
    assert_eq!(second.notes(), []);
}
