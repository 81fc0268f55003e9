//! URLs of databases.
//!
//! The URLs of libpq, with two differences. `sslmode=require` also verifies the server's certificate, as `verify-full`
//! does: encryption without authentication protects nothing. And a password is never shown: neither by `Debug` nor by
//! `Display`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Time limit for connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Where a database is, and how to log in.
#[derive(Clone)]
pub struct DatabaseLocation {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
    name: String,
}

/// How the connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    /// If the server offers it; the certificate is not verified. Only protects from readers.
    Opportunistic,
    /// Always, or never if the mode is `disable`; verified by the system's certificates.
    System,
    /// Always; verified by the certificates in this file.
    Roots(PathBuf),
}

/// Why a URL cannot be used. Contains no password.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    /// It is not a URL of a database.
    #[error("malformed store URL: {0}; use postgres://USER@HOST:PORT/DATABASE")]
    Malformed(String),
    /// TLS cannot be configured.
    #[error("cannot use TLS for the store: {0}")]
    Tls(String),
}

impl DatabaseLocation {
    /// Whether a text looks like a URL of a database, so that it may contain a password.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Sets the password, unless the URL has one.
    pub fn password_if_missing(&mut self, password: &str) {
        if self.config.get_password().is_none() {
            self.config.password(password);
        }
    }

    /// Returns the password, for programs that redact it.
    #[must_use]
    pub fn password(&self) -> Option<String> {
        self.config.get_password().map(|password| String::from_utf8_lossy(password).into_owned())
    }
}

impl FromStr for DatabaseLocation {
    type Err = LocationError;

    fn from_str(url: &str) -> Result<Self, LocationError> {
        if !Self::is_url(url) {
            return Err(LocationError::Malformed("it does not start with postgres://".into()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => roots = Some(PathBuf::from(value.into_owned())),
                _ => rest.push((name.into_owned(), value.into_owned())),
            }
        }
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(rest).finish();
        // A space is a plus sign in forms, and a plus sign in URLs of databases.
        let query = query.replace('+', "%20");
        let (ssl_mode, tls) = match (mode.as_deref(), roots) {
            (Some("disable"), _) => (SslMode::Disable, Tls::System),
            (None | Some("allow" | "prefer"), None) => (SslMode::Prefer, Tls::Opportunistic),
            (None | Some("allow" | "prefer" | "require" | "verify-ca" | "verify-full"), Some(roots)) => {
                (SslMode::Require, Tls::Roots(roots))
            }
            (Some("require" | "verify-ca" | "verify-full"), None) => (SslMode::Require, Tls::System),
            (Some(other), _) => {
                return Err(LocationError::Malformed(format!(
                    "unknown sslmode {other:?}; use disable, prefer, require or verify-full"
                )));
            }
        };
        // The library's error may quote a part of the URL, and with it a password.
        let mut config: Config = match query.is_empty() {
            true => base.parse(),
            false => format!("{base}?{query}").parse(),
        }
        .map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let cause =
                if cause.contains('@') || cause.is_empty() { "unreadable parts".into() } else { cause };
            LocationError::Malformed(cause)
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(LocationError::Malformed("it names no host".into()));
        }
        config.ssl_mode(ssl_mode);
        config.application_name("baton");
        config.connect_timeout(*config.get_connect_timeout().unwrap_or(&CONNECT_LIMIT));
        config.keepalives_idle(Duration::from_secs(5));
        let name = name(&config);
        Ok(Self { config, tls, name })
    }
}

/// Returns the URL without password and options.
fn name(config: &Config) -> String {
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let port = |place: usize| {
        let ports = config.get_ports();
        let port = ports.get(place).or_else(|| ports.first()).copied().unwrap_or(5432);
        if port == 5432 { String::new() } else { format!(":{port}") }
    };
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(place, host)| match host {
            Host::Tcp(host) => format!("{host}{}", port(place)),
            Host::Unix(path) => format!("{}{}", path.display(), port(place)),
        })
        .collect();
    let database = config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
    format!("postgres://{user}{}{database}", hosts.join(","))
}

impl fmt::Display for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Location").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> DatabaseLocation {
        url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn password_is_never_shown() {
        for url in [
            "postgres://me:hunter2@db.example/baton",
            "postgresql://me@db.example/baton?password=hunter2&sslmode=verify-full",
            "postgres://me:hunter2@%2Frun%2Fpg/baton",
        ] {
            let location = parsed(url);
            assert_eq!(location.password().as_deref(), Some("hunter2"), "{url}");
            for shown in [location.to_string(), format!("{location:?}")] {
                assert!(!shown.contains("hunter2"), "{shown}");
            }
        }
        for url in
            ["postgres://me:hunter2@db:notaport/x", "postgres://me:hunter2@db/x?hunter2=y", "mysql://hunter2"]
        {
            let error = url.parse::<DatabaseLocation>().unwrap_err().to_string();
            assert!(!error.contains("me:") && !error.contains("mysql"), "{error}");
        }
    }

    #[test]
    fn names_say_where_the_database_is() {
        assert_eq!(
            parsed("postgres://me:x@db.example:5433/baton").to_string(),
            "postgres://me@db.example:5433/baton"
        );
        assert_eq!(
            parsed("postgres:///baton?host=/run/pg&port=6432").to_string(),
            "postgres:///run/pg:6432/baton"
        );
    }

    #[test]
    fn required_encryption_is_verified() {
        assert_eq!(parsed("postgres://db/x").tls, Tls::Opportunistic);
        assert_eq!(parsed("postgres://db/x?sslmode=require").tls, Tls::System);
        let roots = parsed("postgres://db/x?sslrootcert=/etc/my%20ca.pem");
        assert_eq!(
            (roots.tls, roots.config.get_ssl_mode()),
            (Tls::Roots("/etc/my ca.pem".into()), SslMode::Require)
        );
        assert!("postgres://db/x?sslmode=maybe".parse::<DatabaseLocation>().is_err());
        assert!("postgres:///x".parse::<DatabaseLocation>().is_err(), "no host");
    }

    #[test]
    fn password_of_the_url_wins() {
        let mut location = parsed("postgres://me@db/x");
        location.password_if_missing("a");
        location.password_if_missing("b");
        assert_eq!(location.password().as_deref(), Some("a"));
    }
}
