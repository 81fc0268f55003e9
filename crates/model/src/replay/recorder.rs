//! Writing down what a model is asked and answers.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::tape::{Heard, Recording, Take, Told};
use crate::{Answer, Asking, Model, ModelError, Request, Sink};

/// A file that exchanges are written to, each as soon as it is over.
pub struct Recorder {
    state: Mutex<(File, Recording)>,
    /// What must not be written: keys and tokens that the program knows of.
    secrets: Vec<String>,
}

impl Recorder {
    /// Records to a file, which begins anew. Blocks.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[expect(clippy::disallowed_methods, reason = "callers run it where they may block")]
    pub fn create(path: &Path, secrets: Vec<String>) -> io::Result<Arc<Self>> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        // Shorter ones are placeholders, and would tear holes into every word.
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= 6).collect();
        Ok(Arc::new(Self { state: Mutex::new((file, Recording::default())), secrets }))
    }

    /// Blocks.
    fn record(&self, take: Take) -> io::Result<()> {
        let (file, recording) = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let line = recording.add(take)?;
        let line = self.secrets.iter().fold(line, |line, secret| line.replace(secret.as_str(), "***"));
        file.write_all(format!("{line}\n").as_bytes())
    }
}

/// A model whose answers are recorded.
pub struct RecordingModel {
    inner: Arc<dyn Model>,
    recorder: Arc<Recorder>,
}

impl RecordingModel {
    /// Records what this model is asked and answers.
    #[must_use]
    pub fn new(inner: Arc<dyn Model>, recorder: Arc<Recorder>) -> Self {
        Self { inner, recorder }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let answer = self.inner.ask(request, sink).await?;
        let take = Take { heard: Heard::all(&request.messages), answer: Told::from(&answer) };
        let recorder = self.recorder.clone();
        let recorded = tokio::task::spawn_blocking(move || recorder.record(take)).await;
        recorded.map_err(io::Error::other).flatten().map_err(|error| {
            let why = format!("The answer came, but the recording cannot be written: {error}.");
            ModelError::new(crate::ErrorKind::BadRequest, "the recording", why)
        })?;
        Ok(answer)
    }
}

impl Model for RecordingModel {
    fn ask<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Asking<'a> {
        Box::pin(self.ask_once(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        self.inner.endpoint()
    }
}
