//! Sessions in memory: for tests, and the reference that other stores are compared with.
//!
//! Written to be obviously correct rather than fast: one lock around plain collections, and every rule in the
//! order in which the trait states it. Nothing survives the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_protocol::{SessionId, Timestamp};
use bytes::Bytes;

use crate::shared_files::{FileChange, SharedFile, SharedFiles};
use crate::texts::{Hit, TextIndex, Texts, Unindexed, Words};
use crate::{
    Append, Document, Epoch, Holder, Lease, NewRecord, NewSession, Opened, Owner, Record, Seq, Span, Store,
    StoreError, StoreFuture, Summary, Take,
};

/// A [`Store`] whose content is lost when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Sessions>);

#[derive(Debug, Default)]
struct Sessions {
    by_id: BTreeMap<SessionId, Session>,
    last_epoch: u64,
    documents: BTreeMap<String, Document>,
}

#[derive(Debug)]
struct Session {
    created: Timestamp,
    modified: Timestamp,
    meta: Bytes,
    holder: Option<Holder>,
    snapshot: Option<(Seq, Bytes)>,
    records: Vec<Record>,
    indexed: Seq,
    texts: Vec<(Seq, Words)>,
    files: BTreeMap<String, (SharedFile, Bytes)>,
}

impl Session {
    fn head(&self) -> Seq {
        Seq::ZERO.plus(self.records.len())
    }

    fn push(&mut self, records: Vec<NewRecord>) {
        for NewRecord { kind, body } in records {
            let seq = self.head().plus(1);
            self.records.push(Record { seq, kind, body });
        }
    }

    fn after(&self, after: Seq) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.seq > after)
    }

    fn summary(&self, session: &SessionId) -> Summary {
        Summary {
            session: session.clone(),
            head: self.head(),
            created: self.created,
            modified: self.modified,
            meta: self.meta.clone(),
            holder: self.holder.clone(),
            size: self.records.iter().map(|record| record.body.len() as u64).sum(),
            damage: None,
        }
    }
}

impl Sessions {
    fn next_epoch(&mut self) -> Epoch {
        self.last_epoch += 1;
        Epoch(self.last_epoch)
    }

