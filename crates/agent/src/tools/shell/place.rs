//! Where the command of a call runs: in the session's sandbox, or outside.
//!
//! It is decided twice, with the request for permission and when the command starts, and both have to agree: what a person, or
//! the policy, allowed to run inside never runs outside.

use std::sync::Arc;

use baton_process::TAG_VARIABLE;
use baton_protocol::permission::PermissionRequest;
use baton_protocol::sandbox::{Placed, SandboxLevel};
use baton_protocol::tool::ToolSpec;
use baton_sandbox::{Enclosed, Enclosure, Held, Input, Launch, Place, Ready};
use serde_json::{Value, json};

use super::environment::CommandEnvironment;
use crate::tools::{ToolContext, ToolRefusal};

/// The argument by which a model asks to run a command outside.
const BYPASS: &str = "requestSandboxBypass";
const BYPASS_REASON: &str = "requestSandboxBypassReason";

/// What a model says about the sandbox in a call.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    /// The command has to run outside.
    pub(super) bypass: bool,
    /// Why.
    pub(super) reason: Option<String>,
}

/// Adds what the model has to know about the sandbox to the description of the shell tool.
#[must_use]
pub fn with_sandbox(mut spec: ToolSpec) -> ToolSpec {
    spec.description += "\n* The command runs in a sandbox: it writes the working directory and /tmp only, and not the files there \
        that act by themselves (.git/config, hooks, settings of editors and agents). Hosts on the network are asked for when the \
        command connects; a 403 of the proxy says so. If it needs more, for example ssh, docker or files elsewhere, set \
        requestSandboxBypass and say why: a person is asked.";
    let parameters = spec.parameters.as_ref().and_then(|schema| schema.parse::<Value>().ok());
    if let Some(mut schema) = parameters {
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            let outside = json!({ "type": "boolean", "description": "Run the command outside the sandbox. A person is asked." });
            let why = json!({ "type": "string", "description": "Why the command has to run outside." });
            properties.extend([(BYPASS.to_owned(), outside), (BYPASS_REASON.to_owned(), why)]);
        }
        spec.parameters = Some(schema.into());
    }
    spec
}

/// Completes the request of a call: where its command will run.
pub(super) async fn requested(
    context: &ToolContext,
    wish: &Wish,
    mut request: PermissionRequest,
) -> Result<PermissionRequest, ToolRefusal> {
    let available = level(context).await?;
    if let PermissionRequest::Shell {
        sandbox, request_sandbox_bypass, request_sandbox_bypass_reason, ..
    } = &mut request
    {
        match available {
            Some(_) if wish.bypass => {
                *request_sandbox_bypass = Some(true);
                request_sandbox_bypass_reason.clone_from(&wish.reason);
            }
            available => *sandbox = available,
        }
    }
    Ok(request)
}

/// Returns where the command of a call runs.
pub(super) async fn decided(context: &ToolContext, wish: &Wish) -> Result<Option<Inside>, ToolRefusal> {
    let place = available(context).await?;
    match (context.placed, place) {
        (Some(Placed::Outside), _) if wish.bypass => Ok(None),
        (Some(Placed::Inside(level)), place) if place.level() != Some(level) => Err(changed()),
        (_, Place::Inside(_)) if wish.bypass => Err(changed()),
        (_, Place::Outside) => Ok(None),
        (_, Place::Inside(ready)) => {
            let enclosure = context.services.enclosure.clone();
            Ok(enclosure.map(|enclosure| Inside { enclosure, ready }))
        }
    }
}

fn changed() -> ToolRefusal {
    ToolRefusal::new("The command was not run: the sandbox of the session has changed since the call was decided. Call again.")
        .in_short("Sandbox has changed")
}

/// Returns the level that the session's commands run at; none outside.
async fn level(context: &ToolContext) -> Result<Option<SandboxLevel>, ToolRefusal> {
    match &context.services.enclosure {
        Some(enclosure) => {
            let found = enclosure.level(&context.sandbox, &context.cwd).await;
            found.map_err(|why| unavailable(context, &why.to_string()))
        }
        None => without_walls(context).map(|()| None),
    }
}

/// Prepares the start of a command.
async fn available(context: &ToolContext) -> Result<Place, ToolRefusal> {
    match &context.services.enclosure {
        Some(enclosure) => {
            let placed = enclosure.place(&context.sandbox, &context.cwd).await;
            placed.map_err(|why| unavailable(context, &why.to_string()))
        }
        None => without_walls(context).map(|()| Place::Outside),
    }
}

fn without_walls(context: &ToolContext) -> Result<(), ToolRefusal> {
    let choice = &context.sandbox;
    match choice.chosen && choice.policy.level.is_inside() {
        true => Err(unavailable(context, "this server builds none")),
        false => Ok(()),
    }
}

fn unavailable(context: &ToolContext, why: &str) -> ToolRefusal {
    ToolRefusal::new(format!(
        "The command was not run: the session has the sandbox level {}, and it cannot be enforced: {why}.",
        context.sandbox.policy.level
    ))
    .in_short("No sandbox")
}

/// The sandbox of one command.
#[derive(Clone)]
pub(crate) struct Inside {
    enclosure: Arc<Enclosure>,
    ready: Arc<Ready>,
}

impl Inside {
    /// Prepares the command that starts a shell.
    pub(super) fn enclose(&self, launch: &super::running::CommandLaunch) -> std::io::Result<Enclosed> {
        let mut environment = variables(&launch.environment.in_directory(self.ready.cwd()));
        environment.push((TAG_VARIABLE.into(), launch.tag.clone().into()));
        self.ready.enclose(Launch {
            program: launch.program.clone().into(),
            args: vec!["-c".into(), launch.command.clone().into()],
            environment,
            cwd: None,
            input: if launch.interactive { Input::Piped } else { Input::Null },
        })
    }

    /// Returns the level.
    pub(super) fn level(&self) -> SandboxLevel {
        self.ready.level()
    }

    /// Moves files away that act and that the command has created. Returns a note about them for the model.
    pub(super) async fn after(&self) -> Option<String> {
        let held = self.enclosure.after(&self.ready).await;
        let names: Vec<String> = held.iter().map(|Held { path, .. }| path.display().to_string()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "<the sandbox has moved away {}: programs outside run what is in such files. A person is asked whether to keep them>\n",
                names.join(", ")
            )
        })
    }
}

fn variables(environment: &CommandEnvironment) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    environment.variables().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
