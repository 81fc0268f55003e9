//! The facts about a session that notifications need: its title, the requests that wait for a person, and what they ask for.
//!
//! Client tools and queued commands are left out: they wait for a program, which may simply take its time.

use baton_core::{Call, CallStage, ClientRequest, Session, WallRequest};
use baton_markup::visible::{Form, line};
use baton_protocol::event::{Question, WorkContext};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::{RequestId, SessionId};

use crate::courier::Details;
use crate::notification::{RequestKind, Subject};

/// Maximum length of details, in bytes. A request whose details are longer is announced without them.
const MAX_DETAILS: usize = 2800;

/// A session as notifications see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionFacts {
    pub(crate) session: SessionId,
    /// What the session is called in notifications.
    pub(crate) title: Option<String>,
    pub(crate) waiting: Vec<Subject>,
}

impl SessionFacts {
    /// Reads a session, as far as notifications may tell it.
    pub(crate) fn of(session: &Session, told: Details) -> Self {
        let facts = &session.durable.facts;
        let with_details = told == Details::Full;
        let turn = session.durable.turn.iter();
        let calls = turn.clone().flat_map(|turn| &turn.calls).filter_map(|call| of_call(call, with_details));
        let offers = turn.filter_map(|turn| turn.fallback_request.as_ref());
        let offers = offers.map(|offer| beside(&offer.request_id, RequestKind::Switch));
        let logins = session.durable.logins.iter();
        let logins = logins.map(|login| beside(&login.request_id, RequestKind::Login));
        let walls = session.durable.walls.iter().map(|wall| of_wall(wall, with_details));
        let asks = session.live.asks.iter().filter_map(|(id, ask)| match ask {
            ClientRequest::Elicit(..) | ClientRequest::Consent(..) => {
                Some(beside(id, RequestKind::Elicitation))
            }
            ClientRequest::Sample(..) => Some(beside(id, RequestKind::Sampling)),
            ClientRequest::InvokeCommand(..) => None,
        });
        Self {
            session: session.id.clone(),
            title: label(
                told,
                facts.named_by_user,
                facts.name.as_ref(),
                facts.title.as_ref(),
                &facts.context,
            ),
            waiting: calls.chain(offers).chain(logins).chain(walls).chain(asks).collect(),
        }
    }

    /// Returns the ids of the requests.
    pub(crate) fn ids(&self) -> Vec<RequestId> {
        self.waiting.iter().filter_map(request_of).cloned().collect()
    }
}

/// Returns what a session is called. A title comes from the first prompt, and so may a name that no person chose: without them,
/// the name of its directory.
pub(crate) fn label(
    told: Details,
    named_by_user: bool,
    name: Option<&String>,
    title: Option<&String>,
    context: &WorkContext,
) -> Option<String> {
    if told >= Details::Title || named_by_user {
        return name.or(title).cloned();
    }
    let directory = std::path::Path::new(&context.cwd).file_name()?;
    Some(directory.to_string_lossy().into_owned())
}

/// Returns the request that a subject is about.
pub(crate) fn request_of(subject: &Subject) -> Option<&RequestId> {
    match subject {
        Subject::Request { request, .. } => Some(request),
        Subject::Turn { .. } | Subject::Test => None,
    }
}

fn beside(request: &RequestId, kind: RequestKind) -> Subject {
    Subject::Request { request: request.clone(), kind, tool: None, details: None }
}

fn of_wall(wall: &WallRequest, with_details: bool) -> Subject {
    let details = with_details.then(|| details(&wall.wants)).flatten();
    let details = details.map(|details| format!("{details}\n(for a command in the sandbox)"));
    Subject::Request { request: wall.request.clone(), kind: RequestKind::Permission, tool: None, details }
}

fn of_call(call: &Call, with_details: bool) -> Option<Subject> {
    let (request, kind, details) = match &call.stage {
        CallStage::AwaitingPermission { request, wants, .. } => {
            (request, RequestKind::Permission, with_details.then(|| details(wants)).flatten())
        }
        CallStage::AwaitingAnswer { request, question: Question::UserInput(asked) } => {
            let text = with_details.then(|| limited(lines(&asked.question, Form::Prose))).flatten();
            (request, RequestKind::Question, text)
        }
        CallStage::AwaitingAnswer { request, question: Question::Plan(_) } => {
            (request, RequestKind::Plan, None)
        }
        CallStage::AwaitingClient { .. } | CallStage::Started | CallStage::Done { .. } => return None,
    };
    let tool = Some(call.tool.clone());
    Some(Subject::Request { request: request.clone(), kind, tool, details })
}

