//! Tokens of MCP servers: `mcp-tokens` in the home, apart from sessions, for its owner only, and encrypted.
//!
//! The key is in a file beside it (`mcp-tokens.key`), which protects tokens in a copy of the one file, and not from a
//! reader of the whole home; or it is in the user's keyring ([`token_key`](crate::token_key)). `docs/security.md` says so.
//!
//! A token belongs to an address of a server, an authorization server and a client. A server whose configuration names
//! another address or client never gets it.
#![allow(clippy::disallowed_methods, reason = "runs on a blocking thread")]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use baton_mcp::oauth::{ClientIdentity, LoginTarget, OAuthConfig, TokenOrigin, Tokens};
use baton_private as private;
use baton_protocol::Timestamp;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use crate::json_file::on_file;
use crate::token_key::{KeyPlace, TokenKey, random};

/// Seconds before its end that a token counts as expired.
const MARGIN: u64 = 30;
const FILE: &str = "mcp-tokens";
/// Binds the ciphertext to its purpose.
const PURPOSE: &[u8] = b"baton mcp-tokens 1";
/// Registrations that are kept.
const MOST_REGISTRATIONS: usize = 200;

/// Tokens of one server, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredTokens {
    /// Address of the MCP server, as its configuration names it.
    pub server: String,
    /// Where the tokens came from.
    pub source: TokenOrigin,
    /// The client that they were issued to.
    pub identity: ClientIdentity,
    /// Whether the client was registered, rather than configured.
    pub was_registered: bool,
    /// The tokens.
    pub tokens: Tokens,
    /// When they were issued, in milliseconds since 1970.
    pub issued: i64,
}

impl StoredTokens {
    /// Whether the access token has expired, or is about to.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        let age = now.as_millis().saturating_sub(self.issued) / 1000;
        let age = u64::try_from(age).unwrap_or_default();
        self.tokens.expires_in.is_some_and(|seconds| age + MARGIN >= seconds)
    }
}

/// A client that was registered for us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Registration {
    issuer: String,
    /// Where its secret is sent. Registrations of earlier versions have none, and are not used.
    #[serde(default)]
    token_endpoint: String,
    redirect: String,
    identity: ClientIdentity,
}

