//! Everything that a client can do to a server, below all doors.
//!
//! A door authenticates its clients, parses what they send, calls this crate and encodes what it returns. What a client does
//! is an [`Operation`]; the table in [`operation`] says which role each needs. There are two kinds:
//!
//! * An operation on the server is an [`Action`]: a value with its parameters, a typed reply and a typed error.
//!   [`Service::perform`] performs it.
//! * An operation on a live session is an ask ([`baton_ask`]), sent through a [`LiveSession`]. [`asks`] says which operation
//!   each is.
//!
//! Both check the [`Caller`], and no door decides who may do what. A door may ask [`Caller::permit`] earlier, before it reads a
//! large body; it cannot forget to: what it calls checks again. One list is elsewhere: an extension may call less than its
//! user may, and the JSON-RPC door says which methods.
//!
//! This crate knows no wire, and decides nothing about a session.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod accounts;
mod action;
pub mod asks;
mod caller;
pub mod extensions;
pub mod grants;
pub mod mcp;
pub mod notifications;
pub mod operation;
pub mod plugins;
mod readiness;
mod remote_logins;
pub mod requests;
mod scans;
pub mod server;
mod session;
pub mod sessions;
pub mod settings;
pub mod skills;
mod turns;
pub mod watch;

use std::sync::{Arc, OnceLock};

use baton_notify::Notifier;
use baton_runtime::Runtime;

pub use self::action::{Action, ImmediateAction, OperationError, Permitted};
pub use self::asks::ClientAsk;
pub use self::caller::{Caller, Denied};
pub use self::operation::Operation;
use self::readiness::Readiness;
use self::remote_logins::RemoteLogins;
use self::scans::Scans;
pub use self::session::{AskError, LiveSession};
pub use self::turns::Turns;

/// The operations of one server. Cheap to clone; all doors of a server share one.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

struct Shared {
    runtime: Arc<Runtime>,
    /// Notifications, if the server sends any.
    notifier: OnceLock<Arc<Notifier>>,
    scans: Scans,
    readiness: Readiness,
    remote_logins: RemoteLogins,
}

impl Service {
    /// Creates the service of a runtime.
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>) -> Self {
        Self {
            shared: Arc::new(Shared {
                runtime: runtime.clone(),
                notifier: OnceLock::new(),
                scans: Scans::default(),
                readiness: Readiness::default(),
                remote_logins: RemoteLogins::default(),
            }),
        }
    }

    /// Lets browsers subscribe to notifications.
    pub fn set_notifier(&self, notifier: Arc<Notifier>) {
        // A server has one notifier from its start.
        let _ = self.shared.notifier.set(notifier);
    }

    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.shared.runtime
    }

    pub(crate) fn notifier(&self) -> Option<&Arc<Notifier>> {
        self.shared.notifier.get()
    }
}
