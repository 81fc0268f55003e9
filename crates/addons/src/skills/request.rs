//! Requests of clients about a session's skills.

use baton_protocol::event::WorkContext;
use baton_skills::Severity;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{SessionSkills, described};
use crate::session_plugins::UsedPlugin;
use baton_settings::{Settings, SettingsEdit};

/// A request about the skills of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "field names are those of the wire; the variants are documented")]
pub enum SkillsRequest {
    /// Lists the skills, looking for them if that was not done yet.
    List,
    /// Describes a skill, with its text.
    Show { name: String },
    /// Uses a skill again.
    Enable { name: String },
    /// Stops using a skill.
    Disable { name: String },
    /// Looks for skills again.
    Reload,
    /// Lists the plugins.
    Plugins,
    /// Lists the skills that the model was given.
    Invoked,
    /// Gives the model a skill, for its slash command. Replies the prompt that follows.
    Invoke { name: String, input: String },
}

impl SkillsRequest {
    /// Returns the change of settings that a request makes.
    #[must_use]
    pub fn settings_edit(&self) -> Option<SettingsEdit> {
        let (name, enabled) = match self {
            Self::Enable { name } => (name.clone(), true),
            Self::Disable { name } => (name.clone(), false),
            _ => return None,
        };
        Some(SettingsEdit::Skill { name, enabled })
    }
}

impl SessionSkills {
    /// Serves a request that needs the skills only.
    ///
    /// # Errors
    /// With a message for the client.
    pub async fn serve(
        &self,
        settings: &Settings,
        context: &WorkContext,
        request: SkillsRequest,
    ) -> Result<Value, String> {
        match request {
            SkillsRequest::Reload => {
                let catalogue = self.reload(settings, context).await;
                let of = |severity| -> Vec<String> {
                    let problems = catalogue.problems.iter().filter(|problem| problem.severity == severity);
                    problems.map(ToString::to_string).collect()
                };
                Ok(json!({ "warnings": of(Severity::Warning), "errors": of(Severity::Error) }))
            }
            SkillsRequest::Plugins => {
                let catalogue = self.load(settings, context).await;
                let listed = catalogue.plugins.iter().map(|UsedPlugin { plugin, is_trusted, .. }| {
                    let mut listed = json!({ "name": plugin.name, "marketplace": "", "enabled": true });
                    if let Some(version) = &plugin.version {
                        listed["version"] = json!(version);
                    }
                    if !is_trusted {
                        listed["problem"] = json!("its hooks and servers have changed, and are not trusted");
                    }
                    listed
                });
                Ok(json!({ "plugins": listed.collect::<Vec<_>>() }))
            }
            SkillsRequest::Show { name } => self.describe(settings, context, &name).await,
            SkillsRequest::Enable { .. } | SkillsRequest::Disable { .. } => {
                let catalogue = self.load(settings, context).await;
                self.show(&catalogue.listed(settings));
                Ok(Value::Null)
            }
            // The others are served by the work of the session.
            SkillsRequest::List | SkillsRequest::Invoked | SkillsRequest::Invoke { .. } => {
                let catalogue = self.load(settings, context).await;
                let problems: Vec<String> = catalogue.problems.iter().map(ToString::to_string).collect();
                Ok(json!({ "skills": catalogue.listed(settings), "problems": problems }))
            }
        }
    }

    async fn describe(
        &self,
        settings: &Settings,
        context: &WorkContext,
        name: &str,
    ) -> Result<Value, String> {
        let catalogue = self.load(settings, context).await;
        let skill = catalogue.skills.iter().find(|skill| skill.is_named(name));
        let skill = skill.ok_or_else(|| format!("Skill not found: {name}"))?;
        let read = self.read(skill, baton_protocol::event::SkillTrigger::UserInvoked).await?;
        let mut described = described(skill, catalogue.is_enabled(skill, settings));
        described["content"] = json!(read.content);
        described["allowedTools"] = json!(skill.allowed_tools);
        described["modelInvocable"] = json!(skill.model_invocable);
        Ok(described)
    }
}
