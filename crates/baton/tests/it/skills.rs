//! Skills of a session: found, listed, given to the model, invoked by users, supplied by clients.

use std::path::Path;

use baton_testkit::chat::Chat;
use baton_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use crate::scripted;

/// Writes a skill into a directory of skills.
fn write_skill(directory: &Path, name: &str, text: &str) {
    let directory = directory.join(name);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("SKILL.md"), text).unwrap();
}

const PDF: &str =
    "---\nname: pdf\ndescription: Reads PDF files.\nallowed-tools: bash\n---\n\n# Use pdftotext\n";

/// The texts of the messages of a role in a request to the model.
fn texts(request: &Value, role: &str) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter().filter(|message| message["role"] == role);
    messages
        .map(|message| match &message["content"] {
            Value::String(text) => text.clone(),
            parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
        })
        .collect()
}

/// The conversations that the model was given, in order.
fn asked(model: &ModelServer) -> Vec<Value> {
    model
        .requests()
        .into_iter()
        .map(|request| request.body)
        .filter(|body| body["messages"].is_array())
        .collect()
}

fn tool_description(request: &Value, name: &str) -> Option<String> {
    let tools = request["tools"].as_array()?;
    let tool = tools.iter().find(|tool| tool["function"]["name"] == name)?;
    tool["function"]["description"].as_str().map(str::to_owned)
}

