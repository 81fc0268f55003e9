//! How operations on a server are performed.

use std::future::Future;

use crate::{Caller, Denied, Operation, Service};

/// An operation with its parameters. [`Service::perform`] performs it.
pub trait Action: Send {
    /// What the client does: decides who may.
    const OPERATION: Operation;
    /// Result.
    type Reply: Send;
    /// Why it failed.
    type Error: Send;

    /// Performs the operation. Only [`Service::perform`] can call this: nothing else makes a [`Permitted`].
    fn run(self, permitted: Permitted<'_>) -> impl Future<Output = Result<Self::Reply, Self::Error>> + Send;
}

/// An operation that takes no time: it is done before its door reads the next call of the client.
pub trait ImmediateAction {
    /// What the client does: decides who may.
    const OPERATION: Operation;
    /// Result.
    type Reply;
    /// Why it failed.
    type Error;

    /// Performs the operation. Only [`Service::perform_now`] can call this.
    ///
    /// # Errors
    /// When the operation fails.
    fn run(self, permitted: Permitted<'_>) -> Result<Self::Reply, Self::Error>;
}

/// Proof that a caller may perform an operation, with what it is performed on.
#[derive(Clone, Copy)]
pub struct Permitted<'a> {
    pub(crate) service: &'a Service,
    pub(crate) caller: &'a Caller,
}

/// Why an operation was not performed.
#[derive(Debug, thiserror::Error)]
pub enum OperationError<E> {
    /// The caller may not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// It failed.
    #[error("{0}")]
    Failed(E),
}

impl<E> OperationError<E> {
    /// Converts the error of the operation.
    pub fn map<F>(self, convert: impl FnOnce(E) -> F) -> OperationError<F> {
        match self {
            Self::Denied(denied) => OperationError::Denied(denied),
            Self::Failed(error) => OperationError::Failed(convert(error)),
        }
    }
}

impl Service {
    /// Performs an operation, if the caller may.
    ///
    /// # Errors
    /// When the caller may not, or the operation fails.
    pub async fn perform<A: Action>(
        &self,
        caller: &Caller,
        action: A,
    ) -> Result<A::Reply, OperationError<A::Error>> {
        caller.permit(A::OPERATION)?;
        action.run(Permitted { service: self, caller }).await.map_err(OperationError::Failed)
    }

    /// Performs an operation that takes no time, if the caller may.
    ///
    /// # Errors
    /// When the caller may not, or the operation fails.
    pub fn perform_now<A: ImmediateAction>(
        &self,
        caller: &Caller,
        action: A,
    ) -> Result<A::Reply, OperationError<A::Error>> {
        caller.permit(A::OPERATION)?;
        action.run(Permitted { service: self, caller }).map_err(OperationError::Failed)
    }
}