    fn get(&self, id: &SessionId) -> Result<&Session, StoreError> {
        self.by_id.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))
    }

    /// Returns the session if this lease is still valid.
    fn leased(&mut self, lease: &Lease) -> Result<&mut Session, StoreError> {
        self.by_id
            .get_mut(&lease.session)
            .filter(|session| session.holder.as_ref().is_some_and(|holder| holder.epoch == lease.epoch))
            .ok_or_else(|| StoreError::Fenced(lease.session.clone()))
    }

    fn create(&mut self, new: NewSession) -> Result<Lease, StoreError> {
        if self.by_id.contains_key(&new.session) {
            return Err(StoreError::Exists(new.session));
        }
        let epoch = self.next_epoch();
        let mut session = Session {
            created: new.created,
            modified: new.created,
            meta: new.meta,
            holder: Some(Holder { owner: new.owner, epoch, busy: new.busy }),
            snapshot: None,
            records: Vec::new(),
            indexed: Seq::ZERO,
            texts: Vec::new(),
            files: BTreeMap::new(),
        };
        session.push(new.records);
        self.by_id.insert(new.session.clone(), session);
        Ok(Lease { session: new.session, epoch })
    }

    fn acquire(&mut self, id: &SessionId, owner: Owner, take: Take) -> Result<Opened, StoreError> {
        match &self.get(id)?.holder {
            Some(holder) if !take.allows(Some(holder)) => {
                return Err(StoreError::Held { session: id.clone(), holder: Box::new(holder.clone()) });
            }
            _ => {}
        }
        let epoch = self.next_epoch();
        let session = self.by_id.get_mut(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        session.holder = Some(Holder { owner, epoch, busy: false });
        let tail_after = session.snapshot.as_ref().map_or(Seq::ZERO, |(seq, _)| *seq);
        Ok(Opened {
            lease: Lease { session: id.clone(), epoch },
            head: session.head(),
            created: session.created,
            modified: session.modified,
            meta: session.meta.clone(),
            snapshot: session.snapshot.clone(),
            tail: session.after(tail_after).cloned().collect(),
        })
    }

    fn append(&mut self, append: Append) -> Result<Seq, StoreError> {
        let session = self.leased(&append.lease)?;
        let actual = session.head();
        if actual != append.expected {
            return Err(StoreError::OutOfStep {
                session: append.lease.session,
                expected: append.expected,
                actual,
            });
        }
        session.push(append.records);
        session.modified = append.modified;
        session.meta = append.meta.unwrap_or_else(|| session.meta.clone());
        if let Some(snapshot) = append.snapshot {
            session.snapshot = Some((session.head(), snapshot));
        }
        if let Some(holder) = &mut session.holder {
            holder.busy = append.busy;
        }
        Ok(session.head())
    }

    fn read(&self, id: &SessionId, span: Span) -> Result<Vec<Record>, StoreError> {
        let session = self.get(id)?;
        Ok(match span {
            Span::After { after, limit } => session.after(after).take(limit).cloned().collect(),
            Span::Before { before, limit } => {
                let mut found: Vec<_> = session.records.iter().filter(|record| record.seq < before).collect();
                found.drain(..found.len().saturating_sub(limit));
                found.into_iter().cloned().collect()
            }
        })
    }

    fn list(&self) -> Vec<Summary> {
        let mut all: Vec<_> = self.by_id.iter().map(|(id, session)| session.summary(id)).collect();
        // The sort is stable and the map is ordered by id, so ids break ties between equal times.
        all.sort_by_key(|summary| std::cmp::Reverse(summary.modified));
        all
    }
}

impl TextIndex for MemoryStore {
    fn unindexed(&self, limit: usize) -> StoreFuture<'_, Vec<Unindexed>> {
        Box::pin(async move {
            let sessions = self.sessions();
            let all = sessions.list().into_iter().filter_map(|summary| {
                let indexed = sessions.by_id[&summary.session].indexed;
                let found = Unindexed { session: summary.session, indexed, head: summary.head };
                (found.indexed < found.head).then_some(found)
            });
            Ok(all.take(limit).collect())
        })
    }

    fn index(&self, texts: Texts) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let mut sessions = self.sessions();
            let Some(session) = sessions.by_id.get_mut(&texts.session) else { return Ok(false) };
            if session.indexed != texts.after || session.head() < texts.through {
                return Ok(false);
            }
            session.indexed = texts.through;
            session.texts.extend(texts.words);
            Ok(true)
        })
    }

    fn find(&self, query: Words, limit: usize) -> StoreFuture<'_, Vec<Hit>> {
        Box::pin(async move {
            let sessions = self.sessions();
            let hit = |session: SessionId| {
                let texts = &sessions.by_id[&session].texts;
                let found: Vec<Seq> =
                    texts.iter().filter(|(_, text)| text.contain(&query)).map(|(seq, _)| *seq).collect();
                Some(Hit { session, matches: found.len() as u64, first: *found.iter().min()? })
            };
            let all = sessions.list().into_iter().filter_map(|summary| hit(summary.session));
            Ok(all.filter(|_| !query.is_empty()).take(limit).collect())
        })
    }
}

impl MemoryStore {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedFiles for MemoryStore {
    fn list_files(&self, session: &SessionId) -> StoreFuture<'_, Vec<SharedFile>> {
        let session = session.clone();
        Box::pin(async move {
            let sessions = self.sessions();
            let files = sessions.by_id.get(&session).map(|found| found.files.values());
            Ok(files.into_iter().flatten().map(|(file, _)| file.clone()).collect())
        })
    }

