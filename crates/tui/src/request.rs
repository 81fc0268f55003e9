//! A pending request as rows: what is asked, in full, and which keys answer it.

use std::rc::Rc;

use baton_markup::patch;
use baton_protocol::event::{PlanAction, ProposedPlan};
use baton_protocol::permission::PermissionRequest;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use serde_json::{Value, json};

use crate::layout::{Builder, Rows};
use crate::state::{Panel, Stage, State};
use crate::text;
use crate::theme::Role;
use crate::wire::Request;

/// Beginning of the intention of a request to type into a running command, before the command.
const TYPING: &str = "Type into the running command: ";

/// A part of what is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A text in which every character matters, with its name.
    Exact(&'static str, String),
    /// Words, with whose they are.
    Prose(&'static str, String),
    /// Words to be heeded.
    Warning(String),
    /// A unified diff.
    Patch(String),
    /// Markdown.
    Markdown(String),
}

/// What is asked, in words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// The question.
    pub title: String,
    /// Where: the directory or the file. Stays in sight.
    pub place: String,
    /// The rest.
    pub parts: Vec<Part>,
    /// Choices with numbers.
    pub choices: Vec<String>,
    /// Added and removed lines, if it is about the change of one file, whose name is the place.
    pub counts: Option<(usize, usize)>,
}

impl Request {
    /// Whether people can answer it here.
    #[must_use]
    pub fn is_for_people(&self) -> bool {
        !matches!(self.kind.as_str(), "tool" | "command")
    }

    /// Whether its answer is typed.
    #[must_use]
    pub fn takes_text(&self) -> bool {
        match self.kind.as_str() {
            "question" => self.detail["allowFreeform"].as_bool().unwrap_or(true),
            "elicitation" => self.only_field().is_some(),
            _ => false,
        }
    }

    /// Returns what is asked.
    #[must_use]
    pub fn subject(&self) -> Subject {
        let text = |name: &str| self.detail[name].as_str().unwrap_or_default().to_owned();
        match self.kind.as_str() {
            "permission" => match baton_json::from_value::<PermissionRequest>(&self.detail) {
                Ok(wants) => permission(&wants, self.tool_name.as_deref()),
                // Of a newer server: shown as it came, so that only what is visible is approved.
                Err(_) => Subject {
                    title: "Allow this?".into(),
                    parts: vec![Part::Exact("request", pretty(&self.detail))],
                    ..Subject::default()
                },
            },
            "question" => Subject {
                title: "The model asks".into(),
                parts: vec![Part::Markdown(text("question"))],
                choices: strings(&self.detail["choices"]),
                ..Subject::default()
            },
            "plan" => self.plan().map_or_else(Subject::default, |plan| plan_subject(&plan)),
            "switch" => Subject {
                title: "Continue with another model?".into(),
                parts: vec![Part::Exact("model", text("model")), Part::Prose("why", text("reason"))],
                ..Subject::default()
            },
            "login" => Subject {
                title: "Log in to an MCP server".into(),
                parts: vec![
                    Part::Exact("server", text("serverName")),
                    Part::Exact("address", text("serverUrl")),
                ],
                ..Subject::default()
            },
            "sampling" => Subject {
                title: "May an MCP server ask the model?".into(),
                parts: vec![
                    Part::Exact("server", text("serverName")),
                    Part::Exact("request", pretty(&self.detail["request"])),
                ],
                ..Subject::default()
            },
            "elicitation" => {
                let mut parts =
                    vec![Part::Exact("server", text("source")), Part::Prose("message", text("message"))];
                match self.detail["url"].as_str() {
                    Some(url) => parts.push(Part::Exact("address to open", url.to_owned())),
                    None => parts
                        .push(Part::Exact("fields", pretty(&self.detail["requestedSchema"]["properties"]))),
                }
                Subject { title: "An MCP server asks".into(), parts, ..Subject::default() }
            }
            kind => Subject {
                title: format!("Waiting for a program ({kind})"),
                parts: vec![Part::Exact("request", pretty(&self.detail))],
                ..Subject::default()
            },
        }
    }

    /// Returns a plan, if it is about one.
    #[must_use]
    pub fn plan(&self) -> Option<ProposedPlan> {
        baton_json::from_value(&self.detail).ok()
    }

