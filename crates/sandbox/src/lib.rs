//! Walls around programs: what a program that runs inside can read, write and reach is enforced by the kernel.
//!
//! ```text
//! server ── Enclosure::start ──▶ baton internal-sandbox-enter ──exec──▶ bwrap ──▶ baton internal-sandbox-inside (PID 1)
//!   │                             joins the session's network            mounts      closes descriptors, limits, Landlock,
//!   │                                                                                seccomp, then starts the program
//!   └────────────────────────────── one socket: Control ─────────────────────────────────▶ and ends everything at its EOF
//! ```
//!
//! * [`Host`] knows what this system can enforce: which `bwrap`, which kernel features, and why not.
//! * [`Enclosure`] is the sandbox of one session: its policy, private directories and network namespace.
//! * [`Mounts`](mounts::Mounts) is what programs inside see of the file system, as arguments for `bwrap`.
//! * [`Census`](protected::Census) finds the files that act: they cannot be changed, and new ones are set aside.
//! * [`helper`] is the other side: the hidden commands that build the walls. They are run by the same program.
//!
//! Nothing here decides who runs inside, asks people, or knows a session. The tree of processes belongs to
//! `baton-process`, the proxy to `baton-egress`.

mod control;
mod enclosure;
mod environment;
mod features;
pub mod helper;
mod host;
pub mod mounts;
mod network;
mod plan;
pub mod protected;
mod secrets;
mod survey;

pub use control::{Control, Ended, Report};
pub use enclosure::{
    Enclosed, Enclosure, Input, Launch, Place, Places, Preparing, Ready, Unavailable, Watcher,
};
pub use features::{Bwrap, Features};
pub use host::{Host, Program, Support};
pub use plan::Limits;
pub use protected::Held;
