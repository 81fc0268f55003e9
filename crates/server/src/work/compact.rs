//! Summarising a conversation.

use std::sync::Arc;
use std::time::Instant;

use baton_model::retry::ask_with_retries;
use baton_model::{Answer, Message, Part, Request, estimate};
use baton_protocol::event::{
    CompactionComplete, CompactionStart, CompactionTokens, CompactionTrigger, UsageInfo,
};
use serde::Deserialize;
use tokio::sync::oneshot;

use super::{Bench, ask, window};
use crate::checkpoints::{Checkpoint, Checkpoints};
use crate::models::Chosen;
use crate::session::{Compact, Failure, Handle, Mail};

/// How many messages a conversation has at least before it is summarised by itself: a prompt, an answer, a prompt.
const WORTH_IT: u64 = 3;

/// What the model is asked for. It begins as recordings of the official runtime do, which is how they are matched.
const REQUEST: &str = "Please create a detailed summary of the conversation so far. The history is being compacted \
to make room: from here on, you will have your summary instead of it. Leave out nothing that you need to go on. Write \
these parts, each in its tags:
<overview> what the user wants, and how you go about it, in a few sentences </overview>
<history> what was asked and what was done about it, step by step </history>
<work_done> files, commands, results: what is finished and what is not </work_done>
<technical_details> decisions, findings, things that did not work and why </technical_details>
<important_files> the files that matter, each with why </important_files>
<next_steps> what is to be done next, if anything </next_steps>
<checkpoint_title> all of it in two to six words </checkpoint_title>
Call no tools, and write nothing else.";

/// Begins a summary beside the turn, where the conversation fills more of the window than was set.
pub(super) fn compact_if_due(bench: &Bench, usage: &UsageInfo) {
    let threshold = bench.settings.compaction_threshold;
    // The first message is the system's.
    let worth_it = usage.messages_length.saturating_sub(1) >= WORTH_IT;
    if bench.agent.is_some() || !worth_it || !threshold.is_reached(usage.current_tokens, usage.token_limit) {
        return;
    }
    let start = CompactionStart {
        system_tokens: usage.system_tokens,
        conversation_tokens: usage.conversation_tokens,
        tool_definitions_tokens: usage.tool_definitions_tokens,
        current_tokens: Some(usage.current_tokens),
        token_limit: Some(usage.token_limit),
        model: None,
        trigger: Some(CompactionTrigger::Threshold),
    };
    // Nobody waits for it; one that is being written already is enough.
    let (done, _) = oneshot::channel();
    drop(bench.mailbox.send(Mail::Compact(Box::new(Compact { start, instructions: None, done }))));
}

/// What somebody wants of a summary.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Wish {
    pub(crate) custom_instructions: Option<String>,
    pub(crate) token_limit: Option<u64>,
    pub(crate) trigger: Option<CompactionTrigger>,
}

/// Has the model summarise the conversation now, and waits for that. None if there is nothing to summarise.
pub(crate) async fn compact_now(handle: &Handle, wish: Wish) -> Result<Option<CompactionComplete>, Failure> {
    let bench = handle.borrow().await?;
    let window = window(&bench).await.map_err(|error| Failure::Refused(error.message))?;
    let Some(window) = window.filter(|window| !window.messages.is_empty()) else { return Ok(None) };
    let start = CompactionStart {
        system_tokens: Some(window.system),
        conversation_tokens: Some(window.message_tokens()),
        tool_definitions_tokens: Some(window.tool_tokens()),
        current_tokens: Some(window.total()),
        token_limit: Some(wish.token_limit.unwrap_or(window.limit)),
        model: Some(window.model),
        trigger: wish.trigger,
    };
    let (done, finished) = oneshot::channel();
    let compact = Compact { start, instructions: wish.custom_instructions, done };
    handle.send(Mail::Compact(Box::new(compact)))?;
    let complete = finished.await.unwrap_or_else(|_| Err(Failure::NotFound(handle.id.clone())))?;
    if !complete.success {
        let why = complete.error.unwrap_or_else(|| "the conversation could not be summarised".into());
        return Err(Failure::Refused(why));
    }
    Ok(Some(complete))
}

