//! The tables, their migrations, and checks of the database settings that the promises depend on.

use tokio_postgres::types::Type;

use crate::connect::PooledClient;
use crate::error::QueryError;

/// All migrations, oldest first. Released ones are never edited.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
];

/// How often the creation of tables is tried: two servers may do it at the same time.
const ATTEMPTS: usize = 5;

/// Facts about a database, for operators.
#[derive(Debug, Clone)]
pub struct DatabaseReport {
    /// Version of the server, such as `15.18`.
    pub version: String,
    /// Format of the tables.
    pub format: i64,
    /// Number of sessions.
    pub sessions: i64,
    /// The setting `synchronous_commit`: with `off`, acknowledged writes can be lost in a crash of the database.
    pub synchronous_commit: String,
    /// The setting `fsync`.
    pub fsync: String,
    /// The setting `full_page_writes`.
    pub full_page_writes: String,
    /// Number of connected standbys that must confirm a commit. Without one, a failover can lose acknowledged writes.
    pub synchronous_standbys: i64,
    /// Number of connected standbys.
    pub standbys: i64,
}

/// Creates the tables, or updates them.
pub(crate) async fn migrate(client: &mut PooledClient) -> Result<(), QueryError> {
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match migrate_with(client, MIGRATIONS).await {
            Err(fault) if fault.is_creation_race() && left > 0 => {}
            result => return result,
        }
    }
}

async fn migrate_with(client: &mut PooledClient, migrations: &[&str]) -> Result<(), QueryError> {
    // First without a write: a server of the same version needs no rights to create tables.
    match version(client).await {
        Ok(found) => {
            check(found, migrations.len())?;
            if found == migrations.len() {
                return Ok(());
            }
        }
        Err(fault) if fault.is_missing_table() => {}
        Err(fault) => return Err(fault),
    }
    let transaction = client.transaction().await?;
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS baton_format (one boolean PRIMARY KEY CHECK (one), version bigint NOT NULL);
             INSERT INTO baton_format VALUES (true, 0) ON CONFLICT DO NOTHING;",
        )
        .await?;
    // Servers that migrate at the same time wait for each other here.
    let rows = transaction.query_typed("SELECT version FROM baton_format FOR UPDATE", &[]).await?;
    let found: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    check(found, migrations.len())?;
    for migration in &migrations[found..] {
        transaction.batch_execute(migration).await?;
    }
    let now = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    transaction.query_typed("UPDATE baton_format SET version = $1", &[(&now, Type::INT8)]).await?;
    Ok(transaction.commit().await?)
}

async fn version(client: &PooledClient) -> Result<usize, QueryError> {
    let rows = client.query_typed("SELECT version FROM baton_format", &[]).await?;
    let found: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(usize::try_from(found).unwrap_or(usize::MAX))
}

fn check(found: usize, known: usize) -> Result<(), QueryError> {
    if found > known {
        return Err(QueryError::Unusable(format!(
            "its tables have format {found}, and this version of baton knows formats up to {known}. Upgrade this server"
        )));
    }
    Ok(())
}

pub(crate) async fn report(client: &PooledClient) -> Result<DatabaseReport, QueryError> {
    let setting = async |name: &str| -> Result<String, QueryError> {
        let rows = client.query_typed("SELECT current_setting($1)", &[(&name, Type::TEXT)]).await?;
        Ok(rows.first().map_or(Ok(String::new()), |row| row.try_get(0))?)
    };
    let count = async |sql: &str| -> Result<i64, QueryError> {
        let rows = client.query_typed(sql, &[]).await?;
        Ok(rows.first().map_or(Ok(0), |row| row.try_get(0))?)
    };
    Ok(DatabaseReport {
        version: setting("server_version").await?,
        format: count("SELECT version FROM baton_format").await?,
        sessions: count("SELECT count(*) FROM baton_sessions").await?,
        synchronous_commit: setting("synchronous_commit").await?,
        fsync: setting("fsync").await?,
        full_page_writes: setting("full_page_writes").await?,
        // Users without the right to look see no rows.
        standbys: count("SELECT count(*) FROM pg_stat_replication").await.unwrap_or(0),
        synchronous_standbys: count(
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')",
        )
        .await
        .unwrap_or(0),
    })
}
