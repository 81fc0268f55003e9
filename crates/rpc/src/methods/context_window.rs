//! Use of the model's context window.

use baton_ask::MeasureContext;
use baton_runtime::work::Window;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled};

/// Number of messages listed if the client sets no limit.
const DEFAULT_HEAVIEST: usize = 10;
/// Characters of a message that its label shows.
const LABEL_LENGTH: usize = 50;

impl Call<'_> {
    /// Answers from the context that the model would be given now; with `unknown` if an engine has it.
    fn measure_context(
        &self,
        unknown: Value,
        encode: impl FnOnce(Window) -> Value + Send + 'static,
    ) -> Handled {
        self.ask_later(&self.session()?, MeasureContext {}, |window| window.map_or(unknown, encode))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContextInfo {
    prompt_token_limit: Option<u64>,
    output_token_limit: Option<u64>,
    selected_model: Option<String>,
}

/// Returns the parts of the context and their sizes.
pub(super) fn context_info(call: &Call<'_>) -> Handled {
    let params: ContextInfo = call.parse()?;
    call.measure_context(json!({ "contextInfo": null }), move |window| {
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

/// Returns how many tokens of the context the system prompt, each tool and the messages take.
pub(super) fn attribution(call: &Call<'_>) -> Handled {
    call.measure_context(json!({ "contextAttribution": null }), |window| {
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
struct Heaviest {
    limit: Option<usize>,
}

pub(super) fn heaviest_messages(call: &Call<'_>) -> Handled {
    let params: Heaviest = call.parse()?;
    let unknown = json!({ "messages": [], "totalTokens": 0 });
    call.measure_context(unknown, move |window| {
        let mut messages: Vec<_> = window.messages.iter().enumerate().collect();
        messages.sort_by_key(|(_, message)| std::cmp::Reverse(message.tokens));
        let described =
            messages.into_iter().take(params.limit.unwrap_or(DEFAULT_HEAVIEST)).map(|(at, message)| {
                let start: String = message.text.chars().take(LABEL_LENGTH).collect();
                let more = if message.text.chars().count() > LABEL_LENGTH { "…" } else { "" };
                json!({
                    "id": format!("message-{at}"),
                    "label": format!("{}: {start}{more}", message.role),
                    "role": message.role,
                    "tokens": message.tokens,
                })
            });
        json!({ "messages": described.collect::<Vec<_>>(), "totalTokens": window.total() })
    })
}

pub(super) fn recompute(call: &Call<'_>) -> Handled {
    let unknown = json!({ "messagesTokenCount": 0, "systemTokenCount": 0, "totalTokens": 0 });
    call.measure_context(unknown, |window| {
        let (messages, system) = (window.message_tokens(), window.system);
        json!({
            "messagesTokenCount": messages,
            "systemTokenCount": system,
            "totalTokens": messages + system,
        })
    })
}
