//! People of a restored database. They are as they were at the time of the backup; some may have been removed since.
//!
//! Logins and links end: a browser or a link that was revoked must not work again. Tokens stay, and the operator is told
//! whose.

use std::path::Path;

use baton_store::sqlite::backup as database;
use serde_json::{Map, Value};

use super::RestoredPerson;
use crate::OpsError;

/// Name of the document with the people.
const DOCUMENT: &str = "people";

/// Ends all logins and links in a database, and returns its people. `refused` makes the error for a list that cannot be read:
/// a server might read more of it than this does, and find logins.
pub(super) fn end_logins(
    path: &Path,
    refused: impl FnOnce(String) -> OpsError,
) -> Result<Vec<RestoredPerson>, OpsError> {
    let mut ended = Ok(Vec::new());
    database::edit_document(path, DOCUMENT, &mut |body| match without_logins(body) {
        Ok((people, body)) => {
            ended = Ok(people);
            Some(body)
        }
        Err(error) => {
            ended = Err(format!("its list of people is malformed: {error}"));
            None
        }
    })?;
    ended.map_err(refused)
}

/// Returns the people of a list, and the list without logins and links.
fn without_logins(body: &[u8]) -> serde_json::Result<(Vec<RestoredPerson>, Vec<u8>)> {
    let mut fields: Map<String, Value> = baton_json::from_slice(body)?;
    fields.remove("logins");
    fields.remove("links");
    let people = fields.get("people").and_then(Value::as_array).into_iter().flatten().map(person).collect();
    Ok((people, serde_json::to_vec(&fields)?))
}

fn person(entry: &Value) -> RestoredPerson {
    // An archive may have been written by anybody.
    let text = |name: &str| {
        let value = entry.get(name).and_then(Value::as_str).unwrap_or("?");
        value.escape_debug().take(100).collect::<String>()
    };
    RestoredPerson { name: text("name"), role: text("role") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_and_links_are_removed_and_people_are_named() {
        let list = br#"{"people":[{"name":"ada","role":"admin"}],"logins":[1],"links":[2],"other":3}"#;
        let (people, rest) = without_logins(list).unwrap();
        assert_eq!(people, [RestoredPerson { name: "ada".into(), role: "admin".into() }]);
        assert_eq!(rest, br#"{"people":[{"name":"ada","role":"admin"}],"other":3}"#);
    }

    #[test]
    fn list_that_a_server_might_read_in_another_way_is_refused() {
        // A reader that ignores unknown fields does not notice how deep they are.
        let deep = format!(r#"{{"logins":[1],"people":[],"x":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        for body in [deep.as_bytes(), b"[]", b"{", b""] {
            assert!(without_logins(body).is_err(), "{}", String::from_utf8_lossy(body));
        }
    }
}
