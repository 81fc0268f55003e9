//! What a prompt may carry besides text.
#![allow(missing_docs, reason = "fields carry the names of the wire; the variant says what they are about")]

use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;

use crate::json::Json;

/// One attachment of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Attachment {
    Known(KnownAttachment),
    /// A kind this version does not know; carried, and named to the model by its label.
    Other(Json),
}

/// The kinds that the model is given in a form of their own.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum KnownAttachment {
    /// A file, or some lines of it.
    File { path: String, display_name: Option<String>, line_range: Option<LineRange> },
    /// A directory.
    Directory { path: String, display_name: Option<String> },
    /// A piece of a file that is marked in an editor.
    Selection { file_path: String, display_name: Option<String>, text: String, selection: Option<Selection> },
    /// Bytes, such as an image.
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

/// Lines of a file, counted from one, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    pub start: u64,
    pub end: u64,
}

/// What is marked, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    pub start: Position,
    pub end: Position,
}

/// A place in a file, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
        json.parse().map_or(Self::Other(json), Self::Known)
    }
}
