//! Programs that print invalid output.

use crate::common::run_prompt;
use crate::setup::{all, codex, engine};

#[tokio::test]
async fn lines_that_are_not_json_are_warned_about_and_skipped() {
    let fixture = codex(
        "print('Update available!')\nsys.stdout.flush()\nsys.stdout.buffer.write(b'\\xff\\xfe\\n\\n')\n\
         started()\nprint('{\"half\":')\nmessage('ok')\ncompleted()\nsys.stdout.write('{\"type\":')",
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    assert_eq!(record.answer(), "ok");
    let warned: Vec<_> =
        record.notes().into_iter().map(|(warning, text)| (warning, text.contains("not JSON"))).collect();
    assert_eq!(warned, [(true, true); 3], "{record:#?}");
}

#[tokio::test]
async fn overlong_line_is_skipped() {
    let fixture = codex(
        "started()\nfor _ in range(100): sys.stdout.write('x' * 1024 * 1024)\nprint()\nmessage('ok')\ncompleted()",
    );
    let record = run_prompt(fixture.thread().as_mut(), "hi").await.completed();
    let [(true, note)] = record.notes()[..] else { panic!("{:?}", record.notes()) };
    assert!(note.contains("104857600 bytes"), "{note}");
}

#[tokio::test]
async fn garbage_alone_is_a_failure_in_every_dialect() {
    for (name, mode) in all() {
        let fixture =
            engine(name, mode, "for n in range(100): print('garbage', n)\nsys.stdout.write('{\"id\":')");
        let record = run_prompt(fixture.thread().as_mut(), "hi").await;
        assert!(record.failure().contains("without a"), "{name} {mode:?}: {record:#?}");
        assert_eq!(record.notes().len(), 6, "{name} {mode:?}: {record:#?}");
    }
}

#[tokio::test]
async fn meaningless_json_is_a_failure_in_every_dialect() {
    let lines = "
kinds = ['thread.started', 'item.completed', 'turn.failed', 'system', 'assistant', 'user', 'stream_event', 'session',
    'message_end', 'message_update', 'tool_execution_end', 'tool_use', 'text', 'step_finish', 'control_request',
    'extension_ui_request', 'response']
for kind in kinds: say(type=kind)
for kind in kinds: say(type=kind, id=1, message=3, item=[], part='x', event=None, request=[[]], sessionID=7)
for value in [None, True, 0, -1.5, 'x', [], {}, [[[]]], {'id': 0}, {'id': 1}, {'method': 'x'}, {'method': 3, 'id': {}}]:
    send(value)
";
    for (name, mode) in all() {
        let record = run_prompt(engine(name, mode, lines).thread().as_mut(), "hi").await;
        assert!(!record.failure().is_empty(), "{name} {mode:?}: {record:#?}");
    }
}

#[tokio::test]
async fn unread_prompt_does_not_block_the_run() {
    let fixture = codex("os.close(0)\nstarted()\nmessage('ok')\ncompleted()");
    let prompt = "x".repeat(4 * 1024 * 1024);
    run_prompt(fixture.thread().as_mut(), &prompt).await.completed();
}

#[tokio::test]
async fn long_prompt_is_delivered_while_the_program_prints() {
    let fixture = codex(
        "started()\nfor n in range(2000): item('item_%d' % n, 'reasoning', text='x' * 1000)\n\
         message(str(len(sys.stdin.read())))\ncompleted()",
    );
    let prompt = "ä".repeat(2 * 1024 * 1024);
    assert_eq!(run_prompt(fixture.thread().as_mut(), &prompt).await.completed().answer(), "2097152");
}
