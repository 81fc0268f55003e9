//! Recordings: sessions that answer from one, and sessions that make one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_agent::{blocking, untrusted};
use baton_model::replay::{Recorder, Recording, RecordingModel, ReplayModel};
use baton_model::{ErrorKind, Model, ModelError};
use baton_protocol::provider::ProviderConfig;
use tokio::sync::OnceCell;

use super::Chosen;
use crate::options::{self, Options};

/// The name of a recording's model when nobody names one.
pub(super) const REPLAY: &str = "replay";

/// A larger recording is not read.
const LARGEST_RECORDING: usize = 256 << 20;

/// The recordings of a server.
pub(super) struct Tapes {
    /// Where to record to.
    record_to: Option<PathBuf>,
    /// What must not get into a recording.
    secrets: Vec<String>,
    /// Made with the first answer: a server that is never asked leaves no file.
    recorder: OnceCell<Result<Arc<Recorder>, String>>,
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
            recorder: OnceCell::new(),
            playing: Mutex::default(),
        }
    }

    /// The same model; what it says is recorded, if this server records.
    pub(super) async fn recorded<'a>(
        &self,
        chosen: Chosen,
        brought: impl Iterator<Item = &'a ProviderConfig>,
    ) -> Result<Chosen, ModelError> {
        let Some(path) = &self.record_to else { return Ok(chosen) };
        let create = || {
            let secrets = self.secrets.iter().cloned().chain(brought.flat_map(secrets_of)).collect();
            let path = path.clone();
            async move {
                let created = tokio::task::spawn_blocking(move || Recorder::create(&path, secrets)).await;
                created.map_err(std::io::Error::other).flatten().map_err(|error| error.to_string())
            }
        };
        match self.recorder.get_or_init(create).await {
            Ok(recorder) => {
                let model = Arc::new(RecordingModel::new(chosen.model, recorder.clone()));
                Ok(Chosen { model, ..chosen })
            }
            Err(why) => Err(unusable(path, why)),
        }
    }

    /// A model that answers from a recording.
    pub(super) async fn play(&self, path: &Path) -> Result<Arc<dyn Model>, ModelError> {
        if let Some(model) = self.playing().get(path) {
            return Ok(model.clone());
        }
        let file = path.to_owned();
        let text = blocking::run(move || read(&file)).await.map_err(|error| error.to_string()).flatten();
        let recording = text.and_then(|text| Recording::parse(&text).map_err(|error| error.to_string()));
        let recording = recording.map_err(|why| unusable(path, &why))?;
        // Somebody else may have read it in the meantime: all go on with the first.
        let mut playing = self.playing();
        let model = playing.entry(path.to_owned()).or_insert_with(|| Arc::new(ReplayModel::new(recording)));
        Ok(model.clone())
    }

    fn playing(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<ReplayModel>>> {
        self.playing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a recording. Blocks.
fn read(path: &Path) -> Result<String, String> {
    let excerpt = untrusted::read_named(path, LARGEST_RECORDING).map_err(|error| error.to_string())?;
    if excerpt.is_cut {
        return Err(format!("it is larger than {LARGEST_RECORDING} bytes"));
    }
    excerpt.into_text().map_err(|error| error.to_string())
}

fn unusable(path: &Path, why: &str) -> ModelError {
    let path = path.display();
    ModelError::new(ErrorKind::BadRequest, REPLAY, format!("The recording {path} cannot be used: {why}."))
}

fn secrets_of(provider: &ProviderConfig) -> impl Iterator<Item = String> {
    provider.api_key.clone().into_iter().chain(provider.bearer_token.clone())
}
