//! Time limits, interrupts, and processes that a program leaves behind.

use std::time::Duration;

use baton_engines::{Mode, RunOutcome, TimeLimits};
use baton_protocol::engine::EngineControl;
use baton_protocol::permission::Verdict;

use crate::common::{run, run_prompt, run_prompt_with_verdict};
use crate::setup::{all, codex, engine, limited};

/// `codex app-server`, which handles a turn with `work()`.
const APP_SERVER: &str = "
def respond(request, **result): send({'id': request['id'], 'result': result})
def notify(method, **params): send({'method': method, 'params': {'threadId': 't-1', **params}})
def message(text): notify('item/completed', item={'id': 'm', 'type': 'agentMessage', 'text': text})
def end_turn(): notify('turn/completed', turn={'id': 'u', 'status': 'completed'})
def request_approval():
    send({'id': 7, 'method': 'item/commandExecution/requestApproval', 'params': {'itemId': 'c', 'command': 'ls'}})
    return next_line()
def serve(work):
    while True:
        request = next_line()
        method = request.get('method')
        if method == 'initialize': respond(request)
        elif method in ('thread/start', 'thread/resume'): respond(request, thread={'id': 't-1'}, model='m')
        elif method == 'turn/start':
            respond(request, turn={'id': 'u'})
            work()
";

const SHORT: Option<Duration> = Some(Duration::from_millis(500));

#[tokio::test]
async fn program_without_output_is_ended() {
    for (name, mode) in all() {
        // Both limits: some programs may be silent until their model answers.
        let limits = TimeLimits { startup: SHORT, silence: SHORT, total: None };
        let fixture = limited(name, mode, "time.sleep(1000)", limits);
        let record = run_prompt(fixture.thread().as_mut(), "hi").await;
        assert!(
            record.failure().contains("500 ms") && record.failure().contains("limit"),
            "{name}: {record:#?}"
        );
        fixture.assert_no_processes("a time limit").await;
    }
}

#[tokio::test]
async fn program_that_falls_silent_is_ended() {
    let limits = TimeLimits { silence: SHORT, ..TimeLimits::default() };
    let fixture = limited("codex", Mode::Exec, "started()\ntime.sleep(1000)", limits);
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert!(record.failure().contains("printed nothing for 500 ms"), "{record:#?}");
    fixture.assert_no_processes("a time limit").await;
}

#[tokio::test]
async fn program_that_never_finishes_is_ended() {
    let limits = TimeLimits { total: Some(Duration::from_secs(1)), ..TimeLimits::default() };
    let script = "started()\nwhile True:\n    say(type='turn.started')\n    time.sleep(0.01)";
    let record = run_prompt(limited("codex", Mode::Exec, script, limits).thread().as_mut(), "hi").await;
    assert!(record.failure().contains("worked for 1 s"), "{record:#?}");
}

/// Prints a line again and again, faster than it is read.
const FLOOD: &str = "
def flood(line):
    block = (json.dumps(line) + '\\n').encode() * 2000
    while True: sys.stdout.buffer.write(block)
";

#[tokio::test]
async fn endless_output_does_not_hide_the_total_limit() {
    let limits = TimeLimits { total: SHORT, ..TimeLimits::default() };
    let fixture =
        limited("codex", Mode::Exec, &[FLOOD, "started()\nflood({'type': 'turn.started'})"].concat(), limits);
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert!(record.failure().contains("worked for 500 ms"), "{record:#?}");
    fixture.assert_no_processes("a time limit").await;
}

#[tokio::test]
async fn endless_output_does_not_hide_an_interrupt() {
    let script = "serve(lambda: (message('ok'), flood({'method': 'unknown'})))";
    let fixture = engine("codex", Mode::Interactive, &[APP_SERVER, FLOOD, script].concat());
    let record = run(fixture.thread().as_mut(), "hi", |report, handle| {
        if matches!(report, baton_engines::Report::Message { .. }) {
            handle.interrupt.cancel();
        }
    })
    .await;
    assert_eq!(record.outcome, RunOutcome::Interrupted);
    fixture.assert_no_processes("an interrupt").await;
}

#[tokio::test]
async fn endless_output_of_a_child_does_not_hide_the_exit_of_the_program() {
    let script = "started()\nmessage('ok')\nif os.fork() == 0: flood({'type': 'turn.started'})\ncompleted()";
    let fixture = codex(&[FLOOD, script].concat());
    assert_eq!(run_prompt(fixture.thread().as_mut(), "hi").await.completed().answer(), "ok");
    fixture.assert_no_processes("the run").await;
}

