//! The conversation as the model is given it, built from a session's events.
//!
//! It is total: a history with dangling calls, unknown events or missing parts gives a conversation that providers
//! accept (P7). Every call of an assistant's message is followed by one result, in the order of the calls, whatever
//! order they came in.

use std::sync::Arc;

use baton_core::INTERRUPTED;
use baton_model::estimate;
use baton_model::{Message, Part, ToolCall};
use baton_protocol::attachment::{Attachment, KnownAttachment};
use baton_protocol::event::{AssistantMessage, Body, Event, Outcome, ShellRun, ToolComplete, UserMessage};
use baton_protocol::tool::BinaryResult;
use baton_protocol::{PromptId, ToolCallId};

/// A conversation in the making.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    items: Vec<Item>,
    hook_spoke_last: bool,
    /// How much of it is being summarised.
    summarising: usize,
}

#[derive(Debug, Clone)]
enum Item {
    /// Something said on the user's side. `unheard` names a prompt that has not been put into the form for the model,
    /// which is done just before the model is asked.
    User { message: Arc<Message>, unheard: Option<PromptId>, has_image: bool, prompt: Option<String> },
    /// What stands for the beginning of the conversation: the prompts of it, in the user's own words, and a summary.
    Summary { prompts: Vec<String>, summary: String },
    /// What the model said, with what came of its calls.
    Assistant { text: String, opaque: Option<String>, calls: Vec<Call> },
}

#[derive(Debug, Clone)]
struct Call {
    id: ToolCallId,
    name: String,
    arguments: String,
    result: Option<CallResult>,
}

#[derive(Debug, Clone)]
struct CallResult {
    content: String,
    failed: bool,
    images: Vec<Image>,
}

#[derive(Debug, Clone)]
struct Image {
    caption: Option<String>,
    mime_type: String,
    data: Arc<str>,
}

impl Transcript {
    /// The conversation after all of `events`.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut transcript = Self::default();
        events.into_iter().for_each(|event| transcript.apply(event));
        transcript
    }

    /// Takes one more event. Events of sub-agents belong to other conversations.
    pub fn apply(&mut self, event: &Event) {
        if event.agent_id.is_none() {
            self.add(&event.body);
        }
    }

    /// Takes one more event of this conversation, whosever it is.
    pub fn add(&mut self, body: &Body) {
        match body {
            Body::UserMessage(message) => {
                self.hook_spoke_last = message.source.as_deref() == Some("hook");
                self.items.push(user_item(message));
            }
            Body::ContextAdded(added) => self.items.push(plain_user(&added.content)),
            Body::ShellRun(run) => self.items.push(plain_user(&shell_run(run))),
            Body::SystemNotification(notice) => self.items.push(plain_user(&notice.content)),
            Body::AssistantMessage(message) => self.items.push(assistant_item(message)),
            Body::CallAmended(amended) => {
                if let Some(call) = self.call_mut(&amended.tool_call_id) {
                    call.arguments = amended.arguments.as_str().to_owned();
                }
            }
            Body::ToolComplete(complete) => {
                if let Some(call) = self.call_mut(&complete.tool_call_id)
                    && call.result.is_none()
                {
                    call.result = Some(call_result(complete));
                }
            }
            Body::CompactionStart(_) => self.summarising = self.items.len(),
            Body::CompactionComplete(complete) => {
                if let Some(summary) = complete.summary_content.as_ref().filter(|_| complete.success) {
                    self.stand_in(summary);
                }
            }
            Body::TurnSettled(settled) if settled.outcome == Outcome::Cancelled => {
                self.forget_unheard(&settled.prompt_ids);
            }
            _ => {}
        }
    }

    /// Has a summary stand for what was being summarised.
    fn stand_in(&mut self, summary: &str) {
        let until = std::mem::take(&mut self.summarising).min(self.items.len());
        let mut prompts = Vec::new();
        for item in self.items.drain(..until) {
            match item {
                Item::User { prompt, .. } => prompts.extend(prompt),
                Item::Summary { prompts: earlier, .. } => prompts.extend(earlier),
                Item::Assistant { .. } => {}
            }
        }
        self.items.insert(0, Item::Summary { prompts, summary: summary.to_owned() });
    }

    /// The same conversation with a summary in the place of all of it.
    #[must_use]
    pub fn summarised(&self, summary: &str) -> Self {
        let mut short = Self { summarising: self.items.len(), ..self.clone() };
        short.stand_in(summary);
        short
    }

    /// A prompt that was cancelled before the model heard it is history, not conversation.
    fn forget_unheard(&mut self, prompts: &[PromptId]) {
        while let Some(Item::User { unheard: Some(id), .. }) = self.items.last()
            && prompts.contains(id)
        {
            self.items.pop();
        }
    }

    fn call_mut(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        // Models use ids again in later turns: the newest call of that name is meant.
        self.items.iter_mut().rev().find_map(|item| match item {
            Item::Assistant { calls, .. } => calls.iter_mut().find(|call| call.id == *id),
            Item::User { .. } | Item::Summary { .. } => None,
        })
    }

    /// The messages, for a model that can or cannot see images, starting late enough to fit `budget` tokens. The
    /// newest user message is always part of it.
    #[must_use]
    pub fn messages(&self, vision: bool, budget: u64) -> Vec<Arc<Message>> {
        let rendered: Vec<Vec<Arc<Message>>> = self.items.iter().map(|item| render(item, vision)).collect();
        let start = first_that_fits(&self.items, &rendered, budget);
        rendered.into_iter().skip(start).flatten().collect()
    }

    /// Whether the last thing said on the user's side was a hook's, to keep the model going.
    #[must_use]
    pub fn ends_with_hook(&self) -> bool {
        self.hook_spoke_last
    }

    /// Whether nothing has been said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// The first item from which on everything fits the budget, moved to the next thing a user said: a conversation must
