//! The key with which a server identifies itself to push services (RFC 8292).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use baton_protocol::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

/// How long a proof is valid. Push services accept up to 24 hours.
const VALID_SECONDS: i64 = 12 * 3600;

/// A key pair.
pub(crate) struct VapidKey {
    pair: EcdsaKeyPair,
    document: Vec<u8>,
}

impl VapidKey {
    /// Makes a key; none if the system has no random numbers.
    pub(crate) fn generate() -> Option<Self> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).ok()?;
        Self::read(document.as_ref())
    }

    /// Reads a stored key.
    pub(crate) fn read(document: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document, &random).ok()?;
        Some(Self { pair, document: document.to_vec() })
    }

    /// Returns the private form, to be stored.
    pub(crate) fn document(&self) -> &[u8] {
        &self.document
    }

    /// Returns the public key, as browsers take it when they subscribe.
    pub(crate) fn public(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.pair.public_key())
    }

    /// Returns the header that proves to the push service at an origin who sends.
    pub(crate) fn proof(&self, origin: &str, contact: &str, now: Timestamp) -> Option<String> {
        let header = json!({ "typ": "JWT", "alg": "ES256" });
        let claims = json!({ "aud": origin, "exp": now.0 / 1000 + VALID_SECONDS, "sub": contact });
        let encode = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("vapid t={signed}.{}, k={}", URL_SAFE_NO_PAD.encode(signature), self.public()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    #[test]
    fn proof_is_signed_for_the_push_service_by_the_stored_key() {
        let key = VapidKey::generate().unwrap();
        let key = VapidKey::read(key.document()).unwrap();
        let proof = key.proof("https://push.example", "mailto:a@b.example", Timestamp(1_000_000)).unwrap();
        let (token, public) = proof.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, decode(public));
        public.verify(signed.as_bytes(), &decode(signature)).unwrap();
        let claims: serde_json::Value =
            baton_json::from_slice(&decode(signed.split_once('.').unwrap().1)).unwrap();
        assert_eq!(
            claims,
            json!({"aud": "https://push.example", "exp": 1000 + VALID_SECONDS, "sub": "mailto:a@b.example"})
        );
    }
}
