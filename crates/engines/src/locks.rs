//! Locks that allow one run at a time for each conversation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::ResumeToken;

/// Exclusive right to run a conversation.
pub(crate) type ConversationGuard = OwnedMutexGuard<()>;

/// Locks of the conversations of one program.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<ResumeToken, Weak<AsyncMutex<()>>>>);

impl Locks {
    /// Waits until no other run holds the conversation, and locks it.
    pub(crate) async fn acquire(&self, token: &ResumeToken) -> ConversationGuard {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(token).and_then(Weak::upgrade);
            let lock = known.unwrap_or_default();
            locks.insert(token.clone(), Arc::downgrade(&lock));
            lock
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> ResumeToken {
        ResumeToken(text.to_owned())
    }

    #[tokio::test]
    async fn only_the_running_conversation_is_locked() {
        let locks = Locks::default();
        let first = locks.acquire(&token("a")).await;
        let _other = locks.acquire(&token("b")).await;
        let a = token("a");
        let mut second = Box::pin(locks.acquire(&a));
        assert!(poll_once(&mut second).is_none());
        drop(first);
        assert!(poll_once(&mut second).is_some());
    }

    #[tokio::test]
    async fn unused_locks_are_removed() {
        let locks = Locks::default();
        drop(locks.acquire(&token("a")).await);
        let _held = locks.acquire(&token("b")).await;
        assert_eq!(locks.0.lock().unwrap().len(), 1);
    }

    fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        use std::task::{Context, Poll, Waker};
        match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}
