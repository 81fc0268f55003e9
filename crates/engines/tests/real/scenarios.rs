//! What every program must be able to do. Each scenario is one test for each program and mode.

use baton_engines::{Mode, Outcome, Report, ThreadSpec};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::tool::ResultType;

use crate::common::{Told, run, say, say_and_decide};
use crate::setup::Real;

/// A prompt is answered; a follow-up remembers it, and so does another process later.
pub(crate) async fn remembers(name: &str, mode: Mode) {
    let real = Real::new(name, mode).await;
    let mut thread = real.thread();
    let first = say(thread.as_mut(), "say hi").await.completed();
    assert_eq!(first.answer(), real.echo(1, "say hi"));
    if mode == Mode::Interactive {
        assert_eq!(first.streamed(), real.echo(1, "say hi"));
    }
    let second = say(thread.as_mut(), "second").await.completed();
    assert_eq!(second.answer(), real.echo(2, "second"));
    assert_eq!(second.token(), first.token());
    let used = |report: &&Report| matches!(report, Report::Usage(used) if used.input_tokens == Some(100));
    // Qwen does not say.
    assert_eq!(second.reports.iter().filter(used).count(), usize::from(name != "qwen"), "{second:#?}");

    thread.close().await;
    real.nothing_is_left("close").await;
    let mut later = real.resumed(&first.token());
    let third = say(later.as_mut(), "third").await.completed();
    // What a program says first of its own may be said only once.
    let remembers = [real.echo(3, "third").as_str(), "echo 3: third"].contains(&third.answer());
    assert!(remembers && third.token() == first.token(), "{third:#?}");
    drop(later);
    real.nothing_is_left("drop").await;
}

/// A command that a person allows is run, one that they do not allow is not, and the agent is told why.
pub(crate) async fn asks(name: &str) {
    let real = Real::new(name, Mode::Interactive).await;
    let mut thread = real.thread();
    let prompt = "[[shell:touch made-by-agent && echo yes]] [[text:done]]";
    let file = real.work().join("made-by-agent");
    let denied = Verdict::Reject { feedback: Some("use another file".to_owned()) };
    let told = say_and_decide(thread.as_mut(), prompt, &denied).await;
    let wanted = told.reports.iter().find_map(|report| match report {
        Report::Wants { wants, .. } => Some(wants.as_ref().clone()),
        _ => None,
    });
    let Some(PermissionRequest::Shell { full_command_text, .. }) = wanted else { panic!("{told:#?}") };
    assert_eq!(full_command_text, "touch made-by-agent && echo yes");
    assert!(!file.exists(), "it was denied");
    let results: Vec<_> = told.calls().iter().map(|(_, result)| result.result_type).collect();
    assert_eq!(results, [ResultType::Denied], "{told:#?}");
    assert_eq!(told.outcome, Outcome::Completed, "{told:#?}");

    let told = say_and_decide(thread.as_mut(), prompt, &Verdict::ApproveOnce).await.completed();
    assert_eq!(told.answer(), "done");
    assert!(file.exists(), "it was allowed");
    let [(_, result)] = told.calls()[..] else { panic!("{told:#?}") };
    assert_eq!(
        (result.text_result_for_llm.trim_end().ends_with("yes"), result.result_type),
        (true, ResultType::Success),
        "{told:#?}"
    );
}

/// A run is cancelled in the middle of a command, which is gone at once. The conversation goes on.
pub(crate) async fn cancels(name: &str, mode: Mode) {
    let real = Real::new(name, mode).await;
    // Where nobody can be asked, nothing that matters is done without this.
    let mut thread = real.engine.thread(ThreadSpec { allow_all: mode == Mode::Exec, ..real.spec() });
    say(thread.as_mut(), "first").await.completed();
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
                let _ = control.send(baton_engines::Control::Decide { reference, verdict });
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        interrupt.cancel();
    };
    let both = async { tokio::join!(running, stopping).0 };
    let outcome = tokio::time::timeout(crate::common::LIMIT, both).await.expect("it did not end");
    assert_eq!(outcome, Outcome::Interrupted);
    let mut patience = 100;
    while sleeps() {
        patience -= 1;
        assert!(patience > 0, "the command is left running: {:?}", real.marker.alive());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let told = say(thread.as_mut(), "after").await.completed();
    assert!(told.answer().starts_with(&real.echo(3, "")) && told.answer().ends_with("after"), "{told:#?}");
    thread.close().await;
    real.nothing_is_left("close").await;
}

/// A run whose future is dropped leaves nothing behind.
pub(crate) async fn vanishes(name: &str, mode: Mode) {
    let real = Real::new(name, mode).await;
    let mut thread = real.thread();
    let (sender, _reports) = tokio::sync::mpsc::unbounded_channel();
    let (_control, controlled) = tokio::sync::mpsc::unbounded_channel();
    let interrupt = tokio_util::sync::CancellationToken::new();
    let running = thread.run("[[hold:here]]".to_owned(), sender, controlled, interrupt);
    tokio::select! {
        outcome = running => panic!("{outcome:?}"),
        () = real.model.wait_for_hold("here") => {}
    }
    real.nothing_is_left("drop").await;
}

/// What the model's provider says when it fails reaches a person; what passes is tried again.
pub(crate) async fn fails(name: &str, mode: Mode) {
    let real = Real::new(name, mode).await;
    let mut thread = real.thread();
    let told = say(thread.as_mut(), "[[error:500*1]] first").await.completed();
    assert!(told.answer().ends_with("first"), "{told:#?}");
    let told = say(thread.as_mut(), "[[error:400]]").await;
    assert!(told.failure().contains("scripted failure 400"), "{told:#?}");
    // Another conversation: some programs repeat what was not answered together with what is said next.
    let told = say(real.thread().as_mut(), "[[error:401]]").await;
    assert!(told.failure().contains("401") && told.failure().contains("Log in"), "{told:#?}");
}

/// What is said in the middle of a run to a program that does not listen then reaches it afterwards, in the same run.
pub(crate) async fn listens_afterwards(name: &str) {
    let real = Real::new(name, Mode::Interactive).await;
    let told = interrupted_by_a_remark(&real).await;
    assert_eq!(told.answer(), real.echo(2, "and two"), "{told:#?}");
}

/// What is said in the middle of a run reaches the agent at its next step.
pub(crate) async fn listens(name: &str) {
    let real = Real::new(name, Mode::Interactive).await;
    let told = interrupted_by_a_remark(&real).await;
    // Each program wraps it in its own way, so that our model does not recognise it as a prompt.
    let asked = real.model.requests();
    let asked: Vec<_> = asked.iter().filter(|request| request.body.is_object()).collect();
    let heard = asked.iter().filter(|request| request.body.to_string().contains("and two"));
    assert_eq!((asked.len(), heard.count()), (2, 1), "{told:#?}");
}

async fn interrupted_by_a_remark(real: &Real) -> Told {
    let mut thread = real.thread();
    let mut said = false;
    run(thread.as_mut(), "one [[shell:cat /dev/null; sleep 1]] [[text:done]]", |report, desk| match report {
        Report::Wants { reference, .. } => desk.decide(reference, Verdict::ApproveOnce),
        Report::CallStarted { .. } if !std::mem::replace(&mut said, true) => desk.steer("and two"),
        _ => {}
    })
    .await
    .completed()
}
