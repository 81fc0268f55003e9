//! Serving asks about the files of a session.

use std::path::PathBuf;

use baton_agent::tools::complete;
use baton_ask::ComparedFile;
use baton_ask::files::{CompareFiles, FileChange, FilesAsk, FilesReply, TextFile};
use baton_files::SessionFiles;
use baton_files::rewind::{self, TouchedFile};
use baton_files::workspace::FileError;
use baton_protocol::event::FileOperation;

/// Serves an ask. Blocks.
///
/// # Errors
/// When the files cannot be read or written; the message says why.
pub(super) fn serve(ask: FilesAsk, files: &SessionFiles) -> Result<FilesReply, String> {
    use FilesReply as Reply;
    let (workspace, checkpoints) = (files.workspace(), files.checkpoints());
    let plan = workspace.plan();
    let failed = |error: FileError| error.to_string();
    let not_kept = |error: std::io::Error| error.to_string();
    Ok(match ask {
        FilesAsk::ReadPlan(_) => {
            let content = workspace.read_plan().map_err(failed)?;
            Reply::ReadPlan(Box::new(TextFile { content, path: plan }))
        }
        FilesAsk::WritePlan(ask) => {
            let operation = Some(workspace.write_plan(&ask.content).map_err(failed)?);
            Reply::WritePlan(Box::new(FileChange { operation, path: plan }))
        }
        FilesAsk::DeletePlan(_) => {
            let deleted = workspace.delete_plan().map_err(failed)?;
            let operation = deleted.then_some(FileOperation::Delete);
            Reply::DeletePlan(Box::new(FileChange { operation, path: plan }))
        }
        FilesAsk::ListFiles(_) => Reply::ListFiles(Box::new(workspace.list().map_err(failed)?)),
        FilesAsk::ReadFile(ask) => {
            let content = Some(workspace.read(&ask.path).map_err(failed)?);
            let path = workspace.path_of(&ask.path).map_err(failed)?;
            Reply::ReadFile(Box::new(TextFile { content, path }))
        }
        FilesAsk::WriteFile(ask) => {
            let operation = Some(workspace.write(&ask.path, &ask.content).map_err(failed)?);
            let path = workspace.path_of(&ask.path).map_err(failed)?;
            Reply::WriteFile(Box::new(FileChange { operation, path }))
        }
        FilesAsk::ListCheckpoints(_) => {
            Reply::ListCheckpoints(Box::new(checkpoints.list().map_err(not_kept)?))
        }
        FilesAsk::ReadCheckpoint(ask) => {
            Reply::ReadCheckpoint(Box::new(checkpoints.read(ask.number).map_err(not_kept)?))
        }
        FilesAsk::AddCheckpoint(ask) => {
            let added = checkpoints.add(&ask.title, &ask.content).map_err(not_kept)?;
            let path = checkpoints.path(&added);
            Reply::AddCheckpoint(Box::new((added, path)))
        }
        FilesAsk::KeepCheckpoints(ask) => {
            checkpoints.keep(ask.count).map_err(not_kept)?;
            Reply::KeepCheckpoints(Box::new(checkpoints.list().map_err(not_kept)?))
        }
        FilesAsk::PreviewUndo(ask) => {
            Reply::PreviewUndo(Box::new(rewind::preview(&files.snapshots(), ask.touched)))
        }
        FilesAsk::CompletePath(ask) => {
            Reply::CompletePath(Box::new(complete(ask.cwd.as_ref(), &ask.query, ask.limit)))
        }
        FilesAsk::CompareFiles(ask) => Reply::CompareFiles(Box::new(compare(&ask, files))),
    })
}

fn compare(ask: &CompareFiles, files: &SessionFiles) -> Vec<ComparedFile> {
    let snapshots = files.snapshots();
    let changed = ask.touched.iter().filter(|(_, file)| file.last.is_some());
    let compared = |(path, file): (&PathBuf, &TouchedFile)| {
        ComparedFile::compare(&snapshots, &ask.cwd, path, &file.before)
    };
    changed.filter_map(compared).collect()
}
