//! Process supervision: programs that Baton starts, with every process that they start in turn.
//!
//! * [`Supervised`] runs a program in a session (of the operating system's kind) with a tag in its environment, and ends
//!   its whole process tree: SIGTERM, a grace period, SIGKILL.
//! * [`Start`] starts such a program with pipes, inside a sandbox if it has one.
//! * [`Ledger`] is a server's list of the process groups that it runs. It survives the server in a file.
//! * [`reap`] ends the processes in the ledgers of servers that were killed.
//! * [`Instance`] identifies one run of a server across machines, boots and reused process ids.
//!
//! Nothing here knows what the programs are for. Shell commands, engines and probes use it alike.

mod end;
mod inside;
mod instance;
mod ledger;
mod leftovers;
mod reaper;
mod start;
mod supervised;
mod table;
mod tree;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use instance::Instance;
pub use ledger::Ledger;
pub use reaper::{reap, reap_server};
pub use start::{Pipes, Start};
pub use supervised::{Supervised, TreeHandle};
pub use table::ProcessIdentity;
pub use tree::{TAG_VARIABLE, end_tagged};

/// Locks a mutex, poisoned or not: the data behind the mutexes of this crate is consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
