//! One run at a time for each conversation, as many as there are conversations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::ResumeToken;

/// The right to run a conversation, until it is dropped.
pub(crate) type Turn = OwnedMutexGuard<()>;

/// Who runs what.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<ResumeToken, Weak<AsyncMutex<()>>>>);

impl Locks {
    /// Waits until nobody runs this conversation.
    pub(crate) async fn wait_for(&self, token: &ResumeToken) -> Turn {
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
    async fn one_waits_for_the_other_and_strangers_for_nobody() {
        let locks = Locks::default();
        let first = locks.wait_for(&token("a")).await;
        let _stranger = locks.wait_for(&token("b")).await;
        let a = token("a");
        let mut second = Box::pin(locks.wait_for(&a));
        assert!(futures_poll(&mut second).is_none());
        drop(first);
        assert!(futures_poll(&mut second).is_some());
    }

    #[tokio::test]
    async fn what_nobody_runs_is_forgotten() {
        let locks = Locks::default();
        drop(locks.wait_for(&token("a")).await);
        let _held = locks.wait_for(&token("b")).await;
        assert_eq!(locks.0.lock().unwrap().len(), 1);
    }

    fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        use std::task::{Context, Poll, Waker};
        match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}
