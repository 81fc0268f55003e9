//! Programs that print anything but what they should.

use crate::common::say;
use crate::setup::{ALL, codex, engine};

#[tokio::test]
async fn garbage_is_shown_and_skipped() {
    let bench = codex(
        "print('Update available!')\nsys.stdout.flush()\nsys.stdout.buffer.write(b'\\xff\\xfe\\n\\n')\n\
         started()\nprint('{\"half\":')\nmessage('ok')\ncompleted()\nsys.stdout.write('{\"type\":')",
    );
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    assert_eq!(told.answer(), "ok");
    let warned: Vec<_> =
        told.notes().into_iter().map(|(warning, text)| (warning, text.contains("no JSON"))).collect();
    assert_eq!(warned, [(true, true); 3], "{told:#?}");
}

#[tokio::test]
async fn a_hundred_megabytes_on_one_line_are_skipped() {
    let bench = codex(
        "started()\nfor _ in range(100): sys.stdout.write('x' * 1024 * 1024)\nprint()\nmessage('ok')\ncompleted()",
    );
    let told = say(bench.thread().as_mut(), "hi").await.completed();
    let [(true, note)] = told.notes()[..] else { panic!("{:?}", told.notes()) };
    assert!(note.contains("104857600 bytes"), "{note}");
}

#[tokio::test]
async fn nothing_but_garbage_is_one_failure_in_every_dialect() {
    for (name, mode) in ALL {
        let bench =
            engine(name, mode, "for n in range(100): print('garbage', n)\nsys.stdout.write('{\"id\":')");
        let told = say(bench.thread().as_mut(), "hi").await;
        assert!(told.failure().contains("without a"), "{name} {mode:?}: {told:#?}");
        assert_eq!(told.notes().len(), 6, "{name} {mode:?}: {told:#?}");
    }
}

#[tokio::test]
async fn valid_json_that_means_nothing_is_one_failure_in_every_dialect() {
    let lines = "
kinds = ['thread.started', 'item.completed', 'turn.failed', 'system', 'assistant', 'user', 'stream_event', 'session',
    'message_end', 'message_update', 'tool_execution_end', 'tool_use', 'text', 'step_finish', 'control_request',
    'extension_ui_request', 'response']
for kind in kinds: say(type=kind)
for kind in kinds: say(type=kind, id=1, message=3, item=[], part='x', event=None, request=[[]], sessionID=7)
for value in [None, True, 0, -1.5, 'x', [], {}, [[[]]], {'id': 0}, {'id': 1}, {'method': 'x'}, {'method': 3, 'id': {}}]:
    send(value)
";
    for (name, mode) in ALL {
        let told = say(engine(name, mode, lines).thread().as_mut(), "hi").await;
        assert!(!told.failure().is_empty(), "{name} {mode:?}: {told:#?}");
    }
}

#[tokio::test]
async fn a_prompt_that_nobody_reads_does_not_block() {
    let bench = codex("os.close(0)\nstarted()\nmessage('ok')\ncompleted()");
    let prompt = "x".repeat(4 * 1024 * 1024);
    say(bench.thread().as_mut(), &prompt).await.completed();
}

#[tokio::test]
async fn a_long_prompt_arrives_whole_while_the_program_talks() {
    let bench = codex(
        "started()\nfor n in range(2000): item('item_%d' % n, 'reasoning', text='x' * 1000)\n\
         message(str(len(sys.stdin.read())))\ncompleted()",
    );
    let prompt = "ä".repeat(2 * 1024 * 1024);
    assert_eq!(say(bench.thread().as_mut(), &prompt).await.completed().answer(), "2097152");
}
