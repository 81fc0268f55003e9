//! Asks about the files of a session: its plan, its workspace files, its checkpoints, and what a rewind would undo.
//!
//! The owner of the session serves them, because only its directory is current.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_agent::tools::Completions;
use baton_files::checkpoints::Checkpoint;
use baton_files::rewind::{TouchedFile, Undone};
use baton_protocol::event::FileOperation;
use serde::{Deserialize, Serialize};

use crate::ComparedFile;
use crate::family::family;

family! {
    /// Asks about files.
    FilesAsk, FilesReply in Files;

    /// Reads the plan.
    ReadPlan {} -> TextFile;

    /// Writes the plan.
    WritePlan {
        /// Its text.
        content: String,
    } -> FileChange;

    /// Deletes the plan.
    DeletePlan {} -> FileChange;

    /// Lists the workspace files.
    ListFiles {} -> Vec<String>;

    /// Reads a workspace file.
    ReadFile {
        /// Its path.
        path: String,
    } -> TextFile;

    /// Writes a workspace file.
    WriteFile {
        /// Its path.
        path: String,
        /// Its text.
        content: String,
    } -> FileChange;

    /// Lists the checkpoints.
    ListCheckpoints {} -> Vec<Checkpoint>;

    /// Reads a checkpoint. Replies its text, if it exists.
    ReadCheckpoint {
        /// Its number.
        number: u64,
    } -> Option<String>;

    /// Adds a checkpoint. Replies it, and the path of its file.
    AddCheckpoint {
        /// Its title.
        title: String,
        /// Its text.
        content: String,
    } -> (Checkpoint, PathBuf);

    /// Deletes all checkpoints but the first ones. Replies those.
    KeepCheckpoints {
        /// Number of those that stay.
        count: usize,
    } -> Vec<Checkpoint>;

    /// Compares files that the session changed with their snapshots. Replies the changes that a rewind would undo.
    PreviewUndo {
        /// The files, from the history.
        touched: BTreeMap<PathBuf, TouchedFile>,
    } -> Vec<Undone>;

    /// Finds paths below the working directory that complete a text.
    CompletePath {
        /// The working directory.
        cwd: String,
        /// The text.
        query: String,
        /// Maximum number of paths.
        limit: usize,
    } -> Completions;

    /// Lists the files that the session changed, with their differences.
    CompareFiles {
        /// The files, from the history.
        touched: BTreeMap<PathBuf, TouchedFile>,
        /// The working directory.
        cwd: String,
    } -> Vec<ComparedFile>;
}

/// A file, read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextFile {
    /// Its text; none if it does not exist.
    pub content: Option<String>,
    /// Its path.
    pub path: PathBuf,
}

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileChange {
    /// What was done; none if nothing was.
    pub operation: Option<FileOperation>,
    /// Its path.
    pub path: PathBuf,
}

impl FilesAsk {
    /// Whether the ask changes files.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self {
            Self::WritePlan(_)
            | Self::DeletePlan(_)
            | Self::WriteFile(_)
            | Self::AddCheckpoint(_)
            | Self::KeepCheckpoints(_) => true,
            Self::ReadPlan(_)
            | Self::ListFiles(_)
            | Self::ReadFile(_)
            | Self::ListCheckpoints(_)
            | Self::ReadCheckpoint(_)
            | Self::PreviewUndo(_)
            | Self::CompletePath(_)
            | Self::CompareFiles(_) => false,
        }
    }
}
