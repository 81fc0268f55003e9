//! A prompt on its way to the model: hooks, date, attachments, and the system text that goes with it.

use std::path::{Path, PathBuf};

use baton_agent::blocking;
use baton_agent::prompt::instructions::{self, Instruction};
use baton_agent::prompt::system::{Surroundings, SystemPrompt};
use baton_agent::prompt::user;
use baton_core::PreparedPrompt;
use baton_protocol::agent::SessionLimits;
use baton_protocol::event::AgentMode;
use baton_protocol::{PromptId, Timestamp};
use serde_json::json;

use super::{Bench, hooks};

/// Makes a prompt ready for the model.
pub(super) async fn prepare(bench: &Bench, id: PromptId, tools_gone: &[String]) -> PreparedPrompt {
    let Some(accepted) = bench.session.durable.inbox.iter().find(|p| p.id == id).cloned() else {
        return PreparedPrompt::default();
    };
    let mut context = Vec::new();
    let mut text = accepted.prompt.text.clone();
    if let Some(output) = hooks::invoke(bench, "userPromptSubmitted", json!({ "prompt": text })).await {
        text = output.text("modifiedPrompt").unwrap_or(text);
        context.extend(
            output.text("additionalContext").map(|advice| ("userPromptSubmitted".to_owned(), advice)),
        );
    }
    let engine = crate::engines::named(&bench.server, &bench.settings, &bench.session).map(str::to_owned);
    let transformed = match &engine {
        // A program has a date and tools of its own.
        Some(_) => compose(bench, &text, &accepted.prompt, None, &[]).await,
        None => compose(bench, &text, &accepted.prompt, Some(Timestamp::now()), tools_gone).await,
    };
    let input = json!({ "prompt": text, "transformedPrompt": transformed });
    let transformed = match hooks::invoke(bench, "userPromptTransformed", input).await {
        Some(output) => output.text("modifiedTransformedPrompt").unwrap_or(transformed),
        None => transformed,
    };
    if bench.session.durable.facts.title.is_none() {
        let source = if bench.session.durable.seq > 2 { "resume" } else { "new" };
        let input = json!({ "source": source, "initialPrompt": text });
        let output = hooks::invoke(bench, "sessionStart", input).await;
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
    let mode = accepted.prompt.agent_mode.unwrap_or_else(|| bench.session.durable.mode());
    let system = system_text(bench, mode).await;
    let changed = bench.conversation.system.as_deref() != Some(system.as_str());
    PreparedPrompt {
        content,
        transformed: Some(transformed),
        context,
        reminders: limits_status(&bench.settings.limits)
            .map(|text| ("session_limits".to_owned(), text))
            .into_iter()
            .collect(),
        system: changed.then_some(system),
        engine: None,
    }
}

/// What the model is told of the session's limits. Credits are counted by whoever bills them, not here: what is left is
/// what was given.
fn limits_status(limits: &SessionLimits) -> Option<String> {
    let credits = limits.max_ai_credits?;
    Some(format!(
        "<session_limits_status>\nRemaining session limits: {credits} AI credits. Later session_limits_status messages \
         supersede earlier ones. Be frugal; avoid optional exploration and unnecessary tool calls.\n\
         </session_limits_status>"
    ))
}

async fn compose(
    bench: &Bench,
    text: &str,
    prompt: &baton_protocol::event::Prompt,
    now: Option<Timestamp>,
    tools_gone: &[String],
) -> String {
    let tagged = if user::has_files(&prompt.attachments) {
        let (attachments, cwd) = (prompt.attachments.clone(), cwd(bench));
        let tagged = blocking::run(move || user::tagged_files(&attachments, &cwd)).await;
        tagged.unwrap_or_else(|error| Some(format!("<tagged_files>\n({error})\n</tagged_files>")))
    } else {
        None
    };
    user::compose(text, &prompt.attachments, tagged, now, tools_gone)
}

pub(super) fn cwd(bench: &Bench) -> PathBuf {
    PathBuf::from(&bench.session.durable.facts.context.cwd)
}

/// The system text for a mode, with the client's own rewriting of it.
pub(super) async fn system_text(bench: &Bench, mode: AgentMode) -> String {
    let tools = bench.offered_in(mode).into_iter().map(|tool| tool.name).collect();
    let surroundings = Surroundings { mode, ..surroundings(bench, tools).await };
    let mut prompt = SystemPrompt::new(&surroundings, bench.settings.system_message.as_ref());
    let sections = prompt.to_transform();
    if !sections.is_empty() {
        prompt.transformed(hooks::transform(bench, sections).await);
    }
    prompt.render()
}

/// The instructions that were found. What is refused is logged: somebody may wonder why it is not followed.
async fn instructions_in(
    bench: &Bench,
    find: impl FnOnce() -> instructions::Found + Send + 'static,
) -> Vec<Instruction> {
    let session = &bench.session.id;
    let found = blocking::run(find).await.unwrap_or_else(|error| {
        tracing::warn!(%session, %error, "cannot read instructions");
        instructions::Found::default()
    });
    for instructions::Refused { path, why } in &found.refused {
        tracing::warn!(%session, path = %path.display(), "instructions are not used: {why}");
    }
    found.instructions
}

pub(super) async fn surroundings(bench: &Bench, tools: Vec<String>) -> Surroundings {
    let context = bench.session.durable.facts.context.clone();
    let further = bench.settings.instruction_directories.clone();
    let find = move || {
        instructions::find(Path::new(&context.cwd), context.git_root.as_deref().map(Path::new), &further)
    };
    let found =
        if bench.settings.skip_custom_instructions { Vec::new() } else { instructions_in(bench, find).await };
    let facts = &bench.session.durable.facts;
    Surroundings {
        cwd: facts.context.cwd.clone(),
        git_root: facts.context.git_root.clone(),
        os: std::env::consts::OS.to_owned(),
        tools,
        instructions: found,
        mode: bench.session.durable.mode(),
        session_dir: bench.tools.directory().display().to_string(),
        agent: bench.settings.agent_in_charge().map(|agent| agent.prompt.clone()),
    }
}
