//! `baton serve`: runs a server for all kinds of clients until it is stopped.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::future::Future;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use baton_crush::{HttpShare, WorkspaceOptions};
use baton_http::{HttpDoor, HttpListener, HttpOptions, TlsIdentity, WebApp};
use baton_notify::{Courier, Notifier};
use baton_people::People;
use baton_providers::ServerEndpoint;
use baton_rpc::{RpcDoor, RpcOptions};
use baton_runtime::Runtime;
use baton_runtime::cluster::Recovery;
use baton_service::Service;
use tokio::net::{TcpListener, UnixListener};

use crate::args::{Cli, LogFormat, ServeArgs};
use crate::config::{self, Config, Environment};
use crate::discovery::RunningServer;
use crate::idle::Usage;
use crate::{cluster, file_limit, logging, notify, setup, share, terminal};

pub(crate) fn serve(cli: &Cli, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &args.model, None, &environment)?;
    if args.detached {
        rustix::process::setsid().context("cannot leave the session of the terminal")?;
    }
    logging::start(&config);
    logging::report(&config, serve_configured(args, &config, &environment))
}

/// Longest time that a server which was asked to drain waits for its turns.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Waits until nobody has used the server for this long; forever without a time.
async fn idle_for(limit: Option<Duration>, usage: Usage) {
    match limit {
        Some(limit) => usage.ended_for(limit).await,
        None => std::future::pending().await,
    }
}

/// Waits until an operator has asked the server to drain, and its turns have ended. It serves its clients meanwhile.
async fn drained(server: &Runtime) {
    server.drain_requested().await;
    tracing::info!("asked to drain; the server stops when its turns have ended");
    server.drain(A_DAY).await;
}

fn serve_configured(
    args: &ServeArgs,
    config: &Config,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        args.http.is_some() || args.share || (args.tls_cert.is_none() && args.tls_key.is_none()),
        "--tls-cert and --tls-key need --http or --share"
    );
    config.check_endpoint()?;
    // Before the token is read.
    setup::check_home(&config.home.value)?;
    let mut options = setup::options(config, environment)?;
    options.sandbox = config::with_level(&options.sandbox, args.sandbox);
    let file = args.token_file.clone().unwrap_or_else(|| config.home.value.join("token"));
    // A token from the environment is in no file that clients could read.
    let mut rpc = setup::rpc_options(config, environment);
    let token_file = rpc.token.is_none().then_some(&*file);
    rpc.token = choose_token(args, rpc.token.take(), &file)?;
    options.secrets.extend(rpc.token.clone());
    let mut http = config.http.options(args, rpc.token.as_deref())?;
    let tls = config.http.tls(args, &config.file)?;
    file_limit::share(&mut rpc.limits, Some(&mut http));
    let doors = DoorOptions { rpc, http, tls, workspaces: config.workspaces.options()? };
    let others = RunningServer::servers(&config.home.value);
    let notes: Vec<String> =
        unused_flags_warning(args).into_iter().chain(other_servers_note(&others)).collect();
    setup::run(async {
        let store = setup::store(config, options.crash.clone())?;
        let server = setup::server(options, &store);
        let stop_signal = setup::stop_signal();
        cluster::enter(&server, config, environment, &args.peer).await?;
        let people = People::new(server.store.clone());
        let token = doors.http.token.clone();
        let courier =
            notify::courier(config, environment, server.store.clone(), people.clone(), token.as_deref())?;
        let listeners = Listeners::open(args, config, &server, doors, people, courier).await?;
        let running = listeners.running_server(token_file, &config.endpoint.value);
        let published = running.publish(&config.home.value)?;
        listeners.announce(config, token_file);
        for note in &notes {
            match config.log_format.value {
                LogFormat::Text => terminal::note(note),
                LogFormat::Json => tracing::warn!("{note}"),
            }
        }
        if args.share {
            listeners.share().await?;
        }
        notify_ready(environment);
        server.index_texts();
        if config.recovery.value == Recovery::Continue {
            server.continue_unfinished();
        }
        if let Some(keep) = config.keep {
            server.delete_old_sessions(keep);
        }
        let socket = listeners.socket.clone();
        let usage = listeners.usage(&server);
        let served = tokio::select! {
            served = listeners.serve() => served,
            () = stop_signal => Ok(()),
            () = drained(&server) => Ok(()),
            () = idle_for(args.exit_when_idle, usage) => {
                tracing::info!("nobody has used the server for the time of --exit-when-idle");
                Ok(())
            }
        };
        match config.log_format.value {
            LogFormat::Text => terminal::note("stopping"),
            LogFormat::Json => tracing::info!("stopping"),
        }
        drop(published);
        if let Some(socket) = socket {
            let _ = std::fs::remove_file(socket);
        }
        setup::stop(&server, &store).await;
        served.map(|()| ExitCode::SUCCESS)
    })
}

