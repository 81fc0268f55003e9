//! How full the model's context is, and what fills it.

use baton_agent::blocking;
use baton_agent::prompt::instructions;
use baton_protocol::SessionId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::rpc::errors;
use crate::work::{self, Window};

/// How many messages are named when nobody says how many.
const HEAVIEST: usize = 10;
/// How much of a message its label shows.
const LABEL: usize = 50;

impl Call<'_> {
    /// Answers from what the model would be given right now; with `none` where that is not ours to know.
    fn weighed(
        &self,
        session: &SessionId,
        none: Value,
        tell: impl FnOnce(Window) -> Value + Send + 'static,
    ) -> Handling {
        let (handle, method) = (self.attached(session)?, self.method.to_owned());
        self.later(async move {
            let bench = handle.borrow().await.map_err(|failure| errors::of(&method, &failure))?;
            let window =
                work::window(&bench).await.map_err(|error| errors::failed(&method, error.message))?;
            Ok(window.map_or(none, tell))
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContextInfo {
    session_id: SessionId,
    prompt_token_limit: Option<u64>,
    output_token_limit: Option<u64>,
    selected_model: Option<String>,
}

/// The parts of the context and their weight.
pub(super) fn context_info(call: &Call<'_>) -> Handling {
    let params: ContextInfo = call.parse()?;
    call.weighed(&params.session_id, json!({ "contextInfo": null }), move |window| {
        let prompt = params.prompt_token_limit.filter(|limit| *limit > 0).unwrap_or(window.limit);
        let output = params.output_token_limit.unwrap_or(0);
        let info = json!({
            "modelName": params.selected_model.as_deref().unwrap_or(&window.model),
            "systemTokens": window.system,
            "conversationTokens": window.message_tokens(),
            "toolDefinitionsTokens": window.tool_tokens(),
            "mcpToolsTokens": 0,
            "totalTokens": window.total(),
            "promptTokenLimit": prompt,
            "compactionThreshold": window.compaction_at.min(prompt),
            "limit": prompt.saturating_add(output),
            "bufferTokens": output,
        });
        json!({ "contextInfo": info })
    })
}

/// Who fills the context: the system prompt, each tool, the messages.
pub(super) fn attribution(call: &Call<'_>) -> Handling {
    let session = call.session()?.id;
    call.weighed(&session, json!({ "contextAttribution": null }), |window| {
        let tools = window.tool_tokens();
        let mut entries = vec![
            json!({ "kind": "system", "id": "systemPrompt", "label": "System prompt", "tokens": window.system }),
            json!({ "kind": "system", "id": "toolDefinitions", "label": "Tool definitions", "tokens": tools }),
        ];
        entries.extend(window.tools.iter().map(|(name, tokens)| {
            json!({
                "kind": "toolDefinition",
                "id": format!("toolDefinition:{name}"),
                "label": name,
                "tokens": tokens,
                "parentId": "toolDefinitions",
            })
        }));
        let categories = json!({
            "systemPrompt": window.system,
            "customInstructions": 0,
            "systemTools": tools,
            "mcpTools": 0,
            "messages": window.message_tokens(),
            "freeSpace": window.limit.saturating_sub(window.total()),
            "buffer": 0,
        });
        let attribution = json!({
            "totalTokens": window.total(),
            "modelId": window.model,
            "modelSource": "",
            "promptTokenLimit": window.limit,
            "limit": window.limit,
            "bufferTokens": 0,
            "compactionThreshold": window.compaction_at,
            "compactions": { "count": window.summaries },
            "categories": categories,
            "entries": entries,
        });
        json!({ "contextAttribution": attribution })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Heaviest {
    session_id: SessionId,
    limit: Option<usize>,
}

pub(super) fn heaviest_messages(call: &Call<'_>) -> Handling {
    let params: Heaviest = call.parse()?;
    let none = json!({ "messages": [], "totalTokens": 0 });
    call.weighed(&params.session_id, none, move |window| {
        let mut messages: Vec<_> = window.messages.iter().enumerate().collect();
        messages.sort_by_key(|(_, message)| std::cmp::Reverse(message.tokens));
        let described = messages.into_iter().take(params.limit.unwrap_or(HEAVIEST)).map(|(at, message)| {
            let begin: String = message.text.chars().take(LABEL).collect();
            let more = if message.text.chars().count() > LABEL { "…" } else { "" };
            json!({
                "id": format!("message-{at}"),
                "label": format!("{}: {begin}{more}", message.role),
                "role": message.role,
                "tokens": message.tokens,
            })
        });
        json!({ "messages": described.collect::<Vec<_>>(), "totalTokens": window.total() })
    })
}

pub(super) fn recompute(call: &Call<'_>) -> Handling {
    let session = call.session()?.id;
    let none = json!({ "messagesTokenCount": 0, "systemTokenCount": 0, "totalTokens": 0 });
    call.weighed(&session, none, |window| {
        let (messages, system) = (window.message_tokens(), window.system);
        json!({
            "messagesTokenCount": messages,
            "systemTokenCount": system,
            "totalTokens": messages + system,
        })
    })
}

/// The files of instructions that the model is told of.
pub(super) fn instruction_sources(call: &Call<'_>) -> Handling {
    let (handle, method) = (call.session()?, call.method.to_owned());
    call.later(async move {
        let wanted = |view: crate::session::View<'_>| {
            let context = view.session.durable.facts.context.clone();
            let further = view.settings.instruction_directories.clone();
            (!view.settings.skip_custom_instructions).then_some((context, further))
        };
        let wanted = handle.look(wanted).await.map_err(|failure| errors::of(&method, &failure))?;
        let Some((context, further)) = wanted else { return Ok(json!({ "sources": [] })) };
        let find = move || {
            let root = context.git_root.as_deref().map(AsRef::as_ref);
            let found = instructions::find(context.cwd.as_ref(), root, &further);
            found.instructions.iter().map(|found| source(found, &context.cwd)).collect::<Vec<_>>()
        };
        let sources = blocking::run(find).await.map_err(|error| errors::failed(&method, error))?;
        Ok(json!({ "sources": sources }))
    })
}

fn source(found: &instructions::Instruction, cwd: &str) -> Value {
    let name = found.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let scoped = name.ends_with(".instructions.md");
    let inside = found.path.parent().is_some_and(|parent| parent.as_os_str() == cwd);
    json!({
        "id": found.path,
        "label": name,
        "sourcePath": found.path,
        "content": found.text,
        "type": if scoped { "vscode" } else { "repo" },
        "location": if inside { "working-directory" } else { "repository" },
    })
}
