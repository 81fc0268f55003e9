//! Encryption of links that leave the machine: TLS 1.3 without certificates.
//!
//! A server makes a key at its start and presents it as a raw public key (RFC 7250). The key proves nothing about who the
//! server is: that is done by the handshake that follows, inside of the encryption. Its proofs contain a value that only
//! the two ends of this TLS connection can compute (its exporter), so somebody in between, who has a TLS connection with
//! each end, can neither read nor pass the proofs on. So one shared secret is all that operators have to configure.
//!
//! Links on loopback are not encrypted. Which kind a link is follows from the address at which the listener was entered, so
//! neither end can be tricked into the other kind.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, PeerIncompatible, ServerConfig, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Label of the value that binds proofs to a connection.
const EXPORTER: &[u8] = b"EXPORTER-baton-peer";

/// A stream of bytes, encrypted or not.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A connection before the handshake.
pub(crate) struct Ungreeted {
    pub(crate) stream: Box<dyn Duplex>,
    /// The value that only the two ends of an encrypted connection know; empty if it is not encrypted.
    pub(crate) binding: Vec<u8>,
}

/// The ability to encrypt links, with the key of this run.
pub(crate) struct Encryption {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

/// Whether links to a listener at this address are encrypted: all that leave the machine.
pub(crate) fn is_encrypted(address: &str) -> bool {
    address.parse::<SocketAddr>().map_or(true, |address| !address.ip().is_loopback())
}

impl Ungreeted {
    pub(crate) fn plain(stream: impl Duplex + 'static) -> Self {
        Self { stream: Box::new(stream), binding: Vec::new() }
    }
}

impl Encryption {
    pub(crate) fn new() -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = certified_key(&provider)?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(key))));
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyKey(provider)))
            .with_no_client_auth();
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
        })
    }

    /// Encrypts a connection that was accepted.
    pub(crate) async fn accept(&self, stream: impl Duplex + 'static) -> io::Result<Ungreeted> {
        let stream = self.acceptor.accept(stream).await?;
        let binding = stream.get_ref().1.export_keying_material(vec![0; 32], EXPORTER, None);
        Ok(Ungreeted { binding: binding.map_err(io::Error::other)?, stream: Box::new(stream) })
    }

    /// Encrypts a connection that was opened.
    pub(crate) async fn connect(&self, stream: impl Duplex + 'static) -> io::Result<Ungreeted> {
        // Not verified: there is no name in a raw public key.
        let name = ServerName::try_from("baton").map_err(io::Error::other)?;
        let stream = self.connector.connect(name, stream).await?;
        let binding = stream.get_ref().1.export_keying_material(vec![0; 32], EXPORTER, None);
        Ok(Ungreeted { binding: binding.map_err(io::Error::other)?, stream: Box::new(stream) })
    }
}

fn certified_key(provider: &CryptoProvider) -> io::Result<CertifiedKey> {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
        .map_err(|_| io::Error::other("no random numbers"))?;
    let key = PrivatePkcs8KeyDer::from(key.as_ref().to_vec());
    let key = provider.key_provider.load_private_key(key.into()).map_err(io::Error::other)?;
    let public = key.public_key().ok_or_else(|| io::Error::other("a key without a public part"))?;
    Ok(CertifiedKey::new(vec![CertificateDer::from(public.as_ref().to_vec())], key))
}

/// Accepts every key whose owner signs the connection. Who that is, the handshake finds out.
#[derive(Debug)]
struct AnyKey(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, copy_bidirectional, duplex};

    use super::*;
    use crate::handshake::{ClusterSecret, LinkRole, greet};

    const SECRET: &str = "0123456789abcdef";

    async fn call(stream: impl Duplex + 'static) -> io::Result<String> {
        let mut ungreeted = Encryption::new()?.connect(stream).await?;
        greet(&mut ungreeted, &ClusterSecret::new(SECRET).unwrap(), "a", LinkRole::Caller { callee: "b" })
            .await
    }

    async fn listen(stream: impl Duplex + 'static) -> io::Result<String> {
        let mut ungreeted = Encryption::new()?.accept(stream).await?;
        greet(&mut ungreeted, &ClusterSecret::new(SECRET).unwrap(), "b", LinkRole::Listener).await
    }

    #[tokio::test]
    async fn servers_meet_over_an_encrypted_connection() {
        let (left, right) = duplex(1 << 16);
        let (caller, listener) = tokio::join!(call(left), listen(right));
        assert_eq!((caller.unwrap(), listener.unwrap()), ("b".to_owned(), "a".to_owned()));
    }

    /// Somebody in between decrypts, and passes every frame on as it is.
    #[tokio::test]
    async fn proof_that_was_passed_on_by_another_is_refused() {
        let (caller, near) = duplex(1 << 16);
        let (far, listener) = duplex(1 << 16);
        let between = async {
            let encryption = Encryption::new().unwrap();
            let (near, far) = tokio::join!(encryption.accept(near), encryption.connect(far));
            let (mut near, mut far) = (near.unwrap(), far.unwrap());
            assert_ne!(near.binding, far.binding);
            drop(copy_bidirectional(&mut near.stream, &mut far.stream).await);
        };
        let meeting = async { tokio::join!(call(caller), listen(listener)) };
        let (caller, listener) = tokio::select! {
            both = meeting => both,
            () = async { between.await; std::future::pending().await } => unreachable!(),
        };
        let listener = listener.unwrap_err().to_string();
        assert!(listener.contains("another secret") && caller.is_err(), "{listener}");
    }

    #[tokio::test]
    async fn connection_that_is_not_encrypted_is_refused() {
        let (mut left, right) = duplex(1 << 16);
        let plain = async move {
            left.write_all(b"\0\0\0\x02{}").await.unwrap();
            left.shutdown().await.unwrap();
            left
        };
        let (_left, listener) = tokio::join!(plain, listen(right));
        assert!(listener.is_err());
    }

    #[test]
    fn links_that_leave_the_machine_are_encrypted() {
        assert!(
            is_encrypted("10.0.0.5:7000") && is_encrypted("[2001:db8::1]:7000") && is_encrypted("nonsense")
        );
        assert!(!is_encrypted("127.0.0.1:7000") && !is_encrypted("[::1]:7000"));
    }
}
