//! The bounded pool for work that touches files of other people.
//!
//! A read can hang for ever: on a dead network mount, or on a file system that somebody wrote for that purpose. Nothing
//! ends a thread that hangs in the kernel, so a hanging read costs one slot of this pool and the caller a time-out, and
//! never a worker of the runtime or a thread that the store needs. Baton's own home is not read here: its files are
//! written by us, and a write must not be given up half way.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Slots for work on files of other people.
pub const SLOTS: usize = 16;
/// How long a caller waits for a slot and the work in it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The slots belong to the process, as the threads do that they count.
static FILES: Pool = Pool::new(SLOTS);

/// Runs `work` on the pool for files of other people.
///
/// # Errors
/// When there is no result in time. The work may still be going on, so it must be one that changes nothing.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Blocked> {
    FILES.run(PATIENCE, work).await
}

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// All slots were taken for as long as the caller would wait.
    #[error("too many file operations hang; check for a network mount that does not answer")]
    Busy,
    /// The work was begun, and did not end in time.
    #[error("the file system does not answer; check for a network mount that is gone")]
    TooSlow,
    /// The work panicked, or the runtime is shutting down.
    #[error("the file operation was aborted; see the server log")]
    Aborted,
}

/// A limited number of threads of the runtime.
struct Pool {
    slots: Semaphore,
}

impl Pool {
    const fn new(slots: usize) -> Self {
        Self { slots: Semaphore::const_new(slots) }
    }

    async fn run<T: Send + 'static>(
        &'static self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Blocked> {
        let deadline = tokio::time::Instant::now() + patience;
        let slot = timeout(patience, self.slots.acquire()).await.map_err(|_| Blocked::Busy)?;
        let slot = slot.map_err(|_| Blocked::Aborted)?;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            // Kept by the thread, not by the caller: a slot is free when its thread is.
            drop(slot);
            done
        });
        match tokio::time::timeout_at(deadline, working).await {
            Ok(done) => done.map_err(|_| Blocked::Aborted),
            Err(_) => Err(Blocked::TooSlow),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn work_that_hangs_costs_one_slot_until_it_ends() {
        static POOL: Pool = Pool::new(1);
        let (release, hang) = channel::<()>();
        let hung = POOL.run(AT_ONCE, move || hang.recv()).await;
        assert_eq!(hung, Err(Blocked::TooSlow));
        assert_eq!(POOL.run(AT_ONCE, || 1).await, Err(Blocked::Busy));
        drop(release);
        assert_eq!(POOL.run(LONG, || 2).await, Ok(2));
    }

    #[tokio::test]
    async fn panicking_work_frees_its_slot() {
        static POOL: Pool = Pool::new(1);
        assert_eq!(POOL.run(LONG, || panic!("as a test wants it")).await, Err::<(), _>(Blocked::Aborted));
        assert_eq!(POOL.run(LONG, || 3).await, Ok(3));
    }
}
