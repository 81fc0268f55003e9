//! Skills that a client supplies itself.
//!
//! The client lists them when the session looks for skills, and is asked for the text when one is used. What it replies is
//! text; what it fails with is not shown to the model, because it may contain anything.

use baton_protocol::{ClientId, SessionId};
use baton_providers::{CallFailed, Clients};
use baton_skills::{Problem, Severity, Skill, SkillScan, split};
use serde::Deserialize;
use serde_json::json;

/// Skills that one client may list.
const MOST: usize = 1000;
/// Largest text of a skill, in bytes.
const MAX_BYTES: usize = 256 * 1024;

#[derive(Deserialize)]
struct Listed {
    skills: Vec<ListedSkill>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedSkill {
    name: String,
    #[serde(default)]
    description: String,
    user_invocable: Option<bool>,
    disable_model_invocation: Option<bool>,
    argument_hint: Option<String>,
}

/// Lists the skills of a client.
pub(super) async fn list(clients: &dyn Clients, client: ClientId, session: &SessionId) -> SkillScan {
    let mut found = SkillScan::default();
    let listed = match clients.call(client, "skillProvider.list", json!({ "sessionId": session })).await {
        Err(CallFailed::Gone) => return found,
        Ok(reply) => reply.parse::<Listed>().map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let refuse =
        |why: String| Problem { path: "skills of the client".into(), why, severity: Severity::Error };
    match listed {
        Err(why) => found.problems.push(refuse(why)),
        Ok(listed) => {
            for skill in listed.skills.into_iter().take(MOST) {
                match Skill::of_client(&skill.name, &skill.description) {
                    Err(why) => found.problems.push(refuse(why)),
                    Ok(known) => found.skills.push(Skill {
                        user_invocable: skill.user_invocable.unwrap_or(true),
                        model_invocable: !skill.disable_model_invocation.unwrap_or(false),
                        argument_hint: skill.argument_hint,
                        ..known
                    }),
                }
            }
        }
    }
    found
}

#[derive(Deserialize)]
struct Read {
    markdown: Option<String>,
}

/// Reads a skill of a client.
///
/// # Errors
/// With a message for the model.
pub(super) async fn read(
    clients: &dyn Clients,
    client: Option<ClientId>,
    session: &SessionId,
    name: &str,
) -> Result<String, String> {
    let failed = || format!("Failed to load the skill \"{name}\".");
    let client = client.ok_or_else(failed)?;
    let asked = json!({ "sessionId": session, "name": name });
    let reply = clients.call(client, "skillProvider.read", asked).await;
    let reply = reply.map_err(|error| {
        tracing::warn!(%session, skill = name, %error, "failed to read a skill of a client");
        failed()
    })?;
    let read: Read = reply.parse().map_err(|_| failed())?;
    let markdown = read.markdown.ok_or_else(|| format!("Skill not found: {name}"))?;
    if markdown.len() > MAX_BYTES {
        return Err(failed());
    }
    let (_, body) = split(&markdown).map_err(|_| failed())?;
    Ok(body.to_owned())
}
