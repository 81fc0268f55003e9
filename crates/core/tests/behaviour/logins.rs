//! Logins at MCP servers, and requests of servers that end with their calls.

use baton_core::ask::{CloseLogin, Elicit, RequestLogin, Sample, WithdrawAsk};
use baton_core::{AnswerOutcome, Elicited, RequestAnswer};
use baton_protocol::{Json, RequestId};

use crate::world::*;

fn wanted(url: &str, reason: &str) -> RequestLogin {
    RequestLogin { server: "docs".into(), url: url.into(), reason: reason.into() }
}

fn pending(world: &World) -> Vec<RequestId> {
    world.session.durable.logins.iter().map(|login| login.request_id.clone()).collect()
}

#[test]
fn login_keeps_its_id_across_crashes_and_further_challenges() {
    let mut world = World::new();
    let id = world.ask(wanted("https://x.example/mcp", "initial")).unwrap();
    assert_eq!(world.ask(wanted("https://x.example/mcp", "initial")).unwrap(), id);
    let recorded = world.kinds().len();
    world.crash();
    assert_eq!(pending(&world), std::slice::from_ref(&id));
    assert_eq!(world.ask(wanted("https://x.example/mcp", "initial")).unwrap(), id);
    assert_eq!(world.kinds().len(), recorded, "asking again records nothing");
    assert_eq!(world.ask(wanted("https://x.example/mcp", "reauth")).unwrap(), id);
    world.attach(1, &[]);
    world.resume(1, &[], Some(false));
    assert_eq!(pending(&world), std::slice::from_ref(&id), "it belongs to no turn");
    assert!(world.ask(CloseLogin { server: "docs".into(), outcome: "token".into() }).unwrap());
    assert!(!world.ask(CloseLogin { server: "docs".into(), outcome: "token".into() }).unwrap());
    world.crash();
    assert_eq!(pending(&world), []);
    assert_ne!(world.ask(wanted("https://x.example/mcp", "initial")).unwrap(), id);
}

#[test]
fn server_at_another_address_is_another_login() {
    let mut world = World::new();
    let old = world.ask(wanted("https://x.example/mcp", "initial")).unwrap();
    let new = world.ask(wanted("https://evil.example/mcp", "initial")).unwrap();
    assert_ne!(old, new);
    assert_eq!(pending(&world), [new]);
    let late = world.answer(&old, RequestAnswer::NoLogin);
    assert_eq!(world.outcome_of(late), Some(AnswerOutcome::TooLate));
}

#[test]
fn login_is_declined_once() {
    let mut world = World::new();
    let id = world.ask(wanted("https://x.example/mcp", "initial")).unwrap();
    let wrong = world.answer(&id, RequestAnswer::Sampling(None));
    assert_eq!(world.outcome_of(wrong), Some(AnswerOutcome::Mismatch));
    let first = world.answer(&id, RequestAnswer::NoLogin);
    let second = world.answer(&id, RequestAnswer::NoLogin);
    assert_eq!(world.outcome_of(first), Some(AnswerOutcome::Counted));
    assert_eq!(world.outcome_of(second), Some(AnswerOutcome::TooLate));
}

#[test]
fn logins_are_limited() {
    let mut world = World::new();
    let wanted =
        |n: usize| RequestLogin { server: n.to_string(), url: "https://x/".into(), reason: "initial".into() };
    assert!((0..64).all(|n| world.ask(wanted(n)).is_ok()));
    assert!(world.ask(wanted(64)).is_err());
    assert!(world.ask(wanted(63)).is_ok());
}

#[test]
fn requests_of_servers_wait_for_any_client_and_end_with_their_call() {
    let mut world = World::new();
    let form = |key: &str| Elicit {
        message: "name?".into(),
        schema: None,
        source: Some("odd".into()),
        url: None,
        key: Some(key.into()),
    };
    let asked = world.send(form("a"));
    let sample =
        Sample { server: "odd".into(), id: "1".into(), request: Json::empty_object(), key: "b".into() };
    let sampled = world.send(sample);
    world.attach(1, &[]);
    world.detach(1);
    assert_eq!(world.session.live.asks.len(), 2, "nobody needs to be attached");
    assert!(world.ask(WithdrawAsk { key: "a".into() }).unwrap());
    assert!(!world.ask(WithdrawAsk { key: "a".into() }).unwrap());
    assert_eq!(world.reply::<Elicit>(asked), Some(Ok(Elicited::cancelled())));
    let request = world.session.live.asks.keys().next().unwrap().clone();
    let answered = world.answer(&request, RequestAnswer::Sampling(Some(Json::empty_object())));
    assert_eq!(world.outcome_of(answered), Some(AnswerOutcome::Counted));
    assert_eq!(world.reply::<Sample>(sampled), Some(Ok(Some(Json::empty_object()))));
}

#[test]
fn answer_that_does_not_match_the_form_of_a_server_is_refused() {
    let mut world = World::new();
    let schema = serde_json::json!({
        "required": ["name"],
        "properties": { "name": { "type": "string" }, "age": { "type": "integer" }, "size": { "enum": ["s", "m"] } },
    });
    let form = Elicit {
        message: "who?".into(),
        schema: Some(Json::from(schema)),
        source: Some("odd".into()),
        url: None,
        key: Some("a".into()),
    };
    let asked = world.send(form);
    let request = world.session.live.asks.keys().next().unwrap().clone();
    let mut accept = |content: serde_json::Value| {
        let elicited = Elicited { action: "accept".into(), content: Some(Json::from(content)) };
        let answered = world.answer(&request, RequestAnswer::Elicitation(elicited));
        world.outcome_of(answered).unwrap()
    };
    for wrong in [
        serde_json::json!({}),
        serde_json::json!({ "name": 7 }),
        serde_json::json!({ "name": "Ada", "age": "old" }),
        serde_json::json!({ "name": "Ada", "age": 1.5 }),
        serde_json::json!({ "name": "Ada", "size": "xl" }),
    ] {
        assert!(matches!(accept(wrong.clone()), AnswerOutcome::Refused(_)), "{wrong}");
    }
    assert_eq!(accept(serde_json::json!({ "name": "Ada", "age": 36, "size": "m" })), AnswerOutcome::Counted);
    assert!(matches!(world.reply::<Elicit>(asked), Some(Ok(elicited)) if elicited.action == "accept"));
}
