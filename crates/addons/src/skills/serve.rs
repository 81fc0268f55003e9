//! Serving asks of clients about a session's skills and plugins.

use baton_ask::skills::{SessionPlugin, SkillDetails, SkillList, SkillProblems};
use baton_protocol::event::{SkillTrigger, WorkContext};
use baton_settings::Settings;
use baton_skills::Severity;

use super::{SessionSkills, described};
use crate::session_plugins::UsedPlugin;

impl SessionSkills {
    /// Lists the skills, looking for them if that was not done yet.
    pub async fn list(&self, settings: &Settings, context: &WorkContext) -> SkillList {
        let catalogue = self.load(settings, context).await;
        let problems = catalogue.problems.iter().map(ToString::to_string).collect();
        SkillList { skills: catalogue.listed(settings), problems }
    }

    /// Describes a skill, with its text.
    ///
    /// # Errors
    /// With a message for the client.
    pub async fn describe(
        &self,
        settings: &Settings,
        context: &WorkContext,
        name: &str,
    ) -> Result<SkillDetails, String> {
        let catalogue = self.load(settings, context).await;
        let skill = catalogue.skills.iter().find(|skill| skill.is_named(name));
        let skill = skill.ok_or_else(|| format!("Skill not found: {name}"))?;
        let read = self.read(skill, SkillTrigger::UserInvoked).await?;
        Ok(SkillDetails {
            skill: described(skill, catalogue.is_enabled(skill, settings)),
            content: read.content,
            allowed_tools: skill.allowed_tools.clone(),
            model_invocable: skill.model_invocable,
        })
    }

    /// Shows clients the skills, after one was switched on or off.
    pub async fn show_switched(&self, settings: &Settings, context: &WorkContext) {
        let catalogue = self.load(settings, context).await;
        self.show(&catalogue.listed(settings));
    }

    /// Looks for skills and plugins again.
    pub async fn look_again(&self, settings: &Settings, context: &WorkContext) -> SkillProblems {
        let catalogue = self.reload(settings, context).await;
        let of = |severity| -> Vec<String> {
            let problems = catalogue.problems.iter().filter(|problem| problem.severity == severity);
            problems.map(ToString::to_string).collect()
        };
        SkillProblems { warnings: of(Severity::Warning), errors: of(Severity::Error) }
    }

    /// Lists the plugins that the session uses.
    pub async fn list_plugins(&self, settings: &Settings, context: &WorkContext) -> Vec<SessionPlugin> {
        let catalogue = self.load(settings, context).await;
        let listed = catalogue.plugins.iter().map(|UsedPlugin { plugin, is_trusted, .. }| {
            let problem = "its hooks and servers have changed, and are not trusted";
            SessionPlugin {
                name: plugin.name.clone(),
                marketplace: String::new(),
                enabled: true,
                version: plugin.version.clone(),
                problem: (!is_trusted).then(|| problem.to_owned()),
            }
        });
        listed.collect()
    }
}
