//! Servers that sessions share.

use std::path::Path;
use std::sync::Arc;

use baton_mcp::{Notice, Pool, ServerStatus, contents};
use baton_process::Ledger;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::support::World;

fn config(shared: bool) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/odd_server.py");
    json!({ "command": "python3", "args": [script, "well"], "shared": shared })
}

fn worlds(count: usize, shared: bool) -> (Vec<World>, Ledger) {
    let (pool, ledger) = (Arc::<Pool>::default(), Ledger::default());
    let world = |_| World::sharing(config(shared), pool.clone(), ledger.clone());
    ((0..count).map(world).collect(), ledger)
}

fn text(result: &Value) -> String {
    contents(result).text
}

#[tokio::test]
async fn hundred_sessions_share_one_process_until_the_last_one_ends() {
    let (worlds, ledger) = worlds(100, true);
    let statuses = join_all(worlds.iter().map(World::started)).await;
    assert!(statuses.iter().all(|status| *status == ServerStatus::Connected), "{statuses:?}");
    assert_eq!(ledger.running().len(), 1);
    assert_eq!(text(&worlds[99].call("echo", json!({ "text": "x" })).await.unwrap()), "x");
    let session = worlds[5].call("env", json!({ "name": "COPILOT_AGENT_SESSION_ID" })).await.unwrap();
    assert_eq!(text(&session), "(unset)", "it belongs to no session");
    for world in &worlds[1..] {
        world.host.close().await;
    }
    assert_eq!(ledger.running().len(), 1);
    assert_eq!(text(&worlds[0].call("echo", json!({ "text": "y" })).await.unwrap()), "y");
    worlds[0].host.close().await;
    assert_eq!(ledger.running(), []);
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn session_that_left_before_it_had_joined_does_not_keep_the_process() {
    let gate = std::env::temp_dir().join(format!("baton-gate-{}", std::process::id()));
    let mut config = config(true);
    config["env"] = json!({ "GATE": gate });
    let (pool, ledger) = (Arc::<Pool>::default(), Ledger::default());
    let [early, late] = [(); 2].map(|()| World::sharing(config.clone(), pool.clone(), ledger.clone()));
    early.host.start();
    until(|| !ledger.running().is_empty()).await;
    early.host.close().await;
    until(|| ledger.running().is_empty()).await;
    tokio::fs::write(&gate, "").await.unwrap();
    assert_eq!(late.started().await, ServerStatus::Connected);
    late.host.close().await;
    assert_eq!(ledger.running(), []);
    tokio::fs::remove_file(&gate).await.unwrap();
}

#[tokio::test]
async fn servers_are_shared_only_where_the_configuration_says_so() {
    let (worlds, ledger) = worlds(2, false);
    join_all(worlds.iter().map(World::started)).await;
    assert_eq!(ledger.running().len(), 2);
}

#[tokio::test]
async fn question_goes_to_the_session_whose_call_it_is() {
    let (worlds, _) = worlds(3, true);
    join_all(worlds.iter().map(World::started)).await;
    let result = worlds[1].call("ask", json!({})).await.unwrap();
    assert!(text(&result).contains("Ada"));
    let asked: Vec<usize> =
        worlds.iter().map(|world| world.session.questions.lock().unwrap().len()).collect();
    assert_eq!(asked, [0, 1, 0]);
    // While another session waits for its own call, nobody can tell.
    let slow = super::support::call("slow", json!({}));
    let (cancel, server) = (slow.cancel.clone(), worlds[0].server());
    let waiting = tokio::spawn(async move { server.call(slow).await });
    // The other call takes a moment to arrive.
    while !text(&worlds[1].call("ask", json!({})).await.unwrap()).contains("which session") {}
    cancel.cancel();
    waiting.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn crash_of_a_shared_server_is_noticed_by_all_and_repaired_once() {
    let (worlds, ledger) = worlds(3, true);
    join_all(worlds.iter().map(World::started)).await;
    worlds[0].call("die", json!({})).await.unwrap_err();
    for world in &worlds {
        world.noticed(|notice| matches!(notice, Notice::Status(ServerStatus::Failed(_)))).await;
    }
    let echo = |world: &World| world.server();
    let calls = worlds.iter().map(|world| {
        let server = echo(world);
        async move { server.call(super::support::call("echo", json!({ "text": "again" }))).await }
    });
    for result in join_all(calls).await {
        assert_eq!(text(&result.unwrap()), "again");
    }
    assert_eq!(ledger.running().len(), 1);
    worlds[0].call("grow", json!({})).await.unwrap();
    for world in &worlds {
        world.noticed(|notice| *notice == Notice::ToolsChanged).await;
        world.host.refresh().await;
        assert!(world.host.find("odd-grown").is_some());
    }
}
