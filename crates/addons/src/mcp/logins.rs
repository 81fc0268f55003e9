//! Logins at remote MCP servers, and the tokens that result from them.
//!
//! A login is prepared here, and finished with the redirect of a browser, through any door. Only the request for it is
//! durable (`baton_core::step::logins`): a link holds a secret, so it ends with the process, and the next one is fresh.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use baton_core::policy::address::is_public;
use baton_files::tokens::{StoredTokens, TokenVault};
use baton_mcp::oauth::{
    self, ClientIdentity, GrantType, Login, LoginTarget, OAuthError, Returned, TokenOrigin, Tokens,
};
use baton_mcp::{AuthReason, Challenge, Http, HttpRequest, Method, Protected};
use baton_model::http::HttpClient;
use baton_protocol::{SessionId, Timestamp};
use tokio::sync::{Mutex as AsyncMutex, broadcast};

use super::login_links::{OpenLink, OpenLinks};
use super::network::{LoginNetwork, Network};

/// Opens a listener for redirects of browsers, and returns its address.
pub type Landing = Arc<dyn Fn() -> baton_mcp::Working<'static, Option<String>> + Send + Sync>;

/// Logins and tokens of MCP servers; one for all sessions.
pub struct Logins {
    vault: TokenVault,
    clients: Clients,
    links: OpenLinks,
    landing: Mutex<Option<Landing>>,
    /// A refresh token is used once.
    refreshing: AsyncMutex<()>,
    /// Outcomes of logins; a failure has its reason.
    ended: broadcast::Sender<Result<LoggedIn, String>>,
}

/// A link for a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginLink {
    /// The address to open.
    pub url: String,
    /// Where the browser returns to.
    pub redirect: String,
}

/// A login that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// The session that it was for; none for a command of the user.
    pub session: Option<SessionId>,
    /// Name of the server.
    pub server: String,
}

impl Logins {
    /// Creates them. Opens nothing.
    pub fn new(home: &std::path::Path, network: Arc<HttpClient>, keyring: bool) -> Self {
        Self {
            vault: TokenVault::new(home, keyring),
            clients: Clients::new(network),
            links: OpenLinks::default(),
            landing: Mutex::default(),
            refreshing: AsyncMutex::default(),
            ended: broadcast::channel(16).0,
        }
    }

    /// Sets where browsers return to if a client does not say: the HTTP door, or a port that is opened when it is needed.
    pub fn set_landing(&self, landing: Landing) {
        *self.landing.lock().unwrap_or_else(PoisonError::into_inner) = Some(landing);
    }

    /// Returns a token for a server from an earlier login, refreshed if it has expired.
    pub async fn known(&self, server: &Protected) -> Option<String> {
        let stored = self.vault.find(server.url.as_str(), &server.oauth).await?;
        match stored.is_expired(Timestamp::now()) {
            false => Some(stored.tokens.access),
            true => self.renew(server, &stored.tokens.access).await,
        }
    }

    /// Returns another token than the one that a server rejected, without a person; none if that needs a login.
    pub(super) async fn renew(&self, server: &Protected, rejected: &str) -> Option<String> {
        let _alone = self.refreshing.lock().await;
        let _only = self.vault.lock_refresh().await.ok()?;
        let stored = self.vault.find(server.url.as_str(), &server.oauth).await?;
        if stored.tokens.access != rejected && !stored.is_expired(Timestamp::now()) {
            return Some(stored.tokens.access);
        }
        stored.tokens.refresh.as_ref()?;
        let http = self.http_for(server).await;
        match oauth::refresh(&http, &server.url, &stored.source, &stored.identity, &stored.tokens).await {
            Ok(tokens) => {
                let access = tokens.access.clone();
                note(self.store(server, stored.source, stored.identity, stored.was_registered, tokens).await);
                Some(access)
            }
            Err(OAuthError::Refused { code, .. }) if code == "invalid_grant" => {
                tracing::info!(server = server.name, "the login has expired");
                drop(self.vault.remove(server.url.as_str()).await);
                None
            }
            Err(error) => {
                tracing::warn!(server = server.name, %error, "failed to refresh a token");
                None
            }
        }
    }

