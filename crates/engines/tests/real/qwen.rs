//! The real Qwen Code, which stands for everything that speaks ACP.

use baton_engines::Mode::Interactive;

use crate::scenarios;

#[tokio::test]
#[ignore = "needs the real program"]
async fn remembers() {
    scenarios::remembers("qwen", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn asks() {
    scenarios::asks("qwen").await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn cancels() {
    scenarios::cancels("qwen", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn vanishes() {
    scenarios::vanishes("qwen", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn listens() {
    scenarios::listens_afterwards("qwen").await;
}
