//! SQL of models, which needs no approval, and the memory of the server. That its process ends is tested in `processes`.

use baton_testkit::chat::Chat;
use serde_json::json;

use crate::scripted;

#[tokio::test]
async fn greedy_sql_does_not_grow_the_server() {
    let (program, _model) = scripted().await;
    let (server, client) = program.pipes().await;
    let chat = Chat::create(&client, json!({})).await;
    let call = |query: &str| format!("[[tool:sql {}]]", json!({"query": query, "description": "greedy"}));
    chat.turn(&call("SELECT 1")).await;
    let before = server.peak_memory();
    let wide = format!("SELECT {}", vec!["hex(zeroblob(50000))"; 1900].join(","));
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) \
        SELECT hex(zeroblob(1000)) FROM n;"
        .repeat(400);
    for (query, hint) in [(wide, "needs more than 48 MB of memory"), (many, "longer than 40 KB")] {
        let turn = chat.turn(&call(&query)).await;
        assert!(format!("{turn:?}").contains(hint), "the query was not run: {turn:?}");
    }
    let grown = server.peak_memory() - before;
    assert!(grown < 50 << 20, "the server grew by {grown} bytes");
}
