//! Misbehaving models: each failure has one clear error or result, each turn one outcome, and the session stays usable.

use baton_testkit::chat::{Chat, Turn};
use baton_testkit::model_server::{End, ReplyAction, ScriptedReply};
use baton_testkit::program::Program;
use serde_json::{Value, json};

use crate::scripted;

/// The outcomes of all prompts of a session, from its exported history.
async fn outcomes(program: &Program, session: &str) -> Vec<String> {
    let exported = program.run(&["sessions", "export", session]).await;
    assert_eq!(exported.code(), Some(0), "{}", exported.stderr);
    let events = exported.json_lines();
    let accepted = events.iter().filter(|e| e["type"] == "baton.prompt_accepted");
    let settled: Vec<&Value> = events.iter().filter(|e| e["type"] == "baton.turn_settled").collect();
    let ends = accepted.map(|event| {
        let id = &event["data"]["promptId"];
        let of_it = |e: &&&Value| e["data"]["promptIds"].as_array().unwrap().contains(id);
        let ends: Vec<&&Value> = settled.iter().filter(of_it).collect();
        assert_eq!(ends.len(), 1, "the prompt {id} has {} outcomes", ends.len());
        assert!(ends[0]["data"]["reason"].as_str().is_some_and(|reason| reason.len() > 5), "{}", ends[0]);
        ends[0]["data"]["outcome"].as_str().unwrap().to_owned()
    });
    ends.collect()
}

/// Fails unless the turn has one error with this text, and no answer.
fn check_failed(turn: &Turn, expected: &str) {
    let errors = turn.errors();
    assert_eq!(errors.len(), 1, "one error, not {errors:?} in {:?}", turn.kinds());
    assert!(errors[0].to_lowercase().contains(&expected.to_lowercase()), "{expected:?} is not in {errors:?}");
    assert!(turn.of("assistant.message").is_empty(), "{turn:?}");
    assert_eq!(turn.of("session.idle").len(), 1);
}

#[tokio::test]
async fn unusable_model_fails_the_turn_with_one_error() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    for streaming in [false, true] {
        let chat = Chat::create(&client, json!({"streaming": streaming})).await;
        let mut prompts = 0;
        if !streaming {
            check_failed(&chat.turn("[[truncate]]").await, "sent something other than");
            prompts += 1;
        }
        for (script, expected) in [
            ("[[garbage]]", "sent something other than"),
            ("[[html]]", "web page"),
            ("[[error:401]]", "401"),
            ("[[error:403]]", "403"),
            ("[[error:404]]", "404"),
            ("[[error:400]]", "400"),
            ("[[error:429:retry=600]]", "429"),
            ("[[error:500:retry=600]]", "500"),
        ] {
            check_failed(&chat.turn(script).await, expected);
            prompts += 1;
        }
        chat.assert_usable().await;
        chat.ok("session.destroy", json!({})).await;
        let mut expected = vec!["failed"; prompts];
        expected.push("completed");
        assert_eq!(outcomes(&program, &chat.id).await, expected);
    }
}

#[tokio::test]
async fn transient_model_failure_is_retried() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let failures = ["error:500*1", "error:429*1:retry=0", "drop*1", "reset*1"];
    let try_one = async |failure: &str, streaming: bool| {
        let chat = Chat::create(&client, json!({"streaming": streaming})).await;
        // The model counts failures by prompt, so each conversation needs its own.
        let turn = chat.turn(&format!("[[{failure}]][[text:at last]] streaming: {streaming}")).await;
        assert_eq!((turn.text(), turn.errors().len()), ("at last", 0), "{failure}: {:?}", turn.kinds());
        // The HTTP client may retry a connection that is reset before the answer begins, without a report.
        let reports = turn.of("model.call_failure").len();
        assert!(
            reports == 1 || (reports == 0 && failure.starts_with("reset")),
            "{failure}: clients are notified"
        );
        assert_eq!(turn.of("assistant.message").len(), 1, "{failure}");
        chat.assert_usable().await;
    };
    // Each waits for a second before its retry: run them concurrently.
    let both = failures.iter().flat_map(|failure| [try_one(failure, false), try_one(failure, true)]);
    // Without streaming, a truncated answer is an error and not retried: see above.
    let all = both.chain([try_one("truncate*1", true)]);
    futures_util::future::join_all(all).await;
}

