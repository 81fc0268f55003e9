//! Files that Baton keeps beside the store, without live sessions.
//!
//! Files of one session, reached through its [`SessionFiles`]:
//!
//! * [`workspace`]: its plan, and files that clients and the model exchange.
//! * [`checkpoints`]: the summaries of its compactions.
//! * [`rewind`]: snapshots of files before the session changed them, and restoring them.
//! * [`shared`]: all of these as a copy of files that servers share; [`copy`] copies them between stores.
//! * [`mirror`]: copies of its events and metadata, for other tools.
//!
//! Files of the user, in Baton's home:
//!
//! * [`locations`]: grants of locations, and trusted folders; [`preferences`]: settings.
//! * [`user_servers`]: the user's MCP servers; [`workspace_servers`]: those of a workspace, and approvals of them.
//! * [`server_catalogue`]: all MCP servers outside of sessions; [`tool_digests`]: what their tools looked like.
//! * [`sandboxes`]: temporary files and caches of programs in sandboxes.
//! * [`home`]: modes of all of Baton's files.
//!
//! [`context`] reads the working directory of a session.
//!
//! Commands of a session can write to its directory, so files there are opened without following links, and read up to a
//! limit.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod checkpoints;
pub mod context;
pub mod copy;
pub mod engine_warnings;
pub mod held;
pub mod home;
pub mod json_file;
pub mod locations;
pub mod mirror;
pub mod preferences;
pub mod rewind;
pub mod sandboxes;
pub mod server_catalogue;
mod session;
pub mod shared;
mod token_key;
pub mod tokens;
pub mod tool_digests;
pub mod user_servers;
pub mod workspace;
pub mod workspace_servers;

pub use self::session::SessionFiles;
