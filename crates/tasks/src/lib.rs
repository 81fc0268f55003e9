//! Starting tasks and blocking work.
//!
//! The functions of `tokio` generate their whole task machinery for every future that is spawned, once for each kind of
//! scheduler; the futures of this program made that a megabyte. Here a future is boxed first, and so is its result, so that the
//! machinery exists once. It costs two small allocations for each task.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

pub use tokio::task::{AbortHandle, JoinError};

/// A result that no longer has a type of its own.
type BoxedResult = Box<dyn Any + Send>;

/// A future that no longer has a type of its own.
type BoxedFuture = Pin<Box<dyn Future<Output = BoxedResult> + Send>>;

/// Blocking work that no longer has a type of its own.
type BoxedWork = Box<dyn FnOnce() -> BoxedResult + Send>;

/// The result of a task, once it has ended. Dropping this does not end the task.
#[derive(Debug)]
pub struct JoinHandle<T> {
    task: tokio::task::JoinHandle<BoxedResult>,
    result: PhantomData<fn() -> T>,
}

impl<T> JoinHandle<T> {
    fn new(task: tokio::task::JoinHandle<BoxedResult>) -> Self {
        Self { task, result: PhantomData }
    }

    /// Ends the task at its next `await`.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// Returns a handle that can end the task, and does not wait for it.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        self.task.abort_handle()
    }

    /// Returns whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.task).poll(context).map_ok(|result| match result.downcast() {
            Ok(result) => *result,
            // Both are created together, by `boxed` and `boxed_work`.
            Err(_) => unreachable!("the result of a task has another type than its handle"),
        })
    }
}

fn boxed<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> BoxedFuture {
    Box::pin(async move { Box::new(task.await) as BoxedResult })
}

fn boxed_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> BoxedWork {
    Box::new(move || Box::new(work()))
}

/// Starts a task.
pub fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    JoinHandle::new(tokio::spawn(boxed(task)))
}

/// Runs work that blocks on a thread for such work.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    JoinHandle::new(tokio::task::spawn_blocking(boxed_work(work)))
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
        JoinHandle::new(self.0.spawn(boxed(task)))
    }

    /// Runs work that blocks on a thread for such work.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        JoinHandle::new(self.0.spawn_blocking(boxed_work(work)))
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
