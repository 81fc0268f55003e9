//! Sessions in and out as JSONL: one event a line, in order.
//!
//! An export is everything there is, Baton's own events included. An import takes our own exports and the `events.jsonl`
//! of other programs, and is as tolerant as opening a history is: what cannot be read is left out, and said. It trusts
//! the file with nothing else: grants, modes and work that waits are taken back; see `disarm`.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use baton_core::{Durable, Session};
use baton_protocol::{Event, SessionId, Timestamp};
use baton_store::{Append, Lease, NewRecord, NewSession, Seq, Span, Store, StoreError};
use bytes::Bytes;

use crate::crash::{CrashPlan, CrashPoint};
use crate::disarm::disarm;
use crate::metadata;
use crate::owner;
use crate::session::Settings;

const PAGE: usize = 1000;

/// Why a session could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file could not be read or written.
    #[error("cannot read or write the file: {0}")]
    File(#[from] io::Error),
    /// Not one line was an event.
    #[error(
        "no line of the file is a session event; expected one JSON event per line, as `baton sessions export` writes"
    )]
    Nothing,
}

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Under which name.
    pub session: SessionId,
    /// How many events.
    pub events: u64,
    /// What was left out, mended or taken back, for people.
    pub repairs: Vec<String>,
}

/// Writes a session out.
///
/// # Errors
/// When it is not there, or cannot be written.
pub async fn export(
    store: &dyn Store,
    session: &SessionId,
    out: &mut dyn Write,
) -> Result<u64, TransferError> {
    if store.summary(session).await?.is_none() {
        return Err(StoreError::NotFound(session.clone()).into());
    }
    let (mut after, mut count) = (Seq::ZERO, 0);
    loop {
        let page = store.read(session, Span::After { after, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(count) };
        after = last.seq;
        for record in &page {
            out.write_all(&record.body)?;
            out.write_all(b"\n")?;
            count += 1;
        }
    }
}

/// Reads a session in, under `name`, or under the name in the file, or under a new one. An import that died half way is
/// replaced.
///
/// # Errors
/// When there is nothing to import, or the name is taken.
pub async fn import(
    store: &Arc<dyn Store>,
    lines: &mut dyn BufRead,
    name: Option<SessionId>,
    crash: Option<&CrashPlan>,
) -> Result<Imported, TransferError> {
    let mut repairs = Vec::new();
    let mut read = Reader { lines, number: 0 };
    let mut first = Vec::new();
    read.fill(&mut first, &mut repairs)?;
    if first.is_empty() {
        return Err(TransferError::Nothing);
    }
    let session = name.or_else(|| named(&first)).unwrap_or_else(SessionId::random);
    let mut durable = Durable::default();
    let (records, created) = (fold(&mut durable, &first), first[0].0.timestamp);
    let meta = |durable: &Durable, done: bool| {
        let folded = Session { durable: durable.clone(), ..Session::new(session.clone()) };
        if done {
            metadata::encode(&folded, &Settings::default())
        } else {
            metadata::encode_importing(&folded)
        }
    };
    let new = NewSession {
        session: session.clone(),
        owner: owner::this_process(),
        created,
        records,
        meta: meta(&durable, false),
        // Nobody takes it over while it grows.
        busy: true,
    };
    let lease = create(&**store, new).await?;
    let mut read_events = 0;
    loop {
        if let Some(plan) = crash {
            plan.pass(CrashPoint::DuringImport);
        }
        let mut events = Vec::new();
        read.fill(&mut events, &mut repairs)?;
        let last = events.is_empty();
        let expected = Seq(durable.seq);
        let mut records = fold(&mut durable, &events);
        if last {
            read_events = durable.seq;
            let disarmed = disarm(&session, &mut durable);
            records.extend(disarmed.records);
            repairs.extend(disarmed.notices);
        }
        let append = Append {
            lease: lease.clone(),
            expected,
            records,
            modified: events.last().map_or_else(Timestamp::now, |(event, _)| event.timestamp),
            meta: Some(meta(&durable, last)),
            snapshot: serde_json::to_vec(&durable).ok().map(Bytes::from),
            busy: !last,
        };
        store.append(append).await?;
        if last {
            break;
        }
    }
    store.release(lease).await?;
    Ok(Imported { session, events: read_events, repairs })
}

/// Makes the session, in the place of what an import left behind that died half way.
async fn create(store: &dyn Store, new: NewSession) -> Result<Lease, StoreError> {
    match store.create(new.clone()).await {
        Err(StoreError::Exists(session)) if is_left_behind(store, &session).await? => {
            store.delete(&session).await?;
            store.create(new).await
        }
        other => other,
    }
}

async fn is_left_behind(store: &dyn Store, session: &SessionId) -> Result<bool, StoreError> {
    Ok(store.summary(session).await?.is_some_and(|summary| {
        let is_alive = summary.holder.as_ref().is_some_and(|holder| owner::is_alive(&holder.owner));
        metadata::decode(&summary.meta).importing && !is_alive
    }))
}

struct Reader<'a> {
    lines: &'a mut dyn BufRead,
    number: u64,
}

