//! The table of escapes: each fails in the sandbox, and succeeds with the level `off`, so that the test can fail.
//!
//! An escape is a shell command that exits with 0 if it has got out. All escapes of a test run in one script, at both levels, as
//! the user of the test and, if that is root, as an ordinary user too. Each run ends with a write in the workspace that has to
//! succeed, so that a sandbox that does not start at all is no success. After a run inside, nothing outside may have changed.

mod arena;
mod command;
mod files;
mod git;
#[cfg(target_arch = "x86_64")]
mod kernel;
mod limits;
mod network;
mod processes;
mod secrets;
mod sessions;
mod work;
