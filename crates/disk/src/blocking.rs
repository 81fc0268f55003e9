//! The bounded pool for I/O on users' files.
//!
//! A read can hang forever: on a dead network mount, or on a file system made for that purpose. A thread that hangs in
//! the kernel cannot be ended, so a hanging read costs one slot of this pool and the caller a time-out, but no worker of
//! the runtime and no thread that the store needs. Baton's own home is not accessed here: its files are trusted, and a
//! write must not be abandoned half way.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Number of slots.
pub const SLOTS: usize = 16;
/// How long a caller waits for a slot and its result.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pool of the process: it counts threads, and those belong to the process too.
static FILES: Pool = Pool::new(SLOTS);

/// Runs `work` on the pool.
///
/// # Errors
/// When there is no result in time. The work may still be running then, so it must be read-only.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Blocked> {
    FILES.run(PATIENCE, work).await
}

/// Why work on the pool has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// No slot became free in time.
    #[error("too many file operations hang; check for a dead network mount")]
    Busy,
    /// The work did not end in time.
    #[error("the file system does not respond; check for a dead network mount")]
    TooSlow,
    /// The work panicked, or the runtime is shutting down.
    #[error("the file operation was aborted; see the server log")]
    Aborted,
}

/// A limit on blocking threads of the runtime.
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
            // Held by the thread, not by the caller: a slot is free when its thread is.
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
    async fn hanging_work_occupies_one_slot_until_it_ends() {
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
        assert_eq!(POOL.run(LONG, || panic!("intended")).await, Err::<(), _>(Blocked::Aborted));
        assert_eq!(POOL.run(LONG, || 3).await, Ok(3));
    }
}