/// Writes a summary beside the session, and reports back to it.
pub(crate) fn compact(bench: Bench, start: CompactionStart, instructions: Option<String>) {
    let tasks = bench.server.tasks.clone();
    tasks.spawn(async move {
        let written = summarise(&bench, &start, instructions.as_deref());
        let complete = tokio::select! {
            () = bench.cancel.cancelled() => return,
            written = written => written,
        };
        let failed = |error| CompactionComplete { error: Some(error), ..CompactionComplete::default() };
        let complete = complete.unwrap_or_else(failed);
        let complete =
            CompactionComplete { trigger: start.trigger, custom_instructions: instructions, ..complete };
        drop(bench.mailbox.send(Mail::Compacted(Box::new(complete))));
    });
}

async fn summarise(
    bench: &Bench,
    start: &CompactionStart,
    instructions: Option<&str>,
) -> Result<CompactionComplete, String> {
    let chosen = bench.server.models.choose(&ask::asker(bench)).await.map_err(|error| error.message)?;
    let mut request = Request { stream: false, ..ask::request(bench, &chosen).await };
    let messages = request.messages.len().saturating_sub(1);
    let mut wanted = REQUEST.to_owned();
    if let Some(instructions) = instructions {
        wanted = format!("{wanted}\n\nThe user adds: {instructions}");
    }
    request.messages.push(Arc::new(Message::User(vec![Part::Text(wanted)])));
    let begun = Instant::now();
    let retries = &bench.server.models.retries;
    let answer = ask_with_retries(retries, &*chosen.model, &request, &mut |_| {}, |_, _, _| {}).await;
    let answer = answer.map_err(|error| error.message)?;
    if answer.text.trim().is_empty() {
        return Err("the model did not write a summary".into());
    }
    let checkpoint = keep(bench, &answer.text).await;
    let before = start.conversation_tokens.unwrap_or_default();
    let short = bench.conversation.transcript().summarised(&answer.text).messages(chosen.vision, u64::MAX);
    let after = short.iter().map(|message| estimate::message(message)).sum::<u64>();
    Ok(CompactionComplete {
        success: true,
        pre_compaction_tokens: Some(before),
        post_compaction_tokens: Some(after),
        pre_compaction_messages_length: Some(messages as u64),
        messages_removed: Some(messages.saturating_sub(short.len()) as u64),
        tokens_removed: Some(before.cast_signed().saturating_sub(after.cast_signed())),
        system_tokens: start.system_tokens,
        conversation_tokens: Some(after),
        tool_definitions_tokens: start.tool_definitions_tokens,
        token_limit: start.token_limit.or(Some(chosen.token_limit)),
        checkpoint_number: checkpoint.as_ref().map(|(checkpoint, _)| checkpoint.number),
        checkpoint_path: checkpoint.map(|(_, path)| path),
        compaction_tokens_used: Some(cost(&answer, &chosen, &request, begun)),
        summary_content: Some(answer.text),
        ..CompactionComplete::default()
    })
}

/// Keeps the summary as a checkpoint. The conversation does not need it, so a disk that is full costs no more than that.
async fn keep(bench: &Bench, summary: &str) -> Option<(Checkpoint, String)> {
    let (directory, summary) = (bench.tools.directory().to_owned(), summary.to_owned());
    let written = tokio::task::spawn_blocking(move || {
        let (checkpoints, title) = (Checkpoints::of(&directory), title_of(&summary));
        let added = checkpoints.add(&title, &summary)?;
        let path = checkpoints.path(&added).to_string_lossy().into_owned();
        Ok::<_, std::io::Error>((added, path))
    });
    let written = written.await.ok()?;
    written.inspect_err(|error| tracing::warn!(%error, "a checkpoint could not be kept")).ok()
}

fn title_of(summary: &str) -> String {
    let title =
        summary.split_once("<checkpoint_title>").and_then(|(_, rest)| rest.split_once("</checkpoint_title>"));
    title.map_or_else(|| "Summary".to_owned(), |(title, _)| title.trim().to_owned())
}

fn cost(answer: &Answer, chosen: &Chosen, request: &Request, begun: Instant) -> CompactionTokens {
    let usage = answer.usage.unwrap_or_default();
    let sent = || request.messages.iter().map(|message| estimate::message(message)).sum::<u64>();
    CompactionTokens {
        input_tokens: if usage.input > 0 { usage.input } else { sent() },
        output_tokens: if usage.output > 0 { usage.output } else { estimate::text(&answer.text) },
        cache_read_tokens: usage.cache_read,
        cache_write_tokens: usage.cache_write,
        duration: begun.elapsed().as_millis() as u64,
        model: Some(answer.model.clone().unwrap_or_else(|| chosen.wire_name.clone())),
    }
}