#[tokio::test]
async fn retries_of_a_failing_model_can_be_cancelled() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let from = client.count();
    chat.send("[[error:500]]").await;
    let (_, failure) = chat.event("model.call_failure", from).await;
    assert!(
        failure["data"]["errorMessage"].as_str().is_some_and(|text| text.contains("127.0.0.1")),
        "{failure}"
    );
    chat.ok("session.abort", json!({})).await;
    let turn = chat.until_idle(from).await;
    assert_eq!((turn.errors().len(), turn.of("abort").len()), (0, 1));
    chat.ok("session.destroy", json!({})).await;
    assert_eq!(outcomes(&program, &chat.id).await, ["cancelled"]);
}

#[tokio::test]
async fn partial_answer_before_a_failure_is_in_the_history() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"streaming": true})).await;
    // Half an answer, and then a permanent error.
    let half = r#"{"choices":[{"index":0,"delta":{"content":"half an "}}]}"#;
    let error = r#"{"error":{"message":"No more","code":"insufficient_quota"}}"#;
    let broken =
        ScriptedReply::raw("text/event-stream", [half, error].map(|data| format!("data: {data}\n\n")));
    model.push(broken);
    let turn = chat.turn("say something").await;
    assert_eq!((turn.text(), turn.errors().len()), ("half an ", 1), "{turn:?}");
    let piece = turn.of("assistant.message_delta")[0]["data"]["messageId"].clone();
    assert_eq!(turn.of("assistant.message")[0]["data"]["messageId"], piece, "it has the id of its deltas");
    assert!(chat.history().await.iter().any(|event| event["data"]["content"] == "half an "));
    chat.assert_usable().await;
    let sent = model.requests().pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("half an "), "the model gets its partial answer: {sent}");
}

#[tokio::test]
async fn hanging_model_call_can_be_cancelled() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    for (round, streaming) in [false, true].into_iter().enumerate() {
        let chat = Chat::create(&client, json!({"streaming": streaming})).await;
        let from = client.count();
        let before = model.requests().len();
        chat.send("[[hang]]").await;
        chat.send("queued behind it").await;
        let hanging = model.wait_for_requests(before + if round == 0 { 2 } else { 1 }).await.len() - 1;
        chat.ok("session.abort", json!({})).await;
        assert_eq!(
            model.wait_for_end(hanging).await,
            End::ClientLeft,
            "the connection to the model is closed"
        );
        let turn = chat.until_idle(from).await;
        assert_eq!(turn.of("user.message").len(), 2, "the queued prompt is in the history as well");
        assert!(turn.errors().is_empty());
        chat.assert_usable().await;
        chat.ok("session.destroy", json!({})).await;
        assert_eq!(outcomes(&program, &chat.id).await, ["cancelled", "cancelled", "completed"]);
    }
}

