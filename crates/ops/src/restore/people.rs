//! People of a restored database. They are those of the time of the backup; some may have been removed since.
//!
//! Logins and links end: a browser or a link that was revoked must not work again. Tokens stay, and the operator is told whose.

use std::path::Path;

use baton_store::sqlite::backup as database;
use serde_json::Value;

use super::RestoredPerson;
use crate::OpsError;

/// Name of the document with the people.
const DOCUMENT: &str = "people";

/// Ends all logins and links in a database, and returns its people.
pub(super) fn end_logins(path: &Path) -> Result<Vec<RestoredPerson>, OpsError> {
    let mut people = Vec::new();
    database::edit_document(path, DOCUMENT, &mut |body| {
        let mut list: Value = serde_json::from_slice(body).ok()?;
        let fields = list.as_object_mut()?;
        fields.remove("logins");
        fields.remove("links");
        people = fields.get("people").and_then(Value::as_array).into_iter().flatten().map(person).collect();
        serde_json::to_vec(&list).ok()
    })?;
    Ok(people)
}

fn person(entry: &Value) -> RestoredPerson {
    // An archive may have been written by anybody.
    let text = |name: &str| {
        let value = entry.get(name).and_then(Value::as_str).unwrap_or("?");
        value.escape_debug().take(100).collect::<String>()
    };
    RestoredPerson { name: text("name"), role: text("role") }
}
