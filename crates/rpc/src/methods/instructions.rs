//! Instruction files: those that a session uses, and those of projects and the user.

use std::path::{Path, PathBuf};

use baton_addons::skills::Discovery;
use baton_agent::prompt::instructions::{self, Instruction, InstructionScope};
use baton_ask::ListInstructions;
use baton_disk::blocking;
use baton_service::skills::ListProjects;
use serde_json::{Value, json};

use super::{Call, Handled};
use crate::errors::CallError;

/// Lists the instruction files that are part of the system prompt.
pub(super) fn session_sources(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, ListInstructions {}, |found| {
        let sources: Vec<Value> = found.iter().map(|found| source(found, None)).collect();
        json!({ "sources": sources })
    })
}

/// Finds the instruction files of projects and of the user.
pub(super) fn discover(call: &Call<'_>) -> Handled {
    let discovery: Discovery = call.parse()?;
    let projects = call.service().perform_now(&call.caller(), ListProjects(discovery.clone()))?;
    let home = discovery.includes_host().then(|| call.service().home().to_owned());
    call.later(async move {
        let find = move || {
            let mut sources = Vec::new();
            for project in &projects {
                let found = instructions::find(project, None, &[], None);
                sources.extend(found.instructions.iter().map(|found| source(found, Some(project))));
            }
            let own = home.map(|home| instructions::of_user(&home)).unwrap_or_default();
            sources.extend(own.instructions.iter().map(|found| source(found, None)));
            sources
        };
        let sources = blocking::run(find).await.map_err(CallError::failed)?;
        Ok(json!({ "sources": sources }))
    })
}

/// Lists where instruction files are looked for, whether they exist or not.
pub(super) fn discovery_paths(call: &Call<'_>) -> Handled {
    let discovery: Discovery = call.parse()?;
    let mut paths = Vec::new();
    for project in call.service().perform_now(&call.caller(), ListProjects(discovery.clone()))? {
        for (n, (name, is_directory)) in instructions::PROJECT_PLACES.iter().enumerate() {
            let mut path = place(&project.join(name), *is_directory, "repository", n == 0);
            path["projectPath"] = json!(project);
            paths.push(path);
        }
    }
    if discovery.includes_host() {
        let home: PathBuf = call.service().home().join(instructions::USER_FILE);
        paths.push(place(&home, false, "user", true));
    }
    call.now(json!({ "paths": paths }))
}

fn place(path: &Path, is_directory: bool, location: &str, is_preferred: bool) -> Value {
    let kind = if is_directory { "directory" } else { "file" };
    json!({ "path": path, "kind": kind, "location": location, "preferredForCreation": is_preferred })
}

fn source(found: &Instruction, project: Option<&Path>) -> Value {
    let label = found.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let (kind, location) = match found.scope {
        InstructionScope::User => ("home", "user"),
        InstructionScope::Root => ("repo", "repository"),
        InstructionScope::Scoped => ("vscode", "repository"),
        InstructionScope::WorkingDirectory => ("nested-agents", "working-directory"),
    };
    let mut source = json!({
        "id": found.path,
        "label": label,
        "sourcePath": found.path,
        "content": found.text,
        "type": kind,
        "location": location,
    });
    if !found.apply_to.is_empty() {
        source["applyTo"] = json!(found.apply_to);
    }
    if let Some(description) = &found.description {
        source["description"] = json!(description);
    }
    if let Some(project) = project {
        source["projectPath"] = json!(project);
    }
    source
}
