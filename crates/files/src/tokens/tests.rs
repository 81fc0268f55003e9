//! Tokens on disk: who finds which, the key, and damaged files.

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
        identity: ClientIdentity { id: client.into(), secret: None, authentication: Authentication::None },
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
