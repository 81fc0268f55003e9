//! Failures of the database, and advice for users.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use baton_store::StoreError;
use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

/// The reason why an operation failed.
#[derive(Debug)]
pub(crate) enum QueryError {
    /// Refused by a rule of the store. The database is intact.
    Refused(StoreError),
    /// The database or the connection reported an error.
    Postgres(tokio_postgres::Error),
    /// A connection could not be made in time, or did not answer in time.
    Late(Duration),
    /// The database cannot be used.
    Unusable(String),
}

impl From<tokio_postgres::Error> for QueryError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<PoolError> for QueryError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Postgres(error),
            PoolError::Timeout(_) => Self::Late(super::connect::LIMIT),
            PoolError::Closed => Self::Unusable("the store is closed".into()),
            other => Self::Unusable(other.to_string()),
        }
    }
}

/// What an error says about a second attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// The statement had no effect, and may succeed now.
    Harmless,
    /// The connection was lost: the statement may have been executed.
    Unknown,
    /// A second attempt fails, too.
    Useless,
}

impl QueryError {
    /// Judges whether to try again.
    pub(crate) fn retry(&self) -> Retry {
        let error = match self {
            Self::Postgres(error) => error,
            Self::Late(_) => return Retry::Unknown,
            Self::Refused(_) | Self::Unusable(_) => return Retry::Useless,
        };
        let Some(code) = error.code() else {
            // Without a code, the server did not answer; only malformed messages are final.
            let is_connection =
                error.is_closed() || source::<io::Error>(error).is_some() || is_connecting(error);
            return if is_connection { Retry::Unknown } else { Retry::Useless };
        };
        match *code {
            SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Retry::Harmless,
            // Reported before anything is executed.
            SqlState::CANNOT_CONNECT_NOW
            | SqlState::TOO_MANY_CONNECTIONS
            | SqlState::READ_ONLY_SQL_TRANSACTION => Retry::Harmless,
            SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => Retry::Unknown,
            _ if code.code().starts_with("08") => Retry::Unknown,
            _ => Retry::Useless,
        }
    }

    /// Whether a table is missing.
    pub(crate) fn is_missing_table(&self) -> bool {
        matches!(self, Self::Postgres(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE))
    }

    /// Whether two servers created the tables at the same time.
    pub(crate) fn is_creation_race(&self) -> bool {
        let code = match self {
            Self::Postgres(error) => error.code(),
            _ => None,
        };
        let raced = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
        code.is_some_and(|code| raced.contains(code))
    }

    pub(crate) fn explain(self, doing: &'static str, name: &str) -> StoreError {
        let cause = match self {
            Self::Refused(error) => return error,
            Self::Postgres(error) => explain(&error),
            Self::Late(limit) => format!(
                "no answer within {} s. Check that the database is up and reachable from this machine",
                limit.as_secs()
            ),
            Self::Unusable(cause) => cause,
        };
        StoreError::Medium { doing: doing.into(), path: name.to_owned(), cause }
    }
}

fn source<T: std::error::Error + 'static>(error: &tokio_postgres::Error) -> Option<&T> {
    error.source()?.downcast_ref()
}

fn is_connecting(error: &tokio_postgres::Error) -> bool {
    // The kind is private; this is its text.
    error.to_string().starts_with("error connecting") || error.to_string().starts_with("timeout")
}

fn explain(error: &tokio_postgres::Error) -> String {
    let text = match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    };
    match advice(error) {
        Some(advice) => format!("{text}. {advice}"),
        None => text,
    }
}

fn advice(error: &tokio_postgres::Error) -> Option<&'static str> {
    let Some(code) = error.code() else {
        let refused = source::<io::Error>(error).is_some() || is_connecting(error) || error.is_closed();
        return refused
            .then_some("Check host and port, and that PostgreSQL runs and accepts connections there");
    };
    Some(match *code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "Check user and password; the password can be in the URL, in PGPASSWORD or in a file (--store-password-file)"
        }
        SqlState::INVALID_CATALOG_NAME => "Create the database, for example with `createdb`",
        SqlState::INSUFFICIENT_PRIVILEGE | SqlState::INVALID_SCHEMA_NAME => {
            "Let this user create tables, for example with `GRANT CREATE, USAGE ON SCHEMA public TO ...`, or make it the \
             owner of the database"
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "The database is read-only, as a standby is. Use the URL of the primary; several hosts can be listed, with \
             target_session_attrs=read-write"
        }
        SqlState::DISK_FULL => {
            "The disk of the database is full. Free some space; nothing that was acknowledged is lost"
        }
        SqlState::TOO_MANY_CONNECTIONS => {
            "Raise max_connections of PostgreSQL, or put pgbouncer in between; a server uses up to 14 connections"
        }
        SqlState::CANNOT_CONNECT_NOW | SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => {
            "PostgreSQL is starting or stopping; it is tried again"
        }
        _ => return None,
    })
}
