//! Subscriptions of browsers, as data: whose they are, and what ends them. No I/O and no clock.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use baton_people::CredentialRef;
use baton_protocol::Timestamp;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of subscriptions of one person; the oldest end first.
const MAX_OF_PERSON: usize = 20;
/// Maximum number of subscriptions; the oldest end first.
const MAX_IN_ALL: usize = 200;

/// All subscriptions, and the server's key.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Subscriptions {
    /// Private key of the server, in the form that `ring` reads. Empty until it is needed.
    #[serde(with = "base64_text")]
    pub(crate) key: Vec<u8>,
    pub(crate) list: Vec<BrowserSubscription>,
}

/// A browser that receives notifications.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BrowserSubscription {
    /// Digest of the address.
    pub(crate) id: String,
    /// Name of its person, for limits.
    pub(crate) name: String,
    /// The credential that it depends on: it ends with it.
    pub(crate) standing: CredentialRef,
    pub(crate) endpoint: String,
    #[serde(with = "base64_text")]
    pub(crate) p256dh: Vec<u8>,
    #[serde(with = "base64_text")]
    pub(crate) auth: Vec<u8>,
    pub(crate) added: Timestamp,
}

impl BrowserSubscription {
    /// Returns the id of an address.
    pub(crate) fn id_of(endpoint: &str) -> String {
        URL_SAFE_NO_PAD.encode(&digest(&SHA256, endpoint.as_bytes()).as_ref()[..16])
    }

    #[cfg(test)]
    pub(crate) fn for_tests(endpoint: &str, public: &[u8], auth: &[u8]) -> Self {
        Self {
            id: Self::id_of(endpoint),
            name: "ada".to_owned(),
            standing: CredentialRef::Owner(baton_people::Digest::of("")),
            endpoint: endpoint.to_owned(),
            p256dh: public.to_vec(),
            auth: auth.to_vec(),
            added: Timestamp(0),
        }
    }
}

impl Subscriptions {
    /// Adds a subscription, in place of one with the same address.
    pub(crate) fn add(&mut self, subscription: BrowserSubscription) {
        self.list.retain(|known| known.id != subscription.id);
        let name = subscription.name.clone();
        self.list.push(subscription);
        while self.list.iter().filter(|known| known.name == name).count() > MAX_OF_PERSON {
            let oldest = self.list.iter().position(|known| known.name == name);
            oldest.map(|at| self.list.remove(at));
        }
        let surplus = self.list.len().saturating_sub(MAX_IN_ALL);
        self.list.drain(..surplus);
    }

    /// Removes a subscription, of this person only if one is named. Returns whether there was one.
    pub(crate) fn remove(&mut self, id: &str, of: Option<&str>) -> bool {
        let before = self.list.len();
        self.list.retain(|known| known.id != id || of.is_some_and(|name| known.name != name));
        self.list.len() < before
    }
}

/// Bytes as text.
mod base64_text {
    use base64::Engine as _;

    use super::{Deserialize, Deserializer, Serializer, URL_SAFE_NO_PAD};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        URL_SAFE_NO_PAD.decode(text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(n: usize, name: &str) -> BrowserSubscription {
        let made = BrowserSubscription::for_tests(&format!("https://push.example/{n}"), &[], &[]);
        BrowserSubscription { name: name.to_owned(), ..made }
    }

    #[test]
    fn person_has_few_subscriptions_and_removes_only_own_ones() {
        let mut all = Subscriptions::default();
        all.add(subscription(1000, "ada"));
        (0..50).for_each(|n| all.add(subscription(n, "bob")));
        assert_eq!(all.list.len(), 1 + MAX_OF_PERSON);
        all.add(subscription(49, "bob"));
        assert_eq!(all.list.len(), 1 + MAX_OF_PERSON, "the same address");
        let id = BrowserSubscription::id_of("https://push.example/1000");
        assert!(!all.remove(&id, Some("bob")));
        assert!(all.remove(&id, Some("ada")));
        let text = serde_json::to_string(&all).unwrap();
        let read: Subscriptions = baton_json::from_str(&text).unwrap();
        assert_eq!(read.list.len(), MAX_OF_PERSON);
    }
}
