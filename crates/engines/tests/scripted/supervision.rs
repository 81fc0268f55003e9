//! Programs that do not end by themselves, and what they leave behind.

use std::time::Duration;

use baton_engines::{Limits, Mode, Outcome};
use baton_protocol::permission::Verdict;

use crate::common::{run, say, say_and_decide};
use crate::setup::{ALL, codex, engine, limited};

const SHORT: Option<Duration> = Some(Duration::from_millis(500));

#[tokio::test]
async fn a_program_that_never_speaks_is_ended() {
    for (name, mode) in ALL {
        // Both: some may be silent until their model answers.
        let limits = Limits { startup: SHORT, silence: SHORT, total: None };
        let bench = limited(name, mode, "time.sleep(1000)", limits);
        let told = say(bench.thread().as_mut(), "hi").await;
        assert!(told.failure().contains("500 ms") && told.failure().contains("limit"), "{name}: {told:#?}");
        bench.nothing_is_left("it was silent").await;
    }
}

#[tokio::test]
async fn a_program_that_stops_speaking_is_ended() {
    let limits = Limits { silence: SHORT, ..Limits::default() };
    let bench = limited("codex", Mode::Exec, "started()\ntime.sleep(1000)", limits);
    let told = say(bench.thread().as_mut(), "hi").await;
    assert!(told.failure().contains("said nothing for 500 ms"), "{told:#?}");
    bench.nothing_is_left("it was silent").await;
}

#[tokio::test]
async fn a_program_that_never_stops_speaking_is_ended() {
    let limits = Limits { total: Some(Duration::from_secs(1)), ..Limits::default() };
    let script = "started()\nwhile True:\n    say(type='turn.started')\n    time.sleep(0.01)";
    let told = say(limited("codex", Mode::Exec, script, limits).thread().as_mut(), "hi").await;
    assert!(told.failure().contains("worked for 1 s"), "{told:#?}");
}

#[tokio::test]
async fn time_in_which_a_person_decides_does_not_count() {
    // Longer than a program needs to start while other tests run.
    let limits = Limits { silence: Some(Duration::from_secs(3)), ..Limits::default() };
    let script = "
def respond(request, **result): send({'id': request['id'], 'result': result})
while True:
    request = hear()
    method = request.get('method')
    if method == 'initialize': respond(request)
    elif method == 'thread/start': respond(request, thread={'id': 't-1'}, model='m')
    elif method == 'turn/start':
        respond(request, turn={'id': 'u'})
        send({'id': 7, 'method': 'item/commandExecution/requestApproval', 'params': {'itemId': 'c', 'command': 'ls'}})
        hear()
        send({'method': 'turn/completed', 'params': {'threadId': 't-1', 'turn': {'id': 'u', 'status': 'completed'}}})
";
    let bench = limited("codex", Mode::Interactive, script, limits);
    let mut thread = bench.thread();
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let (control, controlled) = tokio::sync::mpsc::unbounded_channel();
    let running = thread.run("hi".to_owned(), sender, controlled, tokio_util::sync::CancellationToken::new());
    let deciding = async {
        while let Some(report) = reports.recv().await {
            if let baton_engines::Report::Wants { reference, .. } = report {
                tokio::time::sleep(Duration::from_secs(4)).await;
                let verdict = Verdict::ApproveOnce;
                control.send(baton_engines::Control::Decide { reference, verdict }).unwrap();
            }
        }
    };
    let (outcome, ()) = tokio::join!(running, deciding);
    assert_eq!(outcome, Outcome::Completed);
}

#[tokio::test]
async fn a_program_that_ignores_being_asked_is_killed() {
    let bench =
        codex("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nstarted()\nwhile True: time.sleep(1000)");
    let told = run(bench.thread().as_mut(), "hi", |_, desk| desk.interrupt.cancel()).await;
    assert_eq!(told.outcome, Outcome::Interrupted);
    bench.nothing_is_left("it was interrupted").await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_ended_with_it() {
    // In a session of its own, with the pipes of its parent, deaf to TERM.
    let bench = codex(
        "if os.fork() == 0:\n    os.setsid()\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    time.sleep(1000)\n\
         started()\nmessage('ok')\ncompleted()",
    );
    assert_eq!(say(bench.thread().as_mut(), "hi").await.completed().answer(), "ok");
    bench.nothing_is_left("it forked away").await;
}

#[tokio::test]
async fn a_program_that_does_not_end_after_its_answer_is_ended() {
    let bench = codex("started()\nmessage('ok')\ncompleted()\ntime.sleep(1000)");
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    assert!(told.notes()[0].1.contains("had to be ended"), "{told:#?}");
    bench.nothing_is_left("it stayed").await;
}

#[tokio::test]
async fn a_process_that_was_kept_and_has_died_is_started_again() {
    let script = "
def respond(request, **result): send({'id': request['id'], 'result': result})
while True:
    request = hear()
    method = request.get('method')
    if method == 'initialize': respond(request)
    elif method in ('thread/start', 'thread/resume'): respond(request, thread={'id': 't-1'}, model='m')
    elif method == 'turn/start':
        respond(request, turn={'id': 'u'})
        send({'method': 'item/completed', 'params': {'threadId': 't-1', 'item': {'id': 'm', 'type': 'agentMessage', 'text': 'ok'}}})
        send({'method': 'turn/completed', 'params': {'threadId': 't-1', 'turn': {'id': 'u', 'status': 'completed'}}})
        if not is_marked('died'): mark('died'); os._exit(0)
";
    let bench = engine("codex", Mode::Interactive, script);
    let mut thread = bench.thread();
    for _ in 0..3 {
        assert_eq!(say(thread.as_mut(), "hi").await.completed().answer(), "ok");
    }
}

#[tokio::test]
async fn requests_reach_the_session_even_where_everything_is_allowed() {
    let script = "
def respond(request, **result): send({'id': request['id'], 'result': result})
while True:
    request = hear()
    method = request.get('method')
    if method == 'initialize': respond(request)
    elif method == 'thread/start': respond(request, thread={'id': 't-1'}, model='m')
    elif method == 'turn/start':
        respond(request, turn={'id': 'u'})
        send({'id': 7, 'method': 'item/commandExecution/requestApproval', 'params': {'itemId': 'c', 'command': 'ls'}})
        said = hear()['result']['decision']
        send({'method': 'item/completed', 'params': {'threadId': 't-1', 'item': {'id': 'm', 'type': 'agentMessage', 'text': said}}})
        send({'method': 'turn/completed', 'params': {'threadId': 't-1', 'turn': {'id': 'u', 'status': 'completed'}}})
";
    let bench = engine("codex", Mode::Interactive, script);
    // Also where everything is allowed: the session decides, which knows its deny rules.
    let spec = baton_engines::ThreadSpec { allow_all: true, ..bench.spec() };
    let allowed = say_and_decide(bench.engine.thread(spec).as_mut(), "hi", &Verdict::ApproveOnce).await;
    assert_eq!(allowed.completed().answer(), "accept");
    let denied = Verdict::Reject { feedback: None };
    assert_eq!(say_and_decide(bench.thread().as_mut(), "hi", &denied).await.completed().answer(), "decline");
}
