//! The real codex.

use baton_engines::Mode::{Exec, Interactive};

use crate::scenarios;

#[tokio::test]
#[ignore = "needs the real program"]
async fn remembers() {
    scenarios::remembers("codex", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn remembers_exec() {
    scenarios::remembers("codex", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn asks() {
    scenarios::asks("codex").await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn cancels() {
    scenarios::cancels("codex", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn cancels_exec() {
    scenarios::cancels("codex", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn vanishes() {
    scenarios::vanishes("codex", Interactive).await;
    scenarios::vanishes("codex", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn fails() {
    scenarios::fails("codex", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn fails_exec() {
    scenarios::fails("codex", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn listens() {
    scenarios::listens("codex").await;
}
