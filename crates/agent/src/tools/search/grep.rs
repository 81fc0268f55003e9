//! `grep`: finds lines in files.

use std::path::Path;

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
use super::{Places, Root, search_request};
use crate::tools::arguments::{self, Count};
use crate::tools::beneath::Directory;
use crate::tools::text::readable;
use crate::tools::{Prepared, Refusal, Tool, ToolContext, Working, blocking, either, reading, schema, spec};

const NAME: &str = "grep";
const MOST_CONTEXT: usize = 200;

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    #[serde(alias = "paths")]
    path: Option<Places>,
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

/// Finds lines in files.
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
                    let roots = Root::ask(&context, &search.places);
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
                    let roots = Root::recall(&own, &search.places)?;
                    search.run(&roots, &own.cancel)
                })
                .await
            };
            either(run.await)
        })
    }
}

struct Search {
    places: Vec<String>,
    matcher: RegexMatcher,
    searcher: Searcher,
    glob: Option<GlobMatcher>,
    types: Types,
    mode: Mode,
    line_numbers: bool,
    limit: Option<usize>,
}

impl Search {
    fn read(arguments: &Json) -> Result<Self, Refusal> {
        let wanted: Arguments = arguments::read(NAME, arguments)?;
        let refuse =
            |what: &str, error: &dyn std::fmt::Display| Refusal::arguments(NAME, &format!("{what}: {error}"));
        let glob = wanted.glob.as_deref().map(|glob| Glob::new(glob.strip_prefix("./").unwrap_or(glob)));
        let glob = glob.transpose().map_err(|error| refuse("glob", &error))?;
        Ok(Self {
            places: Root::read(wanted.path.clone()),
            matcher: matcher(&wanted).map_err(|error| refuse("pattern", &error))?,
            searcher: searcher(&wanted),
            glob: glob.map(|glob| glob.compile_matcher()),
            types: types(wanted.file_type.as_deref()).map_err(|error| refuse("type", &error))?,
            mode: wanted.output_mode,
            line_numbers: wanted.line_numbers.unwrap_or(false),
            limit: wanted.head_limit.map(|limit| limit.0.max(1)),
        })
    }

    fn run(mut self, roots: &[Root], cancel: &CancellationToken) -> Result<ToolResult, Refusal> {
        let mut report = Report::new(self.limit);
        for root in roots {
            let types = self.types.clone();
            for entry in root.walk(|walk| _ = walk.types(types))? {
                if cancel.is_cancelled() {
                    return Err(Refusal::interrupted());
                }
                let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
                // A file that was named is searched, whatever it is called.
                if is_file && (entry.depth() == 0 || self.wants(root, entry.path())) {
                    self.search(root, entry.path(), &mut report, cancel);
                }
                if report.is_full() {
                    return Ok(report.finish(""));
                }
            }
        }
        if cancel.is_cancelled() {
            Err(Refusal::interrupted())
        } else {
            Ok(report.finish("No matches found."))
        }
    }

    fn wants(&self, root: &Root, path: &Path) -> bool {
        self.glob.as_ref().is_none_or(|glob| {
            let below = path.strip_prefix(&root.target.real).unwrap_or(path);
            // A pattern without a directory is about names alone, as with ripgrep.
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
        // A file that cannot be read is skipped, as ripgrep does; so is one that a link leads to by now.
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

fn matcher(wanted: &Arguments) -> Result<RegexMatcher, grep_regex::Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(wanted.ignore_case.unwrap_or(false)).multi_line(true);
    if wanted.multiline.unwrap_or(false) {
        builder.dot_matches_new_line(true);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&wanted.pattern)
}

fn searcher(wanted: &Arguments) -> Searcher {
    let context = |own: Option<Count>| own.or(wanted.around).map_or(0, |count| count.0.min(MOST_CONTEXT));
    let shows_lines = wanted.output_mode == Mode::Content;
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .multi_line(wanted.multiline.unwrap_or(false))
        // One line of a gigabyte must not take a gigabyte.
        .heap_limit(Some(64 * 1024 * 1024))
        .line_number(true)
        .after_context(if shows_lines { context(wanted.after) } else { 0 })
        .before_context(if shows_lines { context(wanted.before) } else { 0 })
        .build()
}

fn types(wanted: Option<&str>) -> Result<Types, ignore::Error> {
    let mut builder = TypesBuilder::new();
    if let Some(name) = wanted {
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

/// Takes the matches of one file.
struct Lines<'a> {
    name: &'a str,
    mode: Mode,
    numbered: bool,
    report: &'a mut Report,
    cancel: &'a CancellationToken,
    count: u64,
    /// Lines were skipped since the last one that was shown.
    gap: bool,
}

impl Lines<'_> {
    /// Shows lines and says whether to go on. `mark` stands between name, number and text, as with ripgrep.
    fn show(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) -> bool {
        if std::mem::take(&mut self.gap) && !self.report.add("--") {
            return false;
        }
        let text = readable(bytes);
        let numbers = number.unwrap_or(0)..;
        text.lines().zip(numbers).all(|(line, number)| {
            let place = if self.numbered {
                format!("{}{mark}{number}{mark}", self.name)
            } else {
                format!("{}{mark}", self.name)
            };
            self.report.add(&(place + line))
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
