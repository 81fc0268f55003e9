//! Options of the listeners: `[rpc]` and `[http]` of the configuration file, and the flags of `baton serve`.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use baton_http::{HttpOptions, TlsIdentity};
use baton_rpc::RpcLimits;
use serde::Deserialize;

use super::limit::Limit;
use super::show::TableRows;
use crate::args::ServeArgs;

/// The `[rpc]` table of the configuration file. Missing keys have defaults.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RpcTable {
    token_seconds: Option<u64>,
}

impl RpcTable {
    /// Adds the values in force to those that `baton config` shows.
    pub(super) fn show(&self, mut rows: TableRows<'_>) {
        let Self { token_seconds } = self;
        rows.add("token_seconds", *token_seconds, &RpcLimits::default().time_before_token.as_secs());
    }

    /// Returns the limits of JSON-RPC clients.
    pub(crate) fn limits(&self) -> RpcLimits {
        let default = RpcLimits::default();
        let time_before_token = self.token_seconds.map_or(default.time_before_token, Duration::from_secs);
        RpcLimits { time_before_token, ..default }
    }
}

/// The `[http]` table of the configuration file. Missing keys have defaults.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpTable {
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    allow_hosts: Vec<String>,
    allow_origins: Vec<String>,
    max_body_bytes: Option<usize>,
    max_connections: Option<Limit>,
    max_streams: Option<Limit>,
    requests_per_second: Option<u32>,
    header_seconds: Option<u64>,
    body_seconds: Option<u64>,
}

impl HttpTable {
    /// Adds the values in force to those that `baton config` shows. Flags of `baton serve` win over them.
    pub(super) fn show(&self, mut rows: TableRows<'_>) {
        let Self {
            tls_cert,
            tls_key,
            allow_hosts,
            allow_origins,
            max_body_bytes,
            max_connections,
            max_streams,
            requests_per_second,
            header_seconds,
            body_seconds,
        } = self;
        let default = HttpOptions::default();
        let list = |values: &[String]| (!values.is_empty()).then(|| values.join(" "));
        rows.add("tls_cert", tls_cert.as_ref().map(|path| path.display()), &"none");
        rows.add("tls_key", tls_key.as_ref().map(|path| path.display()), &"none");
        rows.add("allow_hosts", list(allow_hosts), &"those of this machine");
        rows.add("allow_origins", list(allow_origins), &"none");
        rows.add("max_body_bytes", *max_body_bytes, &default.max_body);
        rows.add("max_connections", *max_connections, &default.max_connections);
        rows.add("max_streams", *max_streams, &default.max_streams);
        rows.add("requests_per_second", *requests_per_second, &default.requests_per_second);
        rows.add("header_seconds", *header_seconds, &default.header_time.as_secs());
        rows.add("body_seconds", *body_seconds, &default.body_time.as_secs());
    }

    /// Returns the options of the HTTP listener.
    pub(crate) fn options(&self, args: &ServeArgs, token: Option<&str>) -> anyhow::Result<HttpOptions> {
        let default = HttpOptions::default();
        let seconds = |configured: Option<u64>, default| configured.map_or(default, Duration::from_secs);
        // A literal address cannot be rebound by DNS, so requests that name it are meant for this server.
        let own = args.http.map(|address| address.ip()).filter(|ip| !ip.is_unspecified());
        let own = own.map(|ip| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
        let origins = [&self.allow_origins[..], &args.allow_origin].concat();
        origins.iter().try_for_each(|origin| check_origin(origin))?;
        Ok(HttpOptions {
            token: token.map(str::to_owned),
            hosts: own.into_iter().chain([&self.allow_hosts[..], &args.allow_host].concat()).collect(),
            origins,
            max_body: self.max_body_bytes.unwrap_or(default.max_body),
            max_connections: self.max_connections.map_or(default.max_connections, Limit::get),
            max_streams: self.max_streams.map_or(default.max_streams, Limit::get),
            requests_per_second: self.requests_per_second.unwrap_or(default.requests_per_second),
            header_time: seconds(self.header_seconds, default.header_time),
            body_time: seconds(self.body_seconds, default.body_time),
            max_backlog: default.max_backlog,
        })
    }

    /// Returns the certificate and its key, if TLS is configured. Errors name what configures them: a flag, or a key of `file`.
    pub(crate) fn tls(&self, args: &ServeArgs, file: &Path) -> anyhow::Result<Option<TlsIdentity>> {
        let cert = PemFile::choose("tls-cert", args.tls_cert.as_ref(), self.tls_cert.as_ref(), file);
        let key = PemFile::choose("tls-key", args.tls_key.as_ref(), self.tls_key.as_ref(), file);
        let (cert, key) = match (cert, key) {
            (None, None) => return Ok(None),
            (Some(cert), Some(key)) => (cert, key),
            (Some(cert), None) => anyhow::bail!("{}: TLS needs the key of the certificate, too", cert.source),
            (None, Some(key)) => anyhow::bail!("{}: TLS needs the certificate of the key, too", key.source),
        };
        let identity = TlsIdentity::from_pem(&cert.read()?, &key.read()?);
        identity.map(Some).with_context(|| format!("{cert} and {key}"))
    }
}

/// A file for TLS, with what names it.
struct PemFile<'a> {
    path: &'a Path,
    source: String,
}

