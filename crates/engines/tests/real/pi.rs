//! The real pi.

use baton_engines::Mode::{Exec, Interactive};

use crate::scenarios;

#[tokio::test]
#[ignore = "needs the real program"]
async fn remembers() {
    scenarios::remembers("pi", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn remembers_exec() {
    scenarios::remembers("pi", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn asks() {
    scenarios::asks("pi").await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn cancels() {
    scenarios::cancels("pi", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn cancels_exec() {
    scenarios::cancels("pi", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn vanishes() {
    scenarios::vanishes("pi", Interactive).await;
    scenarios::vanishes("pi", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn fails() {
    scenarios::fails("pi", Interactive).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn fails_exec() {
    scenarios::fails("pi", Exec).await;
}

#[tokio::test]
#[ignore = "needs the real program"]
async fn listens() {
    scenarios::listens("pi").await;
}
