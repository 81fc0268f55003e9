//! Models that answer from a recording: offline, without a key, the same every time.
//!
//! [`Recorder`] writes what a model is asked and what it answers to a file of JSON lines that people can read and edit;
//! [`Recording`] reads it; [`ReplayModel`] answers from it. What is kept is the conversation, not the HTTP: there is no
//! header in it and no key, and it can be played to a client of any wire.
//!
//! A question matches when the conversation before it is the same, apart from what differs between two machines and two
//! days: directories, ids, dates (`alike`). Instructions of the system and the list of tools do not count.

mod alike;
mod player;
mod recorder;
mod tape;

pub use player::ReplayModel;
pub use recorder::{Recorder, RecordingModel};
pub use tape::{BadRecording, Recording};