/// Tells the service manager that the server is ready, if one waits for it (`Type=notify`).
fn notify_ready(environment: &Environment) {
    let Some(path) = environment.get("NOTIFY_SOCKET") else { return };
    if let Err(error) = baton_ops::service::notify_ready(path) {
        tracing::warn!(%error, "cannot tell the service manager that the server is ready");
    }
}

/// Chooses the token that clients must send: the given one, otherwise the one in the file. Returns none only with
/// `--insecure-no-token`, which is refused if other machines can connect.
fn choose_token(args: &ServeArgs, given: Option<String>, file: &Path) -> anyhow::Result<Option<String>> {
    let elsewhere = http_address(args).is_some_and(|address| !address.ip().is_loopback());
    match args.insecure_no_token {
        true if elsewhere => {
            anyhow::bail!("refusing to serve other machines without a token; leave out --insecure-no-token")
        }
        true => Ok(None),
        false => given.map_or_else(|| token(file).map(Some), |given| Ok(Some(given))),
    }
}

/// Returns the address to listen on for HTTP clients, if there is one.
fn http_address(args: &ServeArgs) -> Option<SocketAddr> {
    args.http.or_else(|| args.share.then_some((Ipv4Addr::UNSPECIFIED, share::PORT).into()))
}

type Serving = Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>;

/// The open listeners of a server.
struct Listeners {
    serving: Vec<Serving>,
    /// The line that is printed for each listener.
    lines: Vec<String>,
    token: Option<String>,
    url: Option<String>,
    /// URL of the page for browsers on other machines.
    page: Option<String>,
    people: Arc<People>,
    /// Whether a one-time link is printed instead of one with the token.
    is_shared: bool,
    socket: Option<PathBuf>,
    rpc_port: Option<u16>,
    http: HttpDoor,
    rpc: RpcDoor,
}

/// Options of all doors.
struct DoorOptions {
    rpc: RpcOptions,
    http: HttpOptions,
    tls: Option<TlsIdentity>,
    workspaces: WorkspaceOptions,
}

impl Listeners {
    /// Opens the addresses of the arguments; without any, a port for SDKs. There is always a socket file.
    async fn open(
        args: &ServeArgs,
        config: &Config,
        server: &Arc<Runtime>,
        options: DoorOptions,
        people: Arc<People>,
        courier: Arc<Courier>,
    ) -> anyhow::Result<Self> {
        let DoorOptions { rpc, mut http, tls, workspaces } = options;
        let (token, max_body) = (http.token.clone(), http.max_body);
        let named = http.hosts.iter().find(|host| host.parse::<IpAddr>().is_err()).cloned();
        if http_address(args).is_some_and(|address| address.ip().is_unspecified()) {
            // A literal address cannot be rebound by DNS.
            http.hosts.extend(share::network_address().map(|address| address.to_string()));
        }
        let page = WebApp { routes: baton_page::routes(), serves: baton_page::serves };
        let service = Service::new(server);
        let door = HttpDoor::with_page(&service, http, Some(people.clone()), Some(page));
        let notifier = Notifier::start(server, courier);
        service.set_notifier(notifier.clone());
        let share = HttpShare { max_body, streams: door.streams() };
        let door = door.mount("/v1", baton_crush::routes(&service, workspaces, share));
        // Without a port, too: it hosts the extensions of sessions, also for clients of other servers.
        let rpc = RpcDoor::new(server, RpcOptions { people: Some(people.clone()), ..rpc });
        let mut listeners = Self {
            http: door.clone(),
            rpc: rpc.clone(),
            serving: Vec::new(),
            lines: Vec::new(),
            token,
            url: None,
            page: None,
            people,
            is_shared: args.share,
            socket: None,
            rpc_port: None,
        };
        let address = http_address(args);
        let use_defaults = args.port.is_none() && address.is_none() && args.socket.is_none();
        if let Some(port) = args.port.or(use_defaults.then_some(0)) {
            listeners.open_rpc(rpc, port).await?;
        }
        if let Some(address) = address {
            listeners.open_http(&door, address, args.http.is_none(), tls, named.as_deref()).await?;
            listeners.page.iter().for_each(|page| notifier.courier().set_page(page));
        }
        // Behind a proxy, browsers use another address than the one that the server listens on.
        listeners.page = config.notifications.page()?.or(listeners.page);
        if let Some(path) = &args.socket {
            listeners.open_socket(&door, path)?;
            listeners.announce_socket();
            return Ok(listeners);
        }
        // For commands of the same home, which need no token there, and no certificate. A second server of the home, or a
        // home with a very long path, has none.
        match listeners.open_socket(&door, &config.home.value.join("baton.sock")) {
            Ok(()) if use_defaults => listeners.announce_socket(),
            Ok(()) => {}
            Err(error) => tracing::info!("cannot open the default socket file: {error:#}"),
        }
        Ok(listeners)
    }