    /// Returns the name and type of the only field of a form.
    fn only_field(&self) -> Option<(&String, &Value)> {
        self.detail["requestedSchema"]["properties"]
            .as_object()
            .filter(|fields| fields.len() == 1)?
            .iter()
            .next()
    }

    /// Returns the answer that a yes is.
    #[must_use]
    pub fn yes(&self) -> Option<Value> {
        Some(match self.kind.as_str() {
            "permission" => json!({ "kind": "permission", "decision": "approve" }),
            "plan" => json!({ "kind": "plan", "response": self.plan()?.recommended_action.as_str() }),
            "switch" => json!({ "kind": "switch", "response": "yes" }),
            "sampling" => json!({ "kind": "sampling", "approve": true }),
            "elicitation" if self.detail["url"].is_string() => {
                json!({ "kind": "elicitation", "action": "accept" })
            }
            _ => return None,
        })
    }

    /// Returns the answer that a no is, with a reason for the model.
    #[must_use]
    pub fn no(&self, reason: Option<&str>) -> Option<Value> {
        Some(match self.kind.as_str() {
            "permission" => json!({ "kind": "permission", "decision": "reject", "feedback": reason }),
            "plan" => json!({ "kind": "plan", "response": "reject", "feedback": reason }),
            "switch" => json!({ "kind": "switch", "response": "no" }),
            "sampling" => json!({ "kind": "sampling", "approve": false }),
            "elicitation" => json!({ "kind": "elicitation", "action": "decline" }),
            "login" => json!({ "kind": "login", "decline": true }),
            _ => return None,
        })
    }

    /// Returns the answer that always approves what an offer covers.
    #[must_use]
    pub fn always(&self, offer: usize) -> Option<Value> {
        match self.kind.as_str() {
            "permission" => {
                let grant = &self.offers.get(offer)?.grant;
                Some(json!({ "kind": "permission", "decision": "approve-for-session", "grant": grant }))
            }
            "switch" => Some(json!({ "kind": "switch", "response": "yes-always" })),
            _ => None,
        }
    }

    /// Returns what always approving covers, for each offer.
    #[must_use]
    pub fn always_means(&self, offer: usize) -> Option<String> {
        match self.kind.as_str() {
            "permission" => self.offers.get(offer).map(|offer| offer.meaning.clone()),
            "switch" => {
                Some("continue with the fallback model in this session, whenever it is needed".into())
            }
            _ => None,
        }
    }

    /// Returns the answer that the choice of a number is, counted from zero.
    #[must_use]
    pub fn choose(&self, number: usize) -> Option<Value> {
        match self.kind.as_str() {
            "question" => {
                let choice = strings(&self.detail["choices"]).into_iter().nth(number)?;
                Some(json!({ "kind": "question", "answer": choice, "chosen": true }))
            }
            "plan" => {
                let action = *self.plan()?.actions.get(number)?;
                Some(json!({ "kind": "plan", "response": action.as_str() }))
            }
            _ => None,
        }
    }