impl Registration {
    fn is_of(&self, found: &LoginTarget, redirect: &str) -> bool {
        self.issuer == found.issuer
            && self.token_endpoint == found.token_endpoint.as_str()
            && self.redirect == redirect
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    tokens: Vec<StoredTokens>,
    registrations: Vec<Registration>,
}

/// The tokens of a home.
#[derive(Debug, Clone)]
pub struct TokenVault {
    path: PathBuf,
    key: KeyPlace,
}

/// Why the file cannot be read.
enum Unreadable {
    /// Its tokens are lost: a new login is needed.
    Lost(&'static str),
    /// Something failed that may work later.
    Failed(io::Error),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Unreadable> for io::Error {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Lost(why) => Self::other(why),
            Unreadable::Failed(error) => error,
        }
    }
}

/// Keeps other servers on the home from refreshing tokens, until it is dropped.
#[derive(Debug)]
pub struct RefreshLock(#[allow(dead_code, reason = "dropping it releases the lock")] File);

impl TokenVault {
    /// Names the file in a home, whose key is in a file or in the user's keyring. Nothing is read yet.
    #[must_use]
    pub fn new(home: &Path, keyring: bool) -> Self {
        Self { path: home.join(FILE), key: KeyPlace::new(keyring) }
    }

    /// Returns the tokens of a server, for the client of its configuration.
    pub async fn find(&self, server: &str, config: &OAuthConfig) -> Option<StoredTokens> {
        let (server, config) = (server.to_owned(), config.clone());
        let found = self.read(move |content| {
            let mut all = content.tokens.into_iter().rev();
            all.find(|stored| {
                stored.server == server && config.is_of(&stored.identity.id, stored.was_registered)
            })
        });
        found.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "stored tokens of MCP servers cannot be read");
            None
        })
    }

    /// Stores tokens, in place of earlier ones for the same server.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn put(&self, stored: StoredTokens) -> Result<(), String> {
        self.edit(move |content| {
            content.tokens.retain(|known| known.server != stored.server);
            content.tokens.push(stored);
        })
        .await
    }

    /// Removes all tokens of a server. Returns whether there were any.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn remove(&self, server: &str) -> Result<bool, String> {
        let server = server.to_owned();
        self.edit(move |content| {
            let before = content.tokens.len();
            content.tokens.retain(|known| known.server != server);
            content.tokens.len() != before
        })
        .await
    }

    /// Returns the client that was registered for logins that return to `redirect`. It belongs to the token endpoint too:
    /// its secret is for no other address, even if another server claims to be the issuer.
    pub async fn registration(&self, found: &LoginTarget, redirect: &str) -> Option<ClientIdentity> {
        let (found, redirect) = (found.clone(), redirect.to_owned());
        let found = self.read(move |content| {
            let mut all = content.registrations.into_iter();
            all.find(|known| known.is_of(&found, &redirect))
        });
        found.await.ok().flatten().map(|known| known.identity)
    }

    /// Stores a client that was registered; without one, forgets it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn put_registration(
        &self,
        found: &LoginTarget,
        redirect: &str,
        identity: Option<ClientIdentity>,
    ) -> Result<(), String> {
        let (found, redirect) = (found.clone(), redirect.to_owned());
        self.edit(move |content| {
            let all = &mut content.registrations;
            all.retain(|known| !known.is_of(&found, &redirect));
            let token_endpoint = found.token_endpoint.to_string();
            let known = |identity| Registration { issuer: found.issuer, token_endpoint, redirect, identity };
            all.extend(identity.map(known));
            let too_many = all.len().saturating_sub(MOST_REGISTRATIONS);
            all.drain(..too_many);
        })
        .await
    }

    /// Waits until no other server on the home refreshes tokens: a refresh token is used once.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub async fn lock_refresh(&self) -> Result<RefreshLock, String> {
        let path = self.path.with_extension("refresh");
        on_file(&self.path, move |_| {
            let file = private::create(path)?;
            file.lock()?;
            Ok(RefreshLock(file))
        })
        .await
    }

    async fn read<R: Send + 'static>(
        &self,
        look: impl FnOnce(Content) -> R + Send + 'static,
    ) -> Result<R, String> {
        let key = self.key.clone();
        on_file(&self.path, move |path| Ok(look(open(path, &key)?))).await
    }

    async fn edit<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Content) -> R + Send + 'static,
    ) -> Result<R, String> {
        let key = self.key.clone();
        on_file(&self.path, move |path| {
            if let Some(parent) = path.parent() {
                private::create_dir_all(parent)?;
            }
            let lock = private::create(path.with_extension("lock"))?;
            lock.lock()?;
            let mut content = match open(path, &key) {
                Ok(content) => content,
                Err(Unreadable::Lost(why)) => {
                    tracing::warn!(why, "the stored logins at MCP servers are lost; log in again");
                    Content::default()
                }
                Err(Unreadable::Failed(error)) => return Err(error),
            };
            let result = change(&mut content);
            private::replace_synced(path, seal(&key.obtain(path)?, &content)?)?;
            key.forget_file(path)?;
            Ok(result)
        })
        .await
    }
}

fn open(path: &Path, place: &KeyPlace) -> Result<Content, Unreadable> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
        Err(error) => return Err(error.into()),
    };
    let keys = place.candidates(path)?;
    if keys.is_empty() {
        return Err(Unreadable::Lost(
            "their key is missing, or in the keyring while keyring = false in [mcp]",
        ));
    }
    let opened = keys.iter().find_map(|key| unseal(key, bytes.clone()));
    opened.ok_or(Unreadable::Lost("the file or its key is damaged"))
}

fn unseal(key: &TokenKey, mut bytes: Vec<u8>) -> Option<Content> {
    let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let plain = cipher(key).ok()?.open_in_place(nonce, Aad::from(PURPOSE), sealed).ok()?;
    serde_json::from_slice(plain).ok()
}

