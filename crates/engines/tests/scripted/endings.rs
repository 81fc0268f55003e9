//! How a run ended is decided from everything that is known, and told once.

use baton_engines::{Mode, Outcome, Report};
use baton_protocol::tool::ResultType;

use crate::common::say;
use crate::setup::{ALL, codex, engine};

#[tokio::test]
async fn stderr_is_kept_apart_from_the_reason() {
    let bench = codex("sys.exit('Not inside a trusted directory')");
    let told = say(bench.thread().as_mut(), "hi").await;
    assert_eq!(told.failure(), "codex exec failed (rc=1).");
    assert_eq!(told.diagnostics(), "Not inside a trusted directory");
}

#[tokio::test]
async fn an_answer_is_not_lost_to_a_bad_exit() {
    let bench = codex("started()\nmessage('ok')\ncompleted()\nsys.exit(3)");
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    assert_eq!(told.notes(), [(true, "codex exec answered, but did not end properly (rc=3).")]);
}

#[tokio::test]
async fn a_failure_is_not_covered_up_by_a_good_exit() {
    let codex = codex("started()\nsay(type='turn.failed', error={'message': 'the API said no'})");
    assert_eq!(say(codex.thread().as_mut(), "hi").await.failure(), "the API said no");
    // Claude calls an error of the API a success.
    let claude = engine(
        "claude",
        Mode::Exec,
        "say(type='system', subtype='init', session_id='s')\n\
         say(type='result', subtype='success', is_error=True, result='API Error: 401 no')",
    );
    let told = say(claude.thread().as_mut(), "hi").await;
    assert_eq!(
        told.failure(),
        "API Error: 401 no Log in by running `claude` once, or set ANTHROPIC_API_KEY."
    );
    // Pi exits with 0 whatever happened.
    let pi = engine(
        "pi",
        Mode::Exec,
        "say(type='session', id='s')\nerror = {'role': 'assistant', 'content': [], 'stopReason': 'error', \
         'errorMessage': 'no luck'}\nsay(type='message_end', message=error)\nsay(type='agent_end', messages=[])",
    );
    assert_eq!(say(pi.thread().as_mut(), "hi").await.failure(), "no luck");
}

#[tokio::test]
async fn a_retry_after_an_end_counts() {
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
    let told = say(pi.thread().as_mut(), "hi").await.completed();
    assert_eq!(told.notes(), [(false, "pi tries again in 2 s, 1 of 3: 503")]);
    assert_eq!(told.answer(), "ok");
}

#[tokio::test]
async fn a_tool_that_may_not_be_used_ends_opencode_with_a_reason() {
    let bench = engine(
        "opencode",
        Mode::Exec,
        "state = {'status': 'error', 'input': {'command': 'ls'}, 'error': 'The user rejected permission to use this.'}\n\
         say(type='tool_use', sessionID='ses_1', part={'tool': 'bash', 'callID': 'c', 'state': state})\n\
         say(type='step_finish', sessionID='ses_1', part={'reason': 'tool-calls', 'tokens': {}})",
    );
    let told = say(bench.thread().as_mut(), "hi").await;
    assert!(told.failure().contains("may not use"), "{told:#?}");
    assert_eq!(told.calls()[0].1.result_type, ResultType::Denied);
}

#[tokio::test]
async fn calls_that_never_end_end_with_the_run() {
    let bench = codex("started()\nitem('item_0', 'command_execution', what='started', command='ls')");
    let told = say(bench.thread().as_mut(), "hi").await;
    assert_eq!(told.failure(), "codex exec ended without an answer.");
    assert_eq!(told.calls()[0].1.result_type, ResultType::Failure);
}

#[tokio::test]
async fn a_program_that_says_nothing_is_a_failure_in_every_dialect() {
    for (name, mode) in ALL {
        let bench = engine(name, mode, "sys.stderr.write('boom')\nsys.exit(7)");
        let told = say(bench.thread().as_mut(), "hi").await;
        assert!(told.failure().contains("failed (rc=7)"), "{name} {mode:?}: {told:#?}");
        assert_eq!(told.diagnostics(), "boom");
        let bench = engine(name, mode, "sys.exit(0)");
        let told = say(bench.thread().as_mut(), "hi").await;
        assert!(told.failure().contains("without a"), "{name} {mode:?}: {told:#?}");
    }
}

#[tokio::test]
async fn a_run_reports_its_start_once_and_nothing_after_its_end() {
    let bench = codex("started()\nstarted()\nmessage('ok')\ncompleted()\nmessage('late')\ncompleted()");
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    let starts = told.reports.iter().filter(|report| matches!(report, Report::Started { .. }));
    assert_eq!((starts.count(), told.answer()), (1, "ok"));
}

#[tokio::test]
async fn another_conversation_than_asked_for_is_not_followed() {
    let bench = codex("started('other')\nmessage('ok')\ncompleted()");
    let mut thread = bench.resumed(&baton_engines::ResumeToken("mine".into()));
    let told = say(thread.as_mut(), "hi").await;
    let message = told.failure();
    assert!(["mine", "other", "Start a new session"].iter().all(|word| message.contains(word)), "{message}");
    assert!(told.reports.is_empty(), "{told:#?}");
}

#[tokio::test]
async fn a_directory_that_is_gone_is_said_to_be_gone() {
    let bench = codex("started()");
    std::fs::remove_dir(bench.work()).unwrap();
    let told = say(bench.thread().as_mut(), "hi").await;
    assert!(
        matches!(&told.outcome, Outcome::Failed { message, .. } if message.contains("no such directory"))
    );
}
