//! The real Claude Code.

use baton_engines::Mode::{Exec, Interactive};

use crate::scenarios;

#[tokio::test]
#[ignore = "needs the real program"]
async fn remembers() {
    scenarios::remembers("claude", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn remembers_exec() {
    scenarios::remembers("claude", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn asks() {
    scenarios::asks("claude").await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn cancels() {
    scenarios::cancels("claude", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn cancels_exec() {
    scenarios::cancels("claude", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn vanishes() {
    scenarios::vanishes("claude", Interactive).await;
    scenarios::vanishes("claude", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn fails() {
    scenarios::fails("claude", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn fails_exec() {
    scenarios::fails("claude", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn listens() {
    scenarios::listens("claude").await;
}
