//! The screen: a pure function of the state.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::conversation::Doing;
use crate::event::Drawn;
use crate::keys::{BINDINGS, Place};
use crate::layout::Rows;
use crate::request::PanelRows;
use crate::state::{Completion, Link, Overlay, Picker, PickerOf, Stage, State};
use crate::text;
use crate::theme::Role;

/// The smallest terminal that has room for everything.
const SMALLEST: (u16, u16) = (40, 10);
/// Rows of the conversation that a request leaves.
const LEFT_FOR_CONVERSATION: usize = 3;
/// Queued prompts that are listed.
const QUEUED: usize = 3;
/// What the spinner shows, four times a second.
const SPINNER: [&str; 4] = ["◐", "◓", "◑", "◒"];

/// A frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The cells.
    pub buffer: Buffer,
    /// Where the cursor is, if it is shown.
    pub cursor: Option<(u16, u16)>,
    /// What the frame shows, for the state.
    pub drawn: Drawn,
}

/// Where the parts of the screen are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Areas {
    /// The conversation.
    pub conversation: Rect,
    /// What the session is doing.
    pub activity: Rect,
    /// The request.
    pub panel: Option<Rect>,
    /// Queued prompts.
    pub queue: Rect,
    /// The input box, with the rule above it.
    pub editor: Rect,
    /// The last row.
    pub status: Rect,
}

impl State {
    /// Returns the columns of text in the conversation and its rows.
    #[must_use]
    pub fn conversation_size(&self) -> (usize, usize) {
        (self.text_width(), usize::from(self.areas().conversation.height))
    }

    fn text_width(&self) -> usize {
        usize::from(self.size.0).saturating_sub(2).max(8)
    }

    /// Returns the columns of text in the input box.
    #[must_use]
    pub fn editor_width(&self) -> usize {
        usize::from(self.size.0).saturating_sub(3).max(4)
    }

    fn editor_rows(&self) -> usize {
        let width = self.editor_width();
        let rows = self.editor.rows(width).len().max(self.editor.place(width).0 + 1);
        rows.clamp(1, (usize::from(self.size.1) / 3).max(1))
    }

    fn queue_rows(&self) -> usize {
        match self.queue.len() {
            0 => 0,
            n => n.min(QUEUED) + 1,
        }
    }

    /// Returns the rows that the body of a request gets.
    #[must_use]
    pub fn panel_room(&self, rows: &PanelRows) -> usize {
        let around = 1 + 1 + self.editor_rows() + self.queue_rows().min(1) + 1 + LEFT_FOR_CONVERSATION;
        let fixed = rows.header.len() + rows.footer.len() + 1 + around;
        let room = usize::from(self.size.1).saturating_sub(fixed).max(1);
        room.min(rows.body.lines.len())
    }

    /// Returns where the parts of the screen are.
    #[must_use]
    pub fn areas(&self) -> Areas {
        let (width, height) = self.size;
        let mut bottom = height;
        let mut take = |rows: usize| {
            let rows = (rows as u16).min(bottom);
            bottom -= rows;
            Rect::new(0, bottom, width, rows)
        };
        let status = take(1);
        let editor = take(self.editor_rows() + 1);
        let queue = take(if self.panel.is_some() { self.queue_rows().min(1) } else { self.queue_rows() });
        let panel = self.panel_rows(self.text_width()).map(|rows| {
            let note = usize::from(self.panel_room(&rows) < rows.body.lines.len());
            take(rows.header.len() + self.panel_room(&rows) + rows.footer.len() + 1 + note)
        });
        let activity = take(1);
        Areas { conversation: Rect::new(0, 0, width, bottom), activity, panel, queue, editor, status }
    }
}

/// Draws the interface.
#[must_use]
pub fn draw(state: &State) -> Frame {
    let area = Rect::new(0, 0, state.size.0, state.size.1);
    let mut canvas = Canvas { state, buffer: Buffer::empty(area), drawn: Drawn::default(), cursor: None };
    if state.size.0 < SMALLEST.0 || state.size.1 < SMALLEST.1 {
        canvas.too_small();
    } else {
        canvas.all();
    }
    for (x, y) in selected_cells(state) {
        let style = state.theme.style(Role::Selected);
        canvas.buffer.set_style(Rect::new(x, y, 1, 1), style);
    }
    Frame { buffer: canvas.buffer, cursor: canvas.cursor, drawn: canvas.drawn }
}