    /// Replaces a token that a server has rejected: by a new one of the same login, or else by one of a client that needs no
    /// user.
    pub(super) async fn replace(
        &self,
        server: &Protected,
        challenge: &Challenge,
        reason: AuthReason,
        rejected: Option<&str>,
    ) -> Option<String> {
        let renewed = match (reason, rejected) {
            // A token with the same scopes as the rejected one does not help.
            (AuthReason::Upscope, _) | (_, None) => None,
            (_, Some(rejected)) => self.renew(server, rejected).await,
        };
        match renewed {
            Some(token) => Some(token),
            None => self.for_client(server, challenge).await,
        }
    }

    /// Gets a token for the client itself, if the configuration says so.
    pub(super) async fn for_client(&self, server: &Protected, challenge: &Challenge) -> Option<String> {
        let client = server.oauth.client.clone().filter(|_| server.oauth.grant == GrantType::Client)?;
        let http = self.http_for(server).await;
        let attempt = async {
            let found = oauth::discover(&http, &server.url, Some(challenge)).await?;
            let identity = self.configured(client, server, &found).await?;
            let tokens =
                oauth::client_credentials(&http, &server.url, &found, &identity, &found.scopes).await?;
            Ok::<_, OAuthError>((TokenOrigin::of(&found), identity, tokens))
        };
        match attempt.await {
            Ok((source, identity, tokens)) => {
                let access = tokens.access.clone();
                note(self.store(server, source, identity, false, tokens).await);
                Some(access)
            }
            Err(error) => {
                tracing::warn!(server = server.name, %error, "failed to get a token for the client");
                None
            }
        }
    }

    /// Prepares a login and returns its link, for a session or for a command of the user.
    ///
    /// # Errors
    /// With a message for people, when the authorization server cannot be used.
    pub async fn prepare(
        &self,
        session: Option<&SessionId>,
        server: &Protected,
        challenge: Option<Challenge>,
        redirect: Option<String>,
    ) -> Result<LoginLink, String> {
        let text = |error: OAuthError| error.to_string();
        let redirect = match redirect {
            Some(redirect) => redirect,
            None => self.land().await.ok_or("no port is open for the browser to return to")?,
        };
        let http = self.http_for(server).await;
        let challenge = match challenge {
            Some(challenge) => Some(challenge),
            None => probe(&http, server).await,
        };
        let found = oauth::discover(&http, &server.url, challenge.as_ref()).await.map_err(text)?;
        let (identity, was_registered) =
            self.identity(&http, server, &found, &redirect).await.map_err(text)?;
        let scopes = self.scopes(server, &found, challenge.as_ref()).await;
        let login = Login::new(found, identity, &redirect, &scopes).map_err(text)?;
        let link = LoginLink { url: login.url.to_string(), redirect };
        self.links.add(OpenLink {
            session: session.cloned(),
            server: server.clone(),
            login,
            was_registered,
            begun: Instant::now(),
        })?;
        Ok(link)
    }

    /// Returns the client of the configuration, or the one that is registered for us.
    async fn identity(
        &self,
        http: &dyn Http,
        server: &Protected,
        found: &LoginTarget,
        redirect: &str,
    ) -> Result<(ClientIdentity, bool), OAuthError> {
        if let Some(client) = &server.oauth.client {
            return Ok((self.configured(client.clone(), server, found).await?, false));
        }
        if let Some(known) = self.vault.registration(found, redirect).await {
            return Ok((known, true));
        }
        let identity = oauth::register(http, &server.url, found, redirect).await?;
        let stored = self.vault.put_registration(found, redirect, Some(identity.clone())).await;
        if let Err(error) = stored {
            tracing::warn!(%error, "failed to store the registration of a client");
        }
        Ok((identity, true))
    }

    /// Returns the client of the configuration, if its secret goes where it went before.
    async fn configured(
        &self,
        client: String,
        server: &Protected,
        found: &LoginTarget,
    ) -> Result<ClientIdentity, OAuthError> {
        if server.oauth.secret.is_some()
            && let Some(known) = self.vault.find(server.url.as_str(), &server.oauth).await
        {
            check_endpoint(&known.source, found)?;
        }
        Ok(ClientIdentity::configured(client, server.oauth.secret.clone(), found))
    }

