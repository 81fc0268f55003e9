//! The handshake: both ends prove that they know the shared secret, and agree on a version.
//!
//! Each end sends a random challenge and answers the other's with an HMAC of both challenges, both server ids, its own
//! role and, if the connection is encrypted, the value that binds the answer to it. The secret itself is never sent, a
//! recorded answer proves nothing later, and an answer can neither be sent back to its sender nor passed on to another.

use std::fmt;
use std::io;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::encryption::Ungreeted;
use crate::frame;

/// Version of the frames, and the oldest one that this program understands.
const VERSION: u32 = 1;
const OLDEST: u32 = 1;

/// Largest frame before the other end has proved that it knows the secret.
const MAX_HELLO: usize = 4096;

/// Shortest secret.
const MIN_SECRET: usize = 16;

/// The secret that all servers share.
#[derive(Clone)]
pub struct ClusterSecret(hmac::Key);

impl ClusterSecret {
    /// Creates a secret.
    ///
    /// # Errors
    /// When it is too short to protect anything.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() < MIN_SECRET {
            return Err(format!(
                "the secret that servers share has fewer than {MIN_SECRET} characters; set a longer one in \
                 BATON_PEER_SECRET or --peer-secret-file"
            ));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())))
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The first frame of each end.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    /// Newest version that the end understands.
    version: u32,
    /// Oldest version that it understands.
    oldest: u32,
    /// Id of its server.
    server: String,
    /// Its challenge.
    challenge: String,
}

/// The second frame of each end.
#[derive(Debug, Serialize, Deserialize)]
struct Proof {
    proof: String,
}

/// Role of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkRole<'a> {
    /// It opened the connection, to reach the server with this id.
    Caller { callee: &'a str },
    /// It accepted the connection.
    Listener,
}

impl LinkRole<'_> {
    /// Returns the names of this role and of the other end's.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Caller { .. } => ("caller", "listener"),
            Self::Listener => ("listener", "caller"),
        }
    }
}

/// Greets the other end. Returns the id of its server.
pub(crate) async fn greet(
    Ungreeted { stream, binding }: &mut Ungreeted,
    secret: &ClusterSecret,
    server: &str,
    role: LinkRole<'_>,
) -> io::Result<String> {
    let ours = Hello { version: VERSION, oldest: OLDEST, server: server.to_owned(), challenge: challenge()? };
    send(stream, &ours).await?;
    let theirs: Hello = frame::read(stream, MAX_HELLO).await?;
    if theirs.version < OLDEST || theirs.oldest > VERSION {
        return Err(refused(format!(
            "the other server speaks versions {} to {} of the peer protocol, this one {OLDEST} to {VERSION}; upgrade the \
             older one",
            theirs.oldest, theirs.version
        )));
    }
    // Before the proof: whoever listens at the address of a server that has ended could pass a proof for another server on
    // to that one, and take over the connection.
    if let LinkRole::Caller { callee } = role
        && theirs.server != callee
    {
        return Err(refused(format!("another server ({}) listens at its address", theirs.server)));
    }
    // The caller proves itself first: a listener that answers every caller could be asked to guess.
    let (own_name, other_name) = role.names();
    let text_ours = text(own_name, &ours, &theirs, binding);
    let text_theirs = text(other_name, &theirs, &ours, binding);
    let proof = Proof { proof: hex(hmac::sign(&secret.0, text_ours.as_bytes()).as_ref()) };
    if role != LinkRole::Listener {
        send(stream, &proof).await?;
    }
    let answer: Proof = frame::read(stream, MAX_HELLO).await?;
    let tag = unhex(&answer.proof).unwrap_or_default();
    // In constant time.
    if hmac::verify(&secret.0, text_theirs.as_bytes(), &tag).is_err() {
        return Err(refused(
            "the other server has another secret; set the same BATON_PEER_SECRET on all".into(),
        ));
    }
    if role == LinkRole::Listener {
        send(stream, &proof).await?;
    }
    Ok(theirs.server)
}