fn names(listed: &Value) -> Vec<&str> {
    listed["skills"].as_array().unwrap().iter().map(|skill| skill["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn model_loads_a_skill_without_permission() {
    let (program, model) = scripted().await;
    let skills = program.work().join("skills");
    write_skill(&skills, "pdf", PDF);
    write_skill(&skills, "broken", "---\nname: broken\n");
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"skillDirectories": [skills]})).await;
    let turn = chat.turn(r#"[[tool:skill {"skill":"pdf"}]][[text:Read]]"#).await;
    assert_eq!(turn.errors(), Vec::<&str>::new());
    let kinds = turn.kinds();
    let at =
        |kind: &str| kinds.iter().position(|other| *other == kind).unwrap_or_else(|| panic!("{kinds:?}"));
    assert!(at("tool.execution_complete") < at("skill.invoked"));
    assert!(!kinds.contains(&"permission.requested"));
    let invoked = &turn.of("skill.invoked")[0]["data"];
    assert_eq!((&invoked["name"], &invoked["trigger"]), (&json!("pdf"), &json!("agent-invoked")));
    assert_eq!(invoked["content"], "# Use pdftotext\n");
    let requests = asked(&model);
    let described = tool_description(&requests[0], "skill").unwrap();
    assert!(described.contains("Reads PDF files.") && !described.contains("broken"), "{described}");
    let last = requests.last().unwrap();
    assert_eq!(
        texts(last, "tool"),
        ["Skill \"pdf\" loaded successfully. Follow the instructions in the skill context."]
    );
    let context = format!(
        "<skill-context name=\"pdf\">\nBase directory for this skill: {}\n\n# Use pdftotext\n\n</skill-context>",
        skills.join("pdf").display()
    );
    assert_eq!(texts(last, "user").last(), Some(&context));
    let known = chat.ok("session.skills.getInvoked", json!({})).await;
    assert_eq!(names(&known), ["pdf"]);
    let reloaded = chat.ok("session.skills.reload", json!({})).await;
    assert!(reloaded["errors"][0].as_str().unwrap().contains("three dashes"), "{reloaded}");
    // `allowed-tools` of a file grants nothing.
    let from = client.count();
    chat.send(r#"[[tool:bash {"command":"touch x","description":"d"}]]"#).await;
    chat.event("permission.requested", from).await;
}

#[tokio::test]
async fn skills_are_disabled_and_enabled() {
    let (program, model) = scripted().await;
    let skills = program.work().join("skills");
    write_skill(&skills, "pdf", PDF);
    let server = program.serve().await;
    let client = server.connect().await;
    let params = json!({"skillDirectories": ["skills"], "disabledSkills": ["pdf"], "workingDirectory": program.work()});
    let chat = Chat::create(&client, params).await;
    let enabled =
        || async { chat.ok("session.skills.list", json!({})).await["skills"][0]["enabled"].clone() };
    assert_eq!(enabled().await, false);
    chat.turn(r#"[[tool:skill {"skill":"pdf"}]][[text:No]]"#).await;
    assert_eq!(tool_description(&asked(&model)[0], "skill"), None);
    assert_eq!(texts(&asked(&model).pop().unwrap(), "tool"), ["Skill not found: pdf"]);
    let from = client.count();
    chat.ok("session.skills.enable", json!({"name": "pdf"})).await;
    chat.event("session.skills_loaded", from).await;
    assert_eq!(enabled().await, true);
    chat.ok("session.skills.disable", json!({"name": "no such skill"})).await;
    chat.turn("[[text:Yes]]").await;
    assert!(tool_description(&asked(&model).pop().unwrap(), "skill").is_some());

    client.ok("skills.config.setSkillDisabled", json!({"name": "pdf", "disabled": true})).await;
    let other = Chat::create(&client, json!({"skillDirectories": [skills]})).await;
    let listed = other.ok("session.skills.list", json!({})).await;
    assert_eq!(listed["skills"][0]["enabled"], false, "disabled for all sessions: {listed}");
    let none = Chat::create(&client, json!({"skillDirectories": [skills], "enableSkills": false})).await;
    assert_eq!(names(&none.ok("session.skills.list", json!({})).await), Vec::<&str>::new());
}

#[tokio::test]
async fn project_skills_need_discovery_and_users_invoke_them() {
    let (program, model) = scripted().await;
    let project = program.work().join("project");
    write_skill(&project.join(".github/skills"), "pdf", PDF);
    let server = program.serve().await;
    let client = server.connect().await;
    let params = |discovery: bool| json!({"workingDirectory": project, "enableConfigDiscovery": discovery});
    let without = Chat::create(&client, params(false)).await;
    assert_eq!(names(&without.ok("session.skills.list", json!({})).await), Vec::<&str>::new());
    let chat = Chat::create(&client, params(true)).await;
    let listed = chat.ok("session.skills.list", json!({})).await;
    assert_eq!(listed["skills"][0]["source"], "project", "{listed}");
    let commands = chat.ok("session.commands.list", json!({"includeBuiltins": false})).await;
    assert_eq!(
        (&commands["commands"][0]["name"], &commands["commands"][0]["kind"]),
        (&json!("pdf"), &json!("skill"))
    );
    let invoked = chat.ok("session.commands.invoke", json!({"name": "/pdf", "input": "a.pdf"})).await;
    assert_eq!((&invoked["kind"], &invoked["displayPrompt"]), (&json!("agent-prompt"), &json!("/pdf a.pdf")));
    chat.turn(invoked["prompt"].as_str().unwrap()).await;
    let prompts = texts(&asked(&model).pop().unwrap(), "user");
    assert!(prompts[0].starts_with("<skill-context name=\"pdf\">"), "{prompts:?}");
    assert!(prompts[1].contains("Arguments: a.pdf"), "{prompts:?}");
    let from = client.count();
    chat.ok("session.commands.enqueue", json!({"command": "/pdf b.pdf"})).await;
    chat.until_idle(from).await;
    let prompts = texts(&asked(&model).pop().unwrap(), "user");
    assert!(prompts.last().unwrap().contains("Arguments: b.pdf"), "{prompts:?}");
}

#[tokio::test]
async fn agent_has_its_skills_in_its_prompt() {
    let (program, model) = scripted().await;
    let skills = program.work().join("skills");
    write_skill(&skills, "pdf", PDF);
    let server = program.serve().await;
    let client = server.connect().await;
    let agents = json!([
        {"name": "reader", "prompt": "You read.", "skills": ["pdf", "missing"]},
        {"name": "writer", "prompt": "You write."},
    ]);
    let params = |agent: &str| json!({"skillDirectories": [skills], "customAgents": agents, "agent": agent});
    let chat = Chat::create(&client, params("reader")).await;
    let turn = chat.turn("[[text:Read]]").await;
    assert_eq!(turn.of("skill.invoked")[0]["data"]["trigger"], "context-load");
    let request = &asked(&model)[0];
    assert!(texts(request, "system")[0].contains("# Use pdftotext"));
    assert_eq!(texts(request, "user").len(), 1);
    let again = chat.turn("[[text:Read]]").await;
    assert!(again.of("skill.invoked").is_empty(), "recorded once");
    let other = Chat::create(&client, params("writer")).await;
    other.turn("[[text:Written]]").await;
    assert!(!texts(&asked(&model).pop().unwrap(), "system")[0].contains("# Use pdftotext"));
}

#[tokio::test]
async fn client_supplies_skills_on_request() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"hasSkillProvider": true})).await;
    let from = client.count();
    let listing = client.start("session.skills.list", json!({"sessionId": chat.id})).await;
    let (list, _) = client.asked("skillProvider.list", from).await;
    let skills =
        json!([{"name": "tea", "description": "Makes tea."}, {"name": "bad\nname", "description": ""}]);
    client.send(&json!({"jsonrpc": "2.0", "id": list, "result": {"skills": skills}})).await;
    let listed = client.answer(listing).await.unwrap();
    assert_eq!((names(&listed), &listed["skills"][0]["source"]), (vec!["tea"], &json!("sdk")));
    chat.send(r#"[[tool:skill {"skill":"tea"}]][[text:Made]]"#).await;
    let (read, params) = client.asked("skillProvider.read", from).await;
    assert_eq!(params["name"], "tea");
    let reply = json!({"markdown": "---\nname: tea\n---\nBoil water."});
    client.send(&json!({"jsonrpc": "2.0", "id": read, "result": reply})).await;
    chat.until_idle(from).await;
    let prompts = texts(&asked(&model).pop().unwrap(), "user");
    assert_eq!(prompts.last().unwrap(), "<skill-context name=\"tea\">\nBoil water.\n</skill-context>");
}

