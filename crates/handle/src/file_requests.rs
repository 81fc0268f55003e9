//! Requests about the files of a session: its plan, its workspace files, its checkpoints, and what a rewind would undo.
//!
//! The owner serves them, because only its directory is current. An edge sends them on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_files::SessionFiles;
use baton_files::checkpoints::Checkpoint;
use baton_files::rewind::{self, TouchedFile, Undone};
use baton_protocol::event::FileOperation;
use serde::{Deserialize, Serialize};

pub use crate::comparison::{ComparedFile, FileChangeKind};

/// A request about the files of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRequest {
    /// Reads the plan.
    ReadPlan {},
    /// Writes the plan.
    WritePlan {
        /// Its text.
        content: String,
    },
    /// Deletes the plan.
    DeletePlan {},
    /// Lists the workspace files.
    List {},
    /// Reads a workspace file.
    Read {
        /// Its path.
        path: String,
    },
    /// Writes a workspace file.
    Write {
        /// Its path.
        path: String,
        /// Its text.
        content: String,
    },
    /// Lists the checkpoints.
    ListCheckpoints {},
    /// Reads a checkpoint.
    ReadCheckpoint {
        /// Its number.
        number: u64,
    },
    /// Adds a checkpoint.
    AddCheckpoint {
        /// Its title.
        title: String,
        /// Its text.
        content: String,
    },
    /// Deletes all checkpoints but the first ones.
    KeepCheckpoints {
        /// Number of those that stay.
        count: usize,
    },
    /// Compares files that the session changed with their snapshots, on the machine that has them.
    PreviewRewind {
        /// The files, from the history.
        touched: BTreeMap<PathBuf, TouchedFile>,
    },
    /// Lists the files that the session changed, with their differences, on the machine that has them.
    Compare {
        /// The files, from the history.
        touched: BTreeMap<PathBuf, TouchedFile>,
        /// The working directory.
        cwd: String,
    },
}

/// Reply to a [`FileRequest`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileReply {
    /// Text of a file, if it exists, and its path.
    Text {
        /// The text.
        content: Option<String>,
        /// The path of the file; none for a checkpoint.
        path: Option<PathBuf>,
    },
    /// What was done to a file; none if nothing was, and its path.
    Changed {
        /// The operation.
        operation: Option<FileOperation>,
        /// The path of the file.
        path: PathBuf,
    },
    /// Names of files.
    Names(Vec<String>),
    /// Checkpoints.
    Checkpoints(Vec<Checkpoint>),
    /// A checkpoint that was added, and the path of its file.
    Added(Checkpoint, PathBuf),
    /// Changes that a rewind would undo.
    Undone(Vec<Undone>),
    /// Files that the session changed.
    Compared(Vec<ComparedFile>),
}

impl FileRequest {
    /// Whether the request changes files.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self {
            Self::WritePlan { .. }
            | Self::DeletePlan {}
            | Self::Write { .. }
            | Self::AddCheckpoint { .. }
            | Self::KeepCheckpoints { .. } => true,
            Self::ReadPlan {}
            | Self::List {}
            | Self::Read { .. }
            | Self::ListCheckpoints {}
            | Self::ReadCheckpoint { .. }
            | Self::PreviewRewind { .. }
            | Self::Compare { .. } => false,
        }
    }

    /// Serves the request. Blocks.
    ///
    /// # Errors
    /// If the files cannot be read or written; the message says why.
    pub fn serve(self, files: &SessionFiles) -> Result<FileReply, String> {
        let (workspace, checkpoints) = (files.workspace(), files.checkpoints());
        let plan = workspace.plan();
        let workspace_failed = |error: baton_files::workspace::FileError| error.to_string();
        let checkpoints_failed = |error: std::io::Error| error.to_string();
        match self {
            Self::ReadPlan {} => {
                let content = workspace.read_plan().map_err(workspace_failed)?;
                Ok(FileReply::Text { content, path: Some(plan) })
            }
            Self::WritePlan { content } => {
                let operation = workspace.write_plan(&content).map_err(workspace_failed)?;
                Ok(FileReply::Changed { operation: Some(operation), path: plan })
            }
            Self::DeletePlan {} => {
                let deleted = workspace.delete_plan().map_err(workspace_failed)?;
                Ok(FileReply::Changed { operation: deleted.then_some(FileOperation::Delete), path: plan })
            }
            Self::List {} => workspace.list().map(FileReply::Names).map_err(workspace_failed),
            Self::Read { path } => {
                let content = Some(workspace.read(&path).map_err(workspace_failed)?);
                let path = Some(workspace.path_of(&path).map_err(workspace_failed)?);
                Ok(FileReply::Text { content, path })
            }
            Self::Write { path, content } => {
                let operation = Some(workspace.write(&path, &content).map_err(workspace_failed)?);
                let path = workspace.path_of(&path).map_err(workspace_failed)?;
                Ok(FileReply::Changed { operation, path })
            }
            Self::ListCheckpoints {} => {
                checkpoints.list().map(FileReply::Checkpoints).map_err(checkpoints_failed)
            }
            Self::ReadCheckpoint { number } => {
                let content = checkpoints.read(number).map_err(checkpoints_failed)?;
                Ok(FileReply::Text { content, path: None })
            }
            Self::AddCheckpoint { title, content } => {
                let added = checkpoints.add(&title, &content).map_err(checkpoints_failed)?;
                let path = checkpoints.path(&added);
                Ok(FileReply::Added(added, path))
            }
            Self::PreviewRewind { touched } => {
                Ok(FileReply::Undone(rewind::preview(&files.snapshots(), touched)))
            }
            Self::Compare { touched, cwd } => {
                let snapshots = files.snapshots();
                let changed = touched.iter().filter(|(_, file)| file.last.is_some());
                let compare = |(path, file): (&PathBuf, &TouchedFile)| {
                    ComparedFile::compare(&snapshots, &cwd, path, &file.before)
                };
                Ok(FileReply::Compared(changed.filter_map(compare).collect()))
            }
            Self::KeepCheckpoints { count } => {
                checkpoints.keep(count).map_err(checkpoints_failed)?;
                checkpoints.list().map(FileReply::Checkpoints).map_err(checkpoints_failed)
            }
        }
    }
}
