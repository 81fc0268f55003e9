//! A writer that is killed at any moment has written everything that it acknowledged.
//!
//! The test runs this test binary again as the writer, which prints every acknowledged write to standard
//! output, and kills it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use baton_store::sqlite::{Durability, SqliteStore};
use baton_store::{Store, StoreError};

use crate::support::{assert_whole, new_session, next, sqlite};

const DIRECTORY: &str = "BATON_STORE_TEST_CRASH_DIRECTORY";
const SERVER: &str = "BATON_STORE_TEST_CRASH_SERVER";
const SESSIONS: usize = 6;

/// The body of the writer process, not a test: it never returns, and panics without its environment.
#[test]
#[ignore = "run as a child process by the other tests of this module"]
fn writer_process() {
    let directory = std::env::var_os(DIRECTORY).expect("started only by the tests of this module");
    let server = std::env::var(SERVER).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let path = Path::new(&directory).join("state/baton.db");
        let store = Arc::new(SqliteStore::new(path, Durability::Full));
        for number in 0..SESSIONS {
            tokio::spawn(write_forever(Arc::clone(&store), format!("{server}-{number}")));
        }
        std::future::pending::<()>().await;
    });
}

async fn write_forever(store: Arc<impl Store>, name: String) {
    let result: Result<(), StoreError> = async {
        let lease = store.create(new_session(&name, 0)).await?;
        let mut head = 0;
        loop {
            head = store.append(next(&lease, head)).await?.0;
            // One write call for each line, so that a line is never torn.
            std::io::stdout().write_all(format!("\nacknowledged {name} {head}\n").as_bytes()).unwrap();
        }
    }
    .await;
    // A writer that fails must end, or the test would wait for its output forever.
    eprintln!("writer {name} failed: {result:?}");
    std::process::abort();
}

/// A running writer, and the last acknowledged sequence number of each session.
struct Server {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    acknowledged: BTreeMap<String, u64>,
}

impl Server {
    fn start(name: &str, directory: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "crash::writer_process", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory)
            .env(SERVER, name)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines, acknowledged: BTreeMap::new() }
    }

    /// Reads until this many more writes are acknowledged, or to the end of the output.
    fn read_acknowledgements(&mut self, mut writes: usize) {
        while writes > 0 {
            let Some(Ok(line)) = self.lines.next() else { return };
            if let ["acknowledged", name, head] = line.split(' ').collect::<Vec<_>>()[..] {
                self.acknowledged.insert(name.to_owned(), head.parse().unwrap());
                writes -= 1;
            }
        }
    }

    /// Kills the process at an arbitrary moment. Lines left in the pipe were acknowledged as well.
    fn kill(mut self) -> BTreeMap<String, u64> {
        self.process.kill().unwrap();
        self.read_acknowledgements(usize::MAX);
        self.process.wait().unwrap();
        self.acknowledged
    }
}

async fn assert_stored(directory: &Path, acknowledged: BTreeMap<String, u64>) {
    assert!(!acknowledged.is_empty(), "the writer never started");
    let store = sqlite(&directory.join("state/baton.db"));
    for (name, head) in acknowledged {
        let found = assert_whole(&store, &name).await;
        assert!(found >= head, "{name}: {head} was acknowledged, but only {found} are stored");
        assert!(found <= head + 1, "{name}: a session has one write in flight");
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    for round in 0..20 {
        let root = tempfile::tempdir().unwrap();
        let mut server = Server::start("only", root.path());
        server.read_acknowledgements(1 + round * 7);
        assert_stored(root.path(), server.kill()).await;
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill_of_another_server() {
    for round in 0..5 {
        let root = tempfile::tempdir().unwrap();
        // Both start on a file that does not exist yet, and one continues after the other was killed.
        let (mut one, mut other) = (Server::start("one", root.path()), Server::start("other", root.path()));
        one.read_acknowledgements(10 + round * 7);
        let of_one = one.kill();
        other.read_acknowledgements(40);
        let of_other = other.kill();
        assert_stored(root.path(), of_one).await;
        assert_stored(root.path(), of_other).await;
    }
}
