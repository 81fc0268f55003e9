//! Size of what lives as long as a session.

use super::super::{Actor, Loading};

/// Bytes of the future that a function returns.
fn size_of_future<A, B, C, D, F: Future>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
    size_of::<F>()
}

/// An `await` of something large in the actor's path makes every idle session as large: this one had grown to 43 KB.
#[test]
fn an_idle_session_keeps_no_room_for_rare_work() {
    let task = size_of_future(Loading::create);
    assert!(task + size_of::<Actor>() < 8 * 1024, "the task has {task} bytes");
}
