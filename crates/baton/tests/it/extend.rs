//! Skills and plugins outside of sessions: `baton skills`, `baton plugins`, `baton doctor`, the HTTP API, crush's client.

use std::path::Path;

use baton_testkit::http::Http;
use baton_testkit::program::{Finished, Program};
use serde_json::{Value, json};

use crate::baton;
use crate::crush_client::CrushServer;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Helps with {name}.\n---\n\n# How to {name}\n")
}

/// A project with a skill, and one that cannot be used.
fn project(work: &Path) {
    write(&work.join(".github/skills/pdf/SKILL.md"), &skill("pdf"));
    write(&work.join(".github/skills/broken/SKILL.md"), "---\nname: broken\n");
}

/// A marketplace with one plugin, which has one skill.
fn marketplace(root: &Path, version: &str) {
    let plugins = json!([{ "name": "review", "source": "./review", "description": "Reviews.\u{1b}[31m" }]);
    write(&root.join("marketplace.json"), &json!({ "name": "team", "plugins": plugins }).to_string());
    let manifest = json!({ "name": "review", "version": version });
    write(&root.join("review/plugin.json"), &manifest.to_string());
    write(&root.join("review/skills/careful/SKILL.md"), &skill("careful"));
}

async fn run(program: &Program, line: &str) -> Finished {
    program.run(&line.split(' ').collect::<Vec<_>>()).await
}

async fn listed(program: &Program, line: &str) -> Value {
    let listed = run(program, line).await;
    assert_eq!(listed.code(), Some(0), "{line}: {}", listed.stderr);
    serde_json::from_str(&listed.stdout).unwrap()
}

#[tokio::test]
async fn skills_are_listed_shown_and_turned_off() {
    let program = baton();
    project(&program.work());
    let found = listed(&program, "skills list --json").await;
    assert_eq!((&found["skills"][0]["name"], &found["skills"][0]["enabled"]), (&json!("pdf"), &json!(true)));
    assert!(found["problems"][0].as_str().unwrap().contains("broken"), "{found}");
    let shown = run(&program, "skills show pdf").await;
    assert!(shown.stdout.contains("# How to pdf"), "{}", shown.stdout);
    assert_eq!(run(&program, "skills show nothing").await.code(), Some(3));
    assert_eq!(run(&program, "skills disable nothing").await.code(), Some(3));

    assert_eq!(run(&program, "skills disable pdf").await.code(), Some(0));
    assert_eq!(listed(&program, "skills list --json").await["skills"][0]["enabled"], false);
    assert_eq!(run(&program, "skills enable pdf").await.code(), Some(0));
    assert_eq!(listed(&program, "skills list --json").await["skills"][0]["enabled"], true);
    let paths = run(&program, "skills path").await.stdout;
    assert!(paths.contains(".github/skills"), "{paths}");
    assert_eq!(run(&program, "skills path --preferred").await.stdout.lines().count(), 1);

    let doctor = run(&program, "doctor").await;
    assert_eq!(doctor.code(), Some(1), "a skill is broken");
    assert!(doctor.stdout.contains("✗ skills") && doctor.stdout.contains("broken"), "{}", doctor.stdout);
}

#[tokio::test]
async fn plugins_are_installed_updated_and_uninstalled() {
    let program = baton();
    let root = program.work().join("team");
    marketplace(&root, "1");
    assert_eq!(run(&program, "plugins install review@team").await.code(), Some(1), "unknown marketplace");
    assert_eq!(run(&program, "plugins marketplace add team").await.code(), Some(0));
    let offered = run(&program, "plugins marketplace browse team").await;
    assert!(offered.stdout.contains("Reviews.") && !offered.stdout.contains('\u{1b}'), "{}", offered.stdout);

    let installed = run(&program, "plugins install review@team").await;
    assert_eq!(installed.code(), Some(0), "{}", installed.stderr);
    let plugins = listed(&program, "plugins list --json").await;
    assert_eq!(
        (&plugins["plugins"][0]["name"], &plugins["plugins"][0]["version"]),
        (&json!("review"), &json!("1"))
    );
    let skills = listed(&program, "skills list --json").await;
    assert_eq!(
        (&skills["skills"][0]["name"], &skills["skills"][0]["pluginName"]),
        (&json!("careful"), &json!("review"))
    );

    marketplace(&root, "2");
    let updated = run(&program, "plugins update").await;
    assert!(updated.stderr.contains("1 → 2"), "{}", updated.stderr);
    assert_eq!(run(&program, "plugins disable review").await.code(), Some(0));
    assert_eq!(listed(&program, "skills list --json").await["skills"], json!([]));
    assert_eq!(run(&program, "plugins marketplace remove team").await.code(), Some(1), "it is in use");
    assert_eq!(run(&program, "plugins uninstall review").await.code(), Some(0));
    for line in ["plugins uninstall review", "plugins enable review", "plugins update review"] {
        assert_eq!(run(&program, line).await.code(), Some(3), "{line}");
    }
    assert_eq!(run(&program, "plugins marketplace remove team").await.code(), Some(0));
}

