//! Scenarios that every program must pass. Each is one test for each program and mode.

use baton_engines::{Mode, Report, RunOutcome, ThreadSpec};
use baton_protocol::engine::EngineControl;
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::ResultType;

use crate::common::{RunRecord, run, run_prompt, run_prompt_with_verdict};
use crate::setup::RealProgram;

/// Declares the tests of a program that has both modes, or only the interactive one. `$steers` is the scenario for
/// messages in the middle of a turn.
macro_rules! scenarios {
    ($program:literal, $steers:ident) => {
        scenarios! { $program, interactive only, $steers }
        scenarios! { @tests $program:
            resumes_a_conversation_exec => resumes_a_conversation(Exec),
            interrupt_ends_the_command_exec => interrupt_ends_the_command(Exec),
            dropped_run_leaves_no_process_exec => dropped_run_leaves_no_process(Exec),
            reports_provider_errors => reports_provider_errors(Interactive),
            reports_provider_errors_exec => reports_provider_errors(Exec),
        }
    };
    ($program:literal, interactive only, $steers:ident) => {
        scenarios! { @tests $program:
            resumes_a_conversation => resumes_a_conversation(Interactive),
            asks_for_permission => asks_for_permission(),
            interrupt_ends_the_command => interrupt_ends_the_command(Interactive),
            dropped_run_leaves_no_process => dropped_run_leaves_no_process(Interactive),
            $steers => $steers(),
        }
    };
    (@tests $program:literal: $($test:ident => $scenario:ident($($mode:ident)?),)*) => {
        $(
            #[tokio::test]
            #[ignore = "needs the real program"]
            async fn $test() {
                crate::scenarios::$scenario($program $(, baton_engines::Mode::$mode)?).await;
            }
        )*
    };
}

/// A follow-up continues the conversation, in the same process and in a new one.
pub(crate) async fn resumes_a_conversation(name: &str, mode: Mode) {
    let real = RealProgram::new(name, mode).await;
    let mut thread = real.thread();
    let first = run_prompt(thread.as_mut(), "say hi").await.completed();
    assert_eq!(first.answer(), real.echo(1, "say hi"));
    if mode == Mode::Interactive {
        assert_eq!(first.streamed(), real.echo(1, "say hi"));
    }
    let second = run_prompt(thread.as_mut(), "second").await.completed();
    assert_eq!(second.answer(), real.echo(2, "second"));
    assert_eq!(second.token(), first.token());
    let used = |report: &&Report| matches!(report, Report::Usage(used) if used.input_tokens == Some(100));
    // Qwen does not report usage.
    assert_eq!(second.reports.iter().filter(used).count(), usize::from(name != "qwen"), "{second:#?}");

    thread.close().await;
    real.assert_no_processes("close").await;
    let mut later = real.resumed(&first.token());
    let third = run_prompt(later.as_mut(), "third").await.completed();
    // A program may send its preamble only once.
    let continues = [real.echo(3, "third").as_str(), "echo 3: third"].contains(&third.answer());
    assert!(continues && third.token() == first.token(), "{third:#?}");
    drop(later);
    real.assert_no_processes("drop").await;
}

/// An allowed command runs, a denied one does not.
pub(crate) async fn asks_for_permission(name: &str) {
    let real = RealProgram::new(name, Mode::Interactive).await;
    let mut thread = real.thread();
    let prompt = "[[shell:touch made-by-agent && echo yes]] [[text:done]]";
    let file = real.work().join("made-by-agent");
    let denied = Verdict::Reject { feedback: Some("use another file".to_owned()) };
    let record = run_prompt_with_verdict(thread.as_mut(), prompt, &denied).await;
    let wanted = record.reports.iter().find_map(|report| match report {
        Report::Wants { wants, .. } => Some(wants.as_ref().clone()),
        _ => None,
    });
    let Some(PermissionRequest::Shell { full_command_text, .. }) = wanted else { panic!("{record:#?}") };
    assert_eq!(full_command_text, "touch made-by-agent && echo yes");
    assert!(!file.exists(), "the denied command ran");
    let results: Vec<_> = record.calls().iter().map(|(_, result)| result.result_type).collect();
    assert_eq!(results, [ResultType::Denied], "{record:#?}");
    assert_eq!(record.outcome, RunOutcome::Completed, "{record:#?}");

    let record = run_prompt_with_verdict(thread.as_mut(), prompt, &Verdict::ApproveOnce).await.completed();
    assert_eq!(record.answer(), "done");
    assert!(file.exists(), "the allowed command did not run");
    let [(_, result)] = record.calls()[..] else { panic!("{record:#?}") };
    assert_eq!(
        (result.text_result_for_llm.trim_end().ends_with("yes"), result.result_type),
        (true, ResultType::Success),
        "{record:#?}"
    );
}

