//! Provider state that is sent back with a message, to the same provider and model only.
//!
//! Reasoning is signed or encrypted by its model and refused by others. A session may continue with another
//! model, so the stored state starts with a line that names its wire format and model. Chat completions have
//! no such restriction; their state is plain text and stays untagged.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Tags state with its wire format and model.
pub(crate) fn tag<T: Serialize>(wire: &str, model: &str, state: &[T]) -> Option<String> {
    if state.is_empty() {
        return None;
    }
    Some(format!("baton:{wire} {}\n{}", model.replace('\n', " "), serde_json::to_string(state).ok()?))
}

/// Returns the state if it belongs to this wire format and model, else nothing.
pub(crate) fn untag<T: DeserializeOwned>(opaque: Option<&str>, wire: &str, model: &str) -> Vec<T> {
    let own = format!("baton:{wire} {}", model.replace('\n', " "));
    let state = opaque.and_then(|opaque| opaque.split_once('\n')).filter(|(tag, _)| *tag == own);
    state.and_then(|(_, state)| serde_json::from_str(state).ok()).unwrap_or_default()
}

/// Whether the state belongs to a wire format that tags it.
pub(crate) fn is_tagged(opaque: &str) -> bool {
    opaque.starts_with("baton:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_returned_only_to_its_owner() {
        let opaque = tag("messages", "m", &[1, 2]);
        assert_eq!(untag::<u8>(opaque.as_deref(), "messages", "m"), [1, 2]);
        for (wire, model) in [("messages", "n"), ("responses", "m")] {
            assert!(untag::<u8>(opaque.as_deref(), wire, model).is_empty(), "{wire} {model}");
        }
        assert!(is_tagged(opaque.as_deref().unwrap_or_default()));
        assert!(untag::<u8>(Some("plain"), "messages", "m").is_empty() && !is_tagged("plain"));
        assert_eq!(tag::<u8>("messages", "m", &[]), None);
    }
}
