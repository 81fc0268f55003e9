//! Code shared by the commands that use a server through `baton_client`: [`requests`] are its questions to the user,
//! [`answers`] what the user types, [`screen`] shows events, in the words of [`watch`](crate::watch).

mod answers;
mod requests;
mod screen;
mod server_requests;

pub(crate) use baton_client::{
    AcceptedPrompt, Address, Attempts, Client, EventStream, NotFound, RequestFailure, ServerLocator,
    SessionView, StreamedEvent, user_of_terminal,
};

use crate::terminal;
pub(crate) use crate::watch::Activity;

pub(crate) use self::answers::Reply;
pub(crate) use self::requests::{PendingList, PendingRequest, TRUST_TOOL, is_about_requests};
pub(crate) use self::screen::{Detail, Screen};

/// Returns a session's id for a note to people: on a terminal, the beginning of a generated id, with which all commands find
/// the session, so that the note fits on a line.
pub(crate) fn id_for_people(id: &str) -> &str {
    shortened_id(id, terminal::errors_are_on_a_terminal())
}

fn shortened_id(id: &str, is_on_terminal: bool) -> &str {
    const GENERATED: usize = 36;
    match id.split_once('-') {
        Some((first, _)) if is_on_terminal && id.len() == GENERATED && first.len() == 8 => first,
        _ => id,
    }
}

/// The exit code of a prompt with this outcome.
pub(crate) fn exit_code(outcome: baton_protocol::event::Outcome) -> u8 {
    use baton_protocol::event::Outcome;
    match outcome {
        Outcome::Completed => 0,
        Outcome::Failed => 1,
        Outcome::Cancelled | Outcome::Interrupted => 130,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_are_short_on_a_terminal() {
        let generated = "69a4ea27-b95e-4776-afdb-9a8f4528ded1";
        assert_eq!(shortened_id(generated, true), "69a4ea27");
        assert_eq!(shortened_id(generated, false), generated, "scripts get the whole id");
        assert_eq!(shortened_id("my-long-name", true), "my-long-name");
    }
}