impl Reader<'_> {
    /// Reads up to a page of events.
    fn fill(&mut self, events: &mut Vec<(Event, Bytes)>, repairs: &mut Vec<String>) -> io::Result<()> {
        let mut line = Vec::new();
        while events.len() < PAGE {
            line.clear();
            if self.lines.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            self.number += 1;
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_matches(['\n', '\r', ' ', '\t', '\0']);
            if text.is_empty() {
                continue;
            }
            match Event::parse(text) {
                Ok(event) if event.ephemeral => {}
                Ok(event) => events.push((event, Bytes::from(text.to_owned()))),
                Err(error) => repairs.push(format!("line {} was left out: {error}", self.number)),
            }
        }
        Ok(())
    }
}

fn fold(durable: &mut Durable, events: &[(Event, Bytes)]) -> Vec<NewRecord> {
    events
        .iter()
        .map(|(event, body)| {
            durable.apply(event);
            NewRecord { kind: event.body.kind().to_owned(), body: body.clone() }
        })
        .collect()
}

/// The name that the history itself gives.
fn named(events: &[(Event, Bytes)]) -> Option<SessionId> {
    events.iter().find_map(|(event, _)| match &event.body {
        baton_protocol::Body::SessionStart(start) => Some(start.session_id.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_store::Owner;
    use baton_store::memory::MemoryStore;

    const START: &str = r#"{"type":"session.start","data":{"sessionId":"s1","version":1,"producer":"x","copilotVersion":"1","startTime":"2026-11-15T20:30:53.223Z"},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}"#;
    const USER: &str = r#"{"type":"user.message","data":{"content":"hi there"},"id":"0190c2f0-0000-7000-8000-000000000002","timestamp":"2026-11-15T20:30:54.223Z","parentId":"0190c2f0-0000-7000-8000-000000000001"}"#;
    const FUTURE: &str = r#"{"type":"session.from_the_future","data":{},"id":"0190c2f0-0000-7000-8000-000000000003","timestamp":"2026-11-15T20:30:55.223Z","parentId":null}"#;

    fn store() -> Arc<dyn Store> {
        Arc::new(MemoryStore::default())
    }

    #[tokio::test]
    async fn what_goes_out_comes_in_again_the_same() {
        let text = format!("{START}\n{USER}\n{FUTURE}\n");
        let first = store();
        let imported = import(&first, &mut text.as_bytes(), None, None).await.unwrap();
        assert_eq!((imported.session.as_str(), imported.events, imported.repairs.len()), ("s1", 3, 0));
        let mut out = Vec::new();
        export(&*first, &imported.session, &mut out).await.unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text);
        let summary = first.summary(&imported.session).await.unwrap().unwrap();
        assert_eq!(metadata::of(&summary).summary.as_deref(), Some("hi there"));
        assert!(summary.holder.is_none(), "nobody holds an imported session");
    }

    #[tokio::test]
    async fn damaged_lines_are_left_out_and_said() {
        let torn = &USER[..USER.len() - 20];
        let text = format!("{START}\nnot json\n\n{USER}\n{torn}\0\0\0");
        let imported = import(&store(), &mut text.as_bytes(), None, None).await.unwrap();
        assert_eq!((imported.events, imported.repairs.len()), (2, 2));
        assert!(imported.repairs[0].starts_with("line 2") && imported.repairs[1].starts_with("line 5"));
    }

    #[tokio::test]
    async fn nothing_and_a_taken_name_are_refused() {
        let store = store();
        assert!(matches!(import(&store, &mut "".as_bytes(), None, None).await, Err(TransferError::Nothing)));
        import(&store, &mut START.as_bytes(), None, None).await.unwrap();
        let again = import(&store, &mut START.as_bytes(), None, None).await;
        assert!(matches!(again, Err(TransferError::Store(StoreError::Exists(_)))));
        let other = import(&store, &mut START.as_bytes(), Some("s2".parse().unwrap()), None).await.unwrap();
        assert_eq!(other.session.as_str(), "s2");
    }

    /// A line with an event, as another program may have written it.
    fn line(number: u8, kind: &str, data: &str) -> String {
        let id = format!("0190c2f0-0000-7000-8000-0000000000{number:02}");
        format!(
            r#"{{"type":"{kind}","data":{data},"id":"{id}","timestamp":"2026-11-15T20:31:00.000Z","parentId":null}}"#
        )
    }

    #[tokio::test]
    async fn imported_sessions_bring_no_grants_no_modes_and_no_work() {
        let grant = r#"{"approval":{"kind":"commands","commandIdentifiers":["rm"]}}"#;
        let message = r#"{"content":"go","messageId":"0190c2f0-0000-7000-8000-0000000000aa"}"#;
        let call = r#"{"messageId":"m","content":"","toolRequests":[{"toolCallId":"c","name":"bash","arguments":{"command":"rm x"},"type":"function"}]}"#;
        let lines = [
            START.to_owned(),
            line(10, "baton.approvals_changed", grant),
            line(11, "session.permissions_changed", r#"{"previousMode":"manual","mode":"allow-all"}"#),
            line(12, "session.mode_changed", r#"{"previousMode":"interactive","newMode":"autopilot"}"#),
            line(13, "user.message", message),
            line(14, "assistant.message", call),
        ];
        let store = store();
        let imported = import(&store, &mut lines.join("\n").as_bytes(), None, None).await.unwrap();
        assert_eq!(imported.events, 6, "{imported:?}");
        let said = imported.repairs.join("\n");
        for word in ["grant", "permission mode", "interactive", "middle of a turn"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        let records =
            store.read(&imported.session, Span::After { after: Seq::ZERO, limit: 100 }).await.unwrap();
        let events: Vec<Event> = records
            .iter()
            .map(|record| Event::parse(std::str::from_utf8(&record.body).unwrap()).unwrap())
            .collect();
        let before = Durable::of(&events[..6]);
        assert_eq!((before.grants.len(), before.turn.is_some()), (1, true), "the file brought them");
        let state = Durable::of(&events);
        assert!(state.grants.is_empty() && state.turn.is_none() && state.inbox.is_empty());
        assert_eq!(state.facts.permissions, baton_protocol::event::PermissionMode::Manual);
        assert_eq!(state.mode(), baton_protocol::event::AgentMode::Interactive);
        assert!(
            events.iter().any(|event| event.body.kind() == "session.warning"),
            "whoever resumes it can tell"
        );
    }

    #[tokio::test]
    async fn an_import_that_died_half_way_is_made_again() {
        let store = store();
        for (importer, replaced) in
            [(owner::this_process(), false), (Owner { pid: 0, ..owner::this_process() }, true)]
        {
            let half = NewSession {
                session: importer.pid.to_string().parse().unwrap(),
                owner: importer,
                created: Timestamp::now(),
                records: Vec::new(),
                meta: metadata::encode_importing(&Session::new("s".parse().unwrap())),
                busy: true,
            };
            let name = half.session.clone();
            store.create(half).await.unwrap();
            let again = import(&store, &mut START.as_bytes(), Some(name), None).await;
            assert_eq!(again.is_ok(), replaced, "{again:?}: whoever lives may still finish");
        }
    }

    #[tokio::test]
    async fn a_long_history_comes_in_pages() {
        let lines: Vec<String> =
            std::iter::once(START.to_owned()).chain((0..2500).map(|_| USER.to_owned())).collect();
        let imported = import(&store(), &mut lines.join("\n").as_bytes(), None, None).await.unwrap();
        assert_eq!(imported.events, 2501);
    }
}
