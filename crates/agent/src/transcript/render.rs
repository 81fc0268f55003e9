//! Messages for the model, rendered from the items of a conversation.

use std::sync::Arc;

use baton_core::INTERRUPTED;
use baton_model::{Message, Part, ToolCall, estimate};

use super::item::{Image, Item};

/// Renders the newest items that fit `budget` tokens.
pub(super) fn messages(items: &[Item], vision: bool, budget: u64) -> Vec<Arc<Message>> {
    let rendered: Vec<Vec<Arc<Message>>> = items.iter().map(|item| render(item, vision)).collect();
    let start = first_that_fits(items, &rendered, budget);
    rendered.into_iter().skip(start).flatten().collect()
}

/// Returns the index from which on all items fit the budget, moved on to the next user message: a conversation must not
/// begin with an assistant message.
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
            let message = Message::Assistant {
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
            let images = images.map(|image| Message::User(Image::parts(image)));
            std::iter::once(message).chain(results).chain(images).map(Arc::new).collect()
        }
    }
}

/// Returns the user message that carries a summary. The text around it is that of the official runtime, so that its
/// recordings can be replayed.
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

fn without_images(message: &Message) -> Message {
    match message {
        Message::User(parts) => {
            Message::User(parts.iter().filter(|part| !matches!(part, Part::Image { .. })).cloned().collect())
        }
        other => other.clone(),
    }
}
