//! Items of a conversation, made from events.

use std::sync::Arc;

use baton_model::{Message, Part};
use baton_protocol::attachment::{Attachment, KnownAttachment};
use baton_protocol::event::{AssistantMessage, ShellRun, ToolComplete, UserMessage};
use baton_protocol::tool::BinaryResult;
use baton_protocol::{PromptId, ToolCallId};

#[derive(Debug, Clone)]
pub(super) enum Item {
    /// A user message. `unsent` is the id of a prompt whose text for the model has not been prepared yet, which happens
    /// right before the model call.
    User { message: Arc<Message>, unsent: Option<PromptId>, has_image: bool, prompt: Option<String> },
    /// Replacement of the beginning of the conversation: its prompts as the user wrote them, and a summary.
    Summary { prompts: Vec<String>, summary: String },
    /// An assistant message, with the results of its tool calls.
    Assistant { text: String, opaque: Option<String>, calls: Vec<Call> },
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: ToolCallId,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) result: Option<CallResult>,
}

#[derive(Debug, Clone)]
pub(super) struct CallResult {
    pub(super) content: String,
    pub(super) failed: bool,
    pub(super) images: Vec<Image>,
}

#[derive(Debug, Clone)]
pub(super) struct Image {
    caption: Option<String>,
    mime_type: String,
    data: Arc<str>,
}

impl Item {
    pub(super) fn user(message: &UserMessage) -> Self {
        let text = message.transformed_content.as_ref().unwrap_or(&message.content);
        let mut parts = vec![Part::Text(text.clone())];
        for attachment in &message.attachments {
            let Attachment::Known(KnownAttachment::Blob { data, mime_type, display_name }) = attachment
            else {
                continue;
            };
            let (mime_type, data) = (mime_type.clone(), Arc::from(data.as_str()));
            if mime_type.starts_with("image/") {
                parts.extend(Image { caption: display_name.clone(), mime_type, data }.parts());
            } else if mime_type == "application/pdf" {
                parts.push(Part::Document { mime_type, title: display_name.clone(), data });
            }
        }
        let has_image = parts.iter().any(|part| matches!(part, Part::Image { .. }));
        let unsent = message.message_id.filter(|_| message.transformed_content.is_none());
        let prompt = message.message_id.map(|_| message.content.clone());
        Self::User { message: Arc::new(Message::User(parts)), unsent, has_image, prompt }
    }

    /// Creates a user message that is not a prompt.
    pub(super) fn plain(text: &str) -> Self {
        let message = Arc::new(Message::User(vec![Part::Text(text.to_owned())]));
        Self::User { message, unsent: None, has_image: false, prompt: None }
    }

    /// Creates the message for a command that the user ran.
    pub(super) fn shell_run(run: &ShellRun) -> Self {
        let ShellRun { command, output, exit_code, .. } = run;
        Self::plain(&format!(
            "<user_command exit_code=\"{exit_code}\">\n$ {command}\n{output}\n</user_command>"
        ))
    }

    pub(super) fn assistant(message: &AssistantMessage) -> Self {
        let calls = message.tool_requests.iter().map(|request| Call {
            id: request.tool_call_id.clone(),
            name: request.name.clone(),
            arguments: request
                .arguments
                .as_ref()
                .map_or_else(|| "{}".to_owned(), |json| json.as_str().to_owned()),
            result: None,
        });
        Self::Assistant {
            text: message.content.clone(),
            opaque: message.reasoning_opaque.clone(),
            calls: calls.collect(),
        }
    }
}

impl From<&ToolComplete> for CallResult {
    fn from(complete: &ToolComplete) -> Self {
        let error = complete.error.as_ref().map(|error| error.message.clone());
        let failed = !complete.success;
        let Some(result) = &complete.result else {
            return Self { content: error.unwrap_or_default(), failed, images: Vec::new() };
        };
        let image = |binary: &BinaryResult| Image {
            caption: binary.description.clone(),
            mime_type: binary.mime_type.clone(),
            data: Arc::from(binary.data.as_str()),
        };
        let images = result.binary_results_for_llm.iter().filter(|b| b.mime_type.starts_with("image/"));
        Self { content: result.content.clone(), failed, images: images.map(image).collect() }
    }
}

impl Image {
    pub(super) fn parts(&self) -> Vec<Part> {
        let caption = self.caption.clone().map(Part::Text);
        let picture = Part::Image { mime_type: self.mime_type.clone(), data: Arc::clone(&self.data) };
        caption.into_iter().chain([picture]).collect()
    }
}
