//! TLS for listeners that other machines can reach.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate chain with its private key.
#[derive(Clone)]
pub struct TlsIdentity {
    pub(super) acceptor: TlsAcceptor,
}

/// Error of an unusable certificate or key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificates are not PEM, or there is none.
    #[error("the certificate cannot be read: {0}; use a PEM file with the server's certificate first")]
    Certificate(String),
    /// The key is not PEM.
    #[error("the key cannot be read: {0}; use a PEM file with an unencrypted private key")]
    Key(String),
    /// The key does not match the certificate, or its type is not supported.
    #[error("the certificate cannot be used with this key: {0}")]
    Unusable(#[from] rustls::Error),
}

impl TlsIdentity {
    /// Reads a certificate chain and a private key, both in PEM.
    ///
    /// # Errors
    /// When either cannot be read, or the key does not match the certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(TlsError::Certificate("the file contains no certificate".into()));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Key(error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_certificates_and_keys_are_distinguished() {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
        assert!(TlsIdentity::from_pem(certificate.as_bytes(), key.as_bytes()).is_ok());
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let foreign = other.signing_key.serialize_pem();
        let refused = |certificate: &str, key: &str| {
            TlsIdentity::from_pem(certificate.as_bytes(), key.as_bytes()).err().unwrap()
        };
        assert!(matches!(refused("", &key), TlsError::Certificate(_)));
        assert!(matches!(refused("nonsense", &key), TlsError::Certificate(_)));
        assert!(matches!(refused(&certificate, "nonsense"), TlsError::Key(_)));
        assert!(matches!(refused(&certificate, &foreign), TlsError::Unusable(_)));
    }
}
