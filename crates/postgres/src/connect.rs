//! Connections to the database: one pool for reads and one for writes, so that long reads never delay a write.

use std::time::Duration;

use baton_store::StoreError;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};

use crate::error::{QueryError, Retry};
use crate::location::{DatabaseLocation, LocationError};
use crate::schema;
use crate::tls::MakeTls;

/// Time limit of one attempt. A connection that does not answer for so long is closed.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// How long an operation is tried again while the database cannot be reached: long enough for a restart or a failover.
const PATIENCE: Duration = Duration::from_secs(15);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

const READERS: usize = 8;
const WRITERS: usize = 6;

/// A connection.
pub(crate) type PooledClient = Object;

/// The database, with its connections.
pub(crate) struct Database {
    readers: Pool,
    writers: Pool,
    /// One connection for heartbeats, which must not wait for anything else.
    heartbeats: Pool,
    name: String,
    /// Set when the tables are known to be current.
    ready: OnceCell<()>,
}

impl Database {
    pub(crate) fn new(location: &DatabaseLocation) -> Result<Self, LocationError> {
        let tls = MakeTls::new(&location.tls)?;
        let pool = |size| {
            let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            let manager = Manager::from_config(location.config.clone(), tls.clone(), config);
            Pool::builder(manager)
                .max_size(size)
                .runtime(Runtime::Tokio1)
                .create_timeout(Some(LIMIT))
                .wait_timeout(Some(LIMIT))
                .build()
                .map_err(|error| LocationError::Malformed(error.to_string()))
        };
        Ok(Self {
            readers: pool(READERS)?,
            writers: pool(WRITERS)?,
            heartbeats: pool(1)?,
            name: location.to_string(),
            ready: OnceCell::new(),
        })
    }

    /// Returns the location, without the password.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn close(&self) {
        self.readers.close();
        self.writers.close();
        self.heartbeats.close();
    }

    /// Converts a failure to the error that callers see.
    pub(crate) fn failed(&self, doing: &'static str, fault: QueryError) -> StoreError {
        fault.explain(doing, &self.name)
    }

    /// Prepares attempts of a query.
    pub(crate) fn reading(&self) -> Attempts<'_> {
        self.attempts(&self.readers, Repeat::Always, PATIENCE)
    }

    /// Prepares attempts of a write that must not be executed twice: it is only repeated if it had no effect for certain.
    pub(crate) fn writing_once(&self) -> Attempts<'_> {
        self.attempts(&self.writers, Repeat::IfHarmless, PATIENCE)
    }

    /// Prepares attempts of a write that can be executed twice.
    pub(crate) fn writing(&self) -> Attempts<'_> {
        self.attempts(&self.writers, Repeat::Always, PATIENCE)
    }

    /// Prepares one attempt of a write. The caller judges its failure.
    pub(crate) fn trying(&self) -> Attempts<'_> {
        self.attempts(&self.writers, Repeat::Never, Duration::ZERO)
    }

    /// Prepares one attempt of a heartbeat.
    pub(crate) fn beating(&self) -> Attempts<'_> {
        self.attempts(&self.heartbeats, Repeat::Never, Duration::ZERO)
    }

    fn attempts<'a>(&'a self, pool: &'a Pool, repeat: Repeat, patience: Duration) -> Attempts<'a> {
        Attempts { database: self, pool, repeat, until: Instant::now() + patience }
    }

    /// Creates or checks the tables, once.
    async fn prepare(&self, client: &mut PooledClient) -> Result<(), QueryError> {
        self.ready.get_or_try_init(|| bounded(schema::migrate(client))).await.map(|_| ())
    }
}

/// When an operation is repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Always,
    IfHarmless,
    Never,
}

/// Attempts of one operation, until it succeeds, fails for good, or takes too long. Used by [`with_client`].
pub(crate) struct Attempts<'a> {
    database: &'a Database,
    pool: &'a Pool,
    repeat: Repeat,
    until: Instant,
}

/// The next step after an attempt.
pub(crate) enum NextStep<T> {
    Done(T),
    Again,
    Failed(QueryError),
}

impl Attempts<'_> {
    /// Connects. Tries again while the database cannot be reached: without a connection, nothing was executed.
    pub(crate) async fn connect(&self) -> Result<PooledClient, QueryError> {
        loop {
            match self.try_connect().await {
                Err(fault) if fault.retry() != Retry::Useless && Instant::now() < self.until => {
                    sleep(PAUSE).await;
                }
                result => return result,
            }
        }
    }

    async fn try_connect(&self) -> Result<PooledClient, QueryError> {
        let mut client = self.pool.get().await?;
        self.database.prepare(&mut client).await?;
        Ok(client)
    }

    /// Judges the result of an attempt. Closes a connection that may be broken.
    pub(crate) async fn judge<T>(&self, client: PooledClient, result: Result<T, QueryError>) -> NextStep<T> {
        let fault = match result {
            Ok(result) => return NextStep::Done(result),
            Err(fault) => fault,
        };
        let retry = fault.retry();
        if retry != Retry::Useless {
            // Closed instead of returned to its pool.
            drop(Object::take(client));
        }
        let repeats = match self.repeat {
            Repeat::Always => retry != Retry::Useless,
            Repeat::IfHarmless => retry == Retry::Harmless,
            Repeat::Never => false,
        };
        if !repeats || Instant::now() >= self.until {
            return NextStep::Failed(fault);
        }
        sleep(PAUSE).await;
        NextStep::Again
    }
}

/// Runs work with a connection, and again as its [`Attempts`] allow. A macro, because a closure over a borrowed connection
/// cannot promise that its future is `Send`.
macro_rules! with_client {
    ($attempts:expr, |$client:ident| $work:expr) => {{
        let attempts = $attempts;
        loop {
            #[allow(unused_mut, reason = "only transactions need it")]
            let mut $client = match attempts.connect().await {
                Ok(client) => client,
                Err(fault) => break Err(fault),
            };
            let result = $crate::connect::bounded(async { $work }).await;
            match attempts.judge($client, result).await {
                $crate::connect::NextStep::Done(result) => break Ok(result),
                $crate::connect::NextStep::Again => {}
                $crate::connect::NextStep::Failed(fault) => break Err(fault),
            }
        }
    }};
}
pub(crate) use with_client;

/// Runs work up to the time limit.
pub(crate) async fn bounded<T>(work: impl Future<Output = Result<T, QueryError>>) -> Result<T, QueryError> {
    timeout(LIMIT, work).await.unwrap_or(Err(QueryError::Late(LIMIT)))
}
