//! Recording of requests and answers.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::file::{Exchange, RecordedAnswer, RecordedMessage, Recording};
use crate::{Model, ModelError, ModelResponse, Request, Responding, Sink};

/// A file to which exchanges are written as they end.
pub struct Recorder {
    state: Mutex<(File, Recording)>,
    /// Keys and tokens known to the program, which are removed.
    secrets: Vec<String>,
}

impl Recorder {
    /// Creates a recorder that overwrites the file. Blocks.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[expect(clippy::disallowed_methods, reason = "callers run it on a blocking thread")]
    pub fn create(path: &Path, secrets: Vec<String>) -> io::Result<Arc<Self>> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        // Shorter ones are placeholders, and would match inside other words.
        let secrets = secrets.into_iter().filter(|secret| secret.len() >= 6).collect();
        Ok(Arc::new(Self { state: Mutex::new((file, Recording::default())), secrets }))
    }

    /// Writes an exchange. Blocks.
    fn record(&self, exchange: Exchange) -> io::Result<()> {
        let (file, recording) = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let line = recording.add(exchange)?;
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
    /// Wraps a model.
    #[must_use]
    pub fn new(inner: Arc<dyn Model>, recorder: Arc<Recorder>) -> Self {
        Self { inner, recorder }
    }

    async fn ask_once(&self, request: &Request, sink: Sink<'_>) -> Result<ModelResponse, ModelError> {
        let answer = self.inner.respond(request, sink).await?;
        let exchange = Exchange {
            messages: RecordedMessage::all(&request.messages),
            answer: RecordedAnswer::from(&answer),
        };
        let recorder = self.recorder.clone();
        let recorded = tokio::task::spawn_blocking(move || recorder.record(exchange)).await;
        recorded.map_err(io::Error::other).flatten().map_err(|error| {
            let why = format!("The model answered, but the recording cannot be written: {error}.");
            ModelError::new(crate::ErrorKind::BadRequest, "the recording", why)
        })?;
        Ok(answer)
    }
}

impl Model for RecordingModel {
    fn respond<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Responding<'a> {
        Box::pin(self.ask_once(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        self.inner.endpoint()
    }
}
