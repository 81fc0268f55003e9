//! Waits for the provider of a session that another server has taken over.
//!
//! Credentials are never stored, so the server that continues a session may lack the provider that a client brought. The turn
//! stays as it is: a model call without a result, which any owner repeats. It continues when a client attaches with a
//! provider, or when an edge attaches such a client again.

use std::time::Duration;

use baton_protocol::event::SessionWarning;

use super::WorkScope;

/// Pause between two looks at the settings of the session.
const LOOK: Duration = Duration::from_millis(250);

/// Number of looks before clients are warned: edges attach theirs again within a second or two.
const PATIENCE: u32 = 8;

/// Waits until the session has its provider, and uses the settings that have it. Returns at once in a server that shares its
/// sessions with no other: there, the call fails and says what to do.
pub(super) async fn wait(scope: &mut WorkScope) {
    if scope.runtime.cluster.is_none() {
        return;
    }
    let mut looks = 0;
    while scope.settings.provider_lost {
        if looks == PATIENCE {
            scope.note(warning());
        }
        looks = (looks + 1).min(PATIENCE + 1);
        tokio::time::sleep(LOOK).await;
        match scope.handle().inspect().await {
            Ok(view) => scope.settings = view.settings,
            // The session ends here, and this work with it.
            Err(_) => return,
        }
    }
}

fn warning() -> SessionWarning {
    SessionWarning {
        warning_type: "provider".into(),
        message: "The turn waits for the provider of this session: its server died, and credentials are never stored. \
                  Resume the session with `provider`, or cancel the turn."
            .into(),
        url: None,
    }
}