/// Returns the selected cells of the screen, row by row.
fn selected_cells(state: &State) -> Vec<(u16, u16)> {
    let Some((from, to)) = state.selection else { return Vec::new() };
    let by_row = |(x, y): (u16, u16)| (y, x);
    let (first, last) = if by_row(from) <= by_row(to) { (from, to) } else { (to, from) };
    let (columns, rows) = state.size;
    let cells = (first.1..=last.1.min(rows.saturating_sub(1))).flat_map(move |y| {
        let start = if y == first.1 { first.0 } else { 0 };
        let end = if y == last.1 { last.0.saturating_add(1).min(columns) } else { columns };
        (start..end).map(move |x| (x, y))
    });
    cells.collect()
}

/// Returns the text of the selected cells, without the margin and the spaces at the ends of rows.
pub(crate) fn selected(state: &State) -> String {
    let buffer = draw(state).buffer;
    let (mut rows, mut row, mut skip) = (Vec::new(), None, 0);
    for (x, y) in selected_cells(state) {
        if row != Some(y) {
            (row, skip) = (Some(y), 0);
            rows.push(String::new());
        }
        if skip > 0 || x == 0 {
            skip = usize::saturating_sub(skip, 1);
            continue;
        }
        let symbol = buffer[(x, y)].symbol();
        skip = text::width(symbol).saturating_sub(1);
        if let Some(last) = rows.last_mut() {
            last.push_str(symbol);
        }
    }
    rows.iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n")
}

struct Canvas<'a> {
    state: &'a State,
    buffer: Buffer,
    drawn: Drawn,
    cursor: Option<(u16, u16)>,
}

