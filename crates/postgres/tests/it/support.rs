//! Databases for tests, and help for sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use baton_postgres::PostgresStore;
use baton_protocol::{SessionId, Timestamp};
use baton_store::{Append, Lease, NewRecord, NewSession, Owner, Seq};
use tokio_postgres::{Client, NoTls};

/// A database of its own in the cluster that `tests/postgres/with-cluster` has started.
pub(crate) struct Database {
    name: String,
}

impl Database {
    pub(crate) async fn create() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}_{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        admin("postgres").await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Self { name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn url(&self) -> String {
        format!("{}&dbname={}", base("BATON_TEST_POSTGRES"), self.name)
    }

    pub(crate) fn pooled_url(&self) -> String {
        format!("{}&dbname={}", base("BATON_TEST_PGBOUNCER"), self.name)
    }

    pub(crate) fn store(&self) -> Arc<PostgresStore> {
        store(&self.url())
    }

    /// Connects past the store.
    pub(crate) async fn admin(&self) -> Client {
        admin(&self.name).await
    }
}

pub(crate) fn base(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set; run `scripts/test postgres`"))
}

pub(crate) fn store(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::new(&url.parse().unwrap(), "here").unwrap())
}

async fn admin(database: &str) -> Client {
    let url = format!("{}&dbname={database}", base("BATON_TEST_POSTGRES"));
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

pub(crate) fn owner(server: &str) -> Owner {
    Owner { server: server.to_owned(), host: "host".to_owned(), boot: "boot".to_owned(), pid: 7, started: 99 }
}

pub(crate) fn new_session(name: &str, server: &str) -> NewSession {
    NewSession {
        session: id(name),
        owner: owner(server),
        created: Timestamp(1),
        records: Vec::new(),
        meta: "m".into(),
        busy: false,
    }
}

/// An append of one record with this body.
pub(crate) fn append(lease: &Lease, head: u64, body: String) -> Append {
    Append {
        lease: lease.clone(),
        expected: Seq(head),
        records: vec![NewRecord { kind: "k".into(), body: body.into() }],
        modified: Timestamp(2),
        meta: None,
        snapshot: None,
        busy: false,
    }
}