    /// Returns the answer that a typed text is.
    #[must_use]
    pub fn answer_text(&self, typed: &str) -> Option<Value> {
        match self.kind.as_str() {
            "question" => Some(json!({ "kind": "question", "answer": typed, "chosen": false })),
            "elicitation" => {
                let (name, schema) = self.only_field()?;
                let value = match schema["type"].as_str() {
                    Some("number") => json!(typed.trim().parse::<f64>().ok()?),
                    Some("integer") => json!(typed.trim().parse::<i64>().ok()?),
                    Some("boolean") => json!(typed.trim().parse::<bool>().ok()?),
                    _ => json!(typed),
                };
                let content = serde_json::Map::from_iter([(name.clone(), value)]);
                Some(json!({ "kind": "elicitation", "action": "accept", "content": content }))
            }
            _ => None,
        }
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn pretty(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

fn permission(wants: &PermissionRequest, tool: Option<&str>) -> Subject {
    let note = wants.sandbox_note().map(|note| Part::Prose("sandbox", note));
    match wants {
        PermissionRequest::Shell { full_command_text, intention, warning, input_to, .. } => {
            let mut parts = Vec::new();
            let title = match input_to {
                // What it does depends on the program that reads it.
                Some(shell) => {
                    let running = intention.strip_prefix(TYPING).unwrap_or(shell).to_owned();
                    parts.push(Part::Exact("running command", running));
                    parts.push(Part::Exact("text", full_command_text.clone()));
                    "Allow typing into a running command?"
                }
                None => {
                    parts.push(Part::Exact("", full_command_text.clone()));
                    let says_something = !intention.is_empty() && intention != "Run a command";
                    parts.extend(says_something.then(|| Part::Prose("the model says", intention.clone())));
                    if tool == Some("sandbox") {
                        "Allow this outside the sandbox?"
                    } else {
                        "Run this command?"
                    }
                }
            };
            parts.extend(warning.clone().map(Part::Warning));
            parts.extend(note);
            Subject { title: title.into(), parts, ..Subject::default() }
        }
        PermissionRequest::Write { file_name, diff, new_file_contents, .. } => {
            let mut parts = vec![Part::Patch(diff.clone())];
            if is_cut(diff) {
                parts.push(match new_file_contents {
                    Some(all) => Part::Exact("the whole new file", all.clone()),
                    None => Part::Warning("the change is too long to be shown in full".into()),
                });
            }
            let files = patch::patch(diff);
            let is_new = files.first().is_some_and(|file| file.kind == patch::PatchKind::Created);
            let title = if is_new { "Create this file?" } else { "Change this file?" };
            let counts = match &files[..] {
                [file] if patch::is_patch(diff) => Some(file.counts),
                _ => None,
            };
            Subject { title: title.into(), place: file_name.clone(), parts, counts, ..Subject::default() }
        }
        PermissionRequest::Read { path, intention, .. } => asked("Read this?", path, intention),
        PermissionRequest::Url { url, intention, .. } => asked("Fetch this address?", url, intention),
        PermissionRequest::Mcp { server_name, tool_name, tool_title, args, read_only, .. } => {
            let mut parts = vec![
                Part::Exact("server", server_name.clone()),
                Part::Exact("tool", tool_name.clone()),
                Part::Exact("arguments", args.as_ref().map(readable).unwrap_or_default()),
            ];
            if tool_title != tool_name && !tool_title.is_empty() {
                parts.push(Part::Prose("title", tool_title.clone()));
            }
            parts.extend(read_only.then(|| Part::Prose("the server says", "it changes nothing".into())));
            Subject { title: "Call this tool of an MCP server?".into(), parts, ..Subject::default() }
        }
        PermissionRequest::CustomTool { tool_name, tool_description, args, .. } => Subject {
            title: "Call this tool?".into(),
            parts: vec![
                Part::Exact("tool", tool_name.clone()),
                Part::Exact("arguments", args.as_ref().map(readable).unwrap_or_default()),
                Part::Prose("description", tool_description.clone()),
            ],
            ..Subject::default()
        },
        PermissionRequest::Memory { fact, .. } => {
            asked("Store this fact?", fact.as_deref().unwrap_or_default(), "")
        }
        PermissionRequest::Hook { tool_name, tool_args, hook_message, .. } => {
            let title =
                if tool_name == "trust" { "Trust the files of this workspace?" } else { "Call this tool?" };
            let mut parts = Vec::new();
            if tool_name != "trust" {
                parts.push(Part::Exact("tool", tool_name.clone()));
                parts.push(Part::Exact("arguments", tool_args.as_ref().map(readable).unwrap_or_default()));
            }
            parts.extend(hook_message.clone().map(|message| Part::Exact("", message)));
            Subject { title: title.into(), parts, ..Subject::default() }
        }
    }
}

fn asked(title: &str, what: &str, why: &str) -> Subject {
    let mut parts = vec![Part::Exact("", what.to_owned())];
    parts.extend((!why.is_empty()).then(|| Part::Prose("the model says", why.to_owned())));
    Subject { title: title.into(), parts, ..Subject::default() }
}

fn readable(json: &baton_protocol::Json) -> String {
    match baton_json::from_str::<Value>(json.as_str()) {
        Ok(value) => pretty(&value),
        Err(_) => json.as_str().to_owned(),
    }
}

/// Whether the server has cut a diff; its last line says so.
fn is_cut(diff: &str) -> bool {
    diff.trim_end().lines().next_back().is_some_and(|last| last.starts_with("[The diff goes on for "))
}

fn plan_subject(plan: &ProposedPlan) -> Subject {
    let text = if plan.plan_content.trim().is_empty() { &plan.summary } else { &plan.plan_content };
    let action = |action: &PlanAction| {
        let words = match action {
            PlanAction::Interactive => "carry it out, asking for permissions",
            PlanAction::Autopilot => "carry it out on autopilot",
            PlanAction::AutopilotFleet => "carry it out on autopilot, with sub-agents",
            PlanAction::ExitOnly => "stop after planning",
        };
        if *action == plan.recommended_action { format!("{words} (y)") } else { words.to_owned() }
    };
    Subject {
        title: "Is this plan good?".into(),
        parts: vec![Part::Markdown(text.clone())],
        choices: plan.actions.iter().map(action).collect(),
        ..Subject::default()
    }
}

/// The rows of a request, ready to be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct PanelRows {
    /// Stays above the body.
    pub header: Vec<Line<'static>>,
    /// Scrolls.
    pub body: Rc<Rows>,
    /// Stays below the body.
    pub footer: Vec<Line<'static>>,
}

impl State {
    /// Returns the rows of the request that is shown.
    #[must_use]
    pub fn panel_rows(&self, width: usize) -> Option<PanelRows> {
        let panel = self.panel.as_ref()?;
        let subject = panel.request.subject();
        let body = self.request_rows(&panel.request.request_id, width, || self.body_rows(&subject, width));
        Some(PanelRows {
            header: self.panel_header(panel, &subject, width),
            body,
            footer: self.panel_footer(panel, &subject, width),
        })
    }

    fn panel_header(&self, panel: &Panel, subject: &Subject, width: usize) -> Vec<Line<'static>> {
        let (asking, dim) = (self.theme.style(Role::Asking), self.theme.style(Role::Dim));
        let number = match self.requests.iter().filter(|request| request.is_for_people()).count() {
            0 | 1 => String::new(),
            all => format!("  1 of {all}"),
        };
        let tool = panel.request.tool_name.as_deref().map(text::one_line).unwrap_or_default();
        let other = panel.request.session_id.as_ref().filter(|id| **id != self.session.id);
        let place = match other {
            Some(id) => format!("in session {}", self.title_of(id)),
            None => self.short_path(self.session.cwd.as_deref().unwrap_or_default()),
        };
        let about: Vec<String> = [tool, place].into_iter().filter(|text| !text.is_empty()).collect();
        let about = text::cut(&about.join(" · "), width.saturating_sub(text::width(&subject.title) + 4));
        let mut lines = vec![Line::from(vec![
            Span::styled(subject.title.clone(), asking),
            Span::styled(format!("  {about}{number}"), dim),
        ])];
        if !subject.place.is_empty() {
            let (exact, _) = text::exact_lines(&subject.place);
            let counts =
                subject.counts.map(|(added, removed)| format!("  +{added} -{removed}")).unwrap_or_default();
            let path = text::cut_start(&exact.join("⏎"), width.saturating_sub(text::width(&counts)));
            lines.push(Line::from(vec![
                Span::styled(path, self.theme.style(Role::Accent).add_modifier(Modifier::BOLD)),
                Span::styled(counts, dim),
            ]));
        }
        lines
    }

    fn body_rows(&self, subject: &Subject, width: usize) -> Rows {
        let mut out = Builder { state: self, theme: self.theme, width, rows: Rows::default() };
        for part in &subject.parts {
            match part {
                // The name of the file stays in sight above the body.
                Part::Patch(diff) if subject.counts.is_some() => {
                    patch::patch(diff).iter().for_each(|file| out.hunks(file, None));
                }
                part => out.part(part),
            }
        }
        for (at, choice) in subject.choices.iter().enumerate() {
            let number = Span::styled(format!("{}. ", at + 1), self.theme.style(Role::Accent));
            let choice = Span::raw(text::one_line(choice));
            out.rows.lines.extend(text::wrap(&[choice], width, &number, &Span::raw("   ")));
        }
        out.rows
    }

    fn panel_footer(&self, panel: &Panel, subject: &Subject, width: usize) -> Vec<Line<'static>> {
        let (asking, dim) = (self.theme.style(Role::Asking), self.theme.style(Role::Dim));
        let none = Span::raw("");
        let mut lines = Vec::new();
        match panel.stage {
            Stage::Sending => lines.push(Line::styled("sending the answer …", dim)),
            Stage::Confirm(offer, _) => {
                let meaning = panel.request.always_means(offer).unwrap_or_default();
                let offers = panel.request.offers.len();
                let more =
                    if offers > 1 { format!(" ({} of {offers}, Tab)", offer + 1) } else { String::new() };
                let covers = Span::styled(format!("Always: {}{more}", text::one_line(&meaning)), asking);
                lines.extend(text::wrap(&[covers], width, &none, &none));
                lines.push(Line::styled("a confirms this · Esc goes back", asking));
            }
            Stage::Choose => {
                let keys = self.choice_keys(panel, subject);
                lines.extend(text::wrap(&[Span::styled(keys, asking)], width, &none, &none));
            }
        }
        if let Some(hint) = &panel.hint {
            let hint = Span::styled(hint.clone(), self.theme.style(Role::Warning));
            lines.extend(text::wrap(&[hint], width, &none, &none));
        }
        lines
    }

