//! Recording of model answers, and a model that replays them: offline, without a key, and deterministic.
//!
//! [`Recorder`] writes requests and answers to a file of JSON lines that people can read and edit;
//! [`Recording`] parses it; [`ReplayModel`] answers from it. The file contains the conversation, not the
//! HTTP: it has no headers and no keys, and can be replayed to clients of any wire format.
//!
//! A request matches a recorded one if the conversation before it is the same, except for what differs
//! between machines and days: directories, ids, dates (`normalise`). The system prompt and the list of tools
//! are ignored.

mod file;
mod normalise;
mod player;
mod recorder;

pub use file::{BadRecording, Recording};
pub use player::ReplayModel;
pub use recorder::{Recorder, RecordingModel};
