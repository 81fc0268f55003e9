//! `create`: creates a file.

use std::path::PathBuf;

use baton_disk::beneath::Directory;
use baton_disk::paths::absolute;
use baton_markup::diff;
use baton_protocol::Json;
use baton_protocol::tool::{ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::json;

use super::{cannot, write_request};
use crate::tools::paths::CallPath;
use crate::tools::{
    Prepared, Tool, ToolContext, ToolRefusal, Working, arguments, blocking, either, schema, spec,
};

const NAME: &str = "create";

/// What the request says about a file that exists.
const EXISTS: &str =
    "Create file: one of this name exists already; it is not replaced, and the call will fail";

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "file_path", alias = "filePath")]
    path: String,
    #[serde(alias = "content", alias = "contents")]
    file_text: String,
}

/// Creates a file.
pub(crate) struct Create;

impl Tool for Create {
    fn spec(&self) -> ToolSpec {
        spec(
            NAME,
            "Creates a file with the given text, and the directories that lead to it. The file must not \
             exist yet: change existing files with edit.",
            schema::object(
                &json!({
                    "path": schema::string("Path of the new file, preferably absolute."),
                    "file_text": schema::string("The whole text of the file."),
                }),
                &["path", "file_text"],
            ),
        )
    }

    fn prepare<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async move {
            let prepare = async {
                let (path, text) = read(context, arguments)?;
                let context = context.clone();
                // Whether the file exists is told to the user, who decides, and not to the model before an approval: that would
                // read without permission.
                blocking(move || {
                    let target = CallPath::resolve(&context, path);
                    let exists = Directory::root().and_then(|root| root.kind(&target.real)).is_ok();
                    let what = if exists { EXISTS } else { "Create file" };
                    Ok(write_request(&context, &target, what, None, &text))
                })
                .await
            };
            prepare.await.into()
        })
    }

    fn touches(&self, context: &ToolContext, arguments: &Json) -> Vec<PathBuf> {
        let target = read(context, arguments).and_then(|(path, _)| CallPath::recall(context, path));
        target.map(|target| target.real).into_iter().collect()
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let run = async {
                let (path, text) = read(context, arguments)?;
                let context = context.clone();
                blocking(move || {
                    let target = CallPath::recall(&context, path.clone())?;
                    let created = create(&target, &text)?;
                    restrict(&path, &context.session_dir);
                    Ok(created)
                })
                .await
            };
            either(run.await)
        })
    }
}

fn read(context: &ToolContext, arguments: &Json) -> Result<(PathBuf, String), ToolRefusal> {
    let Arguments { path, file_text } = arguments::read(NAME, arguments)?;
    if path.is_empty() || path.ends_with('/') {
        return Err(ToolRefusal::arguments(NAME, "path: must be the path of a file"));
    }
    Ok((absolute(&context.cwd, &path), file_text))
}

fn create(target: &CallPath, text: &str) -> Result<ToolResult, ToolRefusal> {
    let path = &target.written;
    let created = Directory::root().and_then(|root| root.create(&target.real, text.as_bytes()));
    created.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => cannot("create", path, &error),
    })?;
    // The wording is compared byte for byte by the replay suite of the SDKs.
    let text_for_model = format!("Created file {} with {} characters", path.display(), text.chars().count());
    Ok(ToolResult {
        session_log: Some(diff::unified(path, None, text)),
        ..ToolResult::success(text_for_model)
    })
}

/// Makes a new file in the session's directory accessible to its owner only, as all files in Baton's home; elsewhere the
/// umask decides. If that fails, the session's directory still protects the file.
fn restrict(path: &std::path::Path, session: &std::path::Path) {
    let created = path.ancestors().take_while(|path| path.starts_with(session) && *path != session);
    created.for_each(|path| drop(baton_disk::private::tighten(path)));
}

fn exists(path: &std::path::Path) -> ToolRefusal {
    let text =
        format!("Path {} already exists. Use edit to change it, or choose another path.", path.display());
    ToolRefusal::new(text).in_short("Path already exists")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use baton_protocol::permission::PermissionRequest;
    use baton_protocol::tool::ResultType;

    use super::*;
    use crate::tools::testing::Bench;

    #[tokio::test]
    async fn request_shows_the_file_and_the_call_creates_it() {
        let bench = Bench::new();
        let path = bench.path("new_file.txt");
        let arguments = json!({"path": path, "file_text": "Created by test"});
        let Prepared::Needs(PermissionRequest::Write {
            file_name,
            diff,
            intention,
            new_file_contents,
            can_offer_session_approval,
            ..
        }) = bench.prepare(&Create, arguments.clone()).await
        else {
            panic!("creating a file needs permission")
        };
        assert_eq!((file_name.as_str(), intention.as_str()), (path.as_str(), "Create file"));
        assert_eq!(new_file_contents.as_deref(), Some("Created by test"));
        assert!(
            diff.contains("--- /dev/null") && diff.contains("+Created by test") && can_offer_session_approval
        );
        assert!(!fs::exists(&path).unwrap(), "the request changes nothing");

        let result = bench.run(&Create, arguments).await;
        assert_eq!(result.text_result_for_llm, format!("Created file {path} with 15 characters"));
        assert!(result.session_log.unwrap().starts_with("diff --git "));
        assert_eq!(fs::read_to_string(&path).unwrap(), "Created by test");
    }

    #[tokio::test]
    async fn directories_are_created_and_relative_paths_start_at_the_working_directory() {
        let bench = Bench::new();
        let result = bench.run(&Create, json!({"path": "a/b/../c.txt", "content": "äö"})).await;
        let path = bench.path("a/c.txt");
        assert_eq!(result.text_result_for_llm, format!("Created file {path} with 2 characters"));
        assert_eq!(fs::read_to_string(path).unwrap(), "äö");
    }

    #[tokio::test]
    async fn existing_file_is_not_overwritten() {
        let bench = Bench::new();
        let path = bench.write("there.txt", "precious");
        let arguments = json!({"path": path, "file_text": "x"});
        let prepared = bench.prepare(&Create, arguments.clone()).await;
        let Prepared::Needs(PermissionRequest::Write { intention, .. }) = prepared else {
            panic!("nothing is told to the model before an approval")
        };
        assert!(intention.contains("exists already") && intention.contains("will fail"), "{intention}");
        let result = bench.run(&Create, arguments).await;
        assert_eq!(result.result_type, ResultType::Failure);
        assert!(result.text_result_for_llm.contains("already exists"));
        assert_eq!(fs::read_to_string(path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn invalid_arguments_and_paths_are_explained() {
        let bench = Bench::new();
        bench.write("file", "x");
        for (arguments, hint) in [
            (json!({}), "missing field"),
            (json!({"path": "a"}), "file_text"),
            (json!({"path": "a/", "file_text": ""}), "path of a file"),
            (json!({"path": "file/inside", "file_text": ""}), "Could not create"),
            (json!({"path": "nul\u{0}", "file_text": ""}), "Could not create"),
            (json!([1]), "Invalid arguments"),
        ] {
            let result = bench.run(&Create, arguments).await;
            assert!(result.text_result_for_llm.contains(hint), "{}", result.text_result_for_llm);
        }
    }
}