fn seal(key: &TokenKey, content: &Content) -> io::Result<Vec<u8>> {
    let nonce = random::<NONCE_LEN>()?;
    let mut sealed = serde_json::to_vec(content)?;
    cipher(key)?
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(PURPOSE), &mut sealed)
        .map_err(|_| io::Error::other("cannot encrypt"))?;
    Ok([&nonce[..], &sealed].concat())
}

fn cipher(key: &TokenKey) -> io::Result<LessSafeKey> {
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| io::Error::other("the key is damaged"))?;
    Ok(LessSafeKey::new(key))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    use baton_mcp::oauth::Authentication;

    use super::*;

    fn stored(server: &str, client: &str, was_registered: bool) -> StoredTokens {
        StoredTokens {
            server: server.into(),
            source: TokenOrigin {
                issuer: "https://login.example".into(),
                token_endpoint: "https://login.example/token".into(),
                resource: server.into(),
            },
            identity: ClientIdentity {
                id: client.into(),
                secret: None,
                authentication: Authentication::None,
            },
            was_registered,
            tokens: Tokens {
                access: "the-access-token".into(),
                refresh: Some("the-refresh-token".into()),
                expires_in: Some(60),
                scopes: Vec::new(),
            },
            issued: Timestamp::now().as_millis(),
        }
    }

    #[tokio::test]
    async fn tokens_are_found_by_server_and_client_only() {
        let dir = tempfile::tempdir().unwrap();
        let vault = TokenVault::new(&dir.path().join("home"), false);
        let any = OAuthConfig::default();
        assert_eq!(vault.find("https://a.example/", &any).await, None);
        vault.put(stored("https://a.example/", "registered", true)).await.unwrap();
        assert!(vault.find("https://a.example/", &any).await.is_some());
        assert_eq!(vault.find("https://b.example/", &any).await, None, "another address");
        let configured = OAuthConfig { client: Some("mine".into()), ..OAuthConfig::default() };
        assert_eq!(vault.find("https://a.example/", &configured).await, None, "another client");
        vault.put(stored("https://a.example/", "mine", false)).await.unwrap();
        assert!(vault.find("https://a.example/", &configured).await.is_some());
        assert!(vault.remove("https://a.example/").await.unwrap());
        assert!(!vault.remove("https://a.example/").await.unwrap());
    }

    #[tokio::test]
    async fn registration_belongs_to_issuer_token_endpoint_and_redirect() {
        let dir = tempfile::tempdir().unwrap();
        let vault = TokenVault::new(dir.path(), false);
        let found = |issuer: &str, tokens: &str| LoginTarget {
            resource: "https://mcp.example".into(),
            issuer: issuer.into(),
            authorization_endpoint: "https://login.example/authorize".parse().unwrap(),
            token_endpoint: tokens.parse().unwrap(),
            registration_endpoint: None,
            names_issuer: false,
            authentication: Vec::new(),
            scopes: Vec::new(),
        };
        let (issuer, tokens, back) =
            ("https://login.example", "https://login.example/token", "http://127.0.0.1/");
        let own = found(issuer, tokens);
        let identity = ClientIdentity {
            id: "me".into(),
            secret: Some("s".into()),
            authentication: Authentication::ClientSecretPost,
        };
        vault.put_registration(&own, back, Some(identity.clone())).await.unwrap();
        assert_eq!(vault.registration(&own, back).await, Some(identity));
        assert_eq!(vault.registration(&found(issuer, "https://evil.example/token"), back).await, None);
        assert_eq!(vault.registration(&found("https://evil.example", tokens), back).await, None);
        assert_eq!(vault.registration(&own, "http://127.0.0.1/other").await, None);
        vault.put_registration(&own, back, None).await.unwrap();
        assert_eq!(vault.registration(&own, back).await, None);
    }

    #[tokio::test]
    async fn files_are_private_and_encrypted() {
        let dir = tempfile::tempdir().unwrap();
        let vault = TokenVault::new(dir.path(), false);
        vault.put(stored("https://a.example/", "me", true)).await.unwrap();
        for name in ["mcp-tokens", "mcp-tokens.key"] {
            let path = dir.path().join(name);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
            let bytes = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("token") && !text.contains("example"), "{name}");
        }
    }

    #[tokio::test]
    async fn damaged_file_costs_a_login_only() {
        let dir = tempfile::tempdir().unwrap();
        let vault = TokenVault::new(dir.path(), false);
        vault.put(stored("https://a.example/", "me", true)).await.unwrap();
        std::fs::write(dir.path().join("mcp-tokens"), "nonsense").unwrap();
        assert_eq!(vault.find("https://a.example/", &OAuthConfig::default()).await, None);
        vault.put(stored("https://a.example/", "me", true)).await.unwrap();
        std::fs::write(dir.path().join("mcp-tokens.key"), [7; 32]).unwrap();
        assert_eq!(vault.find("https://a.example/", &OAuthConfig::default()).await, None);
        vault.put(stored("https://b.example/", "me", true)).await.unwrap();
        assert!(vault.find("https://b.example/", &OAuthConfig::default()).await.is_some());
    }

    /// Writes a program that keeps entries in a file, as `secret-tool` does in the keyring.
    fn keyring(dir: &Path) -> KeyPlace {
        let program = dir.join("secret-tool");
        let script = format!(
            "#!/bin/sh\ncd '{}'\n[ ! -e locked ] || {{ echo 'it is locked' >&2; exit 1; }}\n\
             case $1 in store) cat > entry;; *) [ -e entry ] && cat entry;; esac\n",
            dir.display()
        );
        // By another process: a program that this one has open for writing, for its children too, cannot be started.
        let made = format!("cat > '{0}' && chmod 700 '{0}'", program.display());
        let mut shell = Command::new("sh").args(["-c", &made]).stdin(Stdio::piped()).spawn().unwrap();
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success());
        KeyPlace::Keyring(program)
    }

    #[tokio::test]
    async fn keyring_takes_the_key_over_and_a_locked_one_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (home, any) = (dir.path().join("home"), OAuthConfig::default());
        TokenVault::new(&home, false).put(stored("https://a.example/", "me", true)).await.unwrap();
        let vault = TokenVault { path: home.join(FILE), key: keyring(dir.path()) };
        assert!(vault.find("https://a.example/", &any).await.is_some(), "the key file counts until then");
        vault.put(stored("https://b.example/", "me", true)).await.unwrap();
        assert!(!home.join("mcp-tokens.key").exists());
        assert_eq!(std::fs::read(dir.path().join("entry")).unwrap().len(), 64);
        for server in ["https://a.example/", "https://b.example/"] {
            assert!(vault.find(server, &any).await.is_some(), "{server}");
        }

        std::fs::write(dir.path().join("locked"), "").unwrap();
        assert_eq!(vault.find("https://a.example/", &any).await, None);
        let refused = vault.put(stored("https://c.example/", "me", true)).await.unwrap_err();
        assert!(refused.contains("it is locked"), "{refused}");
        assert!(!home.join("mcp-tokens.key").exists(), "no key file in its place");
        std::fs::remove_file(dir.path().join("locked")).unwrap();
        assert!(vault.find("https://a.example/", &any).await.is_some());
    }

    #[tokio::test]
    async fn missing_program_of_the_keyring_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPlace::Keyring("/does/not/exist".into());
        let vault = TokenVault { path: dir.path().join(FILE), key };
        let refused = vault.put(stored("https://a.example/", "me", true)).await.unwrap_err();
        assert!(refused.contains("/does/not/exist cannot be started"), "{refused}");
    }

    #[test]
    fn tokens_expire_a_little_early() {
        let mut stored = stored("s", "me", true);
        assert!(!stored.is_expired(Timestamp::now()));
        stored.issued -= 31_000;
        assert!(stored.is_expired(Timestamp::now()));
        stored.tokens.expires_in = None;
        assert!(!stored.is_expired(Timestamp::now()));
    }
}
