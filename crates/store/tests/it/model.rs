//! Random operations: the SQLite store must answer like the store in memory, which is obviously correct.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use baton_protocol::Timestamp;
use baton_store::memory::MemoryStore;
use baton_store::{
    Append, Epoch, Holder, Lease, NewRecord, NewSession, Opened, Seq, Span, Store, StoreError, Summary, Take,
};
use proptest::prelude::*;

use crate::support::{id, owner, sqlite};

/// Few ids and few leases, so that operations collide.
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Operation {
    Create {
        name: usize,
        records: Vec<Vec<u8>>,
        busy: bool,
    },
    Acquire {
        name: usize,
        take: HowToTake,
    },
    Append {
        lease: usize,
        off: i8,
        records: Vec<Vec<u8>>,
        meta: Option<u8>,
        snapshot: Option<u8>,
        busy: bool,
        time: i64,
    },
    Release {
        lease: usize,
    },
    Delete {
        name: usize,
    },
    Read {
        name: usize,
        span: Span,
    },
    List,
    /// One server ends and another starts.
    Restart,
    /// The directory is removed.
    Vanish,
}

#[derive(Clone, Copy, Debug)]
enum HowToTake {
    IfFree,
    From(usize),
    FromIdle(usize),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let name = || 0..NAMES.len();
    let lease = || 0_usize..8;
    let records = || prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4);
    let take = prop_oneof![
        Just(HowToTake::IfFree),
        lease().prop_map(HowToTake::From),
        lease().prop_map(HowToTake::FromIdle)
    ];
    let span = (any::<bool>(), 0_u64..12, 0_usize..6).prop_map(|(forward, place, limit)| match forward {
        true => Span::After { after: Seq(place), limit },
        false => Span::Before { before: Seq(place), limit },
    });
    let off = prop_oneof![8 => Just(0_i8), 1 => -2..3_i8];
    let details = (prop::option::of(any::<u8>()), prop::option::of(any::<u8>()), any::<bool>(), 0_i64..5);
    let operation = prop_oneof![
        4 => (name(), records(), any::<bool>())
            .prop_map(|(name, records, busy)| Operation::Create { name, records, busy }),
        4 => (name(), take).prop_map(|(name, take)| Operation::Acquire { name, take }),
        12 => (lease(), off, records(), details).prop_map(|(lease, off, records, (meta, snapshot, busy, time))| {
            Operation::Append { lease, off, records, meta, snapshot, busy, time }
        }),
        2 => lease().prop_map(|lease| Operation::Release { lease }),
        1 => name().prop_map(|name| Operation::Delete { name }),
        4 => (name(), span).prop_map(|(name, span)| Operation::Read { name, span }),
        2 => Just(Operation::List),
        1 => Just(Operation::Restart),
        1 => Just(Operation::Vanish),
    ];
    prop::collection::vec(operation, 1..40)
}

/// Both stores, and the mapping between them: their epochs differ.
struct Both {
    model: MemoryStore,
    real: baton_store::sqlite::SqliteStore,
    path: PathBuf,
    /// All leases ever granted, oldest first: the model's, then the real one.
    leases: Vec<(Lease, Lease)>,
    epochs: HashMap<Epoch, Epoch>,
    /// The real leases granted by this run of the server.
    of_this_run: BTreeSet<Epoch>,
}

fn records(bodies: &[Vec<u8>]) -> Vec<NewRecord> {
    bodies
        .iter()
        .map(|body| NewRecord { kind: format!("{}", body.len()), body: body.clone().into() })
        .collect()
}

impl Both {
    fn new(path: PathBuf) -> Self {
        let (leases, epochs, of_this_run) = Default::default();
        Self { model: MemoryStore::default(), real: sqlite(&path), path, leases, epochs, of_this_run }
    }

    fn lease(&self, index: usize) -> Option<&(Lease, Lease)> {
        (!self.leases.is_empty()).then(|| &self.leases[self.leases.len() - 1 - index % self.leases.len()])
    }

    fn learn(&mut self, model: Lease, real: Lease) {
        self.epochs.insert(real.epoch, model.epoch);
        self.of_this_run.insert(real.epoch);
        self.leases.push((model, real));
    }

    /// Formats a result with the model's epochs.
    fn formatted<T: std::fmt::Debug>(&self, result: &Result<T, StoreError>) -> String {
        match result {
            Err(StoreError::Held { session, holder }) => {
                let holder = Box::new(self.translated(holder));
                format!("{:?}", StoreError::Held { session: session.clone(), holder })
            }
            other => format!("{other:?}"),
        }
    }

    fn translated(&self, holder: &Holder) -> Holder {
        Holder { epoch: *self.epochs.get(&holder.epoch).unwrap_or(&holder.epoch), ..holder.clone() }
    }

    fn summaries(&self, summaries: Vec<Summary>) -> Vec<Summary> {
        let translate = |summary: Summary| Summary {
            holder: summary.holder.as_ref().map(|holder| self.translated(holder)),
            ..summary
        };
        summaries.into_iter().map(translate).collect()
    }

