//! Behaviour of the demo model.

use std::sync::Arc;

use super::*;
use crate::ToolDef;

fn user(text: &str) -> Message {
    Message::User(vec![Part::Text(text.to_owned())])
}

fn request(messages: Vec<Message>, tools: &[&str]) -> Request {
    let tool = |name: &&str| ToolDef {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: baton_protocol::Json::empty_object(),
    };
    Request {
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: tools.iter().map(tool).collect(),
        stream: true,
        ..Request::default()
    }
}

async fn ask(request: &Request) -> (ModelResponse, Vec<Delta>) {
    let mut deltas = Vec::new();
    let answer =
        DemoModel::with_pause(Duration::ZERO).respond(request, &mut |delta| deltas.push(delta)).await;
    (answer.unwrap(), deltas)
}

#[tokio::test]
async fn introduction_quotes_the_prompt() {
    let answered = Message::Assistant { text: "hi".into(), tool_calls: vec![], reasoning_opaque: None };
    let messages = vec![
        Message::System("be good".into()),
        user("hello"),
        answered,
        user("<current_datetime>now</current_datetime>\n\nHow are you today?"),
    ];
    let (answer, _) = ask(&request(messages, &["bash"])).await;
    assert!(answer.text.starts_with("I am Baton's built-in demo model: no AI"), "{}", answer.text);
    for part in
        ["“How are you today?”", "has 3 messages", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"]
    {
        assert!(answer.text.contains(part), "{part} is missing in: {}", answer.text);
    }
    assert_eq!((answer.finish, answer.model.as_deref()), (Finish::Stop, Some("baton-demo")));
    assert!(answer.usage.is_some_and(|usage| usage.input > 0 && usage.output > 0));
}

#[tokio::test]
async fn streamed_parts_add_up_to_the_answer() {
    let (answer, deltas) = ask(&request(vec![user("hello")], &[])).await;
    let parts: Vec<&str> = deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(parts.concat(), answer.text);
    assert!(parts.len() > 30, "{} parts", parts.len());
    let last =
        deltas.iter().rev().find_map(|d| if let Delta::Progress { bytes } = d { Some(*bytes) } else { None });
    assert_eq!(last, Some(answer.text.len() as u64));
}

#[tokio::test]
async fn request_without_stream_gets_no_parts() {
    let (answer, deltas) = ask(&Request { stream: false, ..request(vec![user("hello")], &[]) }).await;
    assert!(deltas.is_empty() && !answer.text.is_empty());
}

#[tokio::test]
async fn prompt_selects_the_tool() {
    let all = ["bash", "create", "view", "glob", "ask_user"];
    let check = async |prompt: &str, tools: &[&str], name: &str, arguments: serde_json::Value| {
        let (answer, deltas) = ask(&request(vec![user(prompt)], tools)).await;
        let [call] = answer.tool_calls.as_slice() else { panic!("{answer:?}") };
        let found: serde_json::Value = baton_json::from_str(&call.arguments).unwrap();
        assert_eq!(
            (call.name.as_str(), found, answer.finish),
            (name, arguments, Finish::ToolCalls),
            "{prompt}"
        );
        let delta = Delta::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        assert_eq!(deltas.last(), Some(&delta));
    };
    let shell = |command: &str, description: &str| json!({"command": command, "description": description});
    check("run `pwd`", &all, "bash", shell("pwd", "I run the command `pwd`.")).await;
    let file = json!({"path": "a.txt", "file_text": "hi"});
    check("create file a.txt with content hi", &all, "create", file).await;
    check("show file a.txt", &all, "view", json!({"path": "a.txt"})).await;
    check("list files", &all, "glob", json!({"pattern": "*"})).await;
    check("list files", &["bash"], "bash", shell("ls", "I list the files here.")).await;
    check("ask me what I like", &all, "ask_user", json!({"question": "What I like?"})).await;
}

#[tokio::test]
async fn missing_tool_is_reported() {
    let (answer, _) = ask(&request(vec![user("run `pwd`")], &["view"])).await;
    assert!(answer.tool_calls.is_empty() && answer.text.contains("no tool for it"), "{}", answer.text);
}

#[tokio::test]
async fn tool_results_are_quoted() {
    let call = ToolCall { id: "c".into(), name: "bash".into(), arguments: "{}".into() };
    let calls = Message::Assistant { text: String::new(), tool_calls: vec![call], reasoning_opaque: None };
    let check = async |content: &str, expected: &str| {
        let result = Message::Tool { call_id: "c".into(), content: content.into(), failed: false };
        let (answer, _) = ask(&request(vec![user("run `x`"), calls.clone(), result], &["bash"])).await;
        assert!(answer.tool_calls.is_empty(), "no further call");
        assert_eq!(answer.text, expected);
    };
    check(
        "total 0\n<exited with exit code 1>\n",
        "The tool `bash` returned:\n\n```\ntotal 0\n<exited with exit code 1>\n```",
    )
    .await;
    check(" \n", "The tool `bash` returned nothing.").await;
    let long = "ä".repeat(3000);
    let head = "The tool `bash` returned the following, of which I repeat the first 2000 characters:";
    check(&long, &format!("{head}\n\n```\n{}\n```", "ä".repeat(2000))).await;
}

#[tokio::test]
async fn call_ids_are_unique_in_a_conversation() {
    let first = ask(&request(vec![user("run `a`")], &["bash"])).await.0;
    let messages = vec![
        user("run `a`"),
        Message::Assistant {
            text: String::new(),
            tool_calls: first.tool_calls.clone(),
            reasoning_opaque: None,
        },
        Message::Tool { call_id: first.tool_calls[0].id.clone(), content: "ok".into(), failed: false },
        user("run `b`"),
    ];
    let second = ask(&request(messages, &["bash"])).await.0;
    assert_ne!(first.tool_calls[0].id, second.tool_calls[0].id);
}

#[test]
fn endpoint_is_one_that_sdks_know() {
    assert_eq!(DemoModel::default().endpoint(), "/chat/completions");
}

#[tokio::test]
async fn named_tools_are_called_with_arguments_of_their_schema() {
    let schema = json!({ "properties": { "n": { "type": "number" }, "message": { "type": "string" } }, "required": ["message"] });
    let mut request = request(vec![user("hello")], &[]);
    request.tools = [ToolDef {
        name: "everything-echo".into(),
        description: String::new(),
        parameters: baton_protocol::Json::from(schema),
    }]
    .into();
    for (prompt, expected) in [
        ("call everything-echo with hello there", json!({ "message": "hello there" })),
        ("please use the tool `everything-echo` message=7 n=7", json!({ "message": "7", "n": 7 })),
        ("Call everything-echo {\"message\": \"x\"}", json!({ "message": "x" })),
        ("call everything-echo", json!({})),
    ] {
        request.messages = vec![Arc::new(user(prompt))];
        let (answer, _) = ask(&request).await;
        let arguments: serde_json::Value = baton_json::from_str(&answer.tool_calls[0].arguments).unwrap();
        assert_eq!(arguments, expected, "{prompt}");
    }
    request.messages = vec![Arc::new(user("call me later"))];
    assert!(ask(&request).await.0.tool_calls.is_empty(), "there is no such tool");
}
