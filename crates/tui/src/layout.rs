//! Rows of the conversation: what each item looks like at a width. Pure; [`RowCache`] remembers results and changes none.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use baton_markup::document::{self, Block, Inline};
use baton_markup::patch::{self, Change, FilePatch, PatchKind};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::conversation::{Item, ItemKey, Kind, Tone, Tool, ToolState};
use crate::state::State;
use crate::text;
use crate::theme::{Role, Theme};

/// Rows of output that a folded tool shows while it runs, and of a diff.
const TAIL: usize = 3;
const FOLDED_DIFF: usize = 12;
/// Rows of the output of one tool that are shown at most.
const MAX_OUTPUT: usize = 2000;
/// Rows of one text at most, so that a hostile one cannot fill the memory.
const MAX_ROWS: usize = 200_000;
/// Entries of the cache above which those that were not used lately are dropped.
const MAX_ENTRIES: usize = 600;

/// Rows of something.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// The rows.
    pub lines: Vec<Line<'static>>,
    /// Rows that belong to a file: first, behind the last, and its name, which stays in sight.
    pub files: Vec<(usize, usize, Line<'static>)>,
    /// Code that is shown without colours: hash, language, text.
    pub plain_code: Vec<(u64, String, String)>,
}

/// Remembered rows.
#[derive(Debug, Default)]
pub struct RowCache {
    entries: HashMap<CacheKey, (Stamp, Rc<Rows>, u64)>,
    uses: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum CacheKey {
    Item(ItemKey),
    /// The stable part of a streamed answer.
    Stable(ItemKey),
    Request(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    revision: (u64, bool),
    width: usize,
    theme: Theme,
    unfolded: bool,
}

impl State {
    /// Returns the rows of an item by its index, with the empty row above it.
    #[must_use]
    pub fn item_rows(&self, at: usize, width: usize) -> Rc<Rows> {
        let Some(item) = self.conversation.items().get(at) else { return Rc::default() };
        let compact = self.follows_closely(at);
        let build = || build(self, item, width, compact);
        self.cached(CacheKey::Item(item.key.clone()), (item.revision, compact), width, build)
    }

    /// Whether an item has no empty row above it: tools, notes and thoughts that follow each other.
    fn follows_closely(&self, at: usize) -> bool {
        let items = self.conversation.items();
        let is_compact =
            |item: &Item| matches!(item.kind, Kind::Tool(_) | Kind::Note { .. } | Kind::Reasoning(_));
        let has_patch = |item: &Item| matches!(&item.kind, Kind::Tool(tool) if patch::is_patch(&tool.result));
        let before = items[..at].iter().rev().find(|item| self.is_shown(item));
        is_compact(&items[at])
            && !has_patch(&items[at])
            && before.is_some_and(|before| is_compact(before) && !has_patch(before))
    }

    /// Returns the remembered rows of a request, or builds them.
    pub(crate) fn request_rows(&self, id: &str, width: usize, build: impl FnOnce() -> Rows) -> Rc<Rows> {
        self.cached(CacheKey::Request(id.to_owned()), (0, false), width, build)
    }

    fn cached(
        &self,
        key: CacheKey,
        revision: (u64, bool),
        width: usize,
        build: impl FnOnce() -> Rows,
    ) -> Rc<Rows> {
        let stamp = Stamp { revision, width, theme: self.theme, unfolded: self.unfolded };
        let mut cache = self.rows.borrow_mut();
        cache.uses += 1;
        let uses = cache.uses;
        if let Some((of, rows, used)) = cache.entries.get_mut(&key) {
            let is_coloured =
                |(hash, ..): &(u64, String, String)| self.highlights.get(hash).is_some_and(Option::is_some);
            if *of == stamp && !rows.plain_code.iter().any(is_coloured) {
                *used = uses;
                return rows.clone();
            }
        }
        drop(cache);
        let rows = Rc::new(build());
        let mut cache = self.rows.borrow_mut();
        if cache.entries.len() >= MAX_ENTRIES {
            let recent = uses.saturating_sub(MAX_ENTRIES as u64 / 2);
            cache.entries.retain(|_, (_, _, used)| *used >= recent);
        }
        cache.entries.insert(key, (stamp, rows.clone(), uses));
        rows
    }

    /// Whether an item is shown: those of folded sub-agents are not.
    #[must_use]
    pub fn is_shown(&self, item: &Item) -> bool {
        match (&item.kind, &item.agent) {
            (_, None) => true,
            (_, Some(_)) => self.unfolded,
        }
    }

    /// Moves the view by rows; negative ones go up. Following begins at the end.
    pub(crate) fn scroll(&mut self, by: isize) {
        let (width, height) = self.conversation_size();
        let items = self.conversation.items();
        let (mut at, mut row) = match self.first_row(width, height) {
            Some((at, row)) => (at, row as isize + by),
            None => return,
        };
        while row < 0 {
            match (0..at).rev().find(|at| self.is_shown(&items[*at])) {
                Some(before) => {
                    at = before;
                    row += self.item_rows(at, width).lines.len() as isize;
                }
                None => row = 0,
            }
        }
        loop {
            let rows = self.item_rows(at, width).lines.len() as isize;
            if row < rows {
                break;
            }
            match (at + 1..items.len()).find(|at| self.is_shown(&items[*at])) {
                Some(next) => {
                    row -= rows;
                    at = next;
                }
                None => break,
            }
        }
        let top = (items[at].key.clone(), row.max(0) as usize);
        let end = self.end_row(width, height);
        let is_end = end.is_none_or(|(end_at, end_row)| (at, top.1) >= (end_at, end_row));
        self.view.top = (!is_end).then_some(top);
        if is_end {
            self.view.unseen = 0;
        }
    }

    /// Returns the first row on the screen, as the index of an item and a row of it.
    #[must_use]
    pub fn first_row(&self, width: usize, height: usize) -> Option<(usize, usize)> {
        if let Some((key, row)) = &self.view.top
            && let Some(at) = self.conversation.items().iter().rposition(|item| item.key == *key)
        {
            return Some((at, *row));
        }
        self.end_row(width, height)
    }

    /// Returns the first row on the screen when the last row of the conversation is the last on it.
    fn end_row(&self, width: usize, height: usize) -> Option<(usize, usize)> {
        let items = self.conversation.items();
        let (mut left, mut last) = (height, None);
        for at in (0..items.len()).rev().filter(|at| self.is_shown(&items[*at])) {
            let rows = self.item_rows(at, width).lines.len();
            if rows >= left {
                return Some((at, rows - left));
            }
            left -= rows;
            last = Some((at, 0));
        }
        last
    }
}

fn build(state: &State, item: &Item, width: usize, compact: bool) -> Rows {
    let theme = state.theme;
    let mut out = Builder { state, theme, width, rows: Rows::default() };
    let indent = if item.agent.is_some() { "  " } else { "" };
    if !compact {
        out.rows.lines.push(Line::default());
    }
    match &item.kind {
        Kind::Prompt { text, by, attachments, .. } => out.prompt(text, by.as_deref(), attachments),
        Kind::Answer { text, late } => {
            if *late {
                out.note("… the beginning of this answer is shown when it is complete", Tone::Quiet);
            }
            out.answer(item, text);
        }
        Kind::Reasoning(text) => out.reasoning(text, item.seq.is_none()),
        Kind::Tool(tool) => out.tool(tool, state.unfolded),
        Kind::Agent { name, state, .. } => out.agent(name, *state),
        Kind::Note { text, tone } => out.note(text, *tone),
    }
    if !indent.is_empty() {
        for line in &mut out.rows.lines {
            line.spans.insert(0, Span::styled("┆ ", theme.style(Role::Dim)));
        }
    }
    out.rows.lines.truncate(MAX_ROWS);
    out.rows
}

/// Builds rows.
pub(crate) struct Builder<'a> {
    pub(crate) state: &'a State,
    pub(crate) theme: Theme,
    pub(crate) width: usize,
    pub(crate) rows: Rows,
}

impl Builder<'_> {
    fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    fn line(&mut self, spans: Vec<Span<'static>>) {
        self.rows.lines.push(Line::from(spans));
    }

