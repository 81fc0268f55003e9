//! The real opencode.

use baton_engines::Mode::{Exec, Interactive};

use crate::scenarios;

#[tokio::test]
#[ignore = "needs the real program"]
async fn remembers() {
    scenarios::remembers("opencode", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn remembers_exec() {
    scenarios::remembers("opencode", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn asks() {
    scenarios::asks("opencode").await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn cancels() {
    scenarios::cancels("opencode", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn cancels_exec() {
    scenarios::cancels("opencode", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn vanishes() {
    scenarios::vanishes("opencode", Interactive).await;
    scenarios::vanishes("opencode", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn fails() {
    scenarios::fails("opencode", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn fails_exec() {
    scenarios::fails("opencode", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn listens() {
    scenarios::listens_afterwards("opencode").await;
}
