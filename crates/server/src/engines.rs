//! Other agents' programs as models: a session whose model is `codex`, or `claude/opus`, is worked on by that program.

use baton_core::Session;
use baton_engines::{Probe, Registry, Surroundings};
use baton_model::ModelError;
use serde_json::{Value, json};

use crate::Server;
use crate::options::Options;
use crate::session::Settings;

/// The context that a program's model is taken to have: it manages that itself, and does not say.
const WINDOW: u64 = 200_000;

pub(crate) fn registry(options: &Options) -> Registry {
    let surroundings = Surroundings {
        environment: options.engine_environment.clone(),
        scratch: options.home.join("engines"),
    };
    Registry::new(options.engines.clone(), surroundings)
}

/// The engine that works on a session's turns, if one does. A provider that the client brought speaks for itself: its
/// models may be called anything.
pub(crate) fn named(server: &Server, settings: &Settings, session: &Session) -> Option<&'static str> {
    if settings.provider.is_some() {
        return None;
    }
    let (engine, _) = server.engines.of_model(session.durable.facts.model.as_deref()?)?;
    Some(engine.name())
}

/// All models that can be chosen from: the endpoint's, and the programs that are installed.
pub(crate) async fn all_models(server: &Server) -> Result<Vec<Value>, ModelError> {
    let (models, engines) = tokio::join!(server.models.list(), probe(&server.engines));
    let mut models = models?;
    // Whether somebody is logged in is hard to tell from outside; that one is not is said when it is tried.
    models.extend(engines.iter().filter(|(_, probe)| probe.version.is_some()).map(entry));
    Ok(models)
}

/// Looks which programs are there, all at once.
pub(crate) async fn probe(registry: &Registry) -> Vec<(&'static str, Probe)> {
    let probes = registry.all().map(|engine| async move { (engine.name(), engine.probe().await) });
    futures_util::future::join_all(probes).await
}

fn entry((name, probe): &(&'static str, Probe)) -> Value {
    let version = probe.version.as_deref().unwrap_or_default();
    json!({
        "id": name,
        "name": format!("{name} {version}").trim(),
        "capabilities": {
            "supports": { "vision": false, "reasoningEffort": false },
            "limits": { "max_context_window_tokens": WINDOW },
        },
    })
}
