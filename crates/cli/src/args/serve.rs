//! `baton serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use baton_protocol::sandbox::SandboxLevel;
use clap::Args;

use super::ModelArgs;
use super::values::{listen_address, span};

const NOTES: &str = "\
Examples:
  baton serve --port 8421                    SDK clients, on 127.0.0.1:8421
  baton serve --share                        phones and browsers, with a QR code
  baton serve --http 127.0.0.1:8080          browsers and scripts, with a token
  baton serve --socket /run/baton/http.sock  HTTP, on a file of yours only
  baton serve --http 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem \\
    --allow-host baton.example               other machines, with token and TLS

Without an address, the server opens a free port for SDKs. Commands of the same home, such as `baton run` and `baton attach`, \
use a socket file in it that only you can open.

Set limits for HTTP clients in the table [http] of the configuration file; see docs/http.md.

When the server is ready, it prints `listening on URL` to stdout for each address. Ctrl-C stops it; nothing that was \
acknowledged is lost.";

/// Flags of `baton serve`.
#[derive(Debug, Default, Args)]
#[command(after_help = NOTES)]
pub struct ServeArgs {
    /// Listen for SDK clients (JSON-RPC) on this port of 127.0.0.1; 0 picks a free port
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Listen for HTTP clients on this address; port 0 picks a free port
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_address)]
    pub http: Option<SocketAddr>,
    /// Listen for HTTP clients on a socket file; only its owner can open it, so it needs no token
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    /// Print a one-time login link and its QR code, to open the page on a phone; without --http, listen on
    /// port 8422 of all addresses of this machine
    #[arg(long)]
    pub share: bool,
    /// Use TLS on the HTTP address, with this certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Read the token that clients must send from this file; created if missing [default: token in the home directory]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Let every user of this machine use the HTTP port without a token; the JSON-RPC port then serves your own processes only
    #[arg(long, conflicts_with = "token_file")]
    pub insecure_no_token: bool,
    /// Accept HTTP requests addressed to this host name; can be repeated
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Let web pages of this origin use the server, such as `https://app.example`; can be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    /// Stop after this time without clients, running work and pending requests, such as `1h` or `30m`
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub exit_when_idle: Option<Duration>,
    /// Level of the sandbox of commands, in sessions that have none of their own: read-only, workspace or off
    #[arg(long, value_name = "LEVEL")]
    pub sandbox: Option<SandboxLevel>,
    /// Run in a session of its own, so that closing the terminal does not end it.
    #[arg(long, hide = true)]
    pub detached: bool,
    /// The other servers.
    #[command(flatten)]
    pub peer: PeerArgs,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}

/// Flags of a server that shares a database with others.
#[derive(Debug, Default, Args)]
pub struct PeerArgs {
    /// Listen for other servers of the database on this address, which they must reach [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_address)]
    pub peer: Option<SocketAddr>,
    /// Read the secret that all servers of the database share from this file [env: BATON_PEER_SECRET; default: a file of this
    /// user]
    #[arg(long, value_name = "FILE")]
    pub peer_secret_file: Option<PathBuf>,
}