    fn choice_keys(&self, panel: &Panel, subject: &Subject) -> String {
        let request = &panel.request;
        let mut keys: Vec<String> = Vec::new();
        keys.extend(request.yes().map(|_| "y yes".to_owned()));
        keys.extend(request.no(None).map(|_| "n no".to_owned()));
        keys.extend(request.always_means(0).map(|_| "a always …".to_owned()));
        if !subject.choices.is_empty() {
            keys.push(format!("1-{} choose", subject.choices.len().min(9)));
        }
        if request.takes_text() {
            keys.push("or type an answer, Enter".to_owned());
        }
        if matches!(request.kind.as_str(), "permission" | "plan") {
            keys.push("Alt-N no, with the box as reason".to_owned());
        }
        if !self.editor.is_empty() && !request.takes_text() {
            keys.push("(empty the box to answer)".to_owned());
        }
        keys.join(" · ")
    }

    /// Returns the title of a session, or the beginning of its id.
    #[must_use]
    pub fn title_of(&self, id: &str) -> String {
        let known = self.sessions.iter().find(|session| session.id == id);
        let title =
            known.and_then(|session| session.title.clone()).unwrap_or_else(|| id.chars().take(8).collect());
        text::one_line(&title)
    }

    /// Returns a path with the home directory as `~`, escaped.
    #[must_use]
    pub fn short_path(&self, path: &str) -> String {
        let rest = path.strip_prefix(self.about.home.as_str()).filter(|_| !self.about.home.is_empty());
        let short = match rest {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
            _ => path.to_owned(),
        };
        text::one_line(&short)
    }
}