    async fn open_rpc(&mut self, door: RpcDoor, port: u16) -> anyhow::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", port))
            .await
            .map_err(|error| cannot_listen(&format!("port {port}"), &error))?;
        let port = listener.local_addr()?.port();
        self.rpc_port = Some(port);
        // Programs read the port from this line.
        let purpose = if terminal::output_is_terminal() { " for Copilot SDKs (JSON-RPC)" } else { "" };
        self.lines.push(format!("listening on port {port}{purpose}"));
        self.serving.push(Box::pin(async move { door.serve_tcp(listener).await }));
        Ok(())
    }

    async fn open_http(
        &mut self,
        door: &HttpDoor,
        address: SocketAddr,
        any_port: bool,
        tls: Option<TlsIdentity>,
        name: Option<&str>,
    ) -> anyhow::Result<()> {
        let listener = match TcpListener::bind(address).await {
            Err(error) if any_port && error.kind() == std::io::ErrorKind::AddrInUse => {
                terminal::note(&format!(
                    "port {} is in use; taking another one, which changes with each start",
                    address.port()
                ));
                TcpListener::bind((address.ip(), 0)).await
            }
            bound => bound,
        };
        let listener = listener.map_err(|error| cannot_listen(&address.to_string(), &error))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr()?);
        self.page = Some(share::base(scheme, listener.local_addr()?, name));
        self.lines.push(format!("listening on {url}"));
        self.url = Some(url);
        let listener = match tls {
            Some(identity) => HttpListener::Tls(listener, identity),
            None => HttpListener::Tcp(listener),
        };
        self.serve_http(door, listener);
        Ok(())
    }

    fn open_socket(&mut self, door: &HttpDoor, path: &Path) -> anyhow::Result<()> {
        let listener = socket(path).with_context(|| format!("cannot listen on {}", path.display()))?;
        self.socket = Some(std::path::absolute(path)?);
        self.serve_http(door, HttpListener::Socket(listener));
        Ok(())
    }

    fn announce_socket(&mut self) {
        self.lines.extend(self.socket.as_ref().map(|path| format!("listening on unix://{}", path.display())));
    }

    fn serve_http(&mut self, door: &HttpDoor, listener: HttpListener) {
        let door = door.clone();
        self.serving.push(Box::pin(async move { door.serve(listener).await }));
    }

    /// Returns what counts as use of the server.
    fn usage(&self, server: &Arc<Runtime>) -> Usage {
        Usage { runtime: server.clone(), http: self.http.clone(), rpc: self.rpc.clone() }
    }

    /// Returns the URL for programs on this machine: a wildcard address is none that a request can name.
    fn local_url(&self) -> Option<String> {
        let url = self.url.as_deref()?;
        Some(url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:"))
    }

    fn running_server(&self, token_file: Option<&Path>, endpoint: &ServerEndpoint) -> RunningServer {
        let token_file = token_file.filter(|_| self.token.is_some()).map(Path::to_owned);
        let server = RunningServer::new(self.local_url(), self.socket.clone(), token_file);
        let endpoint = Some(config::published(&server, endpoint));
        RunningServer { page: self.page.clone(), rpc_port: self.rpc_port, endpoint, ..server }
    }

    /// Prints a one-time login link with its QR code, on a terminal only: a reader of the log must not be able to log in.
    async fn share(&self) -> anyhow::Result<()> {
        let Some(base) = &self.page else { return Ok(()) };
        if !terminal::errors_are_on_a_terminal() {
            terminal::note("share  run `baton link` for a login link; it is printed here on a terminal only");
            return Ok(());
        }
        let link = share::link(base, &self.people.link(None).await?);
        terminal::secret_note(&format!("share  {link}"));
        share::show_code(&link);
        terminal::note("       scan it with the phone's camera; it works once, within 15 minutes");
        Ok(())
    }

    /// Prints the addresses. Prints or logs the home, the model and the authentication.
    fn announce(&self, config: &Config, token_file: Option<&Path>) {
        self.lines.iter().for_each(|line| terminal::line(line));
        match config.log_format.value {
            LogFormat::Text => self.describe(config, token_file),
            LogFormat::Json => {
                let (home, model) = (config.home.value.display(), config::describe(&config.endpoint.value));
                tracing::info!(%home, model, needs_token = self.token.is_some(), "serving");
            }
        }
    }

    /// Prints the home, the model, and how to authenticate.
    fn describe(&self, config: &Config, token_file: Option<&Path>) {
        terminal::note(&format!("home   {}", config.home.value.display()));
        terminal::note(&format!("model  {}", config::describe(&config.endpoint.value)));
        match (&self.token, token_file) {
            (Some(_), Some(file)) => terminal::note(&format!("token  in {}", file.display())),
            (Some(_), None) => terminal::note("token  from COPILOT_CONNECTION_TOKEN"),
            (None, _) => terminal::note(
                "token  none: every user of this machine can use the HTTP port; the JSON-RPC port serves your own \
                 processes only",
            ),
        }
        if let Some(warning) = self.url.as_deref().and_then(plain_text_warning) {
            terminal::note(&warning);
        }
        if let (Some(url), Some(token), false) = (self.local_url(), &self.token, self.is_shared) {
            // A reader of the log must not be able to log in.
            if !terminal::secret_note(&format!("link   {url}/?token={token}")) {
                terminal::note(&format!("link   {url}/?token=TOKEN (replace TOKEN)"));
            }
        }
    }

    /// Serves until a listener fails.
    async fn serve(self) -> anyhow::Result<()> {
        let (ended, ..) = futures_util::future::select_all(self.serving).await;
        ended.context("a listener failed")
    }
}

