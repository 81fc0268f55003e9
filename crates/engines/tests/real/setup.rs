//! Configures each program to use the scripted model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_engines::{EngineSettings, Mode};
use baton_testkit::model_server::ModelServer;
use serde_json::json;

use crate::common::Fixture;

/// A real program and its model server.
pub(crate) struct RealProgram {
    pub(crate) fixture: Fixture,
    pub(crate) model: ModelServer,
    /// The number of messages that the program sends before the first prompt.
    preamble: usize,
}

impl std::ops::Deref for RealProgram {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

impl RealProgram {
    pub(crate) async fn new(name: &str, mode: Mode) -> Self {
        let model = ModelServer::start().await;
        let fixture = Fixture::new(name, |directory| {
            let (environment, extra_args) = match name {
                "codex" => codex(directory, &model),
                "claude" => claude(&model),
                "opencode" => opencode(directory, &model),
                "qwen" => qwen(&model),
                "pi" => pi(directory, &model),
                other => panic!("no setup for {other}"),
            };
            EngineSettings {
                program: Some(program(name)),
                mode,
                environment,
                extra_args,
                ..EngineSettings::default()
            }
        });
        Self { fixture, model, preamble: usize::from(name == "qwen") }
    }

    /// The model's answer to the prompt of this number.
    pub(crate) fn echo(&self, number: usize, prompt: &str) -> String {
        format!("echo {}: {prompt}", number + self.preamble)
    }
}

/// The installed executable.
fn program(name: &str) -> PathBuf {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/engines");
    let program = cache.join(name).join("node_modules/.bin").join(name);
    assert!(program.exists(), "{} does not exist; run scripts/test engines", program.display());
    program
}

type Setup = (BTreeMap<String, String>, Vec<String>);

fn variables<const N: usize>(variables: [(&str, String); N]) -> BTreeMap<String, String> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn codex(directory: &Path, model: &ModelServer) -> Setup {
    let home = directory.join("codex");
    std::fs::create_dir(&home).unwrap();
    let base = model.base_url();
    let config = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"Scripted\"\n\
         base_url = \"{base}\"\nwire_api = \"responses\"\nenv_key = \"SCRIPTED_KEY\"\nrequest_max_retries = 1\n\
         stream_max_retries = 1\n"
    );
    std::fs::write(home.join("config.toml"), config).unwrap();
    let environment =
        variables([("CODEX_HOME", home.display().to_string()), ("SCRIPTED_KEY", "dummy".to_owned())]);
    (environment, Vec::new())
}

fn claude(model: &ModelServer) -> Setup {
    let environment = variables([
        ("ANTHROPIC_BASE_URL", format!("http://{}", model.address())),
        ("ANTHROPIC_API_KEY", "dummy".to_owned()),
        ("ANTHROPIC_MODEL", "claude-sonnet-4-5".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
        // As root, it skips permission requests only inside a sandbox.
        ("IS_SANDBOX", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
    ]);
    (environment, Vec::new())
}

fn pi(directory: &Path, model: &ModelServer) -> Setup {
    let home = directory.join(".pi/agent");
    std::fs::create_dir_all(&home).unwrap();
    let models = json!({"providers": {"scripted": {
        "baseUrl": model.base_url(),
        "api": "openai-completions",
        "apiKey": "SCRIPTED_KEY",
        "models": [{"id": "scripted", "name": "Scripted", "contextWindow": 100_000, "maxTokens": 8000,
            "reasoning": false, "input": ["text"],
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}],
    }}});
    std::fs::write(home.join("models.json"), models.to_string()).unwrap();
    let settings = json!({"defaultProvider": "scripted", "defaultModel": "scripted",
        "retry": {"baseDelayMs": 100}});
    std::fs::write(home.join("settings.json"), settings.to_string()).unwrap();
    let environment = variables([("SCRIPTED_KEY", "dummy".to_owned()), ("PI_OFFLINE", "1".to_owned())]);
    (environment, Vec::new())
}

fn opencode(directory: &Path, model: &ModelServer) -> Setup {
    let home = directory.join(".config/opencode");
    std::fs::create_dir_all(&home).unwrap();
    let config = json!({
        "provider": {"scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": model.base_url(), "apiKey": "dummy"},
            "models": {"scripted": {"name": "Scripted", "limit": {"context": 100_000, "output": 8000}}},
        }},
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
    });
    std::fs::write(home.join("opencode.json"), config.to_string()).unwrap();
    let environment = variables([
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
    ]);
    (environment, Vec::new())
}

fn qwen(model: &ModelServer) -> Setup {
    let environment = variables([
        ("OPENAI_BASE_URL", model.base_url()),
        ("OPENAI_API_KEY", "dummy".to_owned()),
        ("OPENAI_MODEL", "scripted".to_owned()),
    ]);
    (environment, vec!["--auth-type".to_owned(), "openai".to_owned()])
}