#[tokio::test]
async fn program_that_asks_without_reading_the_answers_is_stopped() {
    let script = "serve(lambda: flood({'id': 1, 'method': 'unknown/' + 'x' * 10000}))";
    let fixture = engine("codex", Mode::Interactive, &[APP_SERVER, FLOOD, script].concat());
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert!(record.failure().contains("does not read"), "{}", record.failure());
    fixture.assert_no_processes("the run").await;
}

#[tokio::test]
async fn program_that_uses_one_id_for_two_requests_is_stopped() {
    let script = "
def work():
    for command in ('ls', 'rm -rf /'):
        send({'id': 7, 'method': 'item/commandExecution/requestApproval', 'params': {'itemId': 'c', 'command': command}})
    message(str(next_line()))
serve(work)";
    let fixture = engine("codex", Mode::Interactive, &[APP_SERVER, script].concat());
    let record = run_prompt(fixture.thread().as_mut(), "hi").await;
    assert!(record.failure().contains("id of an open request"), "{record:#?}");
    fixture.assert_no_processes("the run").await;
}

#[tokio::test]
async fn time_limits_do_not_run_while_the_user_decides() {
    let limits = TimeLimits { silence: Some(Duration::from_secs(60)), ..TimeLimits::default() };
    let script = "serve(lambda: (request_approval(), end_turn()))";
    let fixture = limited("codex", Mode::Interactive, &[APP_SERVER, script].concat(), limits);
    let mut thread = fixture.thread();
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let (control, controlled) = tokio::sync::mpsc::unbounded_channel();
    let running = thread.run("hi".to_owned(), sender, controlled, tokio_util::sync::CancellationToken::new());
    let deciding = async {
        while let Some(report) = reports.recv().await {
            if let baton_engines::Report::Wants { reference, .. } = report {
                tokio::time::pause();
                tokio::time::advance(Duration::from_secs(3600)).await;
                tokio::time::resume();
                let verdict = Verdict::ApproveOnce;
                control.send(EngineControl::Decide { reference, verdict }).unwrap();
            }
        }
    };
    let (outcome, ()) = tokio::join!(running, deciding);
    assert_eq!(outcome, RunOutcome::Completed);
}

#[tokio::test]
async fn program_that_ignores_sigterm_is_killed() {
    let fixture =
        codex("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nstarted()\nwhile True: time.sleep(1000)");
    let record = run(fixture.thread().as_mut(), "hi", |_, handle| handle.interrupt.cancel()).await;
    assert_eq!(record.outcome, RunOutcome::Interrupted);
    fixture.assert_no_processes("an interrupt").await;
}

#[tokio::test]
async fn detached_child_is_ended_with_the_run() {
    // In a new process session, with the pipes of its parent, ignoring SIGTERM.
    let fixture = codex(
        "if os.fork() == 0:\n    os.setsid()\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    time.sleep(1000)\n\
         started()\nmessage('ok')\ncompleted()",
    );
    assert_eq!(run_prompt(fixture.thread().as_mut(), "hi").await.completed().answer(), "ok");
    fixture.assert_no_processes("the run").await;
}

#[tokio::test]
async fn program_that_does_not_exit_after_its_answer_is_ended() {
    let fixture = codex("started()\nmessage('ok')\ncompleted()\ntime.sleep(1000)");
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    assert!(record.notes()[0].1.contains("had to be ended"), "{record:#?}");
    fixture.assert_no_processes("the answer").await;
}

#[tokio::test]
async fn idle_process_that_has_exited_is_replaced() {
    let script = "
def work():
    message('ok')
    end_turn()
    if not is_marked('died'): mark('died'); os._exit(0)
serve(work)";
    let fixture = engine("codex", Mode::Interactive, &[APP_SERVER, script].concat());
    let mut thread = fixture.thread();
    for _ in 0..3 {
        assert_eq!(run_prompt(thread.as_mut(), "hi").await.completed().answer(), "ok");
    }
}

#[tokio::test]
async fn permission_requests_are_reported_even_if_everything_is_allowed() {
    let script = "serve(lambda: (message(request_approval()['result']['decision']), end_turn()))";
    let fixture = engine("codex", Mode::Interactive, &[APP_SERVER, script].concat());
    // The session decides, because it knows its deny rules.
    let spec = baton_engines::ThreadSpec { allow_all: true, ..fixture.spec() };
    let mut thread = fixture.engine.thread(spec);
    let allowed = run_prompt_with_verdict(thread.as_mut(), "hi", &Verdict::ApproveOnce).await;
    assert_eq!(allowed.completed().answer(), "accept");
    let denied = Verdict::Reject { feedback: None };
    let denied = run_prompt_with_verdict(fixture.thread().as_mut(), "hi", &denied).await;
    assert_eq!(denied.completed().answer(), "decline");
}
