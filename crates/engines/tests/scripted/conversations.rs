//! One run at a time for each conversation, as many conversations as there are; whoever leaves takes all along.

use std::path::Path;
use std::time::Duration;

use baton_engines::{Mode, Outcome, Report, ResumeToken, Thread};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::common::{LIMIT, say};
use crate::setup::{codex, engine};

/// Fails if another process is between here and the end.
const ALONE: &str = "
if is_marked('busy'): sys.exit('not alone')
mark('busy')
started()
wait_for('gate')
os.remove(path('busy'))
message('ok')
completed()
";

/// Ends only if another process is there at the same time.
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

/// Long enough for something that must not happen to happen.
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[tokio::test]
async fn runs_of_one_conversation_wait_for_each_other() {
    let bench = codex(ALONE);
    let (mut one, mut two) = (bench.resumed(&token("t-1")), bench.resumed(&token("t-1")));
    let open = async {
        a_while().await;
        open_gate(bench.directory.path());
    };
    let (one, two, ()) = tokio::join!(say(one.as_mut(), "a"), say(two.as_mut(), "b"), open);
    assert_eq!((one.completed().answer(), two.completed().answer()), ("ok", "ok"));
}

#[tokio::test]
async fn new_conversations_run_side_by_side() {
    let bench = codex(TOGETHER);
    let (mut one, mut two) = (bench.thread(), bench.thread());
    let (one, two) = tokio::join!(say(one.as_mut(), "a"), say(two.as_mut(), "b"));
    assert_eq!((one.completed().answer(), two.completed().answer()), ("ok", "ok"));
}

#[tokio::test]
async fn different_conversations_run_side_by_side() {
    let bench = codex(TOGETHER);
    let (mut one, mut two) = (bench.resumed(&token("a")), bench.resumed(&token("b")));
    let (one, two) = tokio::join!(say(one.as_mut(), "a"), say(two.as_mut(), "b"));
    assert_eq!((one.completed().token(), two.completed().token()), (token("a"), token("b")));
}

#[tokio::test]
async fn who_resumes_what_has_just_begun_waits_until_it_is_done() {
    let bench = codex(
        "started()\nif 'resume' in args: mark('resumed')\nelse: wait_for('gate')\nmessage('ok')\ncompleted()",
    );
    let resumed = bench.directory.path().join("resumed");
    let (mut new, mut later) = (bench.thread(), bench.resumed(&token("t-1")));
    let mut first = Started::new(new.as_mut());
    first.has_started().await;
    let both = async {
        a_while().await;
        assert!(!resumed.exists(), "it did not wait");
        open_gate(bench.directory.path());
        assert_eq!(first.outcome().await, Outcome::Completed);
    };
    let (told, ()) = tokio::join!(say(later.as_mut(), "b"), both);
    told.completed();
    assert!(resumed.exists());
}

#[tokio::test]
async fn a_new_run_that_turns_out_to_be_a_known_conversation_waits() {
    let bench = codex("started('same')\nwait_for('gate')\nmessage('ok')\ncompleted()");
    let (mut one, mut two) = (bench.thread(), bench.thread());
    let (mut one, mut two) = (Started::new(one.as_mut()), Started::new(two.as_mut()));
    one.has_started().await;
    let waited = tokio::time::timeout(Duration::from_millis(500), two.has_started()).await;
    assert!(waited.is_err(), "two of them run");
    open_gate(bench.directory.path());
    assert_eq!(one.outcome().await, Outcome::Completed);
    two.has_started().await;
    assert_eq!(two.outcome().await, Outcome::Completed);
}

#[tokio::test]
async fn a_listener_that_leaves_ends_the_process_and_frees_the_conversation() {
    let bench = codex("started()\nif not is_marked('gate'): time.sleep(1000)\nmessage('ok')\ncompleted()");
    let mut thread = bench.thread();
    let mut run = Started::new(thread.as_mut());
    run.has_started().await;
    drop(run.reports);
    assert_eq!(run.running.await, Outcome::Interrupted);
    bench.nothing_is_left("the listener left").await;
    open_gate(bench.directory.path());
    say(bench.resumed(&token("t-1")).as_mut(), "b").await.completed();
}

#[tokio::test]
async fn a_run_that_is_dropped_ends_the_process_and_frees_the_conversation() {
    let bench = codex("started()\nif not is_marked('gate'): time.sleep(1000)\nmessage('ok')\ncompleted()");
    let mut thread = bench.thread();
    let mut run = Started::new(thread.as_mut());
    run.has_started().await;
    drop(run);
    bench.nothing_is_left("the run was dropped").await;
    open_gate(bench.directory.path());
    say(bench.resumed(&token("t-1")).as_mut(), "b").await.completed();
}

#[tokio::test]
async fn who_waits_for_a_turn_can_be_interrupted() {
    let bench = codex(ALONE);
    let (mut one, mut two) = (bench.resumed(&token("t-1")), bench.resumed(&token("t-1")));
    let mut one = Started::new(one.as_mut());
    one.has_started().await;
    let two = Started::new(two.as_mut());
    two.interrupt.cancel();
    assert_eq!(two.outcome().await, Outcome::Interrupted);
    open_gate(bench.directory.path());
    assert_eq!(one.outcome().await, Outcome::Completed);
}

#[tokio::test]
async fn a_conversation_that_a_program_did_not_keep_can_be_begun_anew() {
    let script = "
if '--resume' in args:
    say(type='result', subtype='error_during_execution', is_error=True, errors=['No conversation found with session ID: s'])
else:
    say(type='system', subtype='init', session_id='new')
    say(type='result', subtype='success', is_error=False, result='hello again')
";
    let bench = engine("claude", Mode::Exec, script);
    let mut thread = bench.resumed(&token("s"));
    assert_eq!(say(thread.as_mut(), "hi").await.outcome, Outcome::Forgotten);
    let told = say(thread.as_mut(), "hi").await.completed();
    assert_eq!((told.answer(), told.token()), ("hello again", token("new")));
}

/// A run that goes on while a test does something else.
struct Started<'a> {
    running: baton_engines::Running<'a>,
    /// How it ended, if that was seen already.
    ended: Option<Outcome>,
    reports: mpsc::UnboundedReceiver<Report>,
    interrupt: CancellationToken,
}

impl<'a> Started<'a> {
    fn new(thread: &'a mut dyn Thread) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        let (_, control) = mpsc::unbounded_channel();
        let interrupt = CancellationToken::new();
        let running = thread.run("hi".to_owned(), sender, control, interrupt.clone());
        Self { running, ended: None, reports, interrupt }
    }

    /// Drives the run until its conversation has a name. On a busy machine it may have come to its end by then.
    async fn has_started(&mut self) {
        let started = async {
            loop {
                tokio::select! {
                    biased;
                    report = self.reports.recv() => match report {
                        Some(Report::Started { .. }) => return,
                        Some(_) => {}
                        None => panic!("it never started: {:?}", self.ended),
                    },
                    outcome = &mut self.running, if self.ended.is_none() => self.ended = Some(outcome),
                }
            }
        };
        tokio::time::timeout(LIMIT, started).await.expect("it does not start");
    }

    async fn outcome(self) -> Outcome {
        match self.ended {
            Some(outcome) => outcome,
            None => self.running.await,
        }
    }
}