/// not begin with an answer.
fn first_that_fits(items: &[Item], rendered: &[Vec<Arc<Message>>], budget: u64) -> usize {
    let mut used = 0;
    let mut start = 0;
    for (at, messages) in rendered.iter().enumerate().rev() {
        used += messages.iter().map(|message| estimate::message(message)).sum::<u64>();
        if used > budget {
            start = at + 1;
            break;
        }
    }
    let is_user = |item: &Item| matches!(item, Item::User { .. } | Item::Summary { .. });
    let fits = items.iter().enumerate().skip(start).find(|(_, item)| is_user(item)).map(|(at, _)| at);
    let newest = || items.iter().rposition(is_user);
    if start == 0 { 0 } else { fits.or_else(newest).unwrap_or(0) }
}

fn render(item: &Item, vision: bool) -> Vec<Arc<Message>> {
    match item {
        Item::User { message, has_image: true, .. } if !vision => vec![Arc::new(without_images(message))],
        Item::User { message, .. } => vec![Arc::clone(message)],
        Item::Summary { prompts, summary } => {
            vec![Arc::new(Message::User(vec![Part::Text(summary_text(prompts, summary))]))]
        }
        Item::Assistant { text, opaque, calls } => {
            let tool_calls = calls.iter().map(|call| ToolCall {
                id: call.id.0.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            });
            let said = Message::Assistant {
                text: text.clone(),
                tool_calls: tool_calls.collect(),
                reasoning_opaque: opaque.clone(),
            };
            let results = calls.iter().map(|call| Message::Tool {
                call_id: call.id.0.clone(),
                content: call.result.as_ref().map_or_else(|| INTERRUPTED.to_owned(), |r| r.content.clone()),
                failed: call.result.as_ref().is_none_or(|result| result.failed),
            });
            let images =
                calls.iter().filter(|_| vision).flat_map(|call| &call.result).flat_map(|r| &r.images);
            let images = images.map(|image| Message::User(image_parts(image)));
            std::iter::once(said).chain(results).chain(images).map(Arc::new).collect()
        }
    }
}

fn user_item(message: &UserMessage) -> Item {
    let text = message.transformed_content.as_ref().unwrap_or(&message.content);
    let mut parts = vec![Part::Text(text.clone())];
    for attachment in &message.attachments {
        let Attachment::Known(KnownAttachment::Blob { data, mime_type, display_name }) = attachment else {
            continue;
        };
        let (mime_type, data) = (mime_type.clone(), Arc::from(data.as_str()));
        if mime_type.starts_with("image/") {
            parts.extend(image_parts(&Image { caption: display_name.clone(), mime_type, data }));
        } else if mime_type == "application/pdf" {
            parts.push(Part::Document { mime_type, title: display_name.clone(), data });
        }
    }
    let has_image = parts.iter().any(|part| matches!(part, Part::Image { .. }));
    let unheard = message.message_id.filter(|_| message.transformed_content.is_none());
    let prompt = message.message_id.map(|_| message.content.clone());
    Item::User { message: Arc::new(Message::User(parts)), unheard, has_image, prompt }
}

/// A summary as the model is given it. The frame is the one that recordings of the official runtime have, so that they can
/// be replayed.
fn summary_text(prompts: &[String], summary: &str) -> String {
    let mut text = String::from(
        "Some of the conversation history has been summarized to free up context.\n\nYou were originally given \
         instructions from a user over one or more turns. Here were the user messages:\n",
    );
    for prompt in prompts {
        text.push_str(&format!("<user_message>\n{prompt}\n</user_message>\n"));
    }
    text + "\nHere is a summary of the prior context:\n<summary>\n" + summary + "\n</summary>"
}

