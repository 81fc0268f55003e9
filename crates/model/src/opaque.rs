//! State of a provider that goes back to it with a message, and to nobody else.
//!
//! Thoughts are signed or encrypted by the model that had them, and are refused by others. A session may go on with
//! another model, so what is kept says whose it is, in its first line: the wire and the model. Chat completions have
//! no such rule and a plain text of their own, which is left as it is.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// State of a wire and a model.
pub(crate) fn tag<T: Serialize>(wire: &str, model: &str, state: &[T]) -> Option<String> {
    if state.is_empty() {
        return None;
    }
    Some(format!("baton:{wire} {}\n{}", model.replace('\n', " "), serde_json::to_string(state).ok()?))
}

/// The state, if it is of this wire and this model; else nothing.
pub(crate) fn untag<T: DeserializeOwned>(opaque: Option<&str>, wire: &str, model: &str) -> Vec<T> {
    let own = format!("baton:{wire} {}", model.replace('\n', " "));
    let state = opaque.and_then(|opaque| opaque.split_once('\n')).filter(|(tag, _)| *tag == own);
    state.and_then(|(_, state)| serde_json::from_str(state).ok()).unwrap_or_default()
}

/// Whether it belongs to one of the wires that tag theirs.
pub(crate) fn is_tagged(opaque: &str) -> bool {
    opaque.starts_with("baton:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_back_to_its_owner_only() {
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
