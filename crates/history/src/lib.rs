//! Stored sessions: everything that is done with a history in the store without a live session.
//!
//! * [`metadata`]: the part of a session that lists show, stored beside its history.
//! * [`owner`]: server processes that hold sessions, and whether they are alive.
//! * [`copy`]: copies of sessions to another store; [`fork`]: copies of a session, whole or up to an event.
//! * [`transfer`]: exports to a file, and imports from files that are not trusted.
//! * [`grants`]: grants and rules of all sessions; [`audit`]: who did what in them.
//! * [`search`]: sessions that contain a text.
//! * [`stored`]: sessions that are held for a moment to look at them or to change them.
//! * [`repairs`]: damage that opening a session tolerates, described for users.
//! * [`newest_first`] reads a history backwards; [`cut_before`] finds what a rewind removes; [`record_of`] encodes an event
//!   for the store.
//!
//! The functions work on any `baton_store::Store`, and read no file and no environment.

pub mod audit;
pub(crate) mod backwards;
pub mod copy;
pub(crate) mod cut;
pub mod fork;
pub mod grants;
pub mod metadata;
pub mod owner;
pub mod repairs;
pub(crate) mod sanitise;
pub mod search;
pub mod stored;
pub mod transfer;

use baton_core::ask::AnswerRequest;
use baton_core::{Ask, AskId, Input, Output, RequestAnswer, Session, Stamp};
use baton_protocol::permission::Verdict;
use baton_protocol::{Author, RequestId, Timestamp};
use baton_store::NewRecord;
use uuid::Uuid;

pub use self::backwards::{id_of, newest_first};
pub use self::cut::cut_before;

/// Encodes a recorded event for the store. Returns none for any other output.
#[must_use]
pub fn record_of(output: &Output) -> Option<NewRecord> {
    let Output::Record(event) = output else { return None };
    // Cannot fail: an event consists of strings, numbers and valid JSON.
    let body = serde_json::to_vec(event).unwrap_or_default();
    Some(NewRecord { kind: event.body.kind().to_owned(), body: body.into() })
}

/// Steps a session that is not live through asks, and returns the events to append to its history.
/// Returns the ask that denies a permission request.
fn deny(request: &RequestId, by: Author) -> Ask {
    let answer = Box::new(RequestAnswer::Permission(Verdict::UserNotAvailable, by));
    AnswerRequest { request: request.clone(), answer, by: None }.into()
}

fn step_all(session: &mut Session, asks: Vec<Ask>) -> Vec<NewRecord> {
    let mut records = Vec::new();
    for ask in asks {
        let stamp = Stamp::new(Timestamp::now(), Uuid::new_v4().as_u128());
        let outputs = session.step(Input::Ask { id: AskId(0), ask }, stamp);
        records.extend(outputs.iter().filter_map(record_of));
    }
    records
}
