//! Compaction: summaries that replace the older conversation.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use baton_ask::CompactionOptions;
use baton_files::checkpoints::Checkpoint;
use baton_model::retry::ask_with_retries;
use baton_model::{Message, ModelResponse, Part, Request};
use baton_protocol::event::{
    CompactionComplete, CompactionStart, CompactionTokens, CompactionTrigger, UsageInfo,
};
use baton_providers::ChosenModel;
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::model_call::{self, estimate_messages, token_counts};
use super::{WorkScope, window};
use crate::session::{ActorMessage, Compact, Failure, panics};

/// Minimum number of messages for an automatic compaction: a prompt, a response, a prompt.
const MIN_MESSAGES: u64 = 3;

/// Prompt for a summary. It begins like the one in recordings of the official runtime, so that those match.
const PROMPT: &str = "Please create a detailed summary of the conversation so far. The history is being compacted \
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

/// Starts a compaction beside the turn, if the conversation fills more of the context window than the threshold.
pub(super) fn compact_if_due(scope: &WorkScope, usage: &UsageInfo) {
    let threshold = scope.settings.compaction_threshold;
    // The first message is the system prompt.
    let is_long_enough = usage.messages_length.saturating_sub(1) >= MIN_MESSAGES;
    let is_due = threshold.is_reached(usage.current_tokens, usage.token_limit);
    if scope.agent.is_some() || !is_long_enough || !is_due {
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
    // The result is not awaited; if a compaction is already running, the session ignores this one.
    let (done, _) = oneshot::channel();
    drop(scope.mailbox.send(ActorMessage::Compact(Box::new(Compact { start, instructions: None, done }))));
}

/// Compacts the conversation now, and waits for the result. Returns `None` if there is nothing to summarise.
pub(super) async fn compact_now(
    scope: &WorkScope,
    options: CompactionOptions,
) -> Result<Option<CompactionComplete>, Failure> {
    let handle = scope.handle();
    let window = window::measure(scope).await.map_err(|error| Failure::Refused(error.message))?;
    let Some(window) = window.filter(|window| !window.messages.is_empty()) else { return Ok(None) };
    let start = CompactionStart {
        system_tokens: Some(window.system),
        conversation_tokens: Some(window.message_tokens()),
        tool_definitions_tokens: Some(window.tool_tokens()),
        current_tokens: Some(window.total()),
        token_limit: Some(options.token_limit.unwrap_or(window.limit)),
        model: Some(window.model),
        trigger: options.trigger,
    };
    let (done, finished) = oneshot::channel();
    let compact = Compact { start, instructions: options.custom_instructions, done };
    handle.send(ActorMessage::Compact(Box::new(compact)))?;
    let complete = finished.await.unwrap_or_else(|_| Err(Failure::NotFound(handle.id.clone())))?;
    if !complete.success {
        let error = complete.error.unwrap_or_else(|| "compaction failed".into());
        return Err(Failure::Refused(error));
    }
    Ok(Some(complete))
}

/// Starts a compaction in a tracked task and the current span; the result goes to the session's mailbox.
pub(crate) fn compact(scope: WorkScope, start: CompactionStart, instructions: Option<String>) {
    let tasks = scope.runtime.tasks.clone();
    let task = async move {
        let written = AssertUnwindSafe(summarise(&scope, &start, instructions.as_deref())).catch_unwind();
        let complete = tokio::select! {
            () = scope.cancel.cancelled() => return,
            written = written => written,
        };
        let complete = complete.unwrap_or_else(|panic| {
            tracing::error!(panic = panics::text(&*panic), "compaction panicked; it counts as failed");
            Err("internal error; see the server log".into())
        });
        let failed = |error| CompactionComplete { error: Some(error), ..CompactionComplete::default() };
        let complete = complete.unwrap_or_else(failed);
        let complete =
            CompactionComplete { trigger: start.trigger, custom_instructions: instructions, ..complete };
        drop(scope.mailbox.send(ActorMessage::Compacted(Box::new(complete))));
    };
    tasks.spawn(task.in_current_span());
}

async fn summarise(
    scope: &WorkScope,
    start: &CompactionStart,
    instructions: Option<&str>,
) -> Result<CompactionComplete, String> {
    let chosen =
        scope.runtime.models.choose(&model_call::caller(scope)).await.map_err(|error| error.message)?;
    let mut request = Request { stream: false, ..model_call::request(scope, &chosen).await };
    let messages = request.messages.len().saturating_sub(1);
    let mut prompt = PROMPT.to_owned();
    if let Some(instructions) = instructions {
        prompt = format!("{prompt}\n\nThe user adds: {instructions}");
    }
    request.messages.push(Arc::new(Message::User(vec![Part::Text(prompt)])));
    let begun = Instant::now();
    let retries = &scope.runtime.models.retries;
    let answer = ask_with_retries(retries, &*chosen.model, &request, &mut |_| {}, |_, _, _| {}).await;
    let answer = answer.map_err(|error| error.message)?;
    if answer.text.trim().is_empty() {
        return Err("the model did not write a summary".into());
    }
    let checkpoint = save_checkpoint(scope, &answer.text).await;
    let before = start.conversation_tokens.unwrap_or_default();
    let short = scope.conversation.transcript().summarised(&answer.text).messages(chosen.vision, u64::MAX);
    let after = estimate_messages(&short);
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
        compaction_tokens_used: Some(tokens_used(&answer, &chosen, &request, begun)),
        summary_content: Some(answer.text),
        ..CompactionComplete::default()
    })
}

/// Saves the summary as a checkpoint. The conversation does not depend on it, so a failure does not fail the compaction.
async fn save_checkpoint(scope: &WorkScope, summary: &str) -> Option<(Checkpoint, String)> {
    let (checkpoints, summary) = (scope.tools.files().checkpoints(), summary.to_owned());
    let written = tokio::task::spawn_blocking(move || {
        let added = checkpoints.add(&title_of(&summary), &summary)?;
        let path = checkpoints.path(&added).to_string_lossy().into_owned();
        Ok::<_, std::io::Error>((added, path))
    });
    let written = written.await.ok()?;
    written.inspect_err(|error| tracing::warn!(%error, "failed to save a checkpoint")).ok()
}

fn title_of(summary: &str) -> String {
    let title =
        summary.split_once("<checkpoint_title>").and_then(|(_, rest)| rest.split_once("</checkpoint_title>"));
    title.map_or_else(|| "Summary".to_owned(), |(title, _)| title.trim().to_owned())
}

fn tokens_used(
    answer: &ModelResponse,
    chosen: &ChosenModel,
    request: &Request,
    begun: Instant,
) -> CompactionTokens {
    let tokens = token_counts(answer, || estimate_messages(&request.messages), begun.elapsed());
    CompactionTokens {
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cache_read_tokens: tokens.cache_read,
        cache_write_tokens: tokens.cache_write,
        duration: tokens.duration_ms,
        model: Some(answer.model.clone().unwrap_or_else(|| chosen.wire_name.clone())),
    }
}