    /// Returns the scopes to ask for. A server that wants more gets more in addition: those that were granted stay.
    async fn scopes(
        &self,
        server: &Protected,
        found: &LoginTarget,
        challenge: Option<&Challenge>,
    ) -> Vec<String> {
        let mut scopes = found.scopes.clone();
        if challenge.is_some_and(|challenge| challenge.status == 403)
            && let Some(stored) = self.vault.find(server.url.as_str(), &server.oauth).await
        {
            let missing = stored.tokens.scopes.into_iter().filter(|scope| !found.scopes.contains(scope));
            scopes.extend(missing);
        }
        scopes
    }

    /// Finishes the login that a browser returned from. A link can be used once, whatever came back.
    ///
    /// # Errors
    /// With a message for people, when there is no token.
    async fn finish(&self, returned: &Returned, only: Option<&LoggedIn>) -> Result<LoggedIn, String> {
        let unknown = "this link was used before, or is too old: ask for another one";
        let link = self.links.take(returned, only).ok_or(unknown)?;
        let OpenLink { session, server, login, was_registered, .. } = link;
        let code = login.code(returned).map_err(|error| error.to_string())?;
        let http = self.http_for(&server).await;
        let tokens = match oauth::exchange(&http, &server.url, &login, &code).await {
            Ok(tokens) => tokens,
            Err(error) => {
                if matches!(&error, OAuthError::Refused { code, .. } if code == "invalid_client") {
                    // The authorization server has forgotten the registration.
                    drop(self.vault.put_registration(&login.found, &login.redirect, None).await);
                }
                return Err(error.to_string());
            }
        };
        let Login { found, identity, .. } = login;
        let stored = self.store(&server, TokenOrigin::of(&found), identity, was_registered, tokens).await;
        stored.map_err(|why| format!("the login succeeded and cannot be stored: {why}"))?;
        Ok(LoggedIn { session, server: server.name })
    }

    /// Subscribes to the outcomes of logins.
    #[must_use]
    pub fn ended(&self) -> broadcast::Receiver<Result<LoggedIn, String>> {
        self.ended.subscribe()
    }

    /// Finishes a login of a command with what a person pasted: the address that the browser ended at, or the code.
    ///
    /// # Errors
    /// With a message for people, when there is no token.
    pub async fn finish_pasted(
        &self,
        session: Option<&SessionId>,
        server: &str,
        pasted: &str,
    ) -> Result<(), String> {
        let returned = oauth::parse_returned(pasted).ok_or("neither an address with a code nor a code")?;
        let only = LoggedIn { session: session.cloned(), server: server.to_owned() };
        self.finish(&returned, Some(&only)).await.map(drop)
    }

    /// Finishes the login that a browser returned from, with the query of its address.
    ///
    /// # Errors
    /// When the address is not that of a login. The inner error is a message for people: there is no token.
    pub async fn finish_returned(&self, query: &str) -> Result<Result<LoggedIn, String>, String> {
        let returned = Returned::parse(query).filter(|returned| returned.state.is_some());
        let returned = returned.ok_or("the address is not that of a login")?;
        Ok(self.finish(&returned, None).await)
    }

    /// Publishes the outcome of a login to the subscribers of [`Self::ended`].
    pub fn announce(&self, ended: Result<LoggedIn, String>) {
        drop(self.ended.send(ended));
    }