fn plain_user(text: &str) -> Item {
    let message = Arc::new(Message::User(vec![Part::Text(text.to_owned())]));
    Item::User { message, unheard: None, has_image: false, prompt: None }
}

/// A command that a person ran, in the form for the model.
fn shell_run(run: &ShellRun) -> String {
    let ShellRun { command, output, exit_code } = run;
    format!("<user_command exit_code=\"{exit_code}\">\n$ {command}\n{output}\n</user_command>")
}

fn assistant_item(message: &AssistantMessage) -> Item {
    let calls = message.tool_requests.iter().map(|request| Call {
        id: request.tool_call_id.clone(),
        name: request.name.clone(),
        arguments: request
            .arguments
            .as_ref()
            .map_or_else(|| "{}".to_owned(), |json| json.as_str().to_owned()),
        result: None,
    });
    Item::Assistant {
        text: message.content.clone(),
        opaque: message.reasoning_opaque.clone(),
        calls: calls.collect(),
    }
}

fn call_result(complete: &ToolComplete) -> CallResult {
    let error = complete.error.as_ref().map(|error| error.message.clone());
    let Some(result) = &complete.result else {
        return CallResult {
            content: error.unwrap_or_default(),
            failed: !complete.success,
            images: Vec::new(),
        };
    };
    let image = |binary: &BinaryResult| Image {
        caption: binary.description.clone(),
        mime_type: binary.mime_type.clone(),
        data: Arc::from(binary.data.as_str()),
    };
    let images = result.binary_results_for_llm.iter().filter(|b| b.mime_type.starts_with("image/"));
    CallResult {
        content: result.content.clone(),
        failed: !complete.success,
        images: images.map(image).collect(),
    }
}

fn image_parts(image: &Image) -> Vec<Part> {
    let caption = image.caption.clone().map(Part::Text);
    let picture = Part::Image { mime_type: image.mime_type.clone(), data: Arc::clone(&image.data) };
    caption.into_iter().chain([picture]).collect()
}

