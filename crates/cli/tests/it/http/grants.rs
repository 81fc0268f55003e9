//! Grants over HTTP: what is offered, what is refused, who gave what, and how it is revoked.

use serde_json::{Value, json};

use super::House;

const BUILD: &str = r#"[[tool:bash {"command":"make -n all"}]]"#;
const ECHO: &str = r#"[[tool:bash {"command":"echo hello"}]]"#;

impl House {
    /// Answers the pending permission request of the session `s`.
    async fn decide(&self, answer: Value) -> baton_testkit::http::Response {
        let request = self.http.pending("s").await;
        let mut body = json!({"kind": "permission"});
        body.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        self.http
            .post(&format!("/api/sessions/s/requests/{}", request["requestId"].as_str().unwrap()), body)
            .await
    }

    async fn delete(&self, path: &str) -> u16 {
        self.http.send("DELETE", path, &[], None).await.status
    }
}

#[tokio::test]
async fn a_grant_that_was_not_offered_is_refused_and_the_request_stays_open() {
    let house = House::open().await;
    house.http.create("s", json!({"cwd": house.program.work()})).await;
    let prompt = house.http.prompt("s", BUILD).await;
    let request = house.http.pending("s").await;
    assert_eq!(request["offers"][0]["grant"]["commandIdentifiers"], json!(["make -n all"]));
    assert_eq!(request["offers"][1]["grant"]["commandIdentifiers"], json!(["make:*"]));
    assert!(
        request["offers"][1]["meaning"].as_str().unwrap().contains("can run other programs"),
        "{request}"
    );

    let wider = json!({"kind": "commands", "commandIdentifiers": ["bash"]});
    let refused = house.decide(json!({"decision": "approve-for-session", "grant": wider})).await;
    assert_eq!(refused.expect(422)["error"]["code"], "not_offered");
    assert_eq!(house.http.pending("s").await["requestId"], request["requestId"], "it is still open");

    let _ = house.decide(json!({"decision": "approve-for-session"})).await.expect(200);
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");
    let again = house.http.prompt("s", BUILD).await;
    assert_eq!(house.http.outcome("s", &again).await, "completed", "the exact line is not asked again");
    let other = r#"[[tool:bash {"command":"make -n install"}]]"#;
    house.http.prompt("s", other).await;
    assert_eq!(house.http.pending("s").await["detail"]["fullCommandText"], "make -n install");
}

#[tokio::test]
async fn an_opaque_line_can_only_be_approved_once() {
    let house = House::open().await;
    house.http.create("s", json!({"cwd": house.program.work()})).await;
    house.http.prompt("s", r#"[[tool:bash {"command":"echo $(echo inner)"}]]"#).await;
    let request = house.http.pending("s").await;
    assert_eq!((request.get("offers"), &request["detail"]["canOfferSessionApproval"]), (None, &json!(false)));
    let refused = house.decide(json!({"decision": "approve-for-session"})).await;
    assert_eq!(refused.expect(422)["error"]["code"], "not_offered");
    let _ = house.decide(json!({"decision": "approve"})).await.expect(200);
}

#[tokio::test]
async fn grants_are_listed_with_who_gave_them_and_revoked_across_a_crash() {
    let mut house = House::open().await;
    house.http.create("s", json!({"cwd": house.program.work()})).await;
    let prompt = house.http.prompt("s", ECHO).await;
    let _ = house.decide(json!({"decision": "approve-for-session"})).await.expect(200);
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");
    house.kill_and_restart().await;
    let held = house.http.get("/api/sessions/s/grants").await.expect(200);
    let grant = &held["grants"][0];
    assert_eq!(grant["grant"], json!({"kind": "commands", "commandIdentifiers": ["echo"]}), "{held}");
    assert_eq!(grant["by"], "HTTP API");
    let path = format!("/api/sessions/s/grants/{}", grant["id"].as_str().unwrap());
    assert_eq!(house.delete(&path).await, 204);
    assert_eq!(house.delete(&path).await, 404, "it is gone");
    assert_eq!(house.http.get("/api/sessions/s/grants").await.expect(200)["grants"], json!([]));
    house.http.prompt("s", ECHO).await;
    let _ = house.http.pending("s").await;
    let history = house.history("s").await;
    let mut changes = history.iter().filter(|(_, event)| event["type"] == "baton.approvals_changed");
    assert_eq!(changes.next().unwrap().1["data"]["by"], "HTTP API", "who gave it is in the history");
}

#[tokio::test]
async fn a_grant_for_a_location_is_durable_once_it_is_acknowledged() {
    let mut house = House::open().await;
    house.http.create("s", json!({"cwd": house.program.work()})).await;
    house.http.prompt("s", ECHO).await;
    let _ = house.decide(json!({"decision": "approve-for-location"})).await.expect(200);
    house.kill_and_restart().await;
    let stored = house.http.get("/api/locations").await.expect(200);
    let location = &stored["locations"][0];
    assert_eq!(location["grants"][0]["argument"], "echo", "{stored}");
    assert_eq!(location["grants"][0]["by"], "HTTP API");
    let key = location["location"].as_str().unwrap().to_owned();
    assert_eq!(house.delete(&format!("/api/locations?location={key}&kind=write")).await, 404);
    assert_eq!(house.delete(&format!("/api/locations?location={key}&kind=shell&argument=echo")).await, 204);
    assert_eq!(house.http.get("/api/locations").await.expect(200), json!({"locations": []}));
}

#[tokio::test]
async fn engine_starts_in_a_directory_that_acts_only_if_somebody_trusts_it() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = tempfile::tempdir().unwrap();
    let (program, mark) = (scratch.path().join("codex"), scratch.path().join("started"));
    std::fs::write(&program, format!("#!/bin/sh\necho >> {}\nexit 1\n", mark.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let house = House::configured(&format!("[engines.codex]\nprogram = {:?}\n", program.display())).await;
    std::fs::create_dir(house.program.work().join(".codex")).unwrap();
    house.http.create("s", json!({"cwd": house.program.work(), "model": "codex"})).await;

    let prompt = house.http.prompt("s", "hello").await;
    let request = house.http.pending("s").await;
    assert_eq!(request["detail"]["toolName"], "trust", "{request}");
    assert!(request["detail"]["hookMessage"].as_str().unwrap().contains(".codex"), "{request}");
    assert_eq!(request.get("offers"), None, "trust is no grant");
    assert!(!mark.exists(), "nothing was started yet");
    let _ = house.decide(json!({"decision": "reject"})).await.expect(200);
    assert_eq!(house.http.outcome("s", &prompt).await, "failed");
    assert!(!mark.exists(), "nothing was started at all");

    let prompt = house.http.prompt("s", "hello").await;
    let _ = house.decide(json!({"decision": "approve"})).await.expect(200);
    assert_eq!(house.http.outcome("s", &prompt).await, "failed", "the program does nothing");
    assert!(mark.exists(), "but it was started");
}
