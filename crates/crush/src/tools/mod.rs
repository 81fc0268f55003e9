//! Translates tool calls, permission requests and results for crush's terminal, which selects a renderer by the tool's name
//! and reads arguments and metadata that it knows.
//!
//! Nothing here decides anything. A tool without a counterpart keeps its name, and the terminal shows it in a generic way.

mod call;
mod permission;
mod results;

pub(crate) use self::call::Call;
pub(crate) use self::permission::permission;
use self::results::DiffSides;
pub(crate) use self::results::result;