    async fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Create { name, records: bodies, busy } => self.create(name, &bodies, busy).await,
            Operation::Acquire { name, take } => self.acquire(name, take).await,
            Operation::Append { lease, off, records: bodies, meta, snapshot, busy, time } => {
                let Some((model, real)) = self.lease(lease).cloned() else { return };
                let head =
                    self.model.summary(&model.session).await.unwrap().map_or(0, |summary| summary.head.0);
                let append = |lease| Append {
                    lease,
                    expected: Seq(head.saturating_add_signed(off.into())),
                    records: records(&bodies),
                    modified: Timestamp(time),
                    meta: meta.map(|byte| vec![byte].into()),
                    snapshot: snapshot.map(|byte| vec![byte].into()),
                    busy,
                };
                let expected = self.model.append(append(model)).await;
                let found = self.real.append(append(real)).await;
                assert_eq!(self.formatted(&found), self.formatted(&expected));
            }
            Operation::Release { lease } => {
                let Some((model, real)) = self.lease(lease).cloned() else { return };
                self.model.release(model).await.unwrap();
                self.real.release(real).await.unwrap();
            }
            Operation::Delete { name } => {
                let expected = self.model.delete(&id(NAMES[name])).await.unwrap();
                assert_eq!(self.real.delete(&id(NAMES[name])).await.unwrap(), expected);
            }
            Operation::Read { name, span } => {
                let expected = self.model.read(&id(NAMES[name]), span).await;
                let found = self.real.read(&id(NAMES[name]), span).await;
                assert_eq!(self.formatted(&found), self.formatted(&expected));
            }
            Operation::List => self.compare_lists().await,
            Operation::Restart => {
                self.real.close().await.unwrap();
                self.real = sqlite(&self.path);
                self.of_this_run.clear();
            }
            Operation::Vanish => self.vanish().await,
        }
    }

    async fn create(&mut self, name: usize, bodies: &[Vec<u8>], busy: bool) {
        let new = NewSession {
            session: id(NAMES[name]),
            owner: owner("ours"),
            created: Timestamp(3),
            records: records(bodies),
            meta: vec![0].into(),
            busy,
        };
        match (self.model.create(new.clone()).await, self.real.create(new).await) {
            (Ok(model), Ok(real)) => self.learn(model, real),
            (expected, found) => assert_eq!(self.formatted(&found), self.formatted(&expected)),
        }
    }

    async fn acquire(&mut self, name: usize, take: HowToTake) {
        let (model, real) = match take {
            HowToTake::IfFree => (Take::IfFree, Take::IfFree),
            HowToTake::From(lease) => {
                let Some((model, real)) = self.lease(lease) else { return };
                (Take::From(model.epoch), Take::From(real.epoch))
            }
            HowToTake::FromIdle(lease) => {
                let Some((model, real)) = self.lease(lease) else { return };
                (Take::FromIdle(model.epoch), Take::FromIdle(real.epoch))
            }
        };
        let expected = self.model.acquire(&id(NAMES[name]), owner("next"), model).await;
        let found = self.real.acquire(&id(NAMES[name]), owner("next"), real).await;
        match (expected, found) {
            (Ok(expected), Ok(found)) => {
                self.learn(expected.lease.clone(), found.lease.clone());
                let found = Opened { lease: expected.lease.clone(), ..found };
                assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            }
            (expected, found) => assert_eq!(self.formatted(&found), self.formatted(&expected)),
        }
    }

    async fn compare_lists(&self) {
        let expected = self.model.list().await.unwrap();
        let found = self.summaries(self.real.list().await.unwrap());
        assert_eq!(found, expected);
        for name in NAMES {
            let expected = self.model.summary(&id(name)).await.unwrap();
            let found = self.real.summary(&id(name)).await.unwrap();
            assert_eq!(self.summaries(found.into_iter().collect()), expected.into_iter().collect::<Vec<_>>());
        }
    }

    /// Removes the directory: only sessions held by this run of the server remain.
    async fn vanish(&mut self) {
        let _ = std::fs::remove_dir_all(self.path.parent().unwrap());
        let live: BTreeSet<_> =
            self.of_this_run.iter().filter_map(|epoch| self.epochs.get(epoch)).copied().collect();
        for summary in self.model.list().await.unwrap() {
            if !summary.holder.is_some_and(|holder| live.contains(&holder.epoch)) {
                self.model.delete(&summary.session).await.unwrap();
            }
        }
        // A restart right now would leave nothing, which the model does not cover; so let the store notice
        // first.
        self.compare_lists().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn sqlite_behaves_like_memory(operations in operations()) {
        let root = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut both = Both::new(root.path().join("state/baton.db"));
            for operation in operations {
                both.apply(operation).await;
            }
            both.compare_lists().await;
        });
    }
}