/// An interrupt in the middle of a command ends the command. The conversation can continue.
pub(crate) async fn interrupt_ends_the_command(name: &str, mode: Mode) {
    let real = RealProgram::new(name, mode).await;
    // In exec mode the program cannot ask, and would not run the command.
    let mut thread = real.engine.thread(ThreadSpec { allow_all: mode == Mode::Exec, ..real.spec() });
    run_prompt(thread.as_mut(), "first").await.completed();
    let prompt = "[[shell:cat /dev/null; sleep 1234]] [[text:done]]";
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let (control, controlled) = tokio::sync::mpsc::unbounded_channel();
    let interrupt = tokio_util::sync::CancellationToken::new();
    let sleeps = || real.marker.alive().iter().any(|(_, line)| line.starts_with("sleep 1234"));
    let running = thread.run(prompt.to_owned(), sender, controlled, interrupt.clone());
    let stopping = async {
        while !sleeps() {
            if let Ok(Report::Wants { reference, .. }) = reports.try_recv() {
                let verdict = Verdict::ApproveOnce;
                let _ = control.send(EngineControl::Decide { reference, verdict });
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        interrupt.cancel();
    };
    let both = async { tokio::join!(running, stopping).0 };
    let outcome = tokio::time::timeout(crate::common::LIMIT, both).await.expect("the run did not end");
    assert_eq!(outcome, RunOutcome::Interrupted);
    let ended = async {
        while sleeps() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(crate::common::LIMIT, ended).await;
    assert!(ended.is_ok(), "the command is left running: {:?}", real.marker.alive());
    let record = run_prompt(thread.as_mut(), "after").await.completed();
    assert!(
        record.answer().starts_with(&real.echo(3, "")) && record.answer().ends_with("after"),
        "{record:#?}"
    );
    thread.close().await;
    real.assert_no_processes("close").await;
}

/// A run whose future is dropped leaves no process.
pub(crate) async fn dropped_run_leaves_no_process(name: &str, mode: Mode) {
    let real = RealProgram::new(name, mode).await;
    let mut thread = real.thread();
    let (sender, _reports) = tokio::sync::mpsc::unbounded_channel();
    let (_control, controlled) = tokio::sync::mpsc::unbounded_channel();
    let interrupt = tokio_util::sync::CancellationToken::new();
    let running = thread.run("[[hold:here]]".to_owned(), sender, controlled, interrupt);
    tokio::select! {
        outcome = running => panic!("{outcome:?}"),
        () = real.model.wait_for_hold("here") => {}
    }
    real.assert_no_processes("drop").await;
}

/// Permanent errors of the provider are reported, temporary ones are retried.
pub(crate) async fn reports_provider_errors(name: &str, mode: Mode) {
    let real = RealProgram::new(name, mode).await;
    let mut thread = real.thread();
    let record = run_prompt(thread.as_mut(), "[[error:500*1]] first").await.completed();
    assert!(record.answer().ends_with("first"), "{record:#?}");
    let record = run_prompt(thread.as_mut(), "[[error:400]]").await;
    assert!(record.failure().contains("scripted failure 400"), "{record:#?}");
    // A new conversation: some programs repeat an unanswered prompt together with the next one.
    let record = run_prompt(real.thread().as_mut(), "[[error:401]]").await;
    assert!(record.failure().contains("401") && record.failure().contains("Log in"), "{record:#?}");
}

/// A message to a program that cannot be steered is delivered after the turn, in the same run.
pub(crate) async fn steers_after_the_turn(name: &str) {
    let real = RealProgram::new(name, Mode::Interactive).await;
    let record = run_with_steering(&real).await;
    assert_eq!(record.answer(), real.echo(2, "and two"), "{record:#?}");
}

/// A message in the middle of a turn reaches the agent at its next step.
pub(crate) async fn steers_the_running_turn(name: &str) {
    let real = RealProgram::new(name, Mode::Interactive).await;
    let record = run_with_steering(&real).await;
    // Each program wraps it differently, so the scripted model does not recognise it as a prompt.
    let asked = real.model.requests();
    let asked: Vec<_> = asked.iter().filter(|request| request.body.is_object()).collect();
    let steered = asked.iter().filter(|request| request.body.to_string().contains("and two"));
    assert_eq!((asked.len(), steered.count()), (2, 1), "{record:#?}");
}

async fn run_with_steering(real: &RealProgram) -> RunRecord {
    let mut thread = real.thread();
    let mut has_steered = false;
    run(
        thread.as_mut(),
        "one [[shell:cat /dev/null; sleep 1]] [[text:done]]",
        |report, handle| match report {
            Report::Wants { reference, .. } => handle.decide(reference, Verdict::ApproveOnce),
            Report::CallStarted { .. } if !std::mem::replace(&mut has_steered, true) => {
                handle.steer("and two");
            }
            _ => {}
        },
    )
    .await
    .completed()
}