    /// Forgets the tokens of a server. Returns whether there were any.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn forget(&self, server: &Protected) -> Result<bool, String> {
        self.vault.remove(server.url.as_str()).await
    }

    async fn store(
        &self,
        server: &Protected,
        source: TokenOrigin,
        identity: ClientIdentity,
        was_registered: bool,
        tokens: Tokens,
    ) -> Result<(), String> {
        let stored = StoredTokens {
            server: server.url.to_string(),
            source,
            identity,
            was_registered,
            tokens,
            issued: Timestamp::now().as_millis(),
        };
        self.vault.put(stored).await
    }

    async fn land(&self) -> Option<String> {
        let landing = self.landing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        landing?().await
    }

    /// Returns the client for requests to addresses that a server names.
    async fn http_for(&self, server: &Protected) -> LoginNetwork {
        let host = server.url.host_str().unwrap_or_default().to_owned();
        let name = host.trim_matches(['[', ']']);
        let addresses: Vec<IpAddr> = match name.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => {
                let found = tokio::net::lookup_host((name, 0)).await;
                found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
            }
        };
        let (own, named) = self.clients.choose(&addresses, server.is_foreign);
        LoginNetwork { host, own: Network(own.clone()), named: Network(named.clone()) }
    }
}

/// HTTP clients, by the addresses that they reach.
struct Clients {
    anywhere: Arc<HttpClient>,
    public: Arc<HttpClient>,
    private: Arc<HttpClient>,
}

impl Clients {
    fn new(anywhere: Arc<HttpClient>) -> Self {
        let public = Arc::new(HttpClient::confined(is_public));
        let private = Arc::new(HttpClient::confined(|address| !is_public(address)));
        Self { anywhere, public, private }
    }

    /// Returns the clients for the host of an MCP server with these addresses, and for the hosts that it names.
    ///
    /// * A server on the internet names hosts on the internet: it must not reach into this network.
    /// * A server in this network that the user configured may name any host. Its own host has to stay in this network:
    ///   otherwise a server on the internet could pretend to be here for one lookup, and then name private addresses.
    /// * A server that a repository or plugin declares was allowed for its own host only.
    fn choose(&self, addresses: &[IpAddr], is_foreign: bool) -> (&Arc<HttpClient>, &Arc<HttpClient>) {
        match (is_inside(addresses), is_foreign) {
            (false, _) => (&self.public, &self.public),
            (true, false) => (&self.private, &self.anywhere),
            (true, true) => (&self.private, &self.public),
        }
    }
}

/// Whether a server is in this network: all of its addresses are. A name that also has a public one may belong to anybody.
fn is_inside(addresses: &[IpAddr]) -> bool {
    !addresses.is_empty() && !addresses.iter().any(|address| is_public(*address))
}

/// Asks a server for its challenge, which names its metadata and scopes.
async fn probe(http: &dyn Http, server: &Protected) -> Option<Challenge> {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = vec![
        header("content-type", "application/json"),
        header("accept", "application/json, text/event-stream"),
    ];
    let request = HttpRequest { method: Method::Post, url: server.url.clone(), headers, body: body.into() };
    let sent = tokio::time::timeout(Duration::from_secs(10), http.send(request)).await;
    let response = sent.ok()?.ok()?;
    let is_challenge = matches!(response.status, 401 | 403);
    is_challenge.then(|| Challenge {
        url: server.url.clone(),
        status: response.status,
        headers: response.headers,
        body: String::new(),
    })
}

/// Checks that a login is at the authorization server of the last one: an MCP server that names another could collect the
/// secret of its client.
fn check_endpoint(known: &TokenOrigin, found: &LoginTarget) -> Result<(), OAuthError> {
    if known.token_endpoint == found.token_endpoint.as_str() {
        return Ok(());
    }
    Err(OAuthError::Unusable(
        "the MCP server names another authorization server than before, and the client's secret is not sent there; if that is \
         right, run `baton mcp logout` first"
            .into(),
    ))
}

