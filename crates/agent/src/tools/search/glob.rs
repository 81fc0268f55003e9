//! `glob`: finds files by name.

use std::path::Path;

use baton_disk::beneath::Directory;
use baton_protocol::Json;
use baton_protocol::tool::{ToolResult, ToolSpec};
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::report::Report;
use super::{Paths, Root, check_glob, search_request};
use crate::tools::files;
use crate::tools::{
    Prepared, Tool, ToolContext, ToolRefusal, Working, arguments, blocking, either, reading, schema, spec,
};

const NAME: &str = "glob";

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    #[serde(alias = "paths")]
    path: Option<Paths>,
}

/// Finds files by name.
pub(crate) struct Glob;

impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        spec(
            NAME,
            "Finds files whose path below the directory matches a pattern: `*` matches within a name, `**` \
             any number of directories, {a,b} either. Hidden files and what .gitignore names are skipped, \
             unless the pattern itself names something hidden.",
            schema::object(
                &json!({
                    "pattern": schema::string("For example \"**/*.ts\" or \"src/*.{c,h}\"."),
                    "path": schema::strings(
                        "Directory or directories to search. Default: the working directory."
                    ),
                }),
                &["pattern"],
            ),
        )
    }

    fn prepare<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async move {
            let prepare = async {
                let search = Search::read(arguments)?;
                let context = context.clone();
                let what = "Search for files matching pattern in";
                blocking(move || {
                    Ok(search_request(&context, &Root::resolve(&context, &search.requested), what))
                })
                .await
            };
            prepare.await.into()
        })
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let run = async {
                let search = Search::read(arguments)?;
                let own = context.clone();
                reading(context, move || search.run(&Root::recall(&own, &search.requested)?, &own.cancel))
                    .await
            };
            either(run.await)
        })
    }
}

struct Search {
    requested: Vec<String>,
    matcher: GlobMatcher,
    hidden: bool,
}

impl Search {
    fn read(arguments: &Json) -> Result<Self, ToolRefusal> {
        let Arguments { pattern, path } = arguments::read(NAME, arguments)?;
        check_glob(NAME, "pattern", &pattern)?;
        let mut pattern = pattern.strip_prefix("./").unwrap_or(&pattern);
        let mut requested = path;
        // An absolute pattern contains the directory to search.
        let split;
        if pattern.starts_with('/') {
            split = split_absolute(pattern);
            requested = Some(Paths::One(split.0.clone()));
            pattern = &split.1;
        }
        let matcher = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| ToolRefusal::arguments(NAME, &format!("pattern: {error}")))?
            .compile_matcher();
        let hidden = pattern.starts_with('.') || pattern.contains("/.");
        Ok(Self { requested: Root::read(requested), matcher, hidden })
    }

    fn run(&self, roots: &[Root], cancel: &CancellationToken) -> Result<ToolResult, ToolRefusal> {
        let mut report = Report::new(None);
        let top = Directory::root().map_err(|error| files::cannot("search", Path::new("/"), &error))?;
        for root in roots {
            for entry in root.walk(|walk| _ = walk.hidden(!self.hidden))? {
                if cancel.is_cancelled() {
                    return Err(ToolRefusal::interrupted());
                }
                let is_file = entry.file_type().is_some_and(|kind| !kind.is_dir());
                // Files below a directory that was replaced by a link are left out.
                let exists = || top.kind(entry.path()).is_ok();
                if is_file
                    && self.matches(root, entry.path())
                    && exists()
                    && !report.add(&root.name(entry.path()))
                {
                    return Ok(report.finish(""));
                }
            }
        }
        Ok(report.finish("No files matched the pattern."))
    }

    fn matches(&self, root: &Root, path: &Path) -> bool {
        path.strip_prefix(&root.target.real).is_ok_and(|below| self.matcher.is_match(below))
    }
}

/// Splits an absolute pattern into its directory and the rest.
fn split_absolute(pattern: &str) -> (String, String) {
    let special = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    let end = pattern[..special].rfind('/').unwrap_or(0);
    let dir = if end == 0 { "/" } else { &pattern[..end] };
    (dir.to_owned(), pattern[end + 1..].to_owned())
}

#[cfg(test)]
mod tests {
    use baton_protocol::permission::PermissionRequest;

    use super::*;
    use crate::tools::testing::Bench;

    fn project() -> Bench {
        let bench = Bench::new();
        for path in [
            "src/index.ts",
            "src/deep/a.ts",
            "src/deep/b.js",
            "README.md",
            ".github/ci.yml",
            "out/gen.ts",
            ".git/x.ts",
        ] {
            bench.write(path, "");
        }
        bench.write(".gitignore", "out/\n");
        bench
    }

    #[tokio::test]
    async fn files_are_found_by_name() {
        let bench = project();
        for (arguments, expected) in [
            (json!({"pattern": "**/*.ts"}), "./src/deep/a.ts\n./src/index.ts".to_owned()),
            (json!({"pattern": "./src/*.ts"}), "./src/index.ts".into()),
            (json!({"pattern": "*.ts"}), "No files matched the pattern.".into()),
            (json!({"pattern": "**/*.{js,md}"}), "./README.md\n./src/deep/b.js".into()),
            (json!({"pattern": ".github/**"}), "./.github/ci.yml".into()),
            (json!({"pattern": "*.ts", "path": "src/deep"}), "src/deep/a.ts".into()),
            (json!({"pattern": "*.ts", "paths": ["src/", "src/deep"]}), "src/index.ts\nsrc/deep/a.ts".into()),
            (json!({"pattern": bench.path("src/**/*.js")}), bench.path("src/deep/b.js")),
            (json!({"pattern": bench.path("src/index.ts")}), bench.path("src/index.ts")),
            (json!({"pattern": "[z-a]"}), "pattern: ".into()),
            (json!({"pattern": "*".repeat(100_000)}), "pattern: must have at most 4096 bytes".into()),
            (json!({"pattern": "*", "path": "gone"}), "does not exist. Please provide a valid path.".into()),
            (json!({"path": "src"}), "missing field `pattern`".into()),
        ] {
            let result = bench.run(&Glob, arguments.clone()).await.text_result_for_llm;
            assert!(
                result == expected || (result.contains(&expected) && !expected.contains("/")),
                "{arguments}: {result}"
            );
        }
    }

    #[tokio::test]
    async fn request_covers_all_paths() {
        let bench = project();
        let Prepared::Needs(PermissionRequest::Read { path, intention, .. }) =
            bench.prepare(&Glob, json!({"pattern": "*", "paths": ["src/deep", "src/index.ts"]})).await
        else {
            panic!("searching needs permission")
        };
        assert_eq!(path, bench.path("src"));
        let (deep, index) = (bench.path("src/deep"), bench.path("src/index.ts"));
        assert_eq!(intention, format!("Search for files matching pattern in: {deep}, {index}"));
    }
}
