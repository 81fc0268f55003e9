//! Providers of clients: every wire API, several providers in one session, bearer tokens from the client, and clients that
//! carry model requests.

use baton_testkit::chat::{Chat, Turn};
use baton_testkit::client::Client;
use baton_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use crate::{baton, scripted};

/// A provider for each wire API, with the path of its requests.
fn wires(model: &ModelServer) -> Vec<(Value, &'static str)> {
    let (base, root) = (model.base_url(), format!("http://{}", model.address()));
    vec![
        (json!({"type": "openai", "baseUrl": base}), "/v1/chat/completions"),
        (json!({"type": "openai", "wireApi": "responses", "baseUrl": base}), "/v1/responses"),
        (json!({"wireApi": "responses", "transport": "websockets", "baseUrl": base}), "/v1/responses"),
        (json!({"type": "anthropic", "baseUrl": root}), "/v1/messages"),
        (
            json!({"type": "azure", "baseUrl": root, "azure": {"apiVersion": "1"}}),
            "/openai/deployments/m/chat/completions?api-version=1",
        ),
        (json!({"type": "azure", "wireApi": "responses", "baseUrl": root}), "/openai/v1/responses"),
    ]
}

#[tokio::test]
async fn every_wire_api_carries_a_whole_turn() {
    for streaming in [false, true] {
        let model = ModelServer::start().await;
        let program = baton();
        let server = program.serve().await;
        let client = server.connect().await;
        for (mut provider, path) in wires(&model) {
            provider["apiKey"] = json!("sk-geheim");
            let before = model.requests().len();
            let params = json!({"model": "m", "provider": provider, "streaming": streaming});
            let chat = Chat::trusting(&client, params).await;
            let turn = chat
                .turn(r#"[[think:hm]][[text:I look. ]][[tool:bash {"command":"echo $((6*7))"}]][[text:it is there]]"#)
                .await;
            assert_eq!((turn.text(), turn.errors().len()), ("it is there", 0), "{path}: {turn:?}");
            let requests = model.requests()[before..].to_vec();
            assert_eq!(requests.len(), 2, "{path}");
            assert!(requests.iter().all(|request| request.path == path), "{path}: {}", requests[0].path);
            let second = requests[1].body.to_string();
            assert!(second.contains("42"), "the tool result is sent: {second}");
            check_turn(&turn, path, streaming);
            assert_eq!(chat.turn("[[text:more]]").await.text(), "more", "{path}");
            let exported = program.run(&["sessions", "export", &chat.id]).await;
            assert!(!exported.stdout.contains("sk-geheim"), "credentials are not stored");
        }
    }
}

/// Checks the events of a turn, which are the same for every wire API.
fn check_turn(turn: &Turn, path: &str, streaming: bool) {
    let first = turn.of("assistant.message")[0];
    assert_eq!(first["data"]["content"], "I look. ", "{path}");
    assert_eq!(first["data"]["reasoningText"], "hm", "{path}");
    let call = &first["data"]["toolRequests"][0];
    assert_eq!(call["arguments"], json!({"command": "echo $((6*7))"}), "{path}");
    let usage = turn.of("assistant.usage")[0];
    let numbers = ["inputTokens", "outputTokens", "cacheReadTokens"].map(|name| usage["data"][name].as_u64());
    assert_eq!(numbers, [Some(100), Some(20), Some(40)], "{path}");
    assert_eq!(usage["data"]["isByok"], true, "{path}");
    let pieces = turn.of("assistant.message_delta").len();
    assert_eq!(pieces > 0, streaming, "{path}: {:?}", turn.kinds());
}

#[tokio::test]
async fn websocket_is_used_if_offered_and_not_disabled() {
    let (program, model) = scripted().await;
    let offer = json!({"id": "talker", "supported_endpoints": ["/responses", "ws:/responses"]});
    model.set_models(json!({"data": [offer]}));
    let server = program.serve().await;
    let client = server.connect().await;
    for (capi, method, endpoint) in [
        (json!(null), "WS", "ws:/responses"),
        (json!({"enableWebSocketResponses": true}), "WS", "ws:/responses"),
        (json!({"enableWebSocketResponses": false}), "POST", "/responses"),
    ] {
        let chat = Chat::create(&client, json!({"model": "talker", "capi": capi})).await;
        let turn = chat.turn("[[text:hello]]").await;
        assert_eq!(turn.text(), "hello", "{turn:?}");
        assert_eq!(model.requests().pop().unwrap().method, method);
        assert_eq!(turn.of("assistant.usage")[0]["data"]["apiEndpoint"], endpoint);
    }
}

#[tokio::test]
async fn session_switches_between_providers() {
    let models = [ModelServer::start().await, ModelServer::start().await, ModelServer::start().await];
    let [one, two, three] = &models;
    let program = baton();
    let server = program.serve().await;
    let client = server.connect().await;
    let params = json!({
        "model": "alpha/big",
        "providers": [
            {"name": "alpha", "type": "anthropic", "baseUrl": one.base_url(), "headers": {"X-Provider": "alpha"}},
            {"name": "beta", "baseUrl": two.base_url(), "wireApi": "responses", "headers": {"X-Provider": "beta"}},
            {"name": "gamma", "baseUrl": three.base_url()},
        ],
        "models": [
            {"id": "big", "provider": "alpha", "wireModel": "claude-big"},
            {"id": "small", "provider": "beta", "maxOutputTokens": 77},
            {"id": "plain", "provider": "gamma"},
        ],
    });
    let chat = Chat::trusting(&client, params).await;
    // Signed reasoning, and a tool call with its result.
    let prompt = r#"[[think:hm]][[tool:bash {"command":"echo $((6*7))", "n":1.0}]][[text:one]]"#;
    assert_eq!(chat.turn(prompt).await.text(), "one");
    chat.ok("session.model.switchTo", json!({"modelId": "beta/small"})).await;
    assert_eq!(chat.turn(&prompt.replace("one", "two")).await.text(), "two");
    chat.ok("session.model.switchTo", json!({"modelId": "gamma/plain"})).await;
    assert_eq!(chat.turn(&prompt.replace("one", "three")).await.text(), "three");
    chat.ok("session.model.switchTo", json!({"modelId": "alpha/big"})).await;
    assert_eq!(chat.turn("[[text:home again]]").await.text(), "home again");

    let first = one.requests()[0].clone();
    assert_eq!(
        (first.body["model"].as_str(), first.header("x-provider")),
        (Some("claude-big"), Some("alpha"))
    );
    let second = two.requests()[0].clone();
    assert_eq!((second.body["model"].as_str(), second.header("x-provider")), (Some("small"), Some("beta")));
    assert_eq!(second.body["max_output_tokens"], 77);
    // The conversation goes to the next provider; signed reasoning goes only to the provider that signed it.
    let signature = "c2ln";
    for other in [&second, &three.requests()[0]] {
        let said = other.body.to_string();
        assert!(said.contains("one") && said.contains("42") && !said.contains(signature), "{said}");
        assert!(said.contains(r#"\"n\":1.0"#), "arguments keep their spelling: {said}");
    }
    let home = one.requests().pop().unwrap().body.to_string();
    assert_eq!(home.matches(signature).count(), 1, "{home}");
    assert!(["one", "two", "three"].iter().all(|word| home.contains(word)), "{home}");
    let listed = chat.ok("session.model.list", json!({})).await;
    let ids: Vec<&str> = listed["list"].as_array().unwrap().iter().filter_map(|m| m["id"].as_str()).collect();
    assert_eq!(ids[..3], ["alpha/big", "beta/small", "gamma/plain"]);
}

#[tokio::test]
async fn invalid_provider_is_refused_at_once() {
    let program = baton();
    let server = program.serve().await;
    let client = server.connect().await;
    for (provider, word) in [
        (json!({"type": "antropic", "baseUrl": "http://x"}), "antropic"),
        (json!({"wireApi": "chat"}), "chat"),
    ] {
        let error = client.refused("session.create", json!({"provider": provider})).await;
        assert!(error["message"].as_str().is_some_and(|text| text.contains(word)), "{error}");
    }
    let chat = Chat::create(&client, json!({"provider": {"type": "openai"}, "model": "m"})).await;
    let turn = chat.turn("hello").await;
    assert!(turn.errors()[0].contains("baseUrl"), "{:?}", turn.errors());
}

/// The fenced blocks of a language in all pages about providers.
fn documented(language: &str) -> Vec<String> {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers");
    let fence = format!("```{language}\n");
    let mut blocks = Vec::new();
    for page in std::fs::read_dir(pages).unwrap() {
        let page = std::fs::read_to_string(page.unwrap().path()).unwrap();
        blocks.extend(page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()));
    }
    assert!(blocks.len() >= 8, "one on each page: {blocks:?}");
    blocks
}

/// The same path at the scripted server.
fn moved(url: &str, model: &ModelServer) -> String {
    let path = url.splitn(4, '/').nth(3).unwrap_or_default();
    format!("http://{}/{path}", model.address())
}

#[tokio::test]
async fn documented_configurations_reach_a_model() {
    let model = ModelServer::start().await;
    for block in documented("toml") {
        let setting = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        let default = match setting("provider").as_deref() {
            Some("anthropic") => "https://api.anthropic.com",
            _ => "https://api.openai.com/v1",
        };
        let base_url = moved(setting("base_url").as_deref().unwrap_or(default), &model);
        let others = block.lines().filter(|line| !line.starts_with("base_url"));
        let lines = others.map(str::to_owned).chain([format!("base_url = \"{base_url}\"")]);
        let mut program = baton();
        if let Some(variable) = setting("api_key_env") {
            program = program.env(&variable, "the-key");
        }
        let file = program.work().join("config.toml");
        std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
        let ran = program.run(&["--config", file.to_str().unwrap(), "run", "[[text:it works]]"]).await;
        assert!(ran.stdout.contains("it works"), "{block}: {} {}", ran.stdout, ran.stderr);
        let asked = model.requests().pop().unwrap();
        assert_eq!(asked.body["model"].as_str(), setting("name").as_deref(), "{block}");
        let key = ["authorization", "api-key", "x-api-key"].iter().find_map(|name| asked.header(name));
        assert_eq!(key.is_some(), setting("api_key_env").is_some(), "{block}");
        assert!(key.is_none_or(|key| key.ends_with("the-key")), "{block}");
    }
}

#[tokio::test]
async fn documented_providers_reach_a_model() {
    let model = ModelServer::start().await;
    let program = baton();
    let server = program.serve().await;
    let client = server.connect().await;
    for block in documented("json") {
        let mut provider: Value = serde_json::from_str(&block).unwrap();
        provider["baseUrl"] = json!(moved(provider["baseUrl"].as_str().unwrap(), &model));
        let chat = Chat::create(&client, json!({"provider": provider})).await;
        let from = client.count();
        chat.send("[[text:it works]]").await;
        if provider["hasBearerTokenProvider"] == true {
            let (id, _) = client.asked("providerToken.getToken", from).await;
            answer(&client, &id, json!({"token": "t"})).await;
        }
        let turn = chat.until_idle(from).await;
        assert_eq!((turn.text(), turn.errors().len()), ("it works", 0), "{block}: {turn:?}");
        assert_eq!(model.requests().pop().unwrap().body["model"], provider["modelId"], "{block}");
    }
}

async fn answer(client: &Client, id: &Value, result: Value) {
    client.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
}

#[tokio::test]
async fn bearer_token_is_requested_before_every_model_request() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let provider = json!({"baseUrl": model.base_url(), "hasBearerTokenProvider": true, "modelId": "m"});
    let chat = Chat::create(&client, json!({"provider": provider})).await;
    for n in 1..=2 {
        let from = client.count();
        chat.send("[[text:hello]]").await;
        let (id, params) = client.asked("providerToken.getToken", from).await;
        assert_eq!(params, json!({"sessionId": chat.id, "providerName": "default"}));
        answer(&client, &id, json!({"token": format!("token-{n}")})).await;
        assert_eq!(chat.until_idle(from).await.text(), "hello");
        let sent = model.requests().pop().unwrap();
        assert_eq!(sent.header("authorization"), Some(format!("Bearer token-{n}").as_str()));
    }
    let exported = program.run(&["sessions", "export", &chat.id]).await;
    assert!(!exported.stdout.contains("token-1"), "tokens are not stored");

    let from = client.count();
    chat.send("hello").await;
    let (id, _) = client.asked("providerToken.getToken", from).await;
    let error = json!({"code": -32603, "message": "the vault is closed"});
    client.send(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
    let turn = chat.until_idle(from).await;
    assert!(turn.errors()[0].contains("the vault is closed"), "{:?}", turn.errors());
}

/// Accepts a model request that the server gives to the client, with its body.
async fn carried(client: &Client, from: usize) -> (String, Value) {
    let (id, start) = client.asked("llmInference.httpRequestStart", from).await;
    answer(client, &id, json!({})).await;
    let (id, chunk) = client.asked("llmInference.httpRequestChunk", from).await;
    answer(client, &id, json!({})).await;
    assert_eq!((&chunk["requestId"], &chunk["end"]), (&start["requestId"], &json!(true)));
    (start["requestId"].as_str().unwrap().to_owned(), start)
}

#[tokio::test]
async fn client_carries_model_requests() {
    let program = baton();
    let server = program.serve().await;
    let carrier = server.connect().await;
    carrier.ok("llmInference.setProvider", json!({})).await;
    let client = server.connect().await;
    let provider = json!({"baseUrl": "https://nowhere.invalid/v1", "apiKey": "k", "modelId": "m"});
    let chat = Chat::create(&client, json!({"provider": provider})).await;

    let (here, there) = (client.count(), carrier.count());
    chat.send("hello").await;
    let (request, start) = carried(&carrier, there).await;
    assert_eq!(start["url"], "https://nowhere.invalid/v1/chat/completions");
    assert_eq!((&start["sessionId"], &start["transport"]), (&json!(chat.id), &json!("http")));
    assert_eq!(start["headers"]["authorization"], json!(["Bearer k"]));
    let headers = json!({"content-type": ["application/json"]});
    let head = json!({"requestId": request, "status": 200, "headers": headers});
    assert_eq!(carrier.ok("llmInference.httpResponseStart", head).await["accepted"], true);
    let body = json!({"choices": [{"message": {"content": "carried"}, "finish_reason": "stop"}]});
    let chunk = json!({"requestId": request, "data": body.to_string(), "end": true});
    assert_eq!(carrier.ok("llmInference.httpResponseChunk", chunk.clone()).await["accepted"], true);
    assert_eq!(chat.until_idle(here).await.text(), "carried");
    assert_eq!(
        carrier.ok("llmInference.httpResponseChunk", chunk).await["accepted"],
        false,
        "the response is complete"
    );

    let (here, there) = (client.count(), carrier.count());
    chat.send("stop me").await;
    let (request, _) = carried(&carrier, there).await;
    chat.ok("session.abort", json!({})).await;
    let cancelled = |frame: &Value| {
        (frame["params"]["requestId"] == request.as_str() && frame["params"]["cancel"] == true).then_some(())
    };
    carrier.find("the cancel of the request", there, cancelled).await;
    assert_eq!(chat.until_idle(here).await.errors().len(), 0);

    let here = client.count();
    chat.send("is anybody there?").await;
    drop(carrier);
    let (_, failure) = chat.event("model.call_failure", here).await;
    let text = failure["data"]["errorMessage"].as_str().unwrap();
    assert!(text.contains("has disconnected"), "{text}");
    chat.ok("session.abort", json!({})).await;
    chat.until_idle(here).await;
}
