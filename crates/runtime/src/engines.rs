//! Engine programs as models: turns of a session whose model is `codex`, or `claude/opus`, are executed by that program.

use baton_core::Session;
use baton_engines::{EngineRegistry, EngineResources, Installation};
use baton_model::ModelError;
use baton_settings::Settings;
use serde_json::{Value, json};

use crate::Runtime;
use crate::options::Options;

/// Context window in list entries of programs, which manage their context themselves and do not state its size.
const NOMINAL_WINDOW: u64 = 200_000;

/// Returns the registry of engine programs.
pub(crate) fn registry(options: &Options) -> EngineRegistry {
    let resources = EngineResources {
        environment: options.engine_environment.clone(),
        scratch: options.home.join("engines"),
    };
    EngineRegistry::new(options.engines.clone(), resources)
}

/// Returns the name of the engine program that executes a session's turns, if one does. With a client's own provider none
/// does: its models may have any name.
pub(crate) fn engine_of(runtime: &Runtime, settings: &Settings, session: &Session) -> Option<&'static str> {
    if settings.provider.is_some() || settings.provider_lost {
        return None;
    }
    let (engine, _) = runtime.engines.of_model(session.durable.facts.model.as_deref()?)?;
    Some(engine.name())
}

/// Lists all models: those of the server's endpoint, and the installed engine programs.
///
/// # Errors
/// When the endpoint's models cannot be listed.
pub async fn all_models(runtime: &Runtime) -> Result<Vec<Value>, ModelError> {
    let (endpoint, engines) = tokio::join!(runtime.models.list(), installed(runtime));
    let mut models = endpoint?;
    models.extend(engines);
    Ok(models)
}

/// Models that can be used now.
pub struct UsableModels {
    /// Those of the server's endpoint, and the installed engine programs.
    pub models: Vec<Value>,
    /// Why the endpoint's models are missing.
    pub endpoint_error: Option<ModelError>,
}

/// Lists all models like [`all_models`], without those of an endpoint that fails: engine programs do not need it.
///
/// # Errors
/// When the endpoint's models cannot be listed, and no engine program is installed.
pub async fn usable_models(runtime: &Runtime) -> Result<UsableModels, ModelError> {
    let (endpoint, engines) = tokio::join!(runtime.models.list(), installed(runtime));
    let (mut models, endpoint_error) = match endpoint {
        Ok(models) => (models, None),
        Err(error) if engines.is_empty() => return Err(error),
        Err(error) => (Vec::new(), Some(error)),
    };
    models.extend(engines);
    Ok(UsableModels { models, endpoint_error })
}

/// Lists the installed engine programs as models. Programs without a login are listed, too: whether one is logged in shows
/// only in its first turn.
async fn installed(runtime: &Runtime) -> Vec<Value> {
    let probes = probe(&runtime.engines).await;
    probes.iter().filter(|(_, probe)| probe.version.is_some()).map(entry).collect()
}

/// Probes all engine programs concurrently.
pub(crate) async fn probe(registry: &EngineRegistry) -> Vec<(&'static str, Installation)> {
    let probes = registry.all().map(|engine| async move { (engine.name(), engine.probe().await) });
    futures_util::future::join_all(probes).await
}

fn entry((name, probe): &(&'static str, Installation)) -> Value {
    let version = probe.version.as_deref().unwrap_or_default();
    json!({
        "id": name,
        "name": format!("{name} {version}").trim(),
        "capabilities": {
            "supports": { "vision": false, "reasoningEffort": false },
            "limits": { "max_context_window_tokens": NOMINAL_WINDOW },
        },
    })
}
