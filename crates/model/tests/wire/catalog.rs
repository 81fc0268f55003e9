//! Model lists: all shapes, caching, and one fetch for concurrent callers.

use std::time::Duration;

use crate::common::endpoint;
use baton_model::ErrorKind;
use baton_model::catalog::{Catalog, ModelInfo};
use baton_model::endpoint::Auth;
use baton_model::http::HttpClient;
use baton_testkit::model_server::ModelServer;
use serde_json::{Value, json};

async fn list(models: Value) -> Vec<ModelInfo> {
    let server = ModelServer::start().await;
    server.set_models(models);
    Catalog::default().models(&HttpClient::new(), &endpoint(&server)).await.unwrap().to_vec()
}

#[tokio::test]
async fn minimal_list_has_ids() {
    let shapes = [
        json!({"object": "list", "data": [{"id": "a", "object": "model"}, {"nameless": true}, 7]}),
        json!({"models": [{"name": "a"}]}),
        json!([{"id": "a"}]),
    ];
    for shape in shapes {
        let models = list(shape.clone()).await;
        let [model] = models.as_slice() else { panic!("{models:?}") };
        assert_eq!((model.id.as_str(), model.name.as_str()), ("a", "a"), "{shape}");
        assert_eq!((model.context_window, model.vision, model.reasoning_efforts.len()), (None, None, 0));
    }
}

#[tokio::test]
async fn detailed_list_has_capabilities() {
    let entry = json!({
        "id": "gpt", "name": "GPT", "billing": {"x": 1.0},
        "capabilities": {
            "supports": {"vision": true, "reasoning_effort": ["low", "high"]},
            "limits": {
                "max_context_window_tokens": 128_000, "max_prompt_tokens": 100_000, "max_output_tokens": 16_000,
            },
        },
        "supported_endpoints": ["/chat/completions", "/responses"],
    });
    let models = list(json!({"data": [entry]})).await;
    let expected = ModelInfo {
        id: "gpt".into(),
        name: "GPT".into(),
        context_window: Some(128_000),
        max_prompt_tokens: Some(100_000),
        max_output_tokens: Some(16_000),
        vision: Some(true),
        reasoning_efforts: vec!["low".into(), "high".into()],
        supported_endpoints: vec!["/chat/completions".into(), "/responses".into()],
        raw: baton_protocol::Json::from_value(&entry).unwrap(),
    };
    assert_eq!(models, [expected]);
}

#[tokio::test]
async fn fields_of_gateways_and_local_servers_are_read() {
    let models = list(json!({"data": [
        {"id": "a", "context_length": 8192, "architecture": {"input_modalities": ["text", "image"]}},
        {"id": "b", "max_model_len": 4096, "architecture": {"input_modalities": ["text"]}},
        {"id": "c", "context_window": "many"},
    ]}))
    .await;
    let found: Vec<_> = models.iter().map(|model| (model.context_window, model.vision)).collect();
    assert_eq!(found, [(Some(8192), Some(true)), (Some(4096), Some(false)), (None, None)]);
}

#[tokio::test]
async fn concurrent_callers_share_one_request() {
    let server = ModelServer::start().await;
    let catalog = Catalog::default();
    let (endpoint, network) = (endpoint(&server), HttpClient::new());
    let ask = || catalog.models(&network, &endpoint);
    let (a, b, c) = tokio::join!(ask(), ask(), ask());
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(server.requests().len(), 1);
    assert_eq!(server.requests()[0].path, "/v1/models");
    catalog.models(&HttpClient::new(), &endpoint.clone().with_auth(Auth::None)).await.unwrap();
    assert_eq!(server.requests().len(), 2, "other credentials may see other models");
}

#[tokio::test]
async fn list_is_cached_for_half_an_hour() {
    let server = ModelServer::start().await;
    let catalog = Catalog::default();
    let endpoint = endpoint(&server);
    catalog.models(&HttpClient::new(), &endpoint).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(29 * 60)).await;
    tokio::time::resume();
    catalog.models(&HttpClient::new(), &endpoint).await.unwrap();
    assert_eq!(server.requests().len(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2 * 60)).await;
    tokio::time::resume();
    catalog.models(&HttpClient::new(), &endpoint).await.unwrap();
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn renewed_fetches_the_list_again() {
    let server = ModelServer::start().await;
    let (catalog, endpoint, network) = (Catalog::default(), endpoint(&server), HttpClient::new());
    server.set_models(json!([{"id": "a"}]));
    catalog.models(&network, &endpoint).await.unwrap();
    server.set_models(json!([{"id": "a"}, {"id": "b"}]));
    assert_eq!(catalog.renewed(&network, &endpoint).await.unwrap().len(), 2);
    server.set_models(json!({"data": "none"}));
    assert!(catalog.renewed(&network, &endpoint).await.is_err());
    assert_eq!(catalog.models(&network, &endpoint).await.unwrap().len(), 2, "the previous list stays cached");
}

#[tokio::test]
async fn invalid_list_is_an_error_and_not_cached() {
    let server = ModelServer::start().await;
    let catalog = Catalog::default();
    server.set_models(json!({"data": "none"}));
    let error = catalog.models(&HttpClient::new(), &endpoint(&server)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert!(error.message.contains("something other than a list of models"), "{error}");
    server.set_models(json!({"data": []}));
    assert!(catalog.models(&HttpClient::new(), &endpoint(&server)).await.unwrap().is_empty());
}
