//! Preparation of prompts: hooks, date, attachments, and the system prompt.

use std::path::{Path, PathBuf};

use baton_agent::prompt::instructions::{self, Instruction};
use baton_agent::prompt::system::{PromptContext, SystemPrompt};
use baton_agent::prompt::user;
use baton_core::PreparedPrompt;
use baton_disk::blocking;
use baton_protocol::agent::SessionLimits;
use baton_protocol::event::AgentMode;
use baton_protocol::{PromptId, Timestamp};
use serde_json::json;

use super::{WorkScope, hooks, skills};

/// Prepares a prompt for the model or engine.
pub(super) async fn prepare(scope: &WorkScope, id: PromptId, tools_gone: &[String]) -> PreparedPrompt {
    let Some(accepted) = scope.session.durable.inbox.iter().find(|p| p.id == id).cloned() else {
        return PreparedPrompt::default();
    };
    let mut context = Vec::new();
    let mut text = accepted.prompt.text.clone();
    if let Some(output) = hooks::invoke(scope, "userPromptSubmitted", json!({ "prompt": text })).await {
        text = output.text("modifiedPrompt").unwrap_or(text);
        context.extend(
            output.text("additionalContext").map(|advice| ("userPromptSubmitted".to_owned(), advice)),
        );
    }
    let engine =
        crate::engines::engine_of(&scope.runtime, &scope.settings, &scope.session).map(str::to_owned);
    let transformed = match &engine {
        // Engine programs add the date themselves, and have their own tools.
        Some(_) => compose(scope, &text, &accepted.prompt, None, &[]).await,
        None => compose(scope, &text, &accepted.prompt, Some(Timestamp::now()), tools_gone).await,
    };
    let input = json!({ "prompt": text, "transformedPrompt": transformed });
    let transformed = match hooks::invoke(scope, "userPromptTransformed", input).await {
        Some(output) => output.text("modifiedTransformedPrompt").unwrap_or(transformed),
        None => transformed,
    };
    if scope.session.durable.facts.title.is_none() {
        let source = if scope.session.durable.seq > 2 { "resume" } else { "new" };
        let input = json!({ "source": source, "initialPrompt": text });
        let output = hooks::invoke(scope, "sessionStart", input).await;
        let advice = output.and_then(|output| output.text("additionalContext"));
        context.extend(advice.map(|advice| ("sessionStart".to_owned(), advice)));
    }
    let content = accepted.prompt.display.clone().unwrap_or(text);
    if engine.is_some() {
        let advice = context.iter().map(|(_, advice)| advice.as_str());
        let transformed =
            std::iter::once(transformed.as_str()).chain(advice).collect::<Vec<_>>().join("\n\n");
        return PreparedPrompt {
            content,
            transformed: Some(transformed),
            context,
            engine,
            ..PreparedPrompt::default()
        };
    }
    let mode = accepted.prompt.agent_mode.unwrap_or_else(|| scope.session.durable.mode());
    let system = system_text(scope, mode).await;
    let changed = scope.conversation.system.as_deref() != Some(system.as_str());
    PreparedPrompt {
        content,
        transformed: Some(transformed),
        context,
        reminders: limits_status(&scope.settings.limits)
            .map(|text| ("session_limits".to_owned(), text))
            .into_iter()
            .collect(),
        system: changed.then_some(system),
        engine: None,
        trust: scope.tools.mcp().trust_question(&scope.settings, &cwd(scope)).await.map(Box::new),
    }
}

/// Returns the reminder of the session's limits. Credits are counted by the provider that bills them, so the remaining
/// amount is always the configured one.
fn limits_status(limits: &SessionLimits) -> Option<String> {
    let credits = limits.max_ai_credits?;
    Some(format!(
        "<session_limits_status>\nRemaining session limits: {credits} AI credits. Later session_limits_status messages \
         supersede earlier ones. Be frugal; avoid optional exploration and unnecessary tool calls.\n\
         </session_limits_status>"
    ))
}

/// Composes the text for the model: prompt, attachments, date, and notes about tools that were removed.
async fn compose(
    scope: &WorkScope,
    text: &str,
    prompt: &baton_protocol::event::Prompt,
    now: Option<Timestamp>,
    tools_gone: &[String],
) -> String {
    let tagged = if user::has_files(&prompt.attachments) {
        let (attachments, cwd) = (prompt.attachments.clone(), cwd(scope));
        let tagged = blocking::run(move || user::tagged_files(&attachments, &cwd)).await;
        tagged.unwrap_or_else(|error| Some(format!("<tagged_files>\n({error})\n</tagged_files>")))
    } else {
        None
    };
    user::compose(text, &prompt.attachments, tagged, now, tools_gone)
}

/// Returns the working directory of the session.
pub(super) fn cwd(scope: &WorkScope) -> PathBuf {
    PathBuf::from(&scope.session.durable.facts.context.cwd)
}

/// Returns the system prompt for a mode, with the sections that a client rewrites.
pub(super) async fn system_text(scope: &WorkScope, mode: AgentMode) -> String {
    let tools = scope.tools_in_mode(mode).into_iter().map(|tool| tool.name).collect();
    let prompt_context = PromptContext { mode, ..prompt_context(scope, tools).await };
    let mut prompt = SystemPrompt::new(&prompt_context, scope.settings.system_message.as_ref());
    let sections = prompt.to_transform();
    if !sections.is_empty() {
        prompt.transformed(hooks::transform(scope, sections).await);
    }
    prompt.render()
}

/// Finds instruction files. Refused ones are logged, so that users can find out why they have no effect.
async fn instructions_in(
    scope: &WorkScope,
    find: impl FnOnce() -> instructions::FoundInstructions + Send + 'static,
) -> Vec<Instruction> {
    let session = &scope.session.id;
    let found = blocking::run(find).await.unwrap_or_else(|error| {
        tracing::warn!(%session, %error, "failed to read instructions");
        instructions::FoundInstructions::default()
    });
    for instructions::Refused { path, why } in &found.refused {
        tracing::warn!(%session, path = %path.display(), "instructions ignored: {why}");
    }
    found.instructions
}

/// Collects what the system prompt says about the session: directory, tools, instructions, mode.
pub(super) async fn prompt_context(scope: &WorkScope, tools: Vec<String>) -> PromptContext {
    let context = scope.session.durable.facts.context.clone();
    let further = scope.settings.instruction_directories.clone();
    let home = scope.settings.discovers().then(|| scope.runtime.options.home.clone());
    let find = move || {
        let root = context.git_root.as_deref().map(Path::new);
        instructions::find(Path::new(&context.cwd), root, &further, home.as_deref())
    };
    let found =
        if scope.settings.skip_custom_instructions { Vec::new() } else { instructions_in(scope, find).await };
    let facts = &scope.session.durable.facts;
    let agent = match scope.settings.agent_in_charge() {
        None => None,
        Some(agent) => {
            let names = agent.skills.as_deref().unwrap_or_default();
            let known = scope.conversation.system.as_deref();
            Some(skills::with_skills(scope, &agent.prompt, names, known).await)
        }
    };
    PromptContext {
        cwd: facts.context.cwd.clone(),
        git_root: facts.context.git_root.clone(),
        os: std::env::consts::OS.to_owned(),
        tools,
        instructions: found,
        mode: scope.session.durable.mode(),
        session_dir: scope.tools.files().path().display().to_string(),
        agent,
    }
}
