//! The models of an endpoint.
//!
//! The list is needed rarely and changes rarely, so [`Catalog`] caches it for half an hour. The meaning of an
//! entry for a session is decided elsewhere; the entry is available unchanged in [`ModelInfo::raw`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_protocol::Json;
use serde_json::Value;
use tokio::time::Instant;

use crate::endpoint::{Auth, Endpoint};
use crate::http::{self, Transport, Url};
use crate::{ModelError, failure};

/// Lifetime of a cached list.
const FRESH: Duration = Duration::from_secs(30 * 60);

/// Maximum size of a list. The longest known one, several hundred models with their prices, has half a
/// megabyte.
const LONGEST_LIST: usize = 16 << 20;

/// A model of an endpoint. Properties that the provider does not report are `None` or empty.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The model's name on the wire.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Size of the context window in tokens, input and output together.
    pub context_window: Option<u64>,
    /// Maximum number of input tokens.
    pub max_prompt_tokens: Option<u64>,
    /// Maximum number of output tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether it accepts images.
    pub vision: Option<bool>,
    /// Supported reasoning efforts.
    pub reasoning_efforts: Vec<String>,
    /// The wire APIs that it supports, such as `/chat/completions`.
    pub supported_endpoints: Vec<String>,
    /// The entry as the provider wrote it.
    pub raw: Json,
}

/// Cached model lists, one for each endpoint and its credentials.
#[derive(Default)]
pub struct Catalog {
    slots: Mutex<HashMap<(Url, Auth), Arc<CacheSlot>>>,
}

/// A cached list. The first caller that finds it missing fetches it while holding the lock, so that no other
/// caller fetches it at the same time. A fetch that fails or is cancelled leaves it empty for the next
/// caller.
type CacheSlot = tokio::sync::Mutex<CachedList>;

/// A list and the time of its fetch, or `None`.
type CachedList = Option<(Instant, Arc<[ModelInfo]>)>;

impl Catalog {
    /// Returns the models of an endpoint, as available with its credentials.
    ///
    /// # Errors
    /// When the endpoint is unreachable or returns no list.
    pub async fn models(
        &self,
        transport: &dyn Transport,
        endpoint: &Endpoint,
    ) -> Result<Arc<[ModelInfo]>, ModelError> {
        let slot = self.slot(endpoint);
        let mut list = slot.lock().await;
        match &*list {
            Some((_, models)) => Ok(Arc::clone(models)),
            None => fill(&mut list, transport, endpoint).await,
        }
    }

    /// Fetches the models of an endpoint and replaces the cached list.
    ///
    /// # Errors
    /// When the endpoint is unreachable or returns no list. The cached list is then kept.
    pub async fn renewed(
        &self,
        transport: &dyn Transport,
        endpoint: &Endpoint,
    ) -> Result<Arc<[ModelInfo]>, ModelError> {
        let slot = self.slot(endpoint);
        fill(&mut *slot.lock().await, transport, endpoint).await
    }

    fn slot(&self, endpoint: &Endpoint) -> Arc<CacheSlot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Removes outdated lists: with some providers tokens change every few minutes, and unused lists must
        // not pile up. A slot with further references is in use.
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || is_fresh(slot));
        Arc::clone(slots.entry((endpoint.base().clone(), endpoint.auth.clone())).or_default())
    }
}

async fn fill(
    cached: &mut CachedList,
    transport: &dyn Transport,
    endpoint: &Endpoint,
) -> Result<Arc<[ModelInfo]>, ModelError> {
    let models: Arc<[ModelInfo]> = fetch(transport, endpoint).await?.into();
    *cached = Some((Instant::now(), Arc::clone(&models)));
    Ok(models)
}

fn is_fresh(slot: &CacheSlot) -> bool {
    slot.try_lock().is_ok_and(|list| list.as_ref().is_some_and(|(since, _)| since.elapsed() < FRESH))
}

/// Fetches the models of an endpoint without caching them.
///
/// # Errors
/// When the endpoint is unreachable or returns no list.
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
    let list: Option<Value> = baton_json::from_slice(&body).ok();
    let models = list.as_ref().and_then(entries).map(|entries| entries.iter().filter_map(read).collect());
    models.ok_or_else(|| failure::invalid(endpoint, "sent something other than a list of models"))
}

/// Returns the entries of a list, in any of the known wrappers.
fn entries(list: &Value) -> Option<&Vec<Value>> {
    list.get("data").or_else(|| list.get("models")).unwrap_or(list).as_array()
}

/// Parses an entry in any of the known shapes: OpenAI's has little more than an id, GitHub's lists
/// capabilities, and gateways and local servers have custom fields. Entries without an id are skipped.
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
