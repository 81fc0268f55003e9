//! Records model calls, and replays recordings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_disk::{blocking, untrusted};
use baton_model::replay::{Recorder, Recording, RecordingModel, ReplayModel};
use baton_model::{ErrorKind, Model, ModelError};
use baton_protocol::provider::ProviderConfig;
use tokio::sync::OnceCell;

use crate::endpoint::keys_of;
use crate::{ChosenModel, ServerEndpoint};

/// Default name of a replayed model.
pub(super) const REPLAY: &str = "replay";

/// Maximum size of a recording.
const MAX_RECORDING: usize = 256 << 20;

/// Recordings of a server.
pub(super) struct Recordings {
    /// File to which calls are recorded.
    record_to: Option<PathBuf>,
    /// Credentials that must not appear in a recording.
    secrets: Vec<String>,
    /// Created with the first call: a server without model calls leaves no file.
    recorder: OnceCell<Result<Arc<Recorder>, String>>,
    /// Replayed recordings by file, so that later calls continue where earlier ones were.
    replays: Mutex<HashMap<PathBuf, Arc<ReplayModel>>>,
}

impl Recordings {
    pub(super) fn new(endpoint: &ServerEndpoint, record_to: Option<PathBuf>) -> Self {
        Self { record_to, secrets: endpoint.keys(), recorder: OnceCell::new(), replays: Mutex::default() }
    }

    /// Wraps a model so that its calls are recorded, if the server records.
    pub(super) async fn record<'a>(
        &self,
        chosen: ChosenModel,
        providers: impl Iterator<Item = &'a ProviderConfig>,
    ) -> Result<ChosenModel, ModelError> {
        let Some(path) = &self.record_to else { return Ok(chosen) };
        let create = || {
            let secrets = self.secrets.iter().cloned().chain(providers.flat_map(keys_of)).collect();
            let path = path.clone();
            async move {
                let created = tokio::task::spawn_blocking(move || Recorder::create(&path, secrets)).await;
                created.map_err(std::io::Error::other).flatten().map_err(|error| error.to_string())
            }
        };
        match self.recorder.get_or_init(create).await {
            Ok(recorder) => {
                let model = Arc::new(RecordingModel::new(chosen.model, recorder.clone()));
                Ok(ChosenModel { model, ..chosen })
            }
            Err(why) => Err(unusable(path, why)),
        }
    }

    /// Returns a model that replays a recording.
    pub(super) async fn replay(&self, path: &Path) -> Result<Arc<dyn Model>, ModelError> {
        if let Some(model) = self.replays().get(path) {
            return Ok(model.clone());
        }
        let file = path.to_owned();
        let text = blocking::run(move || read(&file)).await.map_err(|error| error.to_string()).flatten();
        let recording = text.and_then(|text| Recording::parse(&text).map_err(|error| error.to_string()));
        let recording = recording.map_err(|why| unusable(path, &why))?;
        // A concurrent call may have read it, too: the first one counts.
        let mut replays = self.replays();
        let model = replays.entry(path.to_owned()).or_insert_with(|| Arc::new(ReplayModel::new(recording)));
        Ok(model.clone())
    }

    fn replays(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<ReplayModel>>> {
        self.replays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a recording. Blocks.
fn read(path: &Path) -> Result<String, String> {
    let excerpt = untrusted::read_named(path, MAX_RECORDING).map_err(|error| error.to_string())?;
    if excerpt.is_cut {
        return Err(format!("it is larger than {MAX_RECORDING} bytes"));
    }
    excerpt.into_text().map_err(|error| error.to_string())
}

fn unusable(path: &Path, why: &str) -> ModelError {
    let path = path.display();
    ModelError::new(ErrorKind::BadRequest, REPLAY, format!("cannot use the recording {path}: {why}"))
}
