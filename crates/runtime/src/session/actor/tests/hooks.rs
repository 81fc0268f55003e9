//! Hooks of several clients.

use baton_core::Profile;
use serde_json::json;

use super::world::{World, prompt};

#[tokio::test(start_paused = true)]
async fn hooks_of_an_extension_come_before_those_of_the_application_and_do_not_replace_them() {
    let world = World::new();
    let (handle, mut application) = world.create_with_hooks().await;
    let profile = Profile { hooks: true, is_extension: true, ..Profile::default() };
    let mut extension = world.join_with(&handle, profile).await.unwrap();
    prompt(&handle, "hello").await;

    let first = extension.called().await;
    assert_eq!(
        (&first.params["hookType"], &first.params["input"]["prompt"]),
        (&json!("userPromptSubmitted"), &json!("hello"))
    );
    first.reply_with(json!({ "output": { "modifiedPrompt": "changed" } }));
    let second = application.called().await;
    assert_eq!(second.params["hookType"], "userPromptSubmitted");
    assert_eq!(second.params["input"]["prompt"], "changed", "it sees what would be used");
}