impl<'a> PemFile<'a> {
    fn choose(name: &str, flag: Option<&'a PathBuf>, key: Option<&'a PathBuf>, file: &Path) -> Option<Self> {
        let of_key = || format!("{} of [http] in {}", name.replace('-', "_"), file.display());
        match (flag, key) {
            (Some(path), _) => Some(Self { path, source: format!("--{name}") }),
            (None, Some(path)) => Some(Self { path, source: of_key() }),
            (None, None) => None,
        }
    }

    fn read(&self) -> anyhow::Result<Vec<u8>> {
        std::fs::read(self.path).with_context(|| format!("cannot read {self}"))
    }
}

impl std::fmt::Display for PemFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.path.display(), self.source)
    }
}

/// Refuses an origin that can never match, so that the mistake shows at the start and not in a browser's console.
fn check_origin(origin: &str) -> anyhow::Result<()> {
    let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let fits = authority.is_some_and(|a| !a.is_empty() && !a.contains(['/', '?', '#', '*', ' ']));
    anyhow::ensure!(
        fits,
        "{origin:?} is not an origin: write it as https://app.example or http://localhost:3000, without a path"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_tls_files_name_the_flag_or_the_file_of_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let (pem, gone) = (dir.path().join("cert.pem"), dir.path().join("gone.pem"));
        std::fs::write(&pem, "not PEM").unwrap();
        let config = Path::new("/etc/c.toml");
        let mistake = |table: HttpTable, args: ServeArgs| match table.tls(&args, config) {
            Err(error) => format!("{error:#}"),
            Ok(_) => panic!("a mistake is found"),
        };
        let of_file = |cert: Option<&PathBuf>, key: Option<&PathBuf>| HttpTable {
            tls_cert: cert.cloned(),
            tls_key: key.cloned(),
            ..HttpTable::default()
        };
        let alone = mistake(of_file(Some(&pem), None), ServeArgs::default());
        assert!(alone.starts_with("tls_cert of [http] in /etc/c.toml: "), "{alone}");
        let missing = mistake(of_file(Some(&pem), Some(&gone)), ServeArgs::default());
        assert!(missing.contains("gone.pem (tls_key of [http] in /etc/c.toml)"), "{missing}");
        let broken = mistake(of_file(Some(&pem), Some(&pem)), ServeArgs::default());
        assert!(broken.contains("cert.pem (tls_cert of [http] in /etc/c.toml)"), "{broken}");
        let flag = ServeArgs { tls_cert: Some(gone), ..ServeArgs::default() };
        let mixed = mistake(of_file(None, Some(&pem)), flag);
        assert!(mixed.contains("gone.pem (--tls-cert)"), "{mixed}");
    }

    #[test]
    fn origins_that_can_never_match_are_refused() {
        for good in ["https://app.example", "http://localhost:3000", "http://[::1]:80"] {
            check_origin(good).unwrap();
        }
        for bad in ["app.example", "https://app.example/", "*", "https://*.example", "https://", "null"] {
            assert!(check_origin(bad).is_err(), "{bad}");
        }
    }
}