/// Logs that a token could not be stored, which is used all the same.
fn note(stored: Result<(), String>) {
    if let Err(error) = stored {
        tracing::error!(error, "failed to store a token; the next connection needs another login");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Starts a server that answers every request, and returns its port.
    async fn answering() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                drop(stream.read(&mut [0; 1024]).await);
                drop(stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await);
            }
        });
        port
    }

    /// Sends a request for a login at a server, and returns the status, or the error.
    async fn status(server: &str, is_foreign: bool, url: &str) -> Result<u16, String> {
        let home = tempfile::tempdir().unwrap();
        let logins = Logins::new(home.path(), Arc::default(), false);
        let server = Protected {
            name: "s".into(),
            url: server.parse().unwrap(),
            oauth: Default::default(),
            is_foreign,
        };
        let request = HttpRequest {
            method: Method::Get,
            url: url.parse().unwrap(),
            headers: Vec::new(),
            body: Default::default(),
        };
        let response = logins.http_for(&server).await.send(request).await;
        response.map(|response| response.status).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn server_on_the_internet_cannot_name_private_addresses() {
        let port = answering().await;
        for url in [
            format!("http://127.0.0.1:{port}/token"),
            format!("http://localhost:{port}/token"),
            "https://10.0.0.5/token".into(),
            "https://169.254.169.254/token".into(),
            "https://[fd00::5]/token".into(),
        ] {
            for is_foreign in [false, true] {
                let refused = status("https://93.184.216.34/mcp", is_foreign, &url).await.unwrap_err();
                assert!(refused.contains("not allowed"), "{url}: {refused}");
            }
        }
    }

    #[tokio::test]
    async fn configured_server_in_this_network_can_name_private_addresses() {
        let port = answering().await;
        for server in ["http://127.0.0.1:1/mcp", "http://localhost:1/mcp"] {
            for named in [format!("http://127.0.0.1:{port}/"), format!("http://localhost:{port}/")] {
                assert_eq!(status(server, false, &named).await, Ok(204), "{server} {named}");
            }
        }
    }

    #[tokio::test]
    async fn server_of_a_repository_can_name_its_own_private_host_only() {
        let port = answering().await;
        let urls = [format!("http://127.0.0.1:{port}/"), format!("http://localhost:{port}/")];
        assert_eq!(status("http://127.0.0.1:1/mcp", true, &urls[0]).await, Ok(204));
        assert_eq!(status("http://localhost:1/mcp", true, &urls[1]).await, Ok(204));
        for (server, other) in [("http://127.0.0.1:1/mcp", &urls[1]), ("http://localhost:1/mcp", &urls[0])] {
            let refused = status(server, true, other).await.unwrap_err();
            assert!(refused.contains("not allowed"), "{server} {other}: {refused}");
        }
    }

    /// A name can have another address with each lookup: the first one decided that it is in this network.
    #[tokio::test]
    async fn own_host_of_a_private_server_stays_private() {
        let clients = Clients::new(Arc::default());
        let (own, _) = clients.choose(&["10.0.0.1".parse().unwrap()], false);
        let request = HttpRequest {
            method: Method::Get,
            url: "https://93.184.216.34/".parse().unwrap(),
            headers: Vec::new(),
            body: Default::default(),
        };
        let refused = Network(own.clone()).send(request).await.err().unwrap().to_string();
        assert!(refused.contains("not allowed"), "{refused}");
    }

    #[test]
    fn configured_secret_goes_to_the_authorization_server_of_the_last_login_only() {
        let found = |host: &str| LoginTarget {
            resource: "https://mcp.example".into(),
            issuer: format!("https://{host}"),
            authorization_endpoint: format!("https://{host}/authorize").parse().unwrap(),
            token_endpoint: format!("https://{host}/token").parse().unwrap(),
            registration_endpoint: None,
            names_issuer: false,
            authentication: Vec::new(),
            scopes: Vec::new(),
        };
        let known = TokenOrigin::of(&found("login.example"));
        assert_eq!(check_endpoint(&known, &found("login.example")), Ok(()));
        let refused = check_endpoint(&known, &found("evil.example")).unwrap_err().to_string();
        assert!(refused.contains("another authorization server"), "{refused}");
    }

    #[test]
    fn server_with_any_public_address_is_not_inside() {
        let inside = |addresses: &[&str]| {
            is_inside(&addresses.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
        };
        assert!(inside(&["10.0.0.1"]) && inside(&["127.0.0.1", "::1"]));
        assert!(!inside(&["10.0.0.1", "93.184.216.34"]), "a name with two addresses");
        assert!(!inside(&["93.184.216.34", "10.0.0.1"]));
        assert!(!inside(&[]), "a name without an address");
    }
}
