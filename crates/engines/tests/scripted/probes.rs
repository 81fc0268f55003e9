//! Messages about programs that cannot be used, from a probe and from a run.

use std::collections::BTreeMap;

use baton_engines::{EngineRegistry, EngineResources, EngineSettings};

use crate::common::{Fixture, run_prompt};
use crate::setup::{ALL, write_program};

#[tokio::test]
async fn missing_program_is_reported_with_advice() {
    for (name, mode) in ALL {
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
    let key = [("OPENAI_API_KEY", "x")];
    assert_eq!(problem("codex", "echo codex-cli 0.166.0", &key).await, None);
    let old = problem("codex", "echo codex-cli 0.9.1", &key).await.unwrap();
    assert!(old.contains("0.9.1 is too old") && old.contains("npm install"), "{old}");
    let silent = problem("codex", "exit 1", &key).await.unwrap();
    assert!(silent.contains("does not print its version"), "{silent}");
    let logged_out = problem("codex", "echo codex-cli 0.166.0", &[]).await.unwrap();
    assert!(logged_out.contains("not logged in") && logged_out.contains("codex login"), "{logged_out}");
    let logged_out = problem("claude", "echo 2.1.197 '(Claude Code)'", &[]).await.unwrap();
    assert!(logged_out.contains("not logged in"), "{logged_out}");
    assert_eq!(problem("pi", "echo 0.73.1", &[]).await, None);
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
    assert_eq!(names, ["codex", "claude", "pi", "opencode", "gemini", "qwen", "acp:goose"]);
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
