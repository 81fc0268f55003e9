//! TLS that costs nothing until it is used.
//!
//! Loading the system's certificates takes milliseconds and several hundred kilobytes. A server that only
//! talks to a model on the same machine over plain HTTP, or to no model at all, should not pay for it. So
//! there is one HTTP client for all URLs, and the first TLS handshake loads the certificates. (The
//! alternative, one client for http and one for https, would need two connection pools, and would fail for a
//! plain URL behind a proxy that itself uses TLS.)
//!
//! The certificates are those of the system; `SSL_CERT_FILE` and `SSL_CERT_DIR` replace them on Linux.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// ALPN name of HTTP/1.1, the only version that is spoken: answers are streamed one at a time for each connection anyway.
const HTTP_1: &[u8] = b"http/1.1";

/// Creates a configuration that trusts the system's certificates.
///
/// # Errors
/// When the cryptography library supports no TLS version, which does not happen.
pub fn config() -> Result<ClientConfig, Error> {
    trusting(Vec::new())
}

/// Like [`config`], and trusts the certificates of a PEM text too: as those of authorities, and each as the certificate of the
/// server itself, which a self-signed one is.
///
/// # Errors
/// When the text contains no certificate.
pub fn config_trusting(pem: &[u8]) -> Result<ClientConfig, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(named) if !named.is_empty() => trusting(named),
        Ok(_) => Err(Error::General("the file contains no certificate in PEM format".to_owned())),
        Err(error) => Err(Error::General(format!("the file is not in PEM format: {error}"))),
    }
}

/// Creates a configuration that trusts these certificates too.
fn trusting(named: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = LazyVerifier { provider: Arc::clone(&provider), named, loaded: OnceLock::new() };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        // `dangerous` is the name of the API for custom verifiers; this one leaves all checks to the system's
        // verifier.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(config)
}

/// The system's verifier, created for the first certificate.
#[derive(Debug)]
struct LazyVerifier {
    provider: Arc<CryptoProvider>,
    /// Certificates that the user named.
    named: Vec<CertificateDer<'static>>,
    loaded: OnceLock<Result<Verifier, Error>>,
}

impl LazyVerifier {
    fn system(&self) -> Result<&Verifier, Error> {
        let load = || {
            let provider = Arc::clone(&self.provider);
            if self.named.is_empty() {
                return Verifier::new(provider);
            }
            Verifier::new_with_extra_roots(self.named.iter().cloned(), provider)
        };
        self.loaded.get_or_init(load).as_ref().map_err(Clone::clone)
    }
}

impl ServerCertVerifier for LazyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Exactly the certificate that the user named. The system's verifier refuses it if it says that it is an authority, as
        // certificates of `openssl req -x509` do.
        if self.named.iter().any(|named| named.as_ref() == end_entity.as_ref()) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.system()?.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        // Needed for the very first message of a handshake; does not depend on the certificates.
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
