//! What `codex exec` prints, in our words.

use baton_engines::{Mode, Report, ThreadSpec};
use baton_protocol::tool::ResultType;

use crate::common::say;
use crate::setup::{codex, configured};

fn notes(reports: &[Report]) -> Vec<&str> {
    let kinds = reports.iter().map(|report| match report {
        Report::Note { warning: true, .. } => "warning",
        Report::Note { warning: false, .. } => "note",
        Report::Started { .. } => "started",
        Report::Message { .. } => "message",
        Report::CallStarted { .. } => "call",
        Report::CallFinished { .. } => "result",
        Report::Usage(_) => "usage",
        _ => "other",
    });
    kinds.collect()
}

#[tokio::test]
async fn a_warning_before_the_start_keeps_its_place() {
    let bench = codex("say(type='error', message='warning one')\nstarted()\nmessage('ok')");
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    assert_eq!(notes(&told.reports), ["warning", "started", "message"]);
    assert_eq!((told.notes()[0], told.answer()), ((true, "warning one"), "ok"));
}

#[tokio::test]
async fn reconnecting_is_worth_a_note_and_no_failure() {
    let bench = codex(
        "say(type='error', message='Reconnecting... 1/5')\nsay(type='error', message='Reconnecting... 2/5')\n\
         started()\nmessage('ok')\ncompleted()",
    );
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    assert_eq!(notes(&told.reports), ["note", "note", "started", "message", "usage"]);
    assert_eq!(told.notes(), [(false, "Reconnecting... 1/5"), (false, "Reconnecting... 2/5")]);
}

#[tokio::test]
async fn the_answer_is_what_is_called_so_else_the_last_message() {
    let phases = codex(
        "started()\nmessage('Working.', phase='commentary')\nmessage('Done.', phase='final_answer')\n\
         message('By the way.')\ncompleted()",
    );
    let told = say(phases.thread().as_mut(), "hi").await.completed();
    assert_eq!((told.answer(), told.notes()), ("Done.", vec![(false, "By the way.")]));
    let plain = codex("started()\nmessage('first')\nmessage('second')\ncompleted()");
    assert_eq!(say(plain.thread().as_mut(), "hi").await.completed().answer(), "second");
}

#[tokio::test]
async fn items_that_are_new_to_us_do_not_break_the_stream() {
    let bench = codex(
        "started()\nsay(type='turn.started')\nsay(type='moon.phase', full=True)\nsend([1])\nsend('x')\n\
         item('item_0', 'future_item', foo='bar')\n\
         item('item_1', 'collab_tool_call', what='started', tool='spawn_agent', prompt='check')\n\
         item('item_1', 'collab_tool_call', tool='spawn_agent', prompt='check', status='completed',\
              agents_states={'worker': {'status': 'completed', 'message': 'fine'}})\nmessage('ok')\ncompleted()",
    );
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    let [(tool, result)] = told.calls()[..] else { panic!("{told:#?}") };
    assert_eq!((tool, result.text_result_for_llm.as_str()), ("spawn_agent", "worker: completed fine"));
    assert_eq!((told.answer(), told.notes().len()), ("ok", 0));
}

#[tokio::test]
async fn calls_keep_their_ids_from_start_to_end_and_share_them_with_no_other() {
    let bench = codex(
        "started()\ncommand = dict(command=\"/bin/bash -lc 'ls'\")\n\
         item('item_0', 'command_execution', what='started', status='in_progress', **command)\n\
         item('item_0', 'command_execution', status='failed', exit_code=2, aggregated_output='no', **command)\n\
         message('ok')\ncompleted()",
    );
    let mut thread = bench.thread();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let told = say(thread.as_mut(), "hi").await.completed();
        let [(tool, result)] = told.calls()[..] else { panic!("{told:#?}") };
        assert_eq!((tool, result.result_type), ("bash", ResultType::Failure));
        ids.extend(told.reports.iter().find_map(|report| match report {
            Report::CallStarted { id, arguments, .. } => Some((id.clone(), format!("{arguments:?}"))),
            _ => None,
        }));
    }
    assert_eq!(ids[0].1, r#"{"command":"ls"}"#);
    assert_ne!(ids[0].0, ids[1].0);
}

#[tokio::test]
async fn what_a_turn_used_is_told_though_codex_counts_the_thread() {
    let bench = codex(
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
    let mut thread = bench.thread();
    let first = say(thread.as_mut(), "hi").await.completed();
    let second = say(thread.as_mut(), "hi").await.completed();
    assert_eq!((used(&first.reports), used(&second.reports)), (vec![Some(100)], vec![Some(100)]));
    // Nothing is better than too much.
    let resumed = say(bench.resumed(&first.token()).as_mut(), "hi").await.completed();
    assert_eq!(used(&resumed.reports), []);
}

#[tokio::test]
async fn arguments_are_in_the_order_in_which_codex_wants_them() {
    let bench = configured("codex", "started()\nmessage(json.dumps(args))\ncompleted()", |settings| {
        settings.mode = Mode::Exec;
        settings.extra_args = vec!["-c".into(), "notify=[]".into()];
    });
    let new = say(bench.thread().as_mut(), "hi").await.completed();
    assert_eq!(
        new.answer(),
        r#"["-c", "notify=[]", "exec", "--json", "--skip-git-repo-check", "--color=never", "-"]"#
    );
    let spec = ThreadSpec {
        model: Some("m".into()),
        resume: Some(new.token()),
        allow_all: true,
        reasoning_effort: Some("low".into()),
        ..bench.spec()
    };
    let resumed = say(bench.engine.thread(spec).as_mut(), "hi").await.completed();
    assert_eq!(
        resumed.answer(),
        r#"["-c", "notify=[]", "-c", "model_reasoning_effort=low", "--model", "m", "exec", "--json", "--skip-git-repo-check", "--color=never", "--sandbox", "danger-full-access", "resume", "t-1", "-"]"#
    );
}

#[tokio::test]
async fn arguments_that_we_give_ourselves_are_refused_before_anything_runs() {
    for argument in ["--skip-git-repo-check", "--color=never", "--output-last-message=out.txt", "-o"] {
        let bench = configured("codex", "mark('ran')", |settings| {
            settings.extra_args = vec!["-c".into(), argument.into()];
        });
        let told = say(bench.thread().as_mut(), "hi").await;
        assert!(told.failure().contains(argument) && told.failure().contains("Remove it"), "{told:#?}");
        assert!(!bench.directory.path().join("ran").exists());
    }
}
