//! Waits for the provider of a session that another server has taken over.
//!
//! Credentials are never stored, so the server that continues a session may lack the provider that a client brought, and a
//! client that carries model requests is not connected to it. The turn stays as it is: a model call without a result, which
//! any owner repeats. It continues when a client attaches with a provider or carries requests, or when an edge attaches such a
//! client again.

use std::time::Duration;

use baton_protocol::event::SessionWarning;
use baton_settings::ModelSender;

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
    while let Some(missing) = missing(scope) {
        if looks == PATIENCE {
            scope.note(warning(missing));
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

/// What a turn waits for.
#[derive(Clone, Copy)]
enum Missing {
    Provider,
    Carrier,
}

fn missing(scope: &WorkScope) -> Option<Missing> {
    let is_carrier_lost = scope.settings.sender == ModelSender::LostClient;
    if is_carrier_lost && !scope.runtime.models.tunnel.is_open(Some(&scope.session.id)) {
        return Some(Missing::Carrier);
    }
    scope.settings.provider_lost.then_some(Missing::Provider)
}

fn warning(missing: Missing) -> SessionWarning {
    let message = match missing {
        Missing::Provider => {
            "The turn waits for the provider of this session: its server died, and credentials are never stored. \
             Resume the session with `provider`, or cancel the turn."
        }
        Missing::Carrier => {
            "The turn waits for a client that carries the model requests of this session: its server died. \
             Resume the session with such a client, or cancel the turn."
        }
    };
    SessionWarning { warning_type: "provider".into(), message: message.into(), url: None }
}