fn without_images(message: &Message) -> Message {
    match message {
        Message::User(parts) => {
            Message::User(parts.iter().filter(|part| !matches!(part, Part::Image { .. })).cloned().collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(events: &[(&str, &str)]) -> Transcript {
        let line = |(kind, data): &(&str, &str)| {
            let id = "0190c2f0-0000-7000-8000-000000000001";
            format!(
                r#"{{"type":"{kind}","data":{data},"id":"{id}","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}}"#
            )
        };
        let events: Vec<Event> = events.iter().map(|e| Event::parse(&line(e)).unwrap()).collect();
        Transcript::of(&events)
    }

    fn shown(transcript: &Transcript, vision: bool) -> Vec<String> {
        let one = |message: &Arc<Message>| match &**message {
            Message::System(text) => format!("system: {text}"),
            Message::User(parts) => {
                let part = |part: &Part| match part {
                    Part::Text(text) => text.clone(),
                    Part::Image { .. } => "[image]".into(),
                    Part::Document { title, .. } => format!("[document {title:?}]"),
                };
                format!("user: {}", parts.iter().map(part).collect::<Vec<_>>().join("|"))
            }
            Message::Assistant { text, tool_calls, .. } => {
                let calls: Vec<String> =
                    tool_calls.iter().map(|c| format!("{}{}", c.name, c.arguments)).collect();
                format!("assistant: {text}{}", calls.join(" "))
            }
            Message::Tool { call_id, content, .. } => format!("tool {call_id}: {content}"),
        };
        transcript.messages(vision, u64::MAX).iter().map(one).collect()
    }

    const CALLS: (&str, &str) = (
        "assistant.message",
        r#"{"messageId":"m","content":"","toolRequests":[{"toolCallId":"a","name":"view","arguments":{"z":1,"a":2}},{"toolCallId":"b","name":"bash"}]}"#,
    );

    #[test]
    fn results_follow_their_calls_in_the_order_of_the_calls() {
        let transcript = transcript(&[
            ("user.message", r#"{"content":"hi","transformedContent":"<date> hi"}"#),
            CALLS,
            ("tool.execution_complete", r#"{"toolCallId":"b","success":false,"error":{"message":"no"}}"#),
            ("tool.execution_complete", r#"{"toolCallId":"a","success":true,"result":{"content":"one"}}"#),
            ("assistant.message", r#"{"messageId":"n","content":"done"}"#),
        ]);
        let expected = [
            "user: <date> hi",
            r#"assistant: view{"z":1,"a":2} bash{}"#,
            "tool a: one",
            "tool b: no",
            "assistant: done",
        ];
        assert_eq!(shown(&transcript, true), expected);
    }

    #[test]
    fn dangling_calls_are_closed() {
        let transcript = transcript(&[
            ("user.message", r#"{"content":"hi"}"#),
            CALLS,
            ("user.message", r#"{"content":"again"}"#),
        ]);
        let text = shown(&transcript, true);
        assert_eq!(
            text[2..],
            [format!("tool a: {INTERRUPTED}"), format!("tool b: {INTERRUPTED}"), "user: again".into()]
        );
    }

    #[test]
    fn images_are_shown_to_models_that_see() {
        let transcript = transcript(&[
            (
                "user.message",
                r#"{"content":"look","attachments":[{"type":"blob","data":"AAAA","mimeType":"image/png","displayName":"p.png"}]}"#,
            ),
            CALLS,
            (
                "tool.execution_complete",
                r#"{"toolCallId":"a","success":true,"result":{"content":"seen","binaryResultsForLlm":[{"type":"image","data":"AAAA","mimeType":"image/png","description":"Image file at path /p"}]}}"#,
            ),
        ]);
        assert_eq!(shown(&transcript, true)[0], "user: look|p.png|[image]");
        assert_eq!(shown(&transcript, true).last().unwrap(), "user: Image file at path /p|[image]");
        assert_eq!(shown(&transcript, false)[0], "user: look|p.png");
        assert_eq!(shown(&transcript, false).len(), 4);
    }

    #[test]
    fn what_was_cancelled_before_the_model_heard_it_is_left_out() {
        let id = "0190c2f0-0000-7000-8000-00000000000";
        let transcript = transcript(&[
            (
                "user.message",
                &format!(r#"{{"content":"heard","transformedContent":"heard","messageId":"{id}1"}}"#),
            ),
            (
                "baton.turn_settled",
                &format!(r#"{{"promptIds":["{id}1"],"outcome":"cancelled","reason":""}}"#),
            ),
            ("user.message", &format!(r#"{{"content":"unheard","messageId":"{id}2"}}"#)),
            (
                "baton.turn_settled",
                &format!(r#"{{"promptIds":["{id}2"],"outcome":"cancelled","reason":""}}"#),
            ),
        ]);
        assert_eq!(shown(&transcript, true), ["user: heard"]);
    }

    #[test]
    fn a_summary_stands_for_what_was_said_before_it_was_begun() {
        let said = |text: &str, n: u8| {
            let id = format!("0190c2f0-0000-7000-8000-00000000000{n}");
            format!(r#"{{"content":"{text}","transformedContent":"<date> {text}","messageId":"{id}"}}"#)
        };
        let complete = |ok: bool| format!(r#"{{"success":{ok},"summaryContent":"in short"}}"#);
        let (one, two, three) = (said("one", 1), said("two", 2), said("three", 3));
        let events = [
            ("user.message", one.as_str()),
            ("assistant.message", r#"{"messageId":"m","content":"first answer"}"#),
            ("user.message", two.as_str()),
            ("session.compaction_start", "{}"),
            ("assistant.message", r#"{"messageId":"n","content":"second answer"}"#),
        ];
        let with = |more: &[(&str, &str)]| shown(&transcript(&[&events[..], more].concat()), true);
        assert_eq!(
            with(&[("session.compaction_complete", &complete(false))]).len(),
            4,
            "it failed: all stays"
        );
        let short = with(&[("session.compaction_complete", &complete(true))]);
        assert_eq!(short.len(), 2, "{short:?}");
        for part in ["<user_message>\none\n", "<user_message>\ntwo\n", "<summary>\nin short\n</summary>"] {
            assert!(short[0].contains(part), "{part}: {}", short[0]);
        }
        assert_eq!(short[1], "assistant: second answer");
        let again = with(&[
            ("session.compaction_complete", &complete(true)),
            ("user.message", three.as_str()),
            ("session.compaction_start", "{}"),
            ("session.compaction_complete", &complete(true)),
        ]);
        assert_eq!(again.len(), 1);
        assert!(again[0].contains("one") && again[0].contains("three"), "no prompt is lost: {}", again[0]);
    }

    #[test]
    fn a_long_conversation_starts_late_at_something_a_user_said() {
        let long = "word ".repeat(2_000);
        let transcript = transcript(&[
            ("user.message", &format!(r#"{{"content":"{long}"}}"#)),
            ("assistant.message", r#"{"messageId":"m","content":"first answer"}"#),
            ("user.message", r#"{"content":"second"}"#),
            ("assistant.message", r#"{"messageId":"n","content":"second answer"}"#),
        ]);
        let text = |budget| transcript.messages(true, budget).len();
        assert_eq!((text(u64::MAX), text(200), text(1)), (4, 2, 2));
    }
}
