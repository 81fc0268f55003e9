//! Encryption of messages for a browser (RFC 8291, content encoding `aes128gcm` of RFC 8188).

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

/// Size of the one record that a message has.
const RECORD_SIZE: u32 = 4096;
/// Maximum length of a message: push services accept 4096 bytes with header, tag and delimiter.
const MAX_MESSAGE: usize = 3900;
/// Marks the end of the last record.
const DELIMITER: u8 = 2;

/// Encrypts a message for the keys of a subscription. Returns none if the keys or the message cannot be used, or the system has
/// no random numbers.
pub(super) fn seal(public: &[u8], auth: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let random = SystemRandom::new();
    let mut salt = [0; 16];
    random.fill(&mut salt).ok()?;
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &random).ok()?;
    let own_public = own.compute_public_key().ok()?;
    let peer = UnparsedPublicKey::new(&ECDH_P256, public);
    let keys =
        agree_ephemeral(own, &peer, |secret| Keys::derive(secret, auth, public, own_public.as_ref(), &salt));
    encode(&keys.ok()??, &salt, own_public.as_ref(), message)
}

/// Key and nonce of a message.
struct Keys {
    key: [u8; 16],
    nonce: [u8; 12],
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(salt: &[u8], secret: &[u8], info: &[&[u8]]) -> Option<[u8; N]> {
    let mut out = [0; N];
    let prk = Salt::new(HKDF_SHA256, salt).extract(secret);
    prk.expand(info, Length(N)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

impl Keys {
    fn derive(secret: &[u8], auth: &[u8], receiver: &[u8], sender: &[u8], salt: &[u8]) -> Option<Self> {
        let shared: [u8; 32] = expand(auth, secret, &[b"WebPush: info\0", receiver, sender])?;
        Some(Self {
            key: expand(salt, &shared, &[b"Content-Encoding: aes128gcm\0"])?,
            nonce: expand(salt, &shared, &[b"Content-Encoding: nonce\0"])?,
        })
    }

    fn cipher(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_128_GCM, &self.key).ok().map(LessSafeKey::new)
    }
}

fn encode(keys: &Keys, salt: &[u8], sender: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    if message.len() > MAX_MESSAGE {
        return None;
    }
    let mut record = [message, &[DELIMITER]].concat();
    let nonce = Nonce::assume_unique_for_key(keys.nonce);
    keys.cipher()?.seal_in_place_append_tag(nonce, Aad::empty(), &mut record).ok()?;
    let sender_length = [u8::try_from(sender.len()).ok()?];
    Some([salt, &RECORD_SIZE.to_be_bytes(), &sender_length, sender, &record].concat())
}

/// A browser of tests.
#[cfg(test)]
pub(super) struct Receiver {
    private: EphemeralPrivateKey,
    pub(super) public: Vec<u8>,
    pub(super) auth: Vec<u8>,
}

#[cfg(test)]
impl Receiver {
    pub(super) fn new() -> Self {
        let private = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).unwrap();
        let public = private.compute_public_key().unwrap().as_ref().to_vec();
        Self { private, public, auth: vec![7; 16] }
    }

    fn open(self, body: &[u8]) -> Vec<u8> {
        let (salt, sender, record) = (&body[..16], &body[21..86], &body[86..]);
        assert_eq!((&body[16..20], body[20]), (&4096_u32.to_be_bytes()[..], 65));
        let peer = UnparsedPublicKey::new(&ECDH_P256, sender);
        let keys = agree_ephemeral(self.private, &peer, |secret| {
            Keys::derive(secret, &self.auth, &self.public, sender, salt).unwrap()
        });
        let keys = keys.unwrap();
        let mut record = record.to_vec();
        let nonce = Nonce::assume_unique_for_key(keys.nonce);
        let plain = keys.cipher().unwrap().open_in_place(nonce, Aad::empty(), &mut record).unwrap().to_vec();
        plain.strip_suffix(&[DELIMITER]).unwrap().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode_key;
    use super::*;

    /// The example of RFC 8291, section 5 and appendix A.
    #[test]
    fn message_of_the_specification_is_encrypted_as_there() {
        let d = |text: &str| decode_key(text).unwrap();
        let sender =
            d("BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8");
        let receiver =
            d("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4");
        let (salt, auth) = (d("DGv6ra1nlYgDCS1FRnbzlw"), d("BTBZMqHH6r4Tts7J_aSIgg"));
        let secret = d("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs");
        let keys = Keys::derive(&secret, &auth, &receiver, &sender, &salt).unwrap();
        assert_eq!(keys.key.to_vec(), d("oIhVW04MRdy2XN9CiKLxTg"));
        assert_eq!(keys.nonce.to_vec(), d("4h_95klXJ5E_qnoN"));
        let body = encode(&keys, &salt, &sender, b"When I grow up, I want to be a watermelon").unwrap();
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(body, d(expected));
    }

    #[test]
    fn receiver_reads_the_message_and_nobody_with_other_keys_does() {
        let receiver = Receiver::new();
        let body = seal(&receiver.public, &receiver.auth, b"hello").unwrap();
        assert_eq!(receiver.open(&body), b"hello");
    }

    #[test]
    fn unusable_keys_and_long_messages_are_refused() {
        let receiver = Receiver::new();
        assert_eq!(seal(&[4; 65], &receiver.auth, b"x"), None, "not a point of the curve");
        assert_eq!(seal(&[], &receiver.auth, b"x"), None);
        assert_eq!(seal(&receiver.public, &receiver.auth, &vec![0; MAX_MESSAGE + 1]), None);
    }
}
