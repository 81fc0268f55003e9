//! The system prompt, in named sections that clients can change one by one.

mod defaults;

use std::collections::BTreeMap;

use baton_protocol::event::AgentMode;
use baton_protocol::params::{SectionAction, SystemMessageConfig, SystemMessageMode};

use super::instructions::{self, Instruction};

/// Facts about the session that the prompt states.
#[derive(Debug, Clone, Default)]
pub struct PromptContext {
    /// The working directory.
    pub cwd: String,
    /// The repository that contains it.
    pub git_root: Option<String>,
    /// The operating system.
    pub os: String,
    /// Names of the available tools.
    pub tools: Vec<String>,
    /// Custom instructions of the repository or the client.
    pub instructions: Vec<Instruction>,
    /// How much the agent may do on its own.
    pub mode: AgentMode,
    /// The session's own directory.
    pub session_dir: String,
    /// Prompt of the agent kind that was chosen for the conversation.
    pub agent: Option<String>,
}

/// The sections, in rendering order.
const ORDER: [&str; 11] = [
    "preamble",
    "tone",
    "tool_efficiency",
    "environment_context",
    "code_change_rules",
    "guidelines",
    "safety",
    "tool_instructions",
    "custom_instructions",
    "runtime_instructions",
    "last_instructions",
];

/// A group of sections that clients can change as one: who the agent is and how it behaves.
const IDENTITY: &str = "identity";
const IDENTITY_MEMBERS: [&str; 3] = ["preamble", "tone", "tool_efficiency"];

/// A system prompt, before it is rendered.
#[derive(Debug, Clone, PartialEq)]
pub enum SystemPrompt {
    /// The client's text and nothing else.
    Given(String),
    /// The default prompt with the client's changes.
    Sections {
        /// Texts by name. Absent sections were removed.
        sections: BTreeMap<String, String>,
        /// Names of sections that the client rewrites before the prompt is used.
        transforms: Vec<String>,
        /// Text after all sections.
        appended: Option<String>,
    },
}

impl SystemPrompt {
    /// Builds the default prompt with the client's changes, except transforms.
    #[must_use]
    pub fn new(context: &PromptContext, config: Option<&SystemMessageConfig>) -> Self {
        let appended = config.and_then(|c| c.content.clone());
        let mut sections: BTreeMap<String, String> =
            ORDER.iter().map(|name| ((*name).to_owned(), defaults::text(name, context))).collect();
        let mut transforms = Vec::new();
        match config {
            Some(SystemMessageConfig { mode: SystemMessageMode::Replace, .. }) => {
                return Self::Given(appended.unwrap_or_default());
            }
            Some(config) if config.mode == SystemMessageMode::Customize => {
                customize(&mut sections, &mut transforms, config);
            }
            _ => {}
        }
        Self::Sections { sections, transforms, appended }
    }

    /// Returns the sections that the client rewrites, with their present text.
    #[must_use]
    pub fn to_transform(&self) -> BTreeMap<String, String> {
        let Self::Sections { sections, transforms, .. } = self else { return BTreeMap::new() };
        let text_of = |name: &str| match name {
            IDENTITY => join(IDENTITY_MEMBERS.iter().filter_map(|member| sections.get(*member))),
            _ => sections.get(name).cloned().unwrap_or_default(),
        };
        transforms.iter().map(|name| (name.clone(), text_of(name))).collect()
    }

    /// Applies the client's texts. Sections that it did not ask to rewrite are ignored.
    pub fn transformed(&mut self, texts: BTreeMap<String, String>) {
        let Self::Sections { sections, transforms, .. } = self else { return };
        for (name, text) in texts {
            if transforms.contains(&name) {
                replace(sections, &name, text);
            }
        }
    }

    /// Renders the prompt.
    #[must_use]
    pub fn render(&self) -> String {
        match self {
            Self::Given(text) => text.clone(),
            Self::Sections { sections, appended, .. } => {
                join(ORDER.iter().filter_map(|name| sections.get(*name)).chain(appended))
            }
        }
    }
}

fn customize(
    sections: &mut BTreeMap<String, String>,
    transforms: &mut Vec<String>,
    config: &SystemMessageConfig,
) {
    let members = |name: &str| match name {
        IDENTITY => IDENTITY_MEMBERS.to_vec(),
        _ => ORDER.iter().filter(|known| **known == name).copied().collect(),
    };
    // The group first: a change of one member overrides the change of the group.
    let mut names: Vec<&String> = config.sections.keys().collect();
    names.sort_by_key(|name| name.as_str() != IDENTITY);
    for name in names {
        let change = &config.sections[name];
        let content = change.content.clone().unwrap_or_default();
        let has_own_change = |member: &str| member != name && config.sections.contains_key(member);
        match change.action {
            SectionAction::Preserve => {}
            SectionAction::Transform => transforms.push(name.clone()),
            SectionAction::Remove => {
                for member in members(name).into_iter().filter(|member| !has_own_change(member)) {
                    sections.remove(member);
                }
            }
            SectionAction::Replace => {
                for member in members(name).into_iter().filter(|member| !has_own_change(member)) {
                    sections.remove(member);
                }
                if let Some(first) = members(name).first() {
                    sections.insert((*first).to_owned(), content);
                }
            }
            SectionAction::Append => {
                if let Some(last) = members(name).last() {
                    let text = sections.entry((*last).to_owned()).or_default();
                    *text = join([&*text, &content]);
                }
            }
            SectionAction::Prepend => {
                if let Some(first) = members(name).first() {
                    let text = sections.entry((*first).to_owned()).or_default();
                    *text = join([&content, &*text]);
                }
            }
        }
    }
}

