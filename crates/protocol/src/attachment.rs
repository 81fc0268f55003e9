//! Attachments of a prompt.
#![allow(missing_docs, reason = "field names are those of the wire; the variant is documented")]

use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;

use crate::json::Json;

/// An attachment of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Attachment {
    Known(KnownAttachment),
    /// A kind that this version does not know; passed through, and shown to the model by its label.
    Other(Json),
}

/// The kinds that the model receives in a specific form.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum KnownAttachment {
    /// A file, or a range of its lines.
    File { path: String, display_name: Option<String>, line_range: Option<LineRange> },
    /// A directory.
    Directory { path: String, display_name: Option<String> },
    /// A selection in an editor.
    Selection {
        file_path: String,
        display_name: Option<String>,
        #[serde(default)]
        text: String,
        selection: Option<Selection>,
    },
    /// Binary data, such as an image.
    Blob { data: String, mime_type: String, display_name: Option<String> },
    /// An issue, a pull request or a discussion.
    GithubReference {
        number: u64,
        title: String,
        state: Option<String>,
        reference_type: Option<String>,
        url: Option<String>,
    },
}

/// A range of lines, counted from one, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    pub start: u64,
    pub end: u64,
}

/// A selected range, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Selection {
    pub start: Position,
    pub end: Position,
}

/// A position in a file, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    pub line: u64,
    pub character: u64,
}

impl<'de> Deserialize<'de> for Attachment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer).map(Self::from)
    }
}

impl From<Json> for Attachment {
    fn from(json: Json) -> Self {
        match json.parse::<KnownAttachment>() {
            Ok(known) => Self::Known(known.completed()),
            Err(_) => Self::Other(json),
        }
    }
}

impl KnownAttachment {
    /// Adds the fields that clients may omit in a prompt, but require in the event that repeats it: some SDKs drop an event
    /// that they cannot decode, and then wait for it.
    fn completed(mut self) -> Self {
        match &mut self {
            Self::File { path, display_name, .. } | Self::Directory { path, display_name } => {
                display_name.get_or_insert_with(|| last_part(path));
            }
            Self::Selection { file_path, display_name, selection, .. } => {
                display_name.get_or_insert_with(|| last_part(file_path));
                selection.get_or_insert_default();
            }
            Self::Blob { .. } | Self::GithubReference { .. } => {}
        }
        self
    }
}

/// Returns the last part of a path; the whole path if it has none.
fn last_part(path: &str) -> String {
    let last = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next();
    last.filter(|part| !part.is_empty()).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str) -> String {
        serde_json::to_string(&serde_json::from_str::<Attachment>(text).unwrap()).unwrap()
    }

    #[test]
    fn fields_that_events_require_are_added() {
        let file = completed(r#"{"type":"file","path":"/a/b.txt"}"#);
        assert_eq!(file, r#"{"type":"file","path":"/a/b.txt","displayName":"b.txt"}"#);
        assert!(completed(r#"{"type":"directory","path":"src/"}"#).contains(r#""displayName":"src""#));
        assert!(completed(r#"{"type":"directory","path":"/"}"#).contains(r#""displayName":"/""#));
        let selection = completed(r#"{"type":"selection","filePath":"a/b.rs","text":"x"}"#);
        assert!(selection.contains(r#""displayName":"b.rs""#), "{selection}");
        assert!(selection.contains(r#""selection":{"start":{"line":0,"character":0}"#), "{selection}");
        let named = r#"{"type":"file","path":"a","displayName":"mine"}"#;
        assert_eq!(completed(named), named);
        let unknown = r#"{"type":"hologram","path":"a"}"#;
        assert_eq!(completed(unknown), unknown);
    }
}
