//! Concurrency of conversations: one run at a time for each, any number side by side; a dropped run leaves nothing.

use std::path::Path;

use baton_engines::{EngineConversation, Mode, Report, ResumeToken, RunOutcome};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::common::{Fixture, LIMIT, run_prompt};
use crate::setup::{codex, engine};

/// Answers at once in the conversation `unrelated`.
const UNRELATED: &str = "
if 'unrelated' in args: started('unrelated'); message('ok'); completed(); sys.exit()
";

/// Fails if two processes run it at the same time.
const ALONE: &str = "
if is_marked('busy'): sys.exit('not alone')
mark('busy')
started()
wait_for('gate')
os.remove(path('busy'))
message('ok')
completed()
";

/// Fails unless two processes run it at the same time.
const TOGETHER: &str = "
import glob
mark('here-%d' % os.getpid())
for _ in range(12000):
    if len(glob.glob(path('here-*'))) == 2: break
    time.sleep(0.005)
else: sys.exit('alone')
started(args[args.index('resume') + 1] if 'resume' in args else 't-%d' % os.getpid())
message('ok')
completed()
";

fn token(name: &str) -> ResumeToken {
    ResumeToken(name.to_owned())
}

fn open_gate(directory: &Path) {
    std::fs::write(directory.join("gate"), "").unwrap();
}

/// Runs an unrelated conversation, several times. A run that was started before it and does not wait for a lock has
/// made progress by then, however busy the machine is.
async fn run_unrelated_conversation(fixture: &Fixture) {
    for _ in 0..2 {
        run_prompt(fixture.resumed(&token("unrelated")).as_mut(), "hi").await.completed();
    }
}

#[tokio::test]
async fn runs_of_one_conversation_wait_for_each_other() {
    let fixture = codex(&[UNRELATED, ALONE].concat());
    let (mut one, mut two) = (fixture.resumed(&token("t-1")), fixture.resumed(&token("t-1")));
    let mut one = StartedRun::new(one.as_mut());
    one.has_started().await;
    let finish_first = async {
        run_unrelated_conversation(&fixture).await;
        open_gate(fixture.directory.path());
        assert_eq!(one.outcome().await, RunOutcome::Completed);
    };
    let (two, ()) = tokio::join!(run_prompt(two.as_mut(), "b"), finish_first);
    assert_eq!(two.completed().answer(), "ok");
}

#[tokio::test]
async fn new_conversations_run_side_by_side() {
    let fixture = codex(TOGETHER);
    let (mut one, mut two) = (fixture.thread(), fixture.thread());
    let (one, two) = tokio::join!(run_prompt(one.as_mut(), "a"), run_prompt(two.as_mut(), "b"));
    assert_eq!((one.completed().answer(), two.completed().answer()), ("ok", "ok"));
}

#[tokio::test]
async fn different_conversations_run_side_by_side() {
    let fixture = codex(TOGETHER);
    let (mut one, mut two) = (fixture.resumed(&token("a")), fixture.resumed(&token("b")));
    let (one, two) = tokio::join!(run_prompt(one.as_mut(), "a"), run_prompt(two.as_mut(), "b"));
    assert_eq!((one.completed().token(), two.completed().token()), (token("a"), token("b")));
}

#[tokio::test]
async fn resuming_a_new_conversation_waits_for_its_first_run() {
    let script =
        "started()\nif 'resume' in args: mark('resumed')\nelse: wait_for('gate')\nmessage('ok')\ncompleted()";
    let fixture = codex(&[UNRELATED, script].concat());
    let resumed = fixture.directory.path().join("resumed");
    let (mut new, mut later) = (fixture.thread(), fixture.resumed(&token("t-1")));
    let mut first = StartedRun::new(new.as_mut());
    first.has_started().await;
    let both = async {
        run_unrelated_conversation(&fixture).await;
        assert!(!resumed.exists(), "the second run did not wait");
        open_gate(fixture.directory.path());
        assert_eq!(first.outcome().await, RunOutcome::Completed);
    };
    let (record, ()) = tokio::join!(run_prompt(later.as_mut(), "b"), both);
    record.completed();
    assert!(resumed.exists());
}

#[tokio::test]
async fn new_run_that_opens_a_running_conversation_waits() {
    let script = "started('same')\nwait_for('gate')\nmessage('ok')\ncompleted()";
    let fixture = codex(&[UNRELATED, script].concat());
    let (mut one, mut two) = (fixture.thread(), fixture.thread());
    let (mut one, mut two) = (StartedRun::new(one.as_mut()), StartedRun::new(two.as_mut()));
    one.has_started().await;
    tokio::select! {
        () = two.has_started() => panic!("both runs have started"),
        () = run_unrelated_conversation(&fixture) => {}
    }
    open_gate(fixture.directory.path());
    assert_eq!(one.outcome().await, RunOutcome::Completed);
    two.has_started().await;
    assert_eq!(two.outcome().await, RunOutcome::Completed);
}

