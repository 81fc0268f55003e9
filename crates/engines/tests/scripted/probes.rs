//! Messages about programs that cannot be used, from a probe and from a run.

use std::collections::BTreeMap;

use baton_engines::{EngineRegistry, EngineResources, EngineSettings};

use crate::common::{Fixture, run_prompt};
use crate::setup::{all, write_program};

#[tokio::test]
async fn missing_program_is_reported_with_advice() {
    for (name, mode) in all() {
        let fixture = Fixture::new(name, |directory| EngineSettings {
            program: Some(directory.join("nowhere")),
            mode,
            ..EngineSettings::default()
        });
        let probe = fixture.engine.probe().await;
        assert_eq!((probe.path, probe.version), (None, None));
        let problem = probe.problem.unwrap();
        assert!(problem.contains("nowhere") && problem.contains("`program`"), "{problem}");
        assert_eq!(run_prompt(fixture.thread().as_mut(), "hi").await.failure(), problem);
    }
}

fn registry(directory: &std::path::Path, environment: &[(&str, &str)]) -> EngineRegistry {
    let variables = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let path = format!("{}:/usr/bin:/bin", directory.display());
    let resources = EngineResources {
        environment: variables
            .chain([("PATH".into(), path.into()), ("HOME".into(), directory.into())])
            .collect(),
        scratch: directory.join("scratch"),
    };
    EngineRegistry::new(BTreeMap::new(), resources)
}

async fn problem(program: &str, script: &str, environment: &[(&str, &str)]) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    write_program(&directory.path().join(program), &format!("#!/bin/sh\n{script}\n"));
    let registry = registry(directory.path(), environment);
    let probe = registry.get(program).unwrap().probe().await;
    assert_eq!(probe.path, Some(directory.path().join(program)));
    probe.problem
}

#[tokio::test]
async fn version_and_login_are_checked() {
    let config = tempfile::tempdir().unwrap();
    std::fs::write(config.path().join("config.toml"), "model_provider = \"mine\"").unwrap();
    let configured = [("CODEX_HOME", config.path().to_str().unwrap())];
    assert_eq!(problem("codex", "echo codex-cli 0.166.0", &configured).await, None);
    let old = problem("codex", "echo codex-cli 0.9.1", &configured).await.unwrap();
    assert!(old.contains("0.9.1 is too old") && old.contains("npm install"), "{old}");
    let silent = problem("codex", "exit 1", &configured).await.unwrap();
    assert!(silent.contains("does not print its version"), "{silent}");
    // Its app-server does not use a key of the environment.
    for environment in [&[][..], &[("OPENAI_API_KEY", "x")]] {
        let logged_out = problem("codex", "echo codex-cli 0.166.0", environment).await.unwrap();
        assert!(logged_out.contains("not logged in") && logged_out.contains("codex login"), "{logged_out}");
    }
    let logged_out = problem("claude", "echo 2.1.197 '(Claude Code)'", &[]).await.unwrap();
    assert!(logged_out.contains("not logged in"), "{logged_out}");
    let logged_out = problem("pi", "echo 0.73.1", &[]).await.unwrap();
    assert!(logged_out.contains("not logged in"), "{logged_out}");
    assert_eq!(problem("pi", "echo 0.73.1", &[("MISTRAL_API_KEY", "x")]).await, None);
    let without_provider = problem("opencode", "echo 1.18.33", &[]).await.unwrap();
    assert!(without_provider.contains("own free models"), "{without_provider}");
    assert_eq!(problem("opencode", "echo 1.18.33", &[("OPENCODE_CONFIG", "/x")]).await, None);
}

#[tokio::test]
async fn model_name_selects_the_engine() {
    let directory = tempfile::tempdir().unwrap();
    let settings = BTreeMap::from([
        ("acp:goose".to_owned(), EngineSettings::default()),
        ("nonsense".to_owned(), EngineSettings::default()),
        ("acp:".to_owned(), EngineSettings::default()),
    ]);
    let resources = EngineResources { environment: Vec::new(), scratch: directory.path().join("scratch") };
    let registry = EngineRegistry::new(settings, resources);
    let names: Vec<_> = registry.all().map(|engine| engine.name()).collect();
    assert!(names.iter().copied().eq(baton_engines::names().chain(["acp:goose"])), "{names:?}");
    for (model, expected) in [
        ("codex", Some(("codex", None))),
        ("codex/", Some(("codex", None))),
        ("claude/opus", Some(("claude", Some("opus")))),
        ("opencode/provider/model", Some(("opencode", Some("provider/model")))),
        ("acp:goose/x", Some(("acp:goose", Some("x")))),
        ("nonsense", None),
        ("claude-sonnet-4-5", None),
        ("", None),
    ] {
        let named = registry.of_model(model).map(|(engine, model)| (engine.name(), model));
        assert_eq!(named, expected, "{model}");
    }
}