impl Builder<'_> {
    fn part(&mut self, part: &Part) {
        let (dim, warning) = (self.theme.style(Role::Dim), self.theme.style(Role::Warning));
        let none = Span::raw("");
        match part {
            Part::Exact(name, value) if value.is_empty() => {
                let _ = name;
            }
            Part::Exact(name, value) => {
                let (lines, escaped) = text::exact_lines(value);
                let count = match escaped {
                    0 => String::new(),
                    1 => " (1 character shown as an escape)".to_owned(),
                    n => format!(" ({n} characters shown as escapes)"),
                };
                if !name.is_empty() || escaped > 0 {
                    self.rows.lines.push(Line::styled(format!("{name}{count}"), dim));
                }
                for line in lines {
                    for row in text::chunks(&line, self.width.saturating_sub(2)) {
                        let row = Span::styled(row, self.theme.style(Role::Text));
                        self.rows.lines.push(Line::from(vec![Span::styled("│ ", dim), row]));
                    }
                }
            }
            Part::Prose(name, value) => {
                for (at, line) in text::prose(value.trim()).into_iter().enumerate() {
                    let name = if at == 0 { format!("{name}: ") } else { String::new() };
                    let spans = [Span::styled(name, dim), Span::styled(line, dim)];
                    self.rows.lines.extend(text::wrap(&spans, self.width, &none, &none));
                }
            }
            Part::Warning(value) => {
                for line in text::prose(value.trim()) {
                    let mark = Span::styled("! ", warning);
                    let spans = [Span::styled(line, warning)];
                    self.rows.lines.extend(text::wrap(
                        &spans,
                        self.width,
                        &mark,
                        &Span::styled("  ", warning),
                    ));
                }
            }
            Part::Patch(diff) if patch::is_patch(diff) => self.patches(&patch::patch(diff), None),
            Part::Patch(diff) => self.part(&Part::Exact("change", diff.clone())),
            Part::Markdown(value) => self.markdown(value),
        }
    }
}