/// Describes everything that an approval would allow; none if that is too long.
fn details(wants: &PermissionRequest) -> Option<String> {
    let json = |value: &Option<baton_protocol::Json>| {
        value.as_ref().map_or_else(String::new, |value| lines(value.as_str(), Form::Exact))
    };
    let text = match wants {
        PermissionRequest::Shell { full_command_text, input_to, warning, repository_runs, .. } => {
            let shell = input_to.as_ref().map(|shell| format!("Input to the running shell {shell}:\n"));
            let inside = wants.sandbox_note();
            let notes = [warning, repository_runs, &inside].into_iter().flatten();
            let notes: String = notes.map(|note| format!("\n({})", lines(note, Form::Prose))).collect();
            format!("{}{}{notes}", shell.unwrap_or_default(), lines(full_command_text, Form::Exact))
        }
        PermissionRequest::Write { file_name, diff, new_file_contents, .. } => {
            let change = if diff.is_empty() { new_file_contents.as_deref()? } else { diff };
            format!("{}\n{}", lines(file_name, Form::Exact), lines(change, Form::Diff))
        }
        PermissionRequest::Read { path, .. } => format!("Read {}", lines(path, Form::Exact)),
        PermissionRequest::Url { url, .. } => format!("Fetch {}", lines(url, Form::Exact)),
        PermissionRequest::Mcp { server_name, tool_name, args, .. } => {
            let names = [server_name, tool_name].map(|name| lines(name, Form::Exact));
            format!("{}/{}\n{}", names[0], names[1], json(args))
        }
        PermissionRequest::Memory { fact, .. } => {
            format!("Remember: {}", lines(fact.as_deref()?, Form::Prose))
        }
        PermissionRequest::CustomTool { tool_name, args, .. } => {
            format!("{}\n{}", lines(tool_name, Form::Exact), json(args))
        }
        PermissionRequest::Hook { tool_name, tool_args, hook_message, .. } => {
            let message = lines(hook_message.as_deref().unwrap_or_default(), Form::Prose);
            format!("{}\n{}\n{message}", lines(tool_name, Form::Exact), json(tool_args))
        }
    };
    limited(text)
}

/// Escapes what a reader could not see, line by line.
fn lines(text: &str, form: Form) -> String {
    let shown: Vec<String> = text.split('\n').map(|text| line(text, form).0).collect();
    shown.join("\n")
}

fn limited(text: String) -> Option<String> {
    (text.len() <= MAX_DETAILS).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(command: &str) -> PermissionRequest {
        let text =
            serde_json::json!({ "kind": "shell", "fullCommandText": command, "intention": "list files" });
        baton_json::from_value(&text).unwrap()
    }

    #[test]
    fn nothing_of_a_prompt_is_told_unless_configured() {
        let context = WorkContext { cwd: "/work/shop".into(), ..WorkContext::default() };
        let (name, title) = ("About the key 123".to_owned(), "the key is 123".to_owned());
        let label = |told, by_user| label(told, by_user, Some(&name), Some(&title), &context);
        assert_eq!(
            label(Details::None, false).as_deref(),
            Some("shop"),
            "a client named it after the prompt"
        );
        assert_eq!(label(Details::None, true).as_ref(), Some(&name), "a person named it");
        assert_eq!(label(Details::Title, false).as_ref(), Some(&name));
        assert_eq!(super::label(Details::None, false, None, Some(&title), &WorkContext::default()), None);
    }

    #[test]
    fn details_show_where_a_command_runs() {
        let inside = serde_json::json!({
            "kind": "shell", "fullCommandText": "ls", "intention": "", "sandbox": "workspace",
        });
        let details = details(&baton_json::from_value(&inside).unwrap());
        assert_eq!(details.as_deref(), Some("ls\n(runs in the sandbox: workspace)"));
    }

    #[test]
    fn details_show_the_whole_command_or_nothing() {
        assert_eq!(details(&shell("ls\nrm -r x")).as_deref(), Some("ls\nrm -r x"));
        assert_eq!(details(&shell("ls \u{202e}x")).as_deref(), Some("ls \\u{202e}x"));
        assert_eq!(details(&shell(&"x".repeat(MAX_DETAILS + 1))), None);
    }
}