    /// Adds text between words.
    fn wrapped(&mut self, spans: &[Span<'_>], first: &Span<'_>, further: &Span<'_>) {
        self.rows.lines.extend(text::wrap(spans, self.width, first, further));
    }

    fn prompt(&mut self, shown: &str, by: Option<&str>, attachments: &[String]) {
        let bar = Span::styled("❯ ", self.style(Role::Prompt));
        let further = Span::styled("  ", self.style(Role::Prompt));
        let mut first = Some(bar);
        for line in text::prose(shown.trim_end()) {
            let begin = first.take().unwrap_or_else(|| further.clone());
            self.wrapped(&[Span::styled(line, self.style(Role::Heading))], &begin, &further);
        }
        let own = &self.state.about.author;
        let by =
            by.filter(|by| *by != "HTTP API" && by != own).map(|by| format!("by {}", text::one_line(by)));
        let files = attachments.iter().map(|name| format!("@{}", text::one_line(name)));
        let about: Vec<String> = by.into_iter().chain(files).collect();
        if !about.is_empty() {
            let about = Span::styled(about.join("  "), self.style(Role::Dim));
            self.wrapped(&[about], &further, &further);
        }
    }

    /// Adds an answer. Of a growing one, the part that cannot change any more is remembered.
    fn answer(&mut self, item: &Item, shown: &str) {
        if item.seq.is_some() {
            return self.markdown(shown);
        }
        let stable = document::stable_length(shown);
        let (done, growing) = shown.split_at(stable);
        if !done.is_empty() {
            let (state, theme, width) = (self.state, self.theme, self.width);
            let key = CacheKey::Stable(item.key.clone());
            let rows = state.cached(key, (stable as u64, false), width, || {
                let mut part = Builder { state, theme, width, rows: Rows::default() };
                part.markdown(done);
                part.rows
            });
            self.append(&rows);
            if !growing.trim().is_empty() {
                self.line(Vec::new());
            }
        }
        self.markdown(growing);
    }

    fn append(&mut self, rows: &Rows) {
        let offset = self.rows.lines.len();
        self.rows.lines.extend(rows.lines.iter().cloned());
        let moved = rows.files.iter().map(|(from, to, name)| (from + offset, to + offset, name.clone()));
        self.rows.files.extend(moved);
        self.rows.plain_code.extend(rows.plain_code.iter().cloned());
    }

    /// Adds Markdown.
    pub(crate) fn markdown(&mut self, shown: &str) {
        let blocks = document::document(shown);
        self.blocks(&blocks, "", "");
    }

    fn blocks(&mut self, blocks: &[Block], first: &str, further: &str) {
        let mut first = first;
        for (at, block) in blocks.iter().enumerate() {
            let is_list = |block: &Block| matches!(block, Block::List { .. });
            let in_item = !further.is_empty();
            if at > 0 && !(in_item && (is_list(block) || is_list(&blocks[at - 1]))) {
                self.line(vec![Span::styled(further.to_owned(), self.style(Role::Dim))]);
            }
            self.block(block, first, further);
            first = further;
        }
    }

    fn block(&mut self, block: &Block, first: &str, further: &str) {
        let dim = self.style(Role::Dim);
        let (first_span, further_span) =
            (Span::styled(first.to_owned(), dim), Span::styled(further.to_owned(), dim));
        match block {
            Block::Heading(level, pieces) => {
                let style = self.style(Role::Heading);
                let style = if *level == 1 { style.add_modifier(Modifier::UNDERLINED) } else { style };
                let spans = self.inline(pieces, style);
                self.wrapped(&spans, &first_span, &further_span);
            }
            Block::Paragraph(pieces) => {
                let spans = self.inline(pieces, Style::new());
                self.wrapped(&spans, &first_span, &further_span);
            }
            Block::Code { language, text } => self.code(language, text, first, further),
            Block::Quote(blocks) => {
                self.blocks(blocks, &format!("{first}│ "), &format!("{further}│ "));
            }
            Block::List { first: number, items } => {
                for (at, item) in items.iter().enumerate() {
                    let mark = match number {
                        Some(number) => format!("{}. ", number + at as u64),
                        None => "• ".to_owned(),
                    };
                    let begin = if at == 0 { first } else { further };
                    let indent = " ".repeat(text::width(&mark));
                    if item.is_empty() {
                        self.line(vec![Span::styled(format!("{begin}{mark}"), dim)]);
                    }
                    self.blocks(item, &format!("{begin}{mark}"), &format!("{further}{indent}"));
                }
            }
            Block::Table(header, rows) => self.table(header, rows, further),
            Block::Rule => {
                let width = self.width.saturating_sub(text::width(first)).min(40);
                self.line(vec![first_span, Span::styled("─".repeat(width), dim)]);
            }
        }
    }

    fn inline(&self, pieces: &[Inline], base: Style) -> Vec<Span<'static>> {
        let mut spans = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            let mut style = base;
            if piece.strong {
                style = style.add_modifier(Modifier::BOLD);
            }
            if piece.emphasis {
                style = style.add_modifier(Modifier::ITALIC);
            }
            if piece.strike {
                style = style.add_modifier(Modifier::CROSSED_OUT);
            }
            if piece.code {
                style = style.patch(self.style(Role::Code));
            }
            if piece.link.is_some() {
                style = style.add_modifier(Modifier::UNDERLINED);
            }
            spans.push(Span::styled(piece.text.replace('\t', "    "), style));
            // The target of a link is visible, behind its text.
            let ends = pieces.get(at + 1).is_none_or(|next| next.link != piece.link);
            if let Some(link) = piece.link.as_ref().filter(|link| ends && !piece.text.contains(link.as_str()))
            {
                spans.push(Span::styled(format!(" ({link})"), self.style(Role::Dim)));
            }
        }
        spans
    }

    /// Adds a block of code, in colours if they are known.
    fn code(&mut self, language: &str, code: &str, first: &str, further: &str) {
        let dim = self.style(Role::Dim);
        let coloured = self.coloured(language, code);
        let width = self.width.saturating_sub(text::width(further) + 2).max(8);
        for (at, line) in code.trim_end_matches('\n').split('\n').enumerate() {
            let prefix = if at == 0 { first } else { further };
            let pieces = match coloured.as_ref().and_then(|lines| lines.get(at)) {
                Some(pieces) => pieces
                    .iter()
                    .map(|(class, text)| (text.replace('\t', "    "), self.theme.code(*class)))
                    .collect(),
                None => vec![(text::plain_line(line), self.style(Role::Text))],
            };
            for (row, spans) in text::chunk_spans(&pieces, width).into_iter().enumerate() {
                let prefix = if row == 0 { prefix } else { further };
                let mut all = vec![Span::styled(format!("{prefix}  "), dim)];
                all.extend(spans);
                self.line(all);
            }
        }
    }

    /// Returns the coloured lines of a code; notes what could be coloured.
    fn coloured(&mut self, language: &str, code: &str) -> Option<Rc<Vec<baton_markup::highlight::Pieces>>> {
        if language.is_empty() || self.theme == Theme::Plain {
            return None;
        }
        let hash = hash_of(language, code);
        match self.state.highlights.get(&hash) {
            Some(known) => known.clone(),
            None => {
                self.rows.plain_code.push((hash, language.to_owned(), code.to_owned()));
                None
            }
        }
    }

    fn table(&mut self, header: &[Vec<Inline>], rows: &[Vec<Vec<Inline>>], indent: &str) {
        let columns = header.len();
        let cell_width =
            |cell: &Vec<Inline>| cell.iter().map(|piece| text::width(&piece.text)).sum::<usize>();
        let all = || std::iter::once(header).chain(rows.iter().map(Vec::as_slice));
        let mut widths: Vec<usize> = (0..columns)
            .map(|column| all().filter_map(|row| row.get(column)).map(cell_width).max().unwrap_or(0))
            .collect();
        let room = self.width.saturating_sub(text::width(indent));
        let bars = columns.saturating_sub(1) * 3;
        while widths.iter().sum::<usize>() + bars > room {
            match widths.iter_mut().max() {
                Some(widest) if *widest > 6 => *widest -= 1,
                _ => break,
            }
        }
        let (dim, none) = (self.style(Role::Dim), Span::raw(""));
        let all: Vec<&[Vec<Inline>]> = all().collect();
        for (at, row) in all.into_iter().enumerate() {
            let base = if at == 0 { self.style(Role::Heading) } else { Style::new() };
            let cells: Vec<Vec<Line<'static>>> = (0..columns)
                .map(|column| {
                    let spans = row.get(column).map(|cell| self.inline(cell, base)).unwrap_or_default();
                    text::wrap(&spans, widths[column].max(2), &none, &none)
                })
                .collect();
            for number in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let mut spans = vec![Span::styled(indent.to_owned(), dim)];
                for (column, cell) in cells.iter().enumerate() {
                    if column > 0 {
                        spans.push(Span::styled(" │ ", dim));
                    }
                    let line = cell.get(number).cloned().unwrap_or_default();
                    let used: usize = line.spans.iter().map(|span| text::width(&span.content)).sum();
                    spans.extend(line.spans);
                    if column + 1 < columns {
                        spans.push(Span::raw(" ".repeat(widths[column].saturating_sub(used))));
                    }
                }
                self.line(spans);
            }
            if at == 0 {
                let width = (widths.iter().sum::<usize>() + bars).min(room);
                self.line(vec![Span::styled(format!("{indent}{}", "─".repeat(width)), dim)]);
            }
        }
    }

    fn reasoning(&mut self, shown: &str, streaming: bool) {
        let dim = self.style(Role::Dim);
        let lines = text::prose(shown.trim());
        let mark = Span::styled("∴ ", dim);
        let further = Span::styled("  ", dim);
        if self.state.unfolded {
            let mut first = Some(mark);
            for line in lines {
                let begin = first.take().unwrap_or_else(|| further.clone());
                self.wrapped(&[Span::styled(line, dim.add_modifier(Modifier::ITALIC))], &begin, &further);
            }
            return;
        }
        let line = match streaming {
            true => lines.iter().rev().find(|line| !line.trim().is_empty()),
            false => lines.iter().find(|line| !line.trim().is_empty()),
        };
        let line = line.map(|line| line.replace("**", "")).unwrap_or_default();
        let room = self.width.saturating_sub(2);
        self.line(vec![mark, Span::styled(text::cut(line.trim(), room), dim.add_modifier(Modifier::ITALIC))]);
    }

    fn agent(&mut self, name: &str, state: ToolState) {
        let (mark, role) = mark(state);
        let word = match state {
            ToolState::Done => "done",
            ToolState::Failed => "failed",
            _ => "working",
        };
        let name = text::cut(&text::one_line(name), self.width.saturating_sub(24));
        let spans = vec![
            Span::styled(format!("{mark} "), self.style(role)),
            Span::styled(format!("sub-agent {name}"), self.style(Role::Heading)),
            Span::styled(format!("  {word}"), self.style(Role::Dim)),
        ];
        self.line(spans);
    }

    fn note(&mut self, shown: &str, tone: Tone) {
        let role = match tone {
            Tone::Quiet => Role::Dim,
            Tone::Warning => Role::Warning,
            Tone::Error => Role::Bad,
        };
        let style = self.style(role);
        let lines = text::prose(shown.trim_end());
        let limit = if self.state.unfolded { MAX_OUTPUT } else { 8 };
        let (mark, further) = (Span::styled("· ", style), Span::styled("  ", style));
        for (at, line) in lines.iter().take(limit).enumerate() {
            let first = if at == 0 { &mark } else { &further };
            self.wrapped(&[Span::styled(line.clone(), style)], first, &further);
        }
        self.more(lines.len().saturating_sub(limit), "  ");
    }

    fn more(&mut self, left: usize, indent: &str) {
        if left > 0 {
            let lines = if left == 1 { "line" } else { "lines" };
            let text = format!("{indent}… {left} more {lines} (Ctrl-O)");
            self.line(vec![Span::styled(text, self.style(Role::Dim))]);
        }
    }

    fn tool(&mut self, tool: &Tool, unfolded: bool) {
        let (mark, role) = mark(tool.state);
        let is_patch = patch::is_patch(&tool.result);
        let output = if tool.result.is_empty() { &tool.live } else { &tool.result };
        let lines = output.trim_end().split('\n').count();
        let mut about = Vec::new();
        let own = format!(" by {}", self.state.about.author);
        let decided = tool.decided.strip_suffix(&own).unwrap_or(&tool.decided);
        about.extend(Some(text::one_line(decided)).filter(|text| !text.is_empty()));
        match tool.state {
            ToolState::Waiting => about.push("waits for an answer".to_owned()),
            ToolState::Running if !tool.progress.is_empty() => {
                about.push(text::cut(&text::one_line(&tool.progress), 40));
            }
            ToolState::Done | ToolState::Failed if !unfolded && !is_patch && lines > 1 => {
                about.push(format!("{lines} lines"));
            }
            _ => {}
        }
        let about = if about.is_empty() { String::new() } else { format!("  {}", about.join(" · ")) };
        let name = text::cut(&text::one_line(&tool.name), self.width / 2);
        let room = self.width.saturating_sub(text::width(&name) + text::width(&about) + 3);
        let what = text::cut(&text::exact_lines(tool.what.trim_end()).0.join("⏎"), room.max(8));
        let spans = vec![
            Span::styled(format!("{mark} "), self.style(role)),
            Span::styled(name, self.style(Role::Heading)),
            Span::styled(format!(" {what}"), self.style(Role::Text)),
            Span::styled(about, self.style(Role::Dim)),
        ];
        self.line(spans);
        if is_patch {
            let files = patch::patch(&tool.result);
            return self.patches(&files, (!unfolded).then_some(FOLDED_DIFF));
        }
        if unfolded && text::width(&tool.what) > room {
            self.output(&tool.what, MAX_OUTPUT, false, Role::Text);
        }
        match (tool.state, unfolded) {
            (_, true) => self.output(output, MAX_OUTPUT, false, Role::Dim),
            (ToolState::Running | ToolState::Waiting, false) => {
                self.output(&tool.live, TAIL, true, Role::Dim);
            }
            (ToolState::Failed, false) => self.output(&tool.result, TAIL, true, Role::Bad),
            (ToolState::Done, false) => {}
        }
    }

    /// Adds output: its first rows, or the last ones.
    fn output(&mut self, output: &str, limit: usize, tail: bool, role: Role) {
        let output = output.trim_end();
        if output.is_empty() {
            return;
        }
        let (bar, style) = (self.style(Role::Bar), self.style(role));
        let width = self.width.saturating_sub(4).max(8);
        // The end of one long line is as good as the last lines.
        let cut = if tail { output.ceil_char_boundary(output.len().saturating_sub(8192)) } else { 0 };
        let output = &output[cut..];
        let lines: Vec<&str> = output.split('\n').collect();
        let (skipped, shown) = match tail {
            true => (0, &lines[lines.len().saturating_sub(limit)..]),
            false => (lines.len().saturating_sub(limit), &lines[..lines.len().min(limit)]),
        };
        let mut rows: Vec<String> = Vec::new();
        for line in shown {
            let line = text::plain_line(line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default());
            rows.extend(text::chunks(&line, width));
        }
        let from = if tail { rows.len().saturating_sub(limit) } else { 0 };
        for row in rows.drain(from..) {
            self.line(vec![Span::styled("  │ ", bar), Span::styled(row, style)]);
        }
        self.more(skipped, "  ");
    }

    /// Adds diffs, each below the name of its file. A folded one shows its first rows.
    pub(crate) fn patches(&mut self, files: &[FilePatch], limit: Option<usize>) {
        for file in files {
            let start = self.rows.lines.len();
            let header = self.file_header(file);
            self.rows.lines.push(header.clone());
            self.hunks(file, limit);
            self.rows.files.push((start, self.rows.lines.len(), header));
        }
    }

    fn file_header(&self, file: &FilePatch) -> Line<'static> {
        let (added, removed) = file.counts;
        let kind = match file.kind {
            PatchKind::Changed => "",
            PatchKind::Created => "  new file",
            PatchKind::Deleted => "  deleted",
        };
        let counts = format!("  +{added} -{removed}{kind}");
        let room = self.width.saturating_sub(text::width(&counts) + 2);
        let path = text::cut_start(&text::exact_lines(&file.path).0.join("⏎"), room);
        Line::from(vec![
            Span::styled("  ", self.style(Role::Dim)),
            Span::styled(path, self.style(Role::Accent).add_modifier(Modifier::BOLD)),
            Span::styled(counts, self.style(Role::Dim)),
        ])
    }

    /// Adds the hunks of a file.
    pub(crate) fn hunks(&mut self, file: &FilePatch, limit: Option<usize>) {
        let largest = file.hunks.iter().map(|hunk| hunk.starts.0.max(hunk.starts.1) + hunk.lines.len()).max();
        let digits = largest.unwrap_or(1).to_string().len().max(2);
        let dim = self.style(Role::Dim);
        let width = self.width.saturating_sub(digits + 5).max(8);
        let language = file.path.as_str();
        let start = self.rows.lines.len();
        let total: usize = file.hunks.iter().map(|hunk| hunk.lines.len()).sum();
        let mut shown = 0;
        for (at, hunk) in file.hunks.iter().enumerate() {
            if at > 0 {
                self.line(vec![Span::styled(format!("  {:>digits$} ┄", "⋮"), dim)]);
            }
            let text: String = hunk.lines.iter().map(|line| line.text() + "\n").collect();
            let coloured = self.coloured(language, &text);
            for (number, line) in hunk.lines.iter().enumerate() {
                if limit.is_some_and(|limit| self.rows.lines.len() - start >= limit) {
                    return self.more(total - shown, "  ");
                }
                shown += 1;
                let (mark, base, word) = match line.change {
                    Change::Same => (' ', Role::Text, Role::Text),
                    Change::Added => ('+', Role::Added, Role::AddedWord),
                    Change::Removed => ('-', Role::Removed, Role::RemovedWord),
                };
                let (base, word) = (self.style(base), self.style(word));
                let line_number =
                    line.numbers.1.or(line.numbers.0).map(|n| n.to_string()).unwrap_or_default();
                let colours = coloured.as_ref().and_then(|lines| lines.get(number));
                let pieces = self.diff_pieces(line, colours, base, word);
                for (row, mut spans) in text::chunk_spans(&pieces, width).into_iter().enumerate() {
                    let gutter = match row {
                        0 => format!("  {line_number:>digits$} "),
                        _ => format!("  {:>digits$} ", ""),
                    };
                    let mark = if row == 0 { format!("{mark} ") } else { "  ".to_owned() };
                    let mut all = vec![Span::styled(gutter, dim), Span::styled(mark, base)];
                    let used: usize = spans.iter().map(|span| text::width(&span.content)).sum();
                    all.append(&mut spans);
                    if base.bg.is_some() {
                        all.push(Span::styled(" ".repeat(width.saturating_sub(used)), base));
                    }
                    self.line(all);
                }
            }
        }
        for note in &file.notes {
            let note = text::cut(&text::one_line(note), self.width.saturating_sub(2));
            self.line(vec![Span::styled(format!("  {note}"), dim)]);
        }
    }

    /// Returns the pieces of a line: the background says what changed, the foreground what it is.
    fn diff_pieces(
        &self,
        line: &patch::PatchLine,
        colours: Option<&baton_markup::highlight::Pieces>,
        base: Style,
        word: Style,
    ) -> Vec<(String, Style)> {
        let by_change =
            line.pieces.iter().map(|(text, changed)| (text.as_str(), if *changed { word } else { base }));
        let with_background = base.bg.is_some() || line.change == Change::Same;
        let Some(colours) = colours.filter(|_| with_background) else {
            return escaped(by_change.map(|(text, style)| (text.to_owned(), style)).collect());
        };
        // Both lists divide the same text; their common refinement has both styles.
        let mut out = Vec::new();
        let mut classes =
            colours.iter().map(|(class, text)| (text.as_str(), *class)).collect::<Vec<_>>().into_iter();
        let mut current = classes.next();
        for (mut text, style) in by_change {
            while !text.is_empty() {
                let Some((rest, class)) = current else {
                    out.push((text.to_owned(), style));
                    break;
                };
                let length = text.len().min(rest.len());
                if !text.is_char_boundary(length) || length == 0 {
                    out.push((text.to_owned(), style));
                    break;
                }
                out.push((text[..length].to_owned(), self.theme.code(class).patch(style)));
                text = &text[length..];
                current = match rest.get(length..) {
                    Some(rest) if !rest.is_empty() => Some((rest, class)),
                    _ => classes.next(),
                };
            }
        }
        escaped(out)
    }
}

/// Escapes the pieces of a line of code. Trailing whitespace becomes visible at the end of the line only.
fn escaped(mut pieces: Vec<(String, Style)>) -> Vec<(String, Style)> {
    let last = pieces.iter().rposition(|(text, _)| !text.is_empty());
    for (at, (text, _)) in pieces.iter_mut().enumerate() {
        let shown = match Some(at) == last {
            true => text::code_line(text).0,
            // The mark keeps spaces at the end of a piece.
            false => {
                let shown = text::code_line(&format!("{text}.")).0;
                shown[..shown.len() - 1].to_owned()
            }
        };
        *text = shown;
    }
    pieces
}

/// Returns the hash of a code, by which its colours are found.
#[must_use]
pub fn hash_of(language: &str, code: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (language, code).hash(&mut hasher);
    hasher.finish()
}

fn mark(state: ToolState) -> (&'static str, Role) {
    match state {
        ToolState::Running => ("▸", Role::Accent),
        ToolState::Waiting => ("?", Role::Asking),
        ToolState::Done => ("✓", Role::Good),
        ToolState::Failed => ("✗", Role::Bad),
    }
}
