//! Which models an endpoint offers.
//!
//! The list is asked for rarely and changes rarely, so [`Catalog`] keeps it for half an hour. What an entry
//! means for a session is decided elsewhere; what we do not understand is kept as it came, in
//! [`ModelInfo::raw`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_protocol::Json;
use serde_json::Value;
use tokio::time::Instant;

use crate::endpoint::{Auth, Endpoint};
use crate::http::{self, Transport, Url};
use crate::{ModelError, failure};

/// How long a list is good.
const FRESH: Duration = Duration::from_secs(30 * 60);

/// Longer lists are no lists. The longest known one, with some hundred models and their prices, has half a
/// megabyte.
const LONGEST_LIST: usize = 16 << 20;

/// A model that is offered. What the provider does not say is `None`, or empty.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The model's name on the wire.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// How many tokens it can keep in mind, read and written together.
    pub context_window: Option<u64>,
    /// How many it may be sent.
    pub max_prompt_tokens: Option<u64>,
    /// How many it may write.
    pub max_output_tokens: Option<u64>,
    /// Whether it sees images.
    pub vision: Option<bool>,
    /// How hard it can be told to think.
    pub reasoning_efforts: Vec<String>,
    /// The wires it can be asked over, such as `/chat/completions`.
    pub supported_endpoints: Vec<String>,
    /// The entry as the provider wrote it.
    pub raw: Json,
}

/// The lists of all endpoints, each for everybody who may see it.
#[derive(Default)]
pub struct Catalog {
    shelves: Mutex<HashMap<(Url, Auth), Arc<Shelf>>>,
}

/// One list. Who finds it missing fetches it while holding the lock, so that nobody else does at the same
/// time. A fetch that fails or is cancelled leaves the place empty, for the next in the queue to try.
type Shelf = tokio::sync::Mutex<Kept>;

/// A list, if there is one, and since when.
type Kept = Option<(Instant, Arc<[ModelInfo]>)>;

impl Catalog {
    /// The models of an endpoint, as it offers them to whoever asks with its credentials.
    ///
    /// # Errors
    /// When the endpoint cannot be asked, or gives no list.
    pub async fn models(
        &self,
        transport: &dyn Transport,
        endpoint: &Endpoint,
    ) -> Result<Arc<[ModelInfo]>, ModelError> {
        let shelf = self.shelf(endpoint);
        let mut list = shelf.lock().await;
        match &*list {
            Some((_, models)) => Ok(Arc::clone(models)),
            None => fill(&mut list, transport, endpoint).await,
        }
    }

    /// The same, asked for now: the list that is kept is not good enough.
    ///
    /// # Errors
    /// When the endpoint cannot be asked, or gives no list. Then the old one is kept.
    pub async fn renewed(
        &self,
        transport: &dyn Transport,
        endpoint: &Endpoint,
    ) -> Result<Arc<[ModelInfo]>, ModelError> {
        let shelf = self.shelf(endpoint);
        fill(&mut *shelf.lock().await, transport, endpoint).await
    }

    fn shelf(&self, endpoint: &Endpoint) -> Arc<Shelf> {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        // Old lists go, asked for or not: tokens change every few minutes with some providers, and lists that
        // nobody will ask for again must not pile up. A shelf that somebody holds, or is about to lock, is in
        // use.
        shelves.retain(|_, shelf| Arc::strong_count(shelf) > 1 || is_fresh(shelf));
        Arc::clone(shelves.entry((endpoint.base().clone(), endpoint.auth.clone())).or_default())
    }
}

async fn fill(
    place: &mut Kept,
    transport: &dyn Transport,
    endpoint: &Endpoint,
) -> Result<Arc<[ModelInfo]>, ModelError> {
    let models: Arc<[ModelInfo]> = fetch(transport, endpoint).await?.into();
    *place = Some((Instant::now(), Arc::clone(&models)));
    Ok(models)
}

fn is_fresh(shelf: &Shelf) -> bool {
    shelf.try_lock().is_ok_and(|list| list.as_ref().is_some_and(|(since, _)| since.elapsed() < FRESH))
}

/// Asks an endpoint for its models, without keeping them.
///
/// # Errors
/// When the endpoint cannot be asked, or gives no list.
pub async fn fetch(transport: &dyn Transport, endpoint: &Endpoint) -> Result<Vec<ModelInfo>, ModelError> {
    let failed = |error: &http::TransportError| failure::of_transport(endpoint, error);
    let patience = endpoint.patience;
    let mut response =
        http::send(transport, endpoint.get("models"), patience).await.map_err(|e| failed(&e))?;
    let body = response.whole(patience.stall, LONGEST_LIST).await.map_err(|e| failed(&e))?;
    if !(200..300).contains(&response.status) {
        return Err(failure::of_status(endpoint, response.status, &response.headers, &body));
    }
    if response.headers.is_of_type("text/html") {
        return Err(failure::web_page(endpoint, &body));
    }
    let list: Option<Value> = serde_json::from_slice(&body).ok();
    let models = list.as_ref().and_then(entries).map(|entries| entries.iter().filter_map(read).collect());
    models.ok_or_else(|| failure::nonsense(endpoint, "sent something else than a list of models"))
}

/// The entries, in whatever they are wrapped.
fn entries(list: &Value) -> Option<&Vec<Value>> {
    list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array()
}

/// Reads an entry in any of the known shapes: OpenAI's has hardly more than an id, GitHub's says what the
/// model can, and the gateways and local servers have fields of their own. Entries without a name are of no
/// use to anybody.
fn read(entry: &Value) -> Option<ModelInfo> {
    let text = |path: &str| entry.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let number = |paths: &[&str]| paths.iter().find_map(|path| entry.pointer(path)?.as_u64());
    let list = |paths: &[&str]| paths.iter().find_map(|path| texts(entry.pointer(path)?)).unwrap_or_default();
    let id = text("/id").or_else(|| text("/name"))?;
    let modalities = entry.pointer("/architecture/input_modalities").and_then(texts);
    Some(ModelInfo {
        name: text("/name").or_else(|| text("/display_name")).unwrap_or_else(|| id.clone()),
        context_window: number(&[
            "/capabilities/limits/max_context_window_tokens",
            "/context_length",
            "/context_window",
            "/max_context_length",
            "/max_model_len",
        ]),
        max_prompt_tokens: number(&["/capabilities/limits/max_prompt_tokens"]),
        max_output_tokens: number(&[
            "/capabilities/limits/max_output_tokens",
            "/top_provider/max_completion_tokens",
            "/max_completion_tokens",
        ]),
        vision: entry
            .pointer("/capabilities/supports/vision")
            .and_then(Value::as_bool)
            .or_else(|| modalities.map(|kinds| kinds.iter().any(|kind| kind == "image"))),
        reasoning_efforts: list(&["/capabilities/supports/reasoning_effort", "/supportedReasoningEfforts"]),
        supported_endpoints: list(&["/supported_endpoints"]),
        raw: Json::from_value(entry).ok()?,
        id,
    })
}

fn texts(value: &Value) -> Option<Vec<String>> {
    Some(value.as_array()?.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
}
