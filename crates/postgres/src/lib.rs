//! Sessions in a PostgreSQL database, which any number of servers share.
//!
//! * Appends of all sessions are written in groups (`append`): one statement, one round trip, one commit. A
//!   session that was taken over is refused by the statement's own condition, and the others are not affected.
//! * Other writes and all reads use connections of two pools (`connect`), which reconnect by themselves.
//! * Only unnamed statements and no session state are used, so a pooler in transaction mode (pgbouncer) may stand in
//!   between. No extension, no advisory lock, no `LISTEN`: rows and epochs are the only truth.
//! * Nothing is connected before the first call that needs it.
//!
//! This crate does not decide which server is alive or takes a session over: [`Store::members`] lists servers, and the
//! runtime decides.

mod append;
mod connect;
mod error;
mod files;
mod location;
mod members;
mod read;
mod schema;
mod texts;
mod tls;
mod write;

use std::sync::{Arc, OnceLock};

use baton_protocol::SessionId;
use baton_store::{
    Append, Document, Lease, NewSession, Opened, Owner, Record, Seq, Span, Store, StoreError, StoreFuture,
    Summary, Take,
};
use bytes::Bytes;

use append::Appends;
use connect::{Database, with_client};
pub use location::{DatabaseLocation, LocationError};
pub use schema::DatabaseReport;

/// A [`Store`] in a PostgreSQL database.
pub struct PostgresStore {
    database: Arc<Database>,
    appends: Appends,
    /// Place of the sessions that this store creates.
    place: String,
    /// Id of the server that has entered through this store.
    server: OnceLock<String>,
}

impl PostgresStore {
    /// Creates a store in this database. It is connected, and its tables are created, on first use. `place` names
    /// where the working directories of new sessions are.
    ///
    /// # Errors
    /// When TLS cannot be configured, for example because the file of `sslrootcert` cannot be read.
    pub fn new(location: &DatabaseLocation, place: impl Into<String>) -> Result<Self, LocationError> {
        let database = Arc::new(Database::new(location)?);
        Ok(Self {
            appends: Appends::new(Arc::clone(&database)),
            database,
            place: place.into(),
            server: OnceLock::new(),
        })
    }

    /// Connects, creates or checks the tables, and reads the settings of the database that matter.
    ///
    /// # Errors
    /// When the database cannot be used; the message says why and what to do.
    pub async fn check(&self) -> Result<DatabaseReport, StoreError> {
        let report = with_client!(self.database.reading(), |client| schema::report(&client).await);
        report.map_err(|fault| self.database.failed("open", fault))
    }

    /// Waits for queued appends, and closes all connections. Later calls fail.
    pub async fn close(&self) {
        self.appends.close().await;
        self.database.close();
    }

    fn server(&self) -> Option<&str> {
        self.server.get().map(String::as_str)
    }

    /// Returns the location of the database, without its password.
    #[must_use]
    pub fn location(&self) -> &str {
        self.database.name()
    }
}

impl Store for PostgresStore {
    fn commits(&self) -> Option<u64> {
        Some(self.appends.commits())
    }

    fn members(&self) -> Option<&dyn baton_store::members::Members> {
        Some(self)
    }

    fn texts(&self) -> Option<&dyn baton_store::texts::TextIndex> {
        Some(self)
    }

    fn shared_files(&self) -> Option<&dyn baton_store::shared_files::SharedFiles> {
        Some(self)
    }

    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease> {
        Box::pin(write::create(&self.database, new, &self.place))
    }

    fn acquire(&self, session: &SessionId, owner: Owner, take: Take) -> StoreFuture<'_, Opened> {
        let session = session.clone();
        Box::pin(async move {
            let lease = write::acquire(&self.database, &session, &owner, take, &self.place).await?;
            let opened =
                with_client!(self.database.reading(), |client| read::opened(&client, lease.clone()).await);
            opened.map_err(|fault| self.database.failed("read", fault))
        })
    }

    fn append_shared(&self, append: Arc<Append>) -> StoreFuture<'_, Seq> {
        Box::pin(self.appends.append(append))
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        Box::pin(write::release(&self.database, lease))
    }

    fn read(&self, session: &SessionId, span: Span) -> StoreFuture<'_, Vec<Record>> {
        let session = session.clone();
        Box::pin(async move {
            let found =
                with_client!(self.database.reading(), |client| read::records(&client, &session, span).await);
            found.map_err(|fault| self.database.failed("read", fault))
        })
    }

    fn summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Summary>> {
        let session = session.clone();
        Box::pin(async move {
            let found =
                with_client!(self.database.reading(), |client| read::summary(&client, &session).await);
            found.map_err(|fault| self.database.failed("read", fault))
        })
    }

    fn list(&self) -> StoreFuture<'_, Vec<Summary>> {
        Box::pin(async move {
            let found = with_client!(self.database.reading(), |client| read::list(&client).await);
            found.map_err(|fault| self.database.failed("read", fault))
        })
    }

    fn delete(&self, session: &SessionId) -> StoreFuture<'_, bool> {
        Box::pin(write::delete(&self.database, session.clone(), None, self.server()))
    }

    fn delete_if(&self, session: &SessionId, take: Take) -> StoreFuture<'_, bool> {
        Box::pin(write::delete(&self.database, session.clone(), Some(take), self.server()))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(write::probe(&self.database))
    }

    fn document(&self, name: &str) -> StoreFuture<'_, Option<Document>> {
        let name = name.to_owned();
        Box::pin(async move {
            let found = with_client!(self.database.reading(), |client| read::document(&client, &name).await);
            found.map_err(|fault| self.database.failed("read", fault))
        })
    }

    fn write_document(&self, name: &str, expected: u64, body: Bytes) -> StoreFuture<'_, bool> {
        Box::pin(write::document(&self.database, name.to_owned(), expected, body))
    }
}