#[tokio::test]
async fn skills_and_plugins_are_managed_over_http() {
    let program = baton();
    project(&program.work());
    let root = program.work().join("team");
    marketplace(&root, "1");
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    let skills = format!("/api/skills?cwd={}", program.work().display());
    let found = http.get(&skills).await.expect(200);
    assert_eq!(
        (&found["skills"][0]["name"], &found["skills"][0]["source"]),
        (&json!("pdf"), &json!("project"))
    );
    let _ = http.get("/api/skills?cwd=relative").await.refused(400);
    let _ = http.get("/api/skills/pdf").await.refused(404);
    let shown = http.get(&format!("/api/skills/pdf?cwd={}", program.work().display())).await.expect(200);
    assert!(shown["content"].as_str().unwrap().contains("# How to pdf"));

    http.create("s", json!({ "cwd": program.work() })).await;
    let own = http.get("/api/sessions/s/skills").await.expect(200);
    assert_eq!(own["skills"][0]["name"], "pdf");
    assert_eq!(http.get("/api/sessions/s/skills/pdf").await.expect(200)["name"], "pdf");
    let _ = http.get("/api/sessions/s/skills/none").await.refused(404);
    let _ = http.post("/api/sessions/s/skills/none/disable", json!({})).await.refused(404);
    assert_eq!(http.post("/api/sessions/s/skills/pdf/disable", json!({})).await.status, 204);
    let own = http.get("/api/sessions/s/skills").await.expect(200);
    assert_eq!(own["skills"][0]["enabled"], false);

    let source = json!({ "source": root });
    let _ = http.post("/api/plugins", json!({ "source": "review@team" })).await.refused(422);
    assert_eq!(http.post("/api/marketplaces", source.clone()).await.expect(201)["name"], "team");
    let _ = http.post("/api/marketplaces", source).await.refused(422);
    let offered = http.get("/api/marketplaces/team/plugins").await.expect(200);
    assert_eq!(offered["plugins"][0]["name"], "review");
    assert_eq!(
        http.post("/api/plugins", json!({ "source": "review@team" })).await.expect(201)["enabled"],
        true
    );
    let off = http.post("/api/plugins/review/disable", json!({})).await.expect(200);
    assert_eq!(off["enabled"], false);
    let _ = http.send("DELETE", "/api/marketplaces/team", &[], None).await.refused(409);
    assert_eq!(http.send("DELETE", "/api/plugins/review", &[], None).await.status, 204);
    let _ = http.send("DELETE", "/api/plugins/review", &[], None).await.refused(404);
    assert_eq!(http.send("DELETE", "/api/marketplaces/team", &[], None).await.status, 204);
}

#[tokio::test]
async fn crush_shows_and_reads_skills() {
    let server = CrushServer::start().await;
    project(&server.program.work());
    let (a, _events) = server.attached().await;
    let skills = a.get("/skills").await;
    assert_eq!((&skills[0]["id"], &skills[0]["label"]), (&json!("pdf"), &json!("project:pdf")), "{skills}");
    let read = a.ok("/skills/read", json!({ "skill_id": "pdf" })).await;
    assert_eq!(read["result"]["name"], "pdf");
    assert!(!read["content"].as_str().unwrap().is_empty());
    assert_eq!(a.post("/skills/read", json!({ "skill_id": "../pdf" })).await.0, 404);
    let states = a.get("").await["skills"].clone();
    assert_eq!((&states[0]["name"], &states[0]["state"]), (&json!("pdf"), &json!(0)));
    assert_eq!(states[1]["state"], 1, "{states}");
}
