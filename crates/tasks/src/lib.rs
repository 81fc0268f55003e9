//! Starting tasks and blocking work.
//!
//! The functions of `tokio` generate their whole task machinery for every future that is spawned, once for each kind of
//! scheduler; the futures of this program made that a megabyte. Here a future is boxed first, so that the machinery exists once for
//! each type of result. It costs one allocation for each task.

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;

/// A future that no longer has a type of its own.
type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Blocking work that no longer has a type of its own.
type BoxedWork<T> = Box<dyn FnOnce() -> T + Send>;

/// Starts a task.
pub fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let task: BoxedFuture<T> = Box::pin(task);
    tokio::spawn(task)
}

/// Runs work that blocks on a thread for such work.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let work: BoxedWork<T> = Box::new(work);
    tokio::task::spawn_blocking(work)
}

/// Starts tasks, and waits until all of them have ended. Clones share the tasks.
#[derive(Debug, Clone, Default)]
pub struct TaskTracker(tokio_util::task::TaskTracker);

impl TaskTracker {
    /// Creates a tracker without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let task: BoxedFuture<T> = Box::pin(task);
        self.0.spawn(task)
    }

    /// Runs work that blocks on a thread for such work.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let work: BoxedWork<T> = Box::new(work);
        self.0.spawn_blocking(work)
    }

    /// Lets [`TaskTracker::wait`] return once no task is left.
    pub fn close(&self) {
        self.0.close();
    }

    /// Waits until the tracker is closed and no task is left.
    pub async fn wait(&self) {
        self.0.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn wait_returns_once_the_last_task_has_ended() {
        let (tasks, (end, ended)) = (TaskTracker::new(), oneshot::channel::<()>());
        let task = tasks.spawn(async move { ended.await.is_ok() });
        assert_eq!(tasks.spawn_blocking(|| 7).await.unwrap(), 7);
        tasks.close();
        let waiting = spawn({
            let tasks = tasks.clone();
            async move { tasks.wait().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "a task is left");
        end.send(()).unwrap();
        assert!(task.await.unwrap());
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn panic_of_a_task_is_its_result() {
        assert!(spawn(async { panic!("task") }).await.unwrap_err().is_panic());
        assert!(spawn_blocking(|| panic!("work")).await.unwrap_err().is_panic());
    }
}