#[tokio::test]
async fn invalid_tool_calls_are_reported_to_the_model() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::trusting(&client, json!({})).await;
    for (script, expected) in [
        ("[[tool:no_such_tool {}]]", "Tool 'no_such_tool' does not exist."),
        ("[[tool:bash {oops]]", "Invalid arguments"),
        ("[[tool:bash {}]]", "command"),
        ("[[tool:bash [] ]]", "Invalid arguments"),
        ("[[tool:bash \"text\"]]", "Invalid arguments"),
        (r#"[[tool:bash {"command":7}]]"#, "command"),
        (r#"[[tool:view {"path":"/no/such/file"}]]"#, "does not exist"),
        (r#"[[tool:ask_user {"question":"nobody can answer"}]]"#, "does not exist"),
        ("[[tool: {}]]", "does not exist"),
    ] {
        let turn = chat.turn(script).await;
        let done = turn.of("tool.execution_complete");
        assert_eq!(done.len(), 1, "{script}: {:?}", turn.kinds());
        assert_eq!(done[0]["data"]["success"], false, "{script}: {done:?}");
        assert!(done[0].to_string().contains(expected), "{script}: {done:?}");
        assert!(turn.text().starts_with("echo"), "{script}: the model answers the error: {:?}", turn.text());
        assert!(turn.errors().is_empty(), "{script}");
    }
    chat.assert_usable().await;
}

#[tokio::test]
async fn tool_calls_with_the_same_id_are_distinguished() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    for streaming in [false, true] {
        let chat = Chat::trusting(&client, json!({"streaming": streaming})).await;
        let call = |index: usize, word: &str| {
            let function =
                json!({"name": "bash", "arguments": json!({"command": format!("echo {word}")}).to_string()});
            json!({"index": index, "id": "same", "type": "function", "function": function})
        };
        let calls = json!([call(0, "one"), call(1, "two"), call(2, "three")]);
        let answer = if streaming {
            let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]});
            ScriptedReply::raw("text/event-stream", [format!("data: {chunk}\n\ndata: [DONE]\n\n")])
        } else {
            let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
            ScriptedReply::raw(
                "application/json",
                [json!({"choices": [{"index": 0, "message": message}]}).to_string()],
            )
        };
        model.push(answer);
        model.push(ScriptedReply::text("all three"));
        let turn = chat.turn("call them").await;
        assert_eq!(turn.text(), "all three");
        let done = turn.of("tool.execution_complete");
        let mut said: Vec<&str> =
            done.iter().map(|e| e["data"]["result"]["content"].as_str().unwrap()).collect();
        said.sort_unstable();
        let wanted = ["one", "three", "two"].map(|word| format!("{word}\n<exited with exit code 0>"));
        assert_eq!(said, wanted);
        chat.assert_usable().await;
    }
}

#[tokio::test]
async fn fifty_parallel_tool_calls_return_in_order() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let tool = json!({"name": "twice", "parameters": {"type": "object"}, "skipPermission": true});
    let chat = Chat::create(&client, json!({"tools": [tool]})).await;
    let call = |n: usize| ReplyAction::Call { name: "twice".into(), arguments: json!({"n": n}).to_string() };
    model.push(ScriptedReply::new((0..50).map(call)));
    let from = client.count();
    chat.send("all at once").await;
    let mut next = from;
    for _ in 0..50 {
        let (at, event) = chat.event("external_tool.requested", next).await;
        next = at + 1;
        let n = event["data"]["arguments"]["n"].as_u64().unwrap();
        let answer = json!({"requestId": event["data"]["requestId"], "result": (2 * n).to_string()});
        assert_eq!(chat.ok("session.tools.handlePendingToolCall", answer.clone()).await["success"], true);
        let again = chat.ok("session.tools.handlePendingToolCall", answer).await;
        assert_eq!(again["success"], false, "the first answer counts");
    }
    let turn = chat.until_idle(from).await;
    assert_eq!(turn.of("tool.execution_complete").len(), 50);
    let asked = model.requests().pop().unwrap().body;
    let results = asked["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool");
    let said: Vec<&str> = results.map(|message| message["content"].as_str().unwrap()).collect();
    let wanted: Vec<String> = (0..50).map(|n| (2 * n).to_string()).collect();
    assert_eq!(said, wanted, "results are in the order of the calls");
}

#[tokio::test]
async fn empty_and_huge_answers_are_accepted() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    for streaming in [false, true] {
        let chat = Chat::create(&client, json!({"streaming": streaming})).await;
        model.push(ScriptedReply::new([ReplyAction::Text(String::new())]));
        let turn = chat.turn("say nothing").await;
        assert_eq!((turn.of("assistant.message").len(), turn.errors().len()), (1, 0), "{turn:?}");
        let word = "x".repeat(1 << 20) + " ";
        model.push(ScriptedReply::new([ReplyAction::Text(word.repeat(10))]));
        let turn = chat.turn("say a lot").await;
        assert_eq!((turn.text().len(), turn.errors().len()), (10 * word.len(), 0));
        chat.assert_usable().await;
    }
}