/// Explains why an address cannot be listened on.
fn cannot_listen(address: &str, error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => anyhow::anyhow!(
            "cannot listen on {address}: it is in use; stop the other server with `baton stop`, or choose another port"
        ),
        _ => anyhow::anyhow!("cannot listen on {address}: {error}"),
    }
}

/// Returns the warning for flags that apply to HTTP clients of a TCP address only, if there is none.
fn unused_flags_warning(args: &ServeArgs) -> Option<String> {
    let flags = [("--allow-host", &args.allow_host), ("--allow-origin", &args.allow_origin)];
    let given: Vec<&str> =
        flags.iter().filter(|(_, values)| !values.is_empty()).map(|(name, _)| *name).collect();
    let is_unused = http_address(args).is_none() && !given.is_empty();
    is_unused.then(|| {
        format!(
            "warn   {} without effect: the server listens on no HTTP address; add --http or --share",
            given.join(" and ")
        )
    })
}

/// Returns the note about other servers of the same home, if there are some.
fn other_servers_note(others: &[RunningServer]) -> Option<String> {
    let pids: Vec<String> = others.iter().map(|server| server.pid().to_string()).collect();
    (!pids.is_empty()).then(|| {
        format!(
            "note   another server of this home is running (process {}). Both serve all sessions, each session in one of them at a \
             time; `baton run` and `baton attach` use the newest that commands can reach, `baton stop` stops all",
            pids.join(", ")
        )
    })
}

/// Returns the warning for an address that other machines can reach without TLS.
fn plain_text_warning(url: &str) -> Option<String> {
    let address: SocketAddr = url.strip_prefix("http://")?.parse().ok()?;
    (!address.ip().is_loopback()).then(|| {
        "warn   no TLS: anyone on the network can read the token and all sessions; add --tls-cert and --tls-key, or listen \
         on 127.0.0.1 behind a reverse proxy"
            .to_owned()
    })
}

/// Binds a socket file that only its owner can open. The socket of a dead server is replaced; that of a running one, or any
/// other file, is not.
fn socket(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(parent) = path.parent() {
        baton_disk::private::create_dir_all(parent)?;
    }
    if let Ok(found) = path.symlink_metadata() {
        anyhow::ensure!(found.file_type().is_socket(), "a file that is not a socket exists there");
        anyhow::ensure!(
            std::os::unix::net::UnixStream::connect(path).is_err(),
            "another server listens there"
        );
        std::fs::remove_file(path)?;
    }
    // Private from the start: with this umask, no other user can connect to the new file.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    Ok(bound?)
}

/// Reads the token from its file, or creates the file, readable by its owner only.
fn token(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => anyhow::bail!("{} is empty: write a token into it, or delete it", file.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
    let token = baton_protocol::SessionId::random().to_string();
    let write = || {
        if let Some(parent) = file.parent() {
            baton_disk::private::create_dir_all(parent)?;
        }
        let mut out = baton_disk::private::create_new(file)?;
        writeln!(out, "{token}")
    };
    write().with_context(|| format!("cannot write a token to {}", file.display()))?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_for_other_machines_without_tls_are_warned_about() {
        assert!(plain_text_warning("http://0.0.0.0:80").is_some());
        assert!(plain_text_warning("http://[::]:80").is_some());
        for fine in ["http://127.0.0.1:80", "http://[::1]:80", "https://0.0.0.0:443"] {
            assert_eq!(plain_text_warning(fine), None, "{fine}");
        }
    }
}