impl Canvas<'_> {
    fn style(&self, role: Role) -> Style {
        self.state.theme.style(role)
    }

    fn put(&mut self, x: u16, y: u16, line: &Line<'_>) {
        let area = self.buffer.area;
        if y < area.height && x < area.width {
            self.buffer.set_line(x, y, line, area.width - x);
        }
    }

    fn text(&mut self, x: u16, y: u16, text: &str, style: Style) {
        self.put(x, y, &Line::styled(text.to_owned(), style));
    }

    fn too_small(&mut self) {
        let waiting = if self.state.panel.is_some() { "a request waits · " } else { "" };
        let text = format!("{waiting}enlarge the window to 40x10");
        self.text(0, 0, &text::cut(&text, usize::from(self.state.size.0)), Style::new());
    }

    fn all(&mut self) {
        let areas = self.state.areas();
        self.conversation(areas.conversation);
        self.activity(areas.activity);
        if let Some(panel) = areas.panel {
            self.panel(panel);
        }
        self.queue(areas.queue);
        self.editor(areas.editor);
        self.status(areas.status);
        match &self.state.overlay {
            Some(Overlay::Help(scroll)) => self.help(*scroll),
            Some(Overlay::Picker(picker)) => self.picker(picker),
            None => {
                if let Some(completion) = &self.state.completion {
                    self.completion(completion, areas.editor);
                }
            }
        }
    }

    fn conversation(&mut self, area: Rect) {
        let state = self.state;
        let (width, height) = (state.text_width(), usize::from(area.height));
        if state.conversation.items().is_empty() {
            return self.welcome(area);
        }
        let Some((first, row)) = state.first_row(width, height) else { return };
        let count = state.conversation.items().len();
        let mut y = 0;
        for at in first..count {
            if y >= height {
                break;
            }
            if !state.is_shown(&state.conversation.items()[at]) {
                continue;
            }
            let rows = state.item_rows(at, width);
            let skip = if at == first { row } else { 0 };
            self.rows(&rows, skip, height - y, y as u16, width);
            y += rows.lines.len().saturating_sub(skip).min(height - y);
        }
        if state.view.top.is_some() {
            let unseen = match state.view.unseen {
                0 => String::new(),
                n => format!("{n} new · "),
            };
            let hint = format!(" {unseen}Ctrl-End follows ");
            let x = area.width.saturating_sub(text::width(&hint) as u16 + 1);
            self.text(x, area.bottom().saturating_sub(1), &hint, self.style(Role::Selected));
        }
    }

    /// Places rows. The name of a file whose first rows are above the screen stays on its first row.
    fn rows(&mut self, rows: &Rows, skip: usize, most: usize, y: u16, width: usize) {
        for (number, line) in rows.lines.iter().skip(skip).take(most).enumerate() {
            self.put(1, y + number as u16, line);
            if let Some(text) = &self.state.search {
                self.mark(y + number as u16, line, text);
            }
        }
        let above = rows.files.iter().find(|(from, to, _)| *from < skip && skip + 1 < *to);
        if let Some((_, _, name)) = above.filter(|_| most > 0) {
            let blank = " ".repeat(width);
            self.text(1, y, &blank, Style::reset());
            self.put(1, y, &name.clone().style(Modifier::UNDERLINED));
        }
        self.drawn.plain_code.extend(rows.plain_code.iter().cloned());
    }

    /// Marks what is searched for in a row.
    fn mark(&mut self, y: u16, line: &Line<'_>, searched: &str) {
        let shown = line.to_string().to_lowercase();
        let searched = searched.to_lowercase();
        let Some(at) = shown.find(&searched) else { return };
        let x = 1 + text::width(&shown[..at]) as u16;
        let style = self.style(Role::Selected);
        let width = (text::width(&searched) as u16).min(self.buffer.area.width.saturating_sub(x));
        self.buffer.set_style(Rect::new(x, y, width, 1), style);
    }

    fn welcome(&mut self, area: Rect) {
        let state = self.state;
        let mut lines = vec![("Baton".to_owned(), Role::Heading)];
        lines.extend(state.about.notes.iter().map(|note| (text::one_line(note), Role::Dim)));
        match &state.link {
            Link::Connecting => lines.push(("connecting …".into(), Role::Dim)),
            Link::Fatal(why) => {
                lines.push((text::one_line(why), Role::Bad));
                lines.push(("Ctrl-D quits".into(), Role::Dim));
            }
            _ => {
                lines.push((String::new(), Role::Dim));
                lines.push(("Type a prompt, Enter sends it.".into(), Role::Text));
                lines.push((
                    "? keys   / commands   @ files   Ctrl-S sessions   Ctrl-D quits".into(),
                    Role::Dim,
                ));
                let model = state.session.model.as_deref().unwrap_or_default();
                if model.contains("demo") || state.about.is_demo {
                    lines.push((String::new(), Role::Dim));
                    lines
                        .push(("No model is set up: the built-in demo model answers.".into(), Role::Warning));
                    lines.push((
                        "Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or see `baton doctor`, for a real one."
                            .into(),
                        Role::Warning,
                    ));
                }
            }
        }
        let width = state.text_width();
        let none = Span::raw("");
        let rows: Vec<Line<'static>> = lines
            .into_iter()
            .flat_map(|(text, role)| text::wrap(&[Span::styled(text, self.style(role))], width, &none, &none))
            .collect();
        let top = area.height.saturating_sub(rows.len() as u16) / 2;
        for (number, line) in rows.iter().take(usize::from(area.height)).enumerate() {
            self.put(1, top + number as u16, line);
        }
    }

    fn activity(&mut self, area: Rect) {
        let state = self.state;
        let spinner = SPINNER[(state.now / 250 % 4) as usize];
        let seconds = |since: u64| lasting(state.now.saturating_sub(since) / 1000);
        let (shown, role) = match (&state.link, &state.toast) {
            (_, Some(toast)) => (toast.text.clone(), Role::Accent),
            (Link::Lost(since, why), _) => {
                let why = text::cut(&text::one_line(why), 60);
                (
                    format!("{spinner} connection lost ({why}); reconnecting · {}", seconds(*since)),
                    Role::Warning,
                )
            }
            _ => match state.turn_since {
                Some(since) if state.cancelling => {
                    (format!("{spinner} cancelling · {}", seconds(since)), Role::Warning)
                }
                Some(_) if state.panel.as_ref().is_some_and(|panel| panel.stage != Stage::Sending) => {
                    ("? waiting for your answer · Ctrl-C cancels the turn".to_owned(), Role::Asking)
                }
                Some(since) => {
                    let doing = self.doing();
                    (format!("{spinner} {doing} · {} · Ctrl-C cancels", seconds(since)), Role::Accent)
                }
                None if state.left => {
                    ("a stopped server left work here: /resume continues it".to_owned(), Role::Warning)
                }
                None => return,
            },
        };
        let shown = text::cut(&shown, state.text_width());
        self.text(1, area.y, &shown, self.style(role));
    }

    fn doing(&self) -> String {
        let state = self.state;
        let model = state.conversation.model().or(state.session.model.as_deref()).unwrap_or("the model");
        let model = text::cut(&text::one_line(model), 30);
        match state.conversation.doing() {
            Doing::Nothing | Doing::Model => format!("waiting for {model}"),
            Doing::Reasoning => format!("{model} is reasoning"),
            Doing::Answering => format!("{model} is answering"),
            Doing::Calling(tool) if tool.is_empty() => format!("{model} is writing a call"),
            Doing::Calling(tool) => {
                format!("{model} is writing a call of {}", text::cut(&text::one_line(&tool), 30))
            }
            Doing::Tool(tool) => format!("running {}", text::cut(&text::one_line(&tool), 30)),
            Doing::Compacting => "compacting the conversation".to_owned(),
        }
    }

    fn panel(&mut self, area: Rect) {
        let state = self.state;
        let width = state.text_width();
        let (Some(panel), Some(rows)) = (&state.panel, state.panel_rows(width)) else { return };
        let room = state.panel_room(&rows);
        let asking = self.style(Role::Asking);
        self.text(0, area.y, &"─".repeat(usize::from(area.width)), asking);
        let mut y = area.y + 1;
        for line in &rows.header {
            self.put(1, y, line);
            y += 1;
        }
        let total = rows.body.lines.len();
        let scroll = panel.scroll.min(total.saturating_sub(room));
        self.rows(&rows.body, scroll, room, y, width);
        y += room as u16;
        if room < total {
            let note = format!("lines {}-{} of {total} · PgUp PgDn scroll", scroll + 1, scroll + room);
            self.text(1, y, &note, self.style(Role::Dim));
            y += 1;
        }
        for line in &rows.footer {
            self.put(1, y, line);
            y += 1;
        }
        // Choices below the edge would be keys for something that nobody has seen.
        if y <= area.bottom() && state.overlay.is_none() {
            self.drawn.request = Some(panel.request.request_id.clone());
            self.drawn.confirms = matches!(panel.stage, Stage::Confirm(..));
            self.drawn.end_seen = scroll + room >= total;
        }
    }

    fn queue(&mut self, area: Rect) {
        let state = self.state;
        if area.height == 0 {
            return;
        }
        let count = state.queue.len();
        let role = if state.is_held() { Role::Warning } else { Role::Dim };
        let head = match state.is_held() {
            true => format!("{count} queued, held · Alt-R releases · Alt-Up edits"),
            false => format!("{count} queued · Alt-Up edits"),
        };
        self.text(1, area.y, &head, self.style(role));
        for (number, item) in state.queue.iter().take(usize::from(area.height) - 1).enumerate() {
            let steers = if item.immediate { "joins the turn: " } else { "" };
            let text = text::cut(&format!("  {steers}{}", text::one_line(&item.text)), state.text_width());
            self.text(1, area.y + 1 + number as u16, &text, self.style(Role::Dim));
        }
    }

    fn editor(&mut self, area: Rect) {
        let state = self.state;
        let width = state.editor_width();
        let rule = self.style(Role::Bar);
        self.text(0, area.y, &"─".repeat(usize::from(area.width)), rule);
        let rows = state.editor.rows(width);
        let (row, column) = state.editor.place(width);
        let height = usize::from(area.height) - 1;
        let first = (row + 1).saturating_sub(height);
        self.text(0, area.y + 1, "❯ ", self.style(Role::Prompt));
        for (number, of) in rows.iter().skip(first).take(height).enumerate() {
            let shown = text::one_line(&state.editor.text()[of.start..of.end]);
            self.text(2, area.y + 1 + number as u16, &shown, Style::new());
        }
        if state.editor.is_empty() {
            let waits = state.panel.as_ref().is_some_and(|panel| panel.request.takes_text());
            let hint = if waits { "type your answer" } else { "type a prompt   ? keys   / commands" };
            self.text(2, area.y + 1, hint, self.style(Role::Dim));
        }
        let y = area.y + 1 + (row - first) as u16;
        self.cursor = Some(((2 + column as u16).min(area.width - 1), y.min(area.bottom() - 1)));
    }

    /// Draws the last row: session, directory, model on the left; context, cost and people on the right. What does not fit is
    /// left out, the least important first.
    fn status(&mut self, area: Rect) {
        let state = self.state;
        let session = &state.session;
        let cwd = state.short_path(session.cwd.as_deref().unwrap_or_default());
        let branch =
            session.branch.as_deref().map(|name| format!(" ({})", text::one_line(name))).unwrap_or_default();
        let model = text::cut(&text::one_line(session.model.as_deref().unwrap_or_default()), 28);
        let mode = match state.modes.agent.as_str() {
            "" | "interactive" => String::new(),
            mode => mode.to_uppercase(),
        };
        let permissions = match state.modes.permissions.as_str() {
            "allow-all" => "ALLOW-ALL".to_owned(),
            "assisted" => "assisted".to_owned(),
            _ => String::new(),
        };
        let title = text::cut(&text::one_line(session.title.as_deref().unwrap_or("new session")), 32);
        let context = state
            .context
            .filter(|(_, limit)| *limit > 0)
            .map(|(used, limit)| format!("{}% context", used.saturating_mul(100) / limit));
        let cost = session.cost.map(|cost| format!("${cost:.2}"));
        let others = session.watching.saturating_sub(1);
        let others = (others > 0).then(|| match self.state.attached_users().as_slice() {
            [] => format!("{others} more attached"),
            users => format!("with {}", text::cut(&users.join(", "), 30)),
        });
        let inbox = match state.inbox.len() {
            0 => None,
            n => Some(format!("{n} waiting elsewhere, Alt-A")),
        };
        let right: Vec<String> = [inbox, others, context, cost].into_iter().flatten().collect();
        let width = usize::from(area.width).saturating_sub(2);
        let mut left: Vec<String> =
            [permissions, mode, model, format!("{}{branch}", text::cut_start(&cwd, 40)), title]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect();
        let right = text::cut(&right.join(" · "), width / 2 + width / 4);
        while left.len() > 1 && text::width(&left.join(" · ")) + text::width(&right) + 2 > width {
            left.pop();
        }
        let style = self.style(Role::Dim);
        let room = width.saturating_sub(text::width(&right) + 2);
        self.text(1, area.y, &text::cut(&left.join(" · "), room), style);
        let inbox = if state.inbox.is_empty() { style } else { self.style(Role::Warning) };
        self.text((1 + width - text::width(&right)) as u16, area.y, &right, inbox);
    }

    fn completion(&mut self, completion: &Completion, editor: Rect) {
        let height = completion.items.len().min(usize::from(editor.y));
        let top = editor.y - height as u16;
        let width = self.state.text_width();
        for (number, (name, about)) in completion.items.iter().take(height).enumerate() {
            let mark = if completion.of_files { "@" } else { "/" };
            let line = format!(" {mark}{:<14} {about}", text::one_line(name), about = text::one_line(about));
            let role = if number == completion.selected { Role::Selected } else { Role::Dim };
            let y = top + number as u16;
            self.text(0, y, &" ".repeat(usize::from(self.state.size.0)), Style::reset());
            self.text(1, y, &padded(&text::cut(&line, width), width), self.style(role));
        }
    }

    /// Clears a box in the middle of the screen, and draws its title. Returns the place inside.
    fn window(&mut self, title: &str, rows: usize) -> Rect {
        let (columns, height) = self.state.size;
        let width = columns.saturating_sub(4).min(100);
        let rows = (rows as u16 + 3).min(height.saturating_sub(2));
        let area = Rect::new((columns - width) / 2, (height - rows) / 2, width, rows);
        let style = self.style(Role::Accent);
        for y in area.top()..area.bottom() {
            let line = match y {
                y if y == area.top() => {
                    let title = format!("─ {} ", text::cut(title, usize::from(width).saturating_sub(6)));
                    let rest = usize::from(width).saturating_sub(text::width(&title) + 2);
                    format!("╭{title}{}╮", "─".repeat(rest))
                }
                y if y + 1 == area.bottom() => format!("╰{}╯", "─".repeat(usize::from(width) - 2)),
                _ => format!("│{}│", " ".repeat(usize::from(width) - 2)),
            };
            self.buffer.set_style(Rect::new(area.x, y, width, 1), Style::reset());
            self.text(area.x, y, &line, style);
        }
        Rect::new(area.x + 2, area.y + 1, width - 4, rows.saturating_sub(2))
    }

    fn help(&mut self, scroll: usize) {
        let width = usize::from(self.state.size.0.saturating_sub(8).min(96));
        let rows = self.help_rows(width);
        let inside = self.window("keys · any key closes", rows.len());
        let most = usize::from(inside.height);
        let first = scroll.min(rows.len().saturating_sub(most));
        for (number, line) in rows.iter().skip(first).take(most).enumerate() {
            self.put(inside.x, inside.y + number as u16, line);
        }
        if rows.len() > most {
            let text = format!(" {}-{} of {} · Up Down ", first + 1, first + most, rows.len());
            self.text(inside.x, inside.bottom(), &text, self.style(Role::Dim));
        }
        self.cursor = None;
    }

    /// Returns the rows of the table of keys.
    fn help_rows(&self, width: usize) -> Vec<Line<'static>> {
        let keys = BINDINGS.iter().map(|binding| text::width(binding.shown)).max().unwrap_or(0);
        let keys = keys.min(width / 3);
        let none = Span::raw("");
        let rows = BINDINGS.iter().flat_map(|binding| {
            let place = match binding.place {
                Place::EmptyBox | Place::Request => " (empty box)",
                Place::Anywhere | Place::Box => "",
            };
            let shown = Span::styled(binding.shown, self.style(Role::Heading));
            let left = text::wrap(&[shown], keys, &none, &none);
            let meaning = Span::raw(format!("{}{place}", binding.meaning));
            let right = text::wrap(&[meaning], width.saturating_sub(keys + 2), &none, &none);
            let rows = left.len().max(right.len());
            (0..rows).map(move |row| {
                let mut line = left.get(row).cloned().unwrap_or_default();
                let used: usize = line.spans.iter().map(|span| text::width(&span.content)).sum();
                line.spans.push(Span::raw(" ".repeat((keys + 2).saturating_sub(used))));
                line.spans.extend(right.get(row).cloned().unwrap_or_default().spans);
                line
            })
        });
        rows.collect()
    }

    fn picker(&mut self, picker: &Picker) {
        let title = match picker.of {
            PickerOf::Sessions => "sessions",
            PickerOf::Models => "models and engines",
            PickerOf::Modes => "mode",
            PickerOf::Permissions => "permissions",
            PickerOf::Themes => "theme",
            PickerOf::Rewind => "rewind to before a prompt; files stay as they are",
            PickerOf::Queue => "queue · Enter edits, Del withdraws",
            PickerOf::Inbox => "waiting in other sessions · Enter answers here",
            PickerOf::History => "earlier prompts",
            PickerOf::Commands => "commands",
            PickerOf::Search => "search the conversation",
        };
        let shown = picker.shown();
        let inside = self.window(title, shown.len().clamp(3, 20) + 1);
        let width = usize::from(inside.width);
        let filter = format!("/ {}", text::one_line(&picker.filter));
        self.text(inside.x, inside.y, &text::cut_start(&filter, width), self.style(Role::Accent));
        self.cursor = Some((inside.x + text::width(&filter).min(width - 1) as u16, inside.y));
        if shown.is_empty() {
            let nothing = if picker.loading { "loading …" } else { "nothing here" };
            self.text(inside.x, inside.y + 1, nothing, self.style(Role::Dim));
        }
        let most = usize::from(inside.height) - 1;
        let first = (picker.selected + 1).saturating_sub(most);
        for (number, choice) in shown.iter().enumerate().skip(first).take(most) {
            let y = inside.y + 1 + (number - first) as u16;
            let detail_room = width / 2;
            let detail = text::cut(&choice.detail, detail_room);
            let label = text::cut(&choice.label, width.saturating_sub(text::width(&detail) + 2));
            let gap = width.saturating_sub(text::width(&label) + text::width(&detail));
            let selected = number == picker.selected;
            let base = if selected { self.style(Role::Selected) } else { Style::new() };
            let dim = if selected { base } else { self.style(Role::Dim) };
            let line = Line::from(vec![
                Span::styled(label, base),
                Span::styled(" ".repeat(gap), base),
                Span::styled(detail, dim),
            ]);
            self.put(inside.x, y, &line);
        }
    }
}

fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text::width(text))))
}

/// Describes a time in seconds.
fn lasting(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