/// Returns the text that an end authenticates: its role, the greetings of both, and the connection. Lengths precede the
/// parts, so that no two differ in their boundaries only. Without encryption there is no last part, as in earlier versions.
fn text(role: &str, own: &Hello, other: &Hello, binding: &[u8]) -> String {
    let binding = hex(binding);
    let mut parts = vec![role, &own.server, &own.challenge, &other.server, &other.challenge];
    if !binding.is_empty() {
        parts.push(&binding);
    }
    parts.iter().map(|part| format!("{}:{part}", part.len())).collect()
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), value: &impl Serialize) -> io::Result<()> {
    let bytes = frame::encode(value).ok_or(io::ErrorKind::InvalidData)?;
    stream.write_all(&bytes).await?;
    stream.flush().await
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn challenge() -> io::Result<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (tokio::io::DuplexStream, tokio::io::DuplexStream) {
        tokio::io::duplex(1 << 16)
    }

    async fn meet(caller: &str, listener: &str) -> (io::Result<String>, io::Result<String>) {
        let (left, right) = pair();
        let (mut left, mut right) = (Ungreeted::plain(left), Ungreeted::plain(right));
        let (caller, listener) = (ClusterSecret::new(caller).unwrap(), ClusterSecret::new(listener).unwrap());
        let call = async move { greet(&mut left, &caller, "a", LinkRole::Caller { callee: "b" }).await };
        let listen = async move { greet(&mut right, &listener, "b", LinkRole::Listener).await };
        tokio::join!(call, listen)
    }

    #[tokio::test]
    async fn servers_with_the_same_secret_meet() {
        let (caller, listener) = meet("0123456789abcdef", " 0123456789abcdef\n").await;
        assert_eq!((caller.unwrap(), listener.unwrap()), ("b".to_owned(), "a".to_owned()));
    }

    #[tokio::test]
    async fn another_secret_is_refused_and_never_sent() {
        let (caller, listener) = meet("0123456789abcdef", "fedcba9876543210").await;
        let listener = listener.unwrap_err().to_string();
        assert!(listener.contains("another secret") && caller.is_err(), "{listener}");
    }

    /// Somebody who listens at the address of a server that has ended passes everything on to another server.
    #[tokio::test]
    async fn caller_proves_nothing_to_another_server() {
        let (left, right) = pair();
        let (mut left, mut right) = (Ungreeted::plain(left), Ungreeted::plain(right));
        let secret = ClusterSecret::new("0123456789abcdef").unwrap();
        let call = async {
            let greeted = greet(&mut left, &secret, "a", LinkRole::Caller { callee: "ended" }).await;
            drop(left);
            greeted
        };
        let (caller, listener) = tokio::join!(call, greet(&mut right, &secret, "b", LinkRole::Listener));
        assert!(listener.is_err(), "the listener takes whoever passes the proof on for {listener:?}");
        let why = caller.unwrap_err().to_string();
        assert!(why.contains("another server (b)"), "{why}");
    }

    #[tokio::test]
    async fn own_proof_sent_back_is_refused() {
        let (mut left, right) = pair();
        let mut right = Ungreeted::plain(right);
        let secret = ClusterSecret::new("0123456789abcdef").unwrap();
        // A stranger that only repeats what the listener says.
        let mirror = async move {
            let mut hello: Hello = frame::read(&mut left, MAX_HELLO).await.unwrap();
            send(&mut left, &hello).await.unwrap();
            hello.challenge.clear();
            send(&mut left, &Proof { proof: "00".into() }).await.unwrap();
            frame::read::<Proof>(&mut left, MAX_HELLO).await
        };
        let listen = async move { greet(&mut right, &secret, "b", LinkRole::Listener).await };
        let (mirrored, refused) = tokio::join!(mirror, listen);
        assert!(refused.is_err() && mirrored.is_err(), "the listener proves nothing to a stranger");
    }

    #[tokio::test]
    async fn other_versions_and_large_greetings_are_refused() {
        let secret = ClusterSecret::new("0123456789abcdef").unwrap();
        let (mut left, right) = pair();
        let mut right = Ungreeted::plain(right);
        let old = Hello { version: 0, oldest: 0, server: "a".into(), challenge: "x".into() };
        send(&mut left, &old).await.unwrap();
        let error = greet(&mut right, &secret, "b", LinkRole::Listener).await.unwrap_err().to_string();
        assert!(error.contains("versions 0 to 0"), "{error}");
        let (mut left, right) = pair();
        let mut right = Ungreeted::plain(right);
        left.write_u32(1 << 30).await.unwrap();
        let error = greet(&mut right, &secret, "b", LinkRole::Listener).await.unwrap_err().to_string();
        assert!(error.contains("4096 are allowed"), "{error}");
        assert!(ClusterSecret::new("short").is_err());
    }
}