fn replace(sections: &mut BTreeMap<String, String>, name: &str, text: String) {
    if name == IDENTITY {
        for member in IDENTITY_MEMBERS {
            sections.remove(member);
        }
        sections.insert(IDENTITY_MEMBERS[0].to_owned(), text);
    } else if ORDER.contains(&name) {
        sections.insert(name.to_owned(), text);
    }
}

fn join<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<&str> = texts.into_iter().map(|t| t.trim()).filter(|t| !t.is_empty()).collect();
    texts.join("\n\n")
}

/// Returns the system prompt of a sub-agent: the prompt of its kind, its environment, and how it has to answer.
#[must_use]
pub fn of_sub_agent(prompt: &str, at: &PromptContext) -> String {
    let terms = "You work on behalf of another agent, and cannot ask the user. Do the task as far as it can be done. \
                 Your last message is your answer: it is all that the other agent gets, so it must be complete."
        .to_owned();
    join([&prompt.to_owned(), &terms, &defaults::environment(at), &instructions::render(&at.instructions)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt_context() -> PromptContext {
        PromptContext {
            cwd: "/work/x".into(),
            os: "Linux".into(),
            tools: vec!["bash".into()],
            ..PromptContext::default()
        }
    }

    fn prompt(json: &str) -> SystemPrompt {
        let config: SystemMessageConfig = baton_json::from_str(json).unwrap();
        SystemPrompt::new(&prompt_context(), Some(&config))
    }

    #[test]
    fn default_prompt_states_protocol_and_environment() {
        let text = SystemPrompt::new(&prompt_context(), None).render();
        for part in [
            "GitHub",
            "Current working directory: /work/x",
            "Operating System: Linux",
            "<code_change_instructions>",
        ] {
            assert!(text.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn chosen_agent_extends_the_prompt_and_sub_agent_replaces_it() {
        let chosen = PromptContext { agent: Some("You are BOTANICA.".into()), ..prompt_context() };
        let text = SystemPrompt::new(&chosen, None).render();
        assert!(text.contains("You are BOTANICA.") && text.contains("coding agent of Baton"));
        let text = of_sub_agent("You are BOTANICA.", &prompt_context());
        assert!(text.starts_with("You are BOTANICA.") && text.contains("/work/x"));
        assert!(!text.contains("coding agent of Baton"));
    }

    #[test]
    fn append_extends_and_replace_replaces_the_whole_prompt() {
        let appended = prompt(r#"{"mode":"append","content":"Be nice."}"#).render();
        assert!(appended.contains("GitHub") && appended.ends_with("Be nice."));
        assert_eq!(prompt(r#"{"mode":"replace","content":"Only this."}"#).render(), "Only this.");
    }

    #[test]
    fn sections_are_customized_one_by_one() {
        let text = prompt(
            r#"{"mode":"customize","content":"LAST","sections":{
                "tone":{"action":"replace","content":"WARM"},
                "code_change_rules":{"action":"remove"},
                "guidelines":{"action":"append","content":"AFTER"},
                "safety":{"action":"prepend","content":"BEFORE"},
                "no_such_section":{"action":"replace","content":"NOWHERE"}}}"#,
        )
        .render();
        assert!(text.contains("WARM") && !text.contains("# Tone"));
        assert!(!text.contains("code_change_instructions") && !text.contains("NOWHERE"));
        assert!(text.contains("BEFORE\n\n# Limits") && text.contains("AFTER"));
        assert!(text.ends_with("LAST"));
    }

    #[test]
    fn change_of_a_group_skips_members_with_their_own_change() {
        let text = prompt(
            r#"{"mode":"customize","sections":{"identity":{"action":"remove"},"tone":{"action":"preserve"}}}"#,
        )
        .render();
        assert!(!text.contains("coding agent of Baton") && text.contains("# Tone"));
        let text = prompt(
            r#"{"mode":"customize","sections":{"identity":{"action":"replace","content":"BOTANICA"}}}"#,
        );
        assert!(text.render().starts_with("BOTANICA\n\n<environment_context>"));
    }

    #[test]
    fn transformed_sections_are_replaced_and_others_ignored() {
        let mut prompt = prompt(
            r#"{"mode":"customize","sections":{"identity":{"action":"transform"},"tone":{"action":"transform"}}}"#,
        );
        let texts = prompt.to_transform();
        assert_eq!(texts.keys().collect::<Vec<_>>(), ["identity", "tone"]);
        assert!(texts.values().all(|text| !text.is_empty()));
        prompt.transformed(
            [("tone".to_owned(), "SUNG".to_owned()), ("safety".to_owned(), "GONE".to_owned())].into(),
        );
        let text = prompt.render();
        assert!(text.contains("SUNG") && !text.contains("GONE"));
    }
}
