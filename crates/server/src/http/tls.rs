//! TLS for doors that other machines reach.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate with its key, checked and ready.
#[derive(Clone)]
pub struct TlsIdentity {
    pub(super) acceptor: TlsAcceptor,
}

/// Why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Not a certificate.
    #[error("the certificate cannot be read: {0}; a PEM file with the server's certificate first is needed")]
    Certificate(String),
    /// Not a key.
    #[error("the key cannot be read: {0}; a PEM file with an unencrypted private key is needed")]
    Key(String),
    /// They do not belong together, or are of a kind that we cannot use.
    #[error("the certificate cannot be used with this key: {0}")]
    Unusable(#[from] rustls::Error),
}

impl TlsIdentity {
    /// Reads a chain of certificates and a private key, both as PEM.
    ///
    /// # Errors
    /// When either cannot be read, or they do not belong together.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(TlsError::Certificate("there is none in the file".into()));
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
    fn what_is_no_certificate_or_no_key_is_said() {
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