#[tokio::test]
async fn dropping_the_receiver_ends_the_process_and_unlocks_the_conversation() {
    let fixture = codex("started()\nif not is_marked('gate'): time.sleep(1000)\nmessage('ok')\ncompleted()");
    let mut thread = fixture.thread();
    let mut run = StartedRun::new(thread.as_mut());
    run.has_started().await;
    drop(run.reports);
    assert_eq!(run.running.await, RunOutcome::Interrupted);
    fixture.assert_no_processes("the receiver was dropped").await;
    open_gate(fixture.directory.path());
    run_prompt(fixture.resumed(&token("t-1")).as_mut(), "b").await.completed();
}

#[tokio::test]
async fn dropping_the_run_ends_the_process_and_unlocks_the_conversation() {
    let fixture = codex("started()\nif not is_marked('gate'): time.sleep(1000)\nmessage('ok')\ncompleted()");
    let mut thread = fixture.thread();
    let mut run = StartedRun::new(thread.as_mut());
    run.has_started().await;
    drop(run);
    fixture.assert_no_processes("the run was dropped").await;
    open_gate(fixture.directory.path());
    run_prompt(fixture.resumed(&token("t-1")).as_mut(), "b").await.completed();
}

#[tokio::test]
async fn run_that_waits_for_the_lock_can_be_interrupted() {
    let fixture = codex(&[UNRELATED, ALONE].concat());
    let (mut one, mut two) = (fixture.resumed(&token("t-1")), fixture.resumed(&token("t-1")));
    let mut one = StartedRun::new(one.as_mut());
    one.has_started().await;
    let two = StartedRun::new(two.as_mut());
    let interrupt = two.interrupt.clone();
    let interrupt_later = async {
        run_unrelated_conversation(&fixture).await;
        interrupt.cancel();
    };
    let (outcome, ()) = tokio::join!(two.outcome(), interrupt_later);
    assert_eq!(outcome, RunOutcome::Interrupted);
    open_gate(fixture.directory.path());
    assert_eq!(one.outcome().await, RunOutcome::Completed);
}

#[tokio::test]
async fn unknown_conversation_is_followed_by_a_new_one() {
    let script = "
if '--resume' in args:
    say(type='result', subtype='error_during_execution', is_error=True, errors=['No conversation found with session ID: s'])
else:
    say(type='system', subtype='init', session_id='new')
    say(type='result', subtype='success', is_error=False, result='hello again')
";
    let fixture = engine("claude", Mode::Exec, script);
    let mut thread = fixture.resumed(&token("s"));
    assert_eq!(run_prompt(thread.as_mut(), "hi").await.outcome, RunOutcome::Forgotten);
    let record = run_prompt(thread.as_mut(), "hi").await.completed();
    assert_eq!((record.answer(), record.token()), ("hello again", token("new")));
}

/// A run that a test drives step by step.
struct StartedRun<'a> {
    running: baton_engines::Running<'a>,
    /// The outcome, if the run has ended while it was driven.
    ended: Option<RunOutcome>,
    reports: mpsc::UnboundedReceiver<Report>,
    interrupt: CancellationToken,
}

impl<'a> StartedRun<'a> {
    fn new(thread: &'a mut dyn EngineConversation) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        let (_, control) = mpsc::unbounded_channel();
        let interrupt = CancellationToken::new();
        let running = thread.run("hi".to_owned(), sender, control, interrupt.clone());
        Self { running, ended: None, reports, interrupt }
    }

    /// Drives the run until it reports its start. On a busy machine it may have ended by then.
    async fn has_started(&mut self) {
        let started = async {
            loop {
                tokio::select! {
                    biased;
                    report = self.reports.recv() => match report {
                        Some(Report::Started { .. }) => return,
                        Some(_) => {}
                        None => panic!("the run never started: {:?}", self.ended),
                    },
                    outcome = &mut self.running, if self.ended.is_none() => self.ended = Some(outcome),
                }
            }
        };
        tokio::time::timeout(LIMIT, started).await.expect("the run does not start");
    }

    async fn outcome(self) -> RunOutcome {
        match self.ended {
            Some(outcome) => outcome,
            None => self.running.await,
        }
    }
}
