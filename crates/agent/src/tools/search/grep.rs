//! `grep`: searches the contents of files.

use std::path::Path;

use baton_disk::beneath::Directory;
use baton_protocol::Json;
use baton_protocol::tool::{ToolResult, ToolSpec};
use globset::{Glob, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::types::{Types, TypesBuilder};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::report::Report;
use super::{Paths, Root, check_glob, search_request};
use crate::tools::arguments::{self, Count};
use crate::tools::text::readable;
use crate::tools::{
    Prepared, Tool, ToolContext, ToolRefusal, Working, blocking, either, reading, schema, spec,
};

const NAME: &str = "grep";
const MOST_CONTEXT: usize = 200;

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    #[serde(alias = "paths")]
    path: Option<Paths>,
    #[serde(alias = "include")]
    glob: Option<String>,
    #[serde(rename = "type")]
    file_type: Option<String>,
    #[serde(default)]
    output_mode: Mode,
    #[serde(rename = "-i", alias = "ignore_case", alias = "case_insensitive")]
    ignore_case: Option<bool>,
    #[serde(rename = "-n", alias = "line_numbers")]
    line_numbers: Option<bool>,
    #[serde(rename = "-A", alias = "after")]
    after: Option<Count>,
    #[serde(rename = "-B", alias = "before")]
    before: Option<Count>,
    #[serde(rename = "-C", alias = "context")]
    around: Option<Count>,
    head_limit: Option<Count>,
    multiline: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

/// Searches the contents of files.
pub(crate) struct Grep;

impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        spec(
            NAME,
            "Searches the contents of files with a regular expression in the syntax of ripgrep. Hidden and \
             binary files and what .gitignore names are skipped.",
            schema::object(
                &json!({
                    "pattern": schema::string("The regular expression."),
                    "path": schema::strings(
                        "File or directory to search, or several. Default: the working directory."
                    ),
                    "output_mode": schema::choice(
                        &["content", "files_with_matches", "count"],
                        "content: the lines. files_with_matches (default): the paths. count: how many lines \
                         in each file.",
                    ),
                    "glob": schema::string("Only files whose name matches, for example \"*.{ts,tsx}\"."),
                    "type": schema::string("Only files of this type, for example rust, py, js."),
                    "-i": schema::boolean("Ignore case."),
                    "-n": schema::boolean("Show line numbers, with output_mode content."),
                    "-A": schema::number("Lines to show after each match, with output_mode content."),
                    "-B": schema::number("Lines to show before each match, with output_mode content."),
                    "-C": schema::number("Lines to show around each match, with output_mode content."),
                    "head_limit": schema::number("Return only the first so many results."),
                    "multiline": schema::boolean("Let matches span lines; `.` matches line ends."),
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
                blocking(move || {
                    let roots = Root::resolve(&context, &search.requested);
                    let one_file = matches!(roots.as_slice(), [root] if root.target.real.is_file());
                    let what = if one_file { "Search in file" } else { "Search in directory" };
                    Ok(search_request(&context, &roots, what))
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
                reading(context, move || {
                    let roots = Root::recall(&own, &search.requested)?;
                    search.run(&roots, &own.cancel)
                })
                .await
            };
            either(run.await)
        })
    }
}

struct Search {
    requested: Vec<String>,
    matcher: RegexMatcher,
    searcher: Searcher,
    glob: Option<GlobMatcher>,
    types: Types,
    mode: Mode,
    line_numbers: bool,
    limit: Option<usize>,
}

impl Search {
    fn read(arguments: &Json) -> Result<Self, ToolRefusal> {
        let arguments: Arguments = arguments::read(NAME, arguments)?;
        let refuse = |what: &str, error: &dyn std::fmt::Display| {
            ToolRefusal::arguments(NAME, &format!("{what}: {error}"))
        };
        check_glob(NAME, "glob", arguments.glob.as_deref().unwrap_or_default())?;
        let glob = arguments.glob.as_deref().map(|glob| Glob::new(glob.strip_prefix("./").unwrap_or(glob)));
        let glob = glob.transpose().map_err(|error| refuse("glob", &error))?;
        Ok(Self {
            requested: Root::read(arguments.path.clone()),
            matcher: matcher(&arguments).map_err(|error| refuse("pattern", &error))?,
            searcher: searcher(&arguments),
            glob: glob.map(|glob| glob.compile_matcher()),
            types: types(arguments.file_type.as_deref()).map_err(|error| refuse("type", &error))?,
            mode: arguments.output_mode,
            line_numbers: arguments.line_numbers.unwrap_or(false),
            limit: arguments.head_limit.map(|limit| limit.0.max(1)),
        })
    }

    fn run(mut self, roots: &[Root], cancel: &CancellationToken) -> Result<ToolResult, ToolRefusal> {
        let mut report = Report::new(self.limit);
        for root in roots {
            let types = self.types.clone();
            for entry in root.walk(|walk| _ = walk.types(types))? {
                if cancel.is_cancelled() {
                    return Err(ToolRefusal::interrupted());
                }
                let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
                // A file that was requested itself is searched whatever its name.
                if is_file && (entry.depth() == 0 || self.matches_name(root, entry.path())) {
                    self.search(root, entry.path(), &mut report, cancel);
                }
                if report.is_full() {
                    return Ok(report.finish(""));
                }
            }
        }
        if cancel.is_cancelled() {
            Err(ToolRefusal::interrupted())
        } else {
            Ok(report.finish("No matches found."))
        }
    }

    fn matches_name(&self, root: &Root, path: &Path) -> bool {
        self.glob.as_ref().is_none_or(|glob| {
            let below = path.strip_prefix(&root.target.real).unwrap_or(path);
            // A pattern without a slash matches names alone, as with ripgrep.
            let by_name =
                !glob.glob().glob().contains('/') && path.file_name().is_some_and(|name| glob.is_match(name));
            by_name || glob.is_match(below)
        })
    }

    fn search(&mut self, root: &Root, path: &Path, report: &mut Report, cancel: &CancellationToken) {
        let name = root.name(path);
        let mut lines = Lines {
            name: &name,
            mode: self.mode,
            numbered: self.line_numbers,
            report,
            cancel,
            count: 0,
            gap: false,
        };
        // Unreadable files are skipped, as ripgrep does; so are files that were replaced by a link.
        if let Ok(file) = Directory::root().and_then(|root| root.open(path)) {
            let _ = self.searcher.search_file(&self.matcher, &file, &mut lines);
        }
        let count = lines.count;
        match self.mode {
            Mode::FilesWithMatches if count > 0 => _ = report.add(&name),
            Mode::Count if count > 0 => _ = report.add(&format!("{name}:{count}")),
            _ => {}
        }
    }
}

fn matcher(arguments: &Arguments) -> Result<RegexMatcher, grep_regex::Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(arguments.ignore_case.unwrap_or(false)).multi_line(true);
    if arguments.multiline.unwrap_or(false) {
        builder.dot_matches_new_line(true);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&arguments.pattern)
}

fn searcher(arguments: &Arguments) -> Searcher {
    let context = |own: Option<Count>| own.or(arguments.around).map_or(0, |count| count.0.min(MOST_CONTEXT));
    let shows_lines = arguments.output_mode == Mode::Content;
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .multi_line(arguments.multiline.unwrap_or(false))
        // A line of a gigabyte must not take a gigabyte of memory.
        .heap_limit(Some(64 * 1024 * 1024))
        .line_number(true)
        .after_context(if shows_lines { context(arguments.after) } else { 0 })
        .before_context(if shows_lines { context(arguments.before) } else { 0 })
        .build()
}

fn types(arguments: Option<&str>) -> Result<Types, ignore::Error> {
    let mut builder = TypesBuilder::new();
    if let Some(name) = arguments {
        builder.add_defaults();
        builder.select(match name {
            "tsx" => "ts",
            "jsx" => "js",
            "python" => "py",
            name => name,
        });
    }
    builder.build()
}

/// Collects the matches of one file.
struct Lines<'a> {
    name: &'a str,
    mode: Mode,
    numbered: bool,
    report: &'a mut Report,
    cancel: &'a CancellationToken,
    count: u64,
    /// Lines were skipped since the last shown one.
    gap: bool,
}

impl Lines<'_> {
    /// Adds lines, and returns whether to continue. `separator` is between name, number and text, as with ripgrep.
    fn show(&mut self, separator: char, number: Option<u64>, bytes: &[u8]) -> bool {
        if std::mem::take(&mut self.gap) && !self.report.add("--") {
            return false;
        }
        let text = readable(bytes);
        let numbers = number.unwrap_or(0)..;
        text.lines().zip(numbers).all(|(line, number)| {
            let prefix = if self.numbered {
                format!("{}{separator}{number}{separator}", self.name)
            } else {
                format!("{}{separator}", self.name)
            };
            self.report.add(&(prefix + line))
        })
    }
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.count += found.lines().count() as u64;
        Ok(!self.cancel.is_cancelled()
            && match self.mode {
                Mode::Content => self.show(':', found.line_number(), found.bytes()),
                Mode::FilesWithMatches => false,
                Mode::Count => true,
            })
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        Ok(self.show('-', context.line_number(), context.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.gap = true;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
