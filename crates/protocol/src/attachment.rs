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

/// Error for an attachment that clients cannot read in the event that repeats it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAttachment {
    /// It is not an object with a type.
    #[error("an attachment needs a `type`: file, directory, selection, blob or github_reference")]
    NoType,
    /// This version does not know the type.
    #[error("unknown type of attachment {0:?}: use file, directory, selection, blob or github_reference")]
    UnknownType(String),
    /// A field is missing or has the wrong type.
    #[error("malformed attachment of type {kind}: {problem}")]
    Malformed {
        /// The type.
        kind: String,
        /// The first wrong field.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tag {
    #[serde(rename = "type")]
    kind: String,
    asset_id: Option<Json>,
}

impl Attachment {
    /// Types that this version knows.
    const TYPES: [&str; 5] = ["file", "directory", "selection", "blob", "github_reference"];

    /// Checks that the attachment is of a known type and has all fields that SDKs require.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self) -> Result<(), InvalidAttachment> {
        let json = match self {
            Self::Known(known) => return known.check(),
            Self::Other(json) => json,
        };
        let Ok(Tag { kind, asset_id }) = json.parse() else { return Err(InvalidAttachment::NoType) };
        if !Self::TYPES.contains(&kind.as_str()) {
            return Err(InvalidAttachment::UnknownType(kind));
        }
        match json.parse::<KnownAttachment>() {
            // Newer SDKs send a blob that the server has by its id.
            Err(_) if kind == "blob" && asset_id.is_some() => Ok(()),
            Err(error) => Err(InvalidAttachment::Malformed { kind, problem: error.to_string() }),
            Ok(known) => known.check(),
        }
    }
}

impl KnownAttachment {
    fn check(&self) -> Result<(), InvalidAttachment> {
        let Self::GithubReference { state, reference_type, url, .. } = self else { return Ok(()) };
        let required = [("state", state), ("referenceType", reference_type), ("url", url)];
        let missing = required.into_iter().find(|(_, value)| value.is_none());
        missing.map_or(Ok(()), |(name, _)| {
            let problem = format!("missing field `{name}`");
            Err(InvalidAttachment::Malformed { kind: "github_reference".into(), problem })
        })
    }

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
        serde_json::to_string(&baton_json::from_str::<Attachment>(text).unwrap()).unwrap()
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

    #[test]
    fn attachments_that_no_client_can_read_are_invalid() {
        let check = |text: &str| baton_json::from_str::<Attachment>(text).unwrap().check();
        for valid in [
            r#"{"type":"file","path":"a"}"#,
            r#"{"type":"selection","filePath":"a"}"#,
            r#"{"type":"blob","data":"","mimeType":"image/png"}"#,
            r#"{"type":"blob","assetId":"a","mimeType":"image/png"}"#,
            r#"{"type":"github_reference","number":1,"title":"t","state":"open","referenceType":"issue","url":"u"}"#,
        ] {
            assert_eq!(check(valid), Ok(()), "{valid}");
        }
        for (malformed, field) in [
            (r#"{"type":"file"}"#, "path"),
            (r#"{"type":"file","path":1}"#, "invalid type"),
            (r#"{"type":"file","path":"a","lineRange":{}}"#, "start"),
            (r#"{"type":"selection","path":"a"}"#, "filePath"),
            (r#"{"type":"blob","data":"x"}"#, "mimeType"),
            (r#"{"type":"github_reference","number":1,"title":"t"}"#, "state"),
        ] {
            let error = check(malformed).unwrap_err();
            assert!(matches!(error, InvalidAttachment::Malformed { .. }), "{malformed}: {error}");
            assert!(error.to_string().contains(field), "{malformed}: {error}");
        }
        assert_eq!(check(r#"{"path":"a"}"#), Err(InvalidAttachment::NoType));
        assert_eq!(check("7"), Err(InvalidAttachment::NoType));
        let unknown = Err(InvalidAttachment::UnknownType("hologram".into()));
        assert_eq!(check(r#"{"type":"hologram"}"#), unknown);
    }
}
