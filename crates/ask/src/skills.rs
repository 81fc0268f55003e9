//! Asks about the skills and plugins of a session.

use std::path::PathBuf;

use baton_settings::SettingsEdit;
use serde::{Deserialize, Serialize};

use crate::family::family;

family! {
    /// Asks about skills.
    SkillsAsk, SkillsReply in Skills;

    /// Lists the skills, looking for them if that was not done yet.
    ListSkills {} -> SkillList;

    /// Describes a skill, with its text.
    DescribeSkill {
        /// Its name.
        name: String,
    } -> SkillDetails;

    /// Uses a skill again.
    EnableSkill {
        /// Its name.
        name: String,
    } -> ();

    /// Stops using a skill.
    DisableSkill {
        /// Its name.
        name: String,
    } -> ();

    /// Looks for skills and plugins again.
    ReloadSkills {} -> SkillProblems;

    /// Lists the plugins that the session uses.
    ListSessionPlugins {} -> Vec<SessionPlugin>;

    /// Lists the skills that the model was given, each with its newest text.
    ListInvokedSkills {} -> Vec<InvokedSkill>;

    /// Gives the model a skill, for its slash command. Replies the prompt that follows.
    InvokeSkill {
        /// Its name.
        name: String,
        /// What follows the slash command.
        input: String,
    } -> SkillPrompt;
}

/// Skills of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillList {
    /// The skills, used or not.
    pub skills: Vec<SkillEntry>,
    /// What could not be used.
    pub problems: Vec<String>,
}

/// A skill in a list. All texts are those of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillEntry {
    /// Its name.
    pub name: String,
    /// Its slash command.
    pub command_name: String,
    /// When to use it.
    pub description: String,
    /// Where it comes from: `project`, `personal-agents`, `plugin` and so on.
    pub source: String,
    /// Whether it has a slash command.
    pub user_invocable: bool,
    /// Whether the session uses it.
    pub enabled: bool,
    /// Its file.
    pub path: PathBuf,
    /// The plugin that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plugin_name: Option<String>,
    /// The project that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub project_path: Option<PathBuf>,
    /// What follows the slash command.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub argument_hint: Option<String>,
}

/// A skill with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillDetails {
    /// The skill.
    #[serde(flatten)]
    pub skill: SkillEntry,
    /// Its text.
    pub content: String,
    /// Tools that the file names; they grant nothing.
    pub allowed_tools: Vec<String>,
    /// Whether the model may load it by itself.
    pub model_invocable: bool,
}

/// Problems that were found while looking for skills.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillProblems {
    /// Problems of skills that are used.
    pub warnings: Vec<String>,
    /// Problems of skills that cannot be used.
    pub errors: Vec<String>,
}

/// A plugin of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPlugin {
    /// Its name.
    pub name: String,
    /// The marketplace that it comes from, as SDKs read it; empty.
    pub marketplace: String,
    /// Whether it is used.
    pub enabled: bool,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
    /// Why parts of it are not used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

/// A skill that the model was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvokedSkill {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: String,
    /// Its text.
    pub content: String,
    /// Tools that the file names; they grant nothing.
    pub allowed_tools: Vec<String>,
    /// Number of the turn.
    pub invoked_at_turn: u64,
}

/// The prompt that follows the slash command of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillPrompt {
    /// Text for the model.
    pub prompt: String,
    /// Text for people.
    pub display_prompt: String,
}

impl SkillsAsk {
    /// Returns the change of settings that an ask makes.
    #[must_use]
    pub fn settings_edit(&self) -> Option<SettingsEdit> {
        let (name, enabled) = match self {
            Self::EnableSkill(ask) => (ask.name.clone(), true),
            Self::DisableSkill(ask) => (ask.name.clone(), false),
            _ => return None,
        };
        Some(SettingsEdit::Skill { name, enabled })
    }
}
