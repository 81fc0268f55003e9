//! Skills, plugins, agents and extensions on disk: finding and parsing them.
//!
//! Everything here is a stranger's text: a cloned repository or a downloaded plugin decides what the files say. So files are
//! read as [untrusted](baton_disk::untrusted) (regular files below their directory, up to a limit, no links out), a
//! malformed file is skipped and reported, and nothing that a file claims grants anything. This crate knows no session and
//! starts no process. All of it blocks, and belongs on the [pool](baton_disk::blocking).
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod agent_file;
mod copy;
mod extension;
mod hooks_file;
mod marketplace;
mod places;
mod plugin;
mod scan;
mod skill;

pub use baton_disk::front_matter::split;

pub use self::agent_file::{AgentFile, scan_agents};
pub use self::copy::{copy_plugin, source_id};
pub use self::extension::{Extension, scan_extensions, scan_extensions_below};
pub use self::hooks_file::HookCommand;
pub use self::marketplace::{Listing, Marketplace};
pub use self::places::{AgentPlace, SearchedDirectory, SkillPlaces, agent_places, skill_places};
pub use self::plugin::{Parts, Plugin};
pub use self::scan::{Problem, Severity, SkillScan, scan, scan_single};
pub use self::skill::{Content, PluginRef, Skill, SkillOrigin, SkillSource, check_name};