#[tokio::test]
async fn skills_agents_and_instructions_are_discovered_without_a_session() {
    let (program, _model) = scripted().await;
    let project = program.work().join("project");
    write_skill(&project.join(".claude/skills"), "pdf", PDF);
    std::fs::create_dir_all(project.join(".github/agents")).unwrap();
    std::fs::write(
        project.join(".github/agents/tester.agent.md"),
        "---\ndescription: Tests.\n---\nYou test.",
    )
    .unwrap();
    std::fs::write(project.join("AGENTS.md"), "Use tabs.").unwrap();
    let server = program.serve().await;
    let client = server.connect().await;
    let found =
        client.ok("skills.discover", json!({"projectPaths": [project], "excludeHostSkills": true})).await;
    assert_eq!((names(&found), &found["skills"][0]["projectPath"]), (vec!["pdf"], &json!(project)));
    let paths = client.ok("skills.getDiscoveryPaths", json!({"projectPaths": [project]})).await;
    let paths = paths["paths"].as_array().unwrap();
    assert!(
        paths.iter().any(|path| path["scope"] == "personal-copilot" && path["preferredForCreation"] == true)
    );
    let agents =
        client.ok("agents.discover", json!({"projectPaths": [project], "excludeHostAgents": true})).await;
    assert_eq!(
        (&agents["agents"][0]["name"], &agents["agents"][0]["source"]),
        (&json!("tester"), &json!("project"))
    );
    let params = json!({"projectPaths": [project], "excludeHostInstructions": true});
    let sources = client.ok("instructions.discover", params).await;
    assert_eq!(
        (&sources["sources"][0]["content"], &sources["sources"][0]["type"]),
        (&json!("Use tabs."), &json!("repo"))
    );
}

#[tokio::test]
async fn run_uses_skills_of_the_project_and_the_user() {
    let (program, model) = scripted().await;
    write_skill(&program.work().join(".github/skills"), "pdf", PDF);
    write_skill(
        &program.home().join("skills"),
        "mine",
        "---\nname: mine\ndescription: My own.\n---\n\nDo it.\n",
    );
    let done = program.run(&["run", r#"[[tool:skill {"skill":"pdf"}]][[text:Read]]"#]).await;
    assert!(done.status.success(), "{}", done.stderr);
    let requests = asked(&model);
    let described = tool_description(&requests[0], "skill").unwrap();
    assert!(described.contains("Reads PDF files.") && described.contains("My own."), "{described}");
    assert!(texts(requests.last().unwrap(), "tool")[0].starts_with("Skill \"pdf\" loaded"), "{requests:?}");
}
