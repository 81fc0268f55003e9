//! Recordings: sessions that answer from one, and sessions that make one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use baton_model::replay::{Recorder, Recording, RecordingModel, ReplayModel};
use baton_model::{ErrorKind, Model, ModelError};
use baton_protocol::provider::ProviderConfig;

use super::Chosen;
use crate::options::{self, Options};

/// The name of a recording's model when nobody names one.
pub(super) const REPLAY: &str = "replay";

/// The recordings of a server.
pub(super) struct Tapes {
    /// Where to record to.
    record_to: Option<PathBuf>,
    /// What must not get into a recording.
    secrets: Vec<String>,
    /// Made with the first answer: a server that is never asked leaves no file.
    recorder: OnceLock<Result<Arc<Recorder>, String>>,
    /// What is played, by file, so that a conversation that is asked about twice goes on where it was.
    playing: Mutex<HashMap<PathBuf, Arc<ReplayModel>>>,
}

impl Tapes {
    pub(super) fn new(options: &Options) -> Self {
        let secrets = match &options.endpoint {
            options::Endpoint::Copilot { token, .. } => token.iter().cloned().collect(),
            options::Endpoint::Provider { provider, .. } => secrets_of(provider).collect(),
            options::Endpoint::Demo => Vec::new(),
        };
        Self {
            record_to: options.record.clone(),
            secrets,
            recorder: OnceLock::new(),
            playing: Mutex::default(),
        }
    }

    /// The same model; what it says is recorded, if this server records.
    pub(super) fn recorded<'a>(
        &self,
        chosen: Chosen,
        brought: impl Iterator<Item = &'a ProviderConfig>,
    ) -> Result<Chosen, ModelError> {
        let Some(path) = &self.record_to else { return Ok(chosen) };
        let create = || {
            let secrets = self.secrets.iter().cloned().chain(brought.flat_map(secrets_of));
            Recorder::create(path, secrets.collect()).map_err(|error| error.to_string())
        };
        match self.recorder.get_or_init(create) {
            Ok(recorder) => {
                let model = Arc::new(RecordingModel::new(chosen.model, recorder.clone()));
                Ok(Chosen { model, ..chosen })
            }
            Err(why) => Err(unusable(path, why)),
        }
    }

    /// A model that answers from a recording.
    pub(super) fn play(&self, path: &Path) -> Result<Arc<dyn Model>, ModelError> {
        let mut playing = self.playing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = playing.get(path) {
            return Ok(model.clone());
        }
        let text = std::fs::read_to_string(path).map_err(|error| unusable(path, &error.to_string()))?;
        let recording = Recording::parse(&text).map_err(|error| unusable(path, &error.to_string()))?;
        let model = Arc::new(ReplayModel::new(recording));
        playing.insert(path.to_owned(), model.clone());
        Ok(model)
    }
}

fn unusable(path: &Path, why: &str) -> ModelError {
    let path = path.display();
    ModelError::new(ErrorKind::BadRequest, REPLAY, format!("The recording {path} cannot be used: {why}."))
}

fn secrets_of(provider: &ProviderConfig) -> impl Iterator<Item = String> {
    provider.api_key.clone().into_iter().chain(provider.bearer_token.clone())
}