    fn read_file(&self, session: &SessionId, path: &str) -> StoreFuture<'_, Option<Bytes>> {
        let (session, path) = (session.clone(), path.to_owned());
        Box::pin(async move {
            let sessions = self.sessions();
            let file = sessions.by_id.get(&session).and_then(|found| found.files.get(&path));
            Ok(file.map(|(_, body)| body.clone()))
        })
    }

    fn change_files(&self, lease: &Lease, changes: Vec<FileChange>) -> StoreFuture<'_, ()> {
        let lease = lease.clone();
        Box::pin(async move {
            let mut sessions = self.sessions();
            let is_ours = |holder: &Holder| holder.epoch == lease.epoch;
            let found = sessions.by_id.get_mut(&lease.session);
            let Some(found) = found.filter(|found| found.holder.as_ref().is_some_and(is_ours)) else {
                return Err(StoreError::Fenced(lease.session));
            };
            for change in changes {
                match change {
                    FileChange::Put { file, body } => {
                        drop(found.files.insert(file.path.clone(), (file, body)));
                    }
                    FileChange::Delete { path } => drop(found.files.remove(&path)),
                }
            }
            Ok(())
        })
    }
}

impl Store for MemoryStore {
    fn texts(&self) -> Option<&dyn TextIndex> {
        Some(self)
    }

    fn shared_files(&self) -> Option<&dyn SharedFiles> {
        Some(self)
    }

    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease> {
        Box::pin(async move { self.sessions().create(new) })
    }

    fn acquire(&self, session: &SessionId, owner: Owner, take: Take) -> StoreFuture<'_, Opened> {
        let session = session.clone();
        Box::pin(async move { self.sessions().acquire(&session, owner, take) })
    }

    fn append_shared(&self, append: Arc<Append>) -> StoreFuture<'_, Seq> {
        Box::pin(async move { self.sessions().append(Arc::unwrap_or_clone(append)) })
    }

    fn release(&self, lease: Lease) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if let Ok(session) = self.sessions().leased(&lease) {
                session.holder = None;
            }
            Ok(())
        })
    }

    fn read(&self, session: &SessionId, span: Span) -> StoreFuture<'_, Vec<Record>> {
        let session = session.clone();
        Box::pin(async move { self.sessions().read(&session, span) })
    }

    fn summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Summary>> {
        let session = session.clone();
        Box::pin(async move { Ok(self.sessions().get(&session).ok().map(|found| found.summary(&session))) })
    }

    fn list(&self) -> StoreFuture<'_, Vec<Summary>> {
        Box::pin(async move { Ok(self.sessions().list()) })
    }

    fn delete(&self, session: &SessionId) -> StoreFuture<'_, bool> {
        let session = session.clone();
        Box::pin(async move { Ok(self.sessions().by_id.remove(&session).is_some()) })
    }

    fn delete_if(&self, session: &SessionId, take: Take) -> StoreFuture<'_, bool> {
        let session = session.clone();
        Box::pin(async move {
            let mut sessions = self.sessions();
            let holder = sessions.by_id.get(&session).and_then(|found| found.holder.clone());
            match holder {
                Some(holder) if !take.allows(Some(&holder)) => {
                    Err(StoreError::Held { session, holder: Box::new(holder) })
                }
                _ => Ok(sessions.by_id.remove(&session).is_some()),
            }
        })
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn document(&self, name: &str) -> StoreFuture<'_, Option<Document>> {
        let name = name.to_owned();
        Box::pin(async move { Ok(self.sessions().documents.get(&name).cloned()) })
    }

    fn write_document(&self, name: &str, expected: u64, body: Bytes) -> StoreFuture<'_, bool> {
        let name = name.to_owned();
        Box::pin(async move {
            let mut sessions = self.sessions();
            let version = sessions.documents.get(&name).map_or(0, |document| document.version);
            if version != expected {
                return Ok(false);
            }
            sessions.documents.insert(name, Document { version: version + 1, body });
            Ok(true)
        })
    }
}
