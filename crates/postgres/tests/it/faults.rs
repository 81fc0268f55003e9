//! Databases that refuse, vanish or come back: clear messages, nothing lost, nothing written twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_store::members::{Members, NewMember};
use baton_store::{Append, NewSession, Owner, Seq, Span, Store, StoreError, Take};
use tokio::task::JoinSet;

use crate::support::{Database, append, base, id, new_session, owner, store};

async fn refusal(url: &str) -> String {
    let error = store(url).check().await.unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
    error
}

#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn unusable_databases_are_explained() {
    let database = Database::create().await;
    let admin = database.admin().await;
    let missing = format!("{}&dbname=nowhere", base("BATON_TEST_POSTGRES"));
    let error = refusal(&missing).await;
    assert!(error.contains("\"nowhere\" does not exist") && error.contains("createdb"), "{error}");

    admin.batch_execute("CREATE ROLE guarded LOGIN PASSWORD 'right'").await.unwrap();
    let guarded = database.url().replace("user=baton", "user=guarded");
    let error = refusal(&format!("{guarded}&password=hunter2")).await;
    assert!(error.contains("Check user and password"), "{error}");
    // PostgreSQL 15 lets only the owner of a database create tables.
    let error = refusal(&format!("{guarded}&password=right")).await;
    assert!(error.contains("permission denied") && error.contains("GRANT CREATE"), "{error}");

    store(&database.url()).check().await.unwrap();
    let revoke = format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name());
    admin.batch_execute(&revoke).await.unwrap();
    let read_only = database.store();
    read_only.check().await.unwrap();
    let refused = tokio::time::timeout(std::time::Duration::from_secs(60), read_only.probe()).await.unwrap();
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("read-only") && error.contains("primary"), "{error}");
    let allow = format!("ALTER DATABASE {} RESET default_transaction_read_only", database.name());
    admin.batch_execute(&format!("SET default_transaction_read_only = off; {allow}")).await.unwrap();

    admin.batch_execute("UPDATE baton_format SET version = 99").await.unwrap();
    let error = refusal(&database.url()).await;
    assert!(error.contains("format 99") && error.contains("Upgrade this server"), "{error}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn unreachable_database_is_explained_in_bounded_time() {
    let error = refusal("postgres://me:hunter2@127.0.0.1:1/x?sslmode=disable").await;
    assert!(error.contains("Check host and port") && error.contains("me@127.0.0.1:1/x"), "{error}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn full_disk_fails_the_append_and_loses_nothing() {
    let database = Database::create().await;
    let (store, admin) = (database.store(), database.admin().await);
    let lease = store.create(new_session("s", "ours")).await.unwrap();
    store.append(append(&lease, 0, "a".into())).await.unwrap();
    admin
        .batch_execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
             CREATE TRIGGER full_disk BEFORE INSERT ON baton_events EXECUTE FUNCTION full_disk()",
        )
        .await
        .unwrap();
    let error = store.append(append(&lease, 1, "b".into())).await.unwrap_err().to_string();
    assert!(error.contains("could not extend file. The disk of the database is full"), "{error}");
    admin.batch_execute("DROP TRIGGER full_disk ON baton_events").await.unwrap();
    assert_eq!(store.append(append(&lease, 1, "b".into())).await.unwrap(), Seq(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn servers_that_start_together_create_the_tables_once() {
    let database = Arc::new(Database::create().await);
    let mut starting = JoinSet::new();
    for _ in 0..8 {
        let store = database.store();
        starting.spawn(async move { store.check().await.unwrap().format });
    }
    let formats = starting.join_all().await;
    assert!(formats.iter().all(|format| *format > 0 && *format == formats[0]), "{formats:?}");
}

/// Connections are cut while many sessions write: every append is there once, acknowledged by itself or by its retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn cut_connections_lose_and_repeat_nothing() {
    let database = Database::create().await;
    let admin = database.admin().await;
    let store = database.store();
    let mut writers = JoinSet::new();
    for number in 0..12 {
        let store = store.clone();
        writers.spawn(async move {
            let name = format!("s{number}");
            let lease = store.create(new_session(&name, "ours")).await.unwrap();
            for head in 0..200 {
                let head_after = store.append(append(&lease, head, format!("{number}/{head}"))).await;
                assert_eq!(head_after.unwrap_or_else(|error| panic!("{name}: {error}")), Seq(head + 1));
            }
        });
    }
    let done = Arc::new(AtomicBool::new(false));
    let cutting = {
        let (done, name) = (done.clone(), database.name().to_owned());
        tokio::spawn(async move {
            let mut cuts = 0;
            while !done.load(Ordering::Relaxed) {
                let sql = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE datname = '{name}' AND pid <> pg_backend_pid() AND query LIKE '%WITH wanted%'"
                );
                cuts += admin.query(&sql, &[]).await.unwrap().len();
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            cuts
        })
    };
    writers.join_all().await;
    done.store(true, Ordering::Relaxed);
    let cuts = cutting.await.unwrap();
    assert!(cuts > 0, "no connection was cut");
    for number in 0..12 {
        let all = Span::After { after: Seq::ZERO, limit: usize::MAX };
        let found = store.read(&id(&format!("s{number}")), all).await.unwrap();
        let bodies: Vec<_> =
            found.iter().map(|record| String::from_utf8_lossy(&record.body).into_owned()).collect();
        let expected: Vec<_> = (0..200).map(|head| format!("{number}/{head}")).collect();
        assert_eq!(bodies, expected);
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn closed_store_refuses_and_one_bad_append_fails_alone() {
    let database = Database::create().await;
    let store = database.store();
    let first = store.create(new_session("a", "ours")).await.unwrap();
    let second = store.create(new_session("b", "ours")).await.unwrap();
    let taken = store.acquire(&id("a"), owner("theirs"), Take::From(first.epoch)).await.unwrap();
    let (fenced, written, taken) = tokio::join!(
        store.append(append(&first, 0, "late".into())),
        store.append(append(&second, 0, "b".into())),
        store.append(append(&taken.lease, 0, "a".into())),
    );
    assert!(matches!(fenced, Err(StoreError::Fenced(_))), "{fenced:?}");
    assert_eq!((written.unwrap(), taken.unwrap()), (Seq(1), Seq(1)));
    store.close().await;
    let closed = store.append(append(&second, 1, "c".into())).await.unwrap_err().to_string();
    assert!(closed.contains("the store is closed"), "{closed}");
}

fn member(server: &str, pid: u32) -> NewMember {
    let owner = Owner { pid, ..owner(server) };
    let (address, place, version, home) = ("127.0.0.1:1", "here", "1", "/nowhere");
    NewMember {
        owner,
        address: address.into(),
        place: place.into(),
        version: version.into(),
        home: home.into(),
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn second_server_with_the_same_id_is_refused_while_the_first_lives() {
    let database = Database::create().await;
    let (one, two, admin) = (database.store(), database.store(), database.admin().await);
    let number = one.enter(member("twin", 1)).await.unwrap();
    assert_eq!(one.enter(member("twin", 1)).await.unwrap(), number, "the same server enters again");
    let error = two.enter(member("twin", 2)).await.unwrap_err().to_string();
    assert!(error.contains("another living server has the id \"twin\""), "{error}");
    admin.batch_execute("UPDATE baton_servers SET seen = seen - interval '4 seconds'").await.unwrap();
    two.enter(member("twin", 2)).await.unwrap();
    let owners = Members::list(&*two).await.unwrap();
    assert_eq!(owners.iter().map(|member| member.owner.pid).collect::<Vec<_>>(), [2]);
}

/// Clocks of servers are not asked: what they write as times of sessions does not count for life and death.
#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn clocks_of_servers_do_not_matter() {
    let database = Database::create().await;
    let (store, admin) = (database.store(), database.admin().await);
    store.enter(member("fast", 1)).await.unwrap();
    let hour = baton_protocol::Timestamp(baton_protocol::Timestamp::now().0 + 3_600_000);
    let session = NewSession { created: hour, busy: true, ..new_session("s", "fast") };
    let lease = store.create(session).await.unwrap();
    store.append(Append { modified: hour, busy: true, ..append(&lease, 0, "a".into()) }).await.unwrap();
    assert!(store.orphans("here", 9).await.unwrap().is_empty(), "its server lives");
    admin.batch_execute("UPDATE baton_servers SET seen = seen - interval '4 seconds'").await.unwrap();
    assert_eq!(store.orphans("here", 9).await.unwrap().len(), 1);
    assert_eq!(Members::list(&*store).await.unwrap().len(), 1);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test postgres"]
async fn other_servers_learn_of_sessions_that_come_and_go() {
    let database = Database::create().await;
    let (one, two) = (database.store(), database.store());
    one.enter(member("one", 1)).await.unwrap();
    two.enter(member("two", 2)).await.unwrap();
    one.create(new_session("s", "one")).await.unwrap();
    let seen = two.changes(0).await.unwrap();
    assert_eq!(
        seen.iter().map(|change| (change.session.as_str(), change.deleted)).collect::<Vec<_>>(),
        [("s", false)]
    );
    assert!(Members::changes(&*one, 0).await.unwrap().is_empty(), "its own");
    two.delete(&id("s")).await.unwrap();
    assert!(two.changes(seen[0].number).await.unwrap().is_empty(), "its own");
    assert!(Members::changes(&*one, 0).await.unwrap()[0].deleted);
}
