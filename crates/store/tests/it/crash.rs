//! A writer killed at any moment has written everything that it acknowledged.
//!
//! The test runs this very program again as the writer, which says on its standard output what was
//! acknowledged, and kills it.

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

/// The writer. Does nothing unless it is started by the tests below.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let server = std::env::var(SERVER).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let path = Path::new(&directory).join("state/baton.db");
        let store = Arc::new(SqliteStore::new(path, Durability::Full));
        for number in 0..SESSIONS {
            tokio::spawn(write_for_ever(Arc::clone(&store), format!("{server}-{number}")));
        }
        std::future::pending::<()>().await;
    });
}

async fn write_for_ever(store: Arc<impl Store>, name: String) {
    let result: Result<(), StoreError> = async {
        let lease = store.create(new_session(&name, 0)).await?;
        let mut head = 0;
        loop {
            head = store.append(next(&lease, head)).await?.0;
            // One write for each line, so that a line is never torn.
            std::io::stdout().write_all(format!("\nacknowledged {name} {head}\n").as_bytes()).unwrap();
        }
    }
    .await;
    // A writer that fails must end, or the test would listen for ever.
    eprintln!("the writer {name} failed: {result:?}");
    std::process::abort();
}

/// A writer that runs, and what it has acknowledged so far: the last place of each session.
struct Server {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    acknowledged: BTreeMap<String, u64>,
}

impl Server {
    fn start(name: &str, directory: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory)
            .env(SERVER, name)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines, acknowledged: BTreeMap::new() }
    }

    /// Listens until so many more writes are acknowledged, or there is nothing more to hear.
    fn listen(&mut self, mut writes: usize) {
        while writes > 0 {
            let Some(Ok(line)) = self.lines.next() else { return };
            if let ["acknowledged", name, head] = line.split(' ').collect::<Vec<_>>()[..] {
                self.acknowledged.insert(name.to_owned(), head.parse().unwrap());
                writes -= 1;
            }
        }
    }

    /// Kills it in the middle of whatever it does. What is left in the pipe was acknowledged as well.
    fn kill(mut self) -> BTreeMap<String, u64> {
        self.process.kill().unwrap();
        self.listen(usize::MAX);
        self.process.wait().unwrap();
        self.acknowledged
    }
}

async fn assert_kept(directory: &Path, acknowledged: BTreeMap<String, u64>) {
    assert!(!acknowledged.is_empty(), "the writer never started");
    let store = sqlite(&directory.join("state/baton.db"));
    for (name, head) in acknowledged {
        let found = assert_whole(&store, &name).await;
        assert!(found >= head, "{name}: {head} was acknowledged, but only {found} are there");
        assert!(found <= head + 1, "{name}: a session has one write on its way at a time");
    }
}

#[tokio::test]
async fn everything_acknowledged_survives_a_kill() {
    for round in 0..20 {
        let root = tempfile::tempdir().unwrap();
        let mut server = Server::start("only", root.path());
        server.listen(1 + round * 7);
        assert_kept(root.path(), server.kill()).await;
    }
}

#[tokio::test]
async fn servers_that_share_a_file_survive_each_others_end() {
    for round in 0..5 {
        let root = tempfile::tempdir().unwrap();
        // Both start on a file that is not there yet, and one goes on after the other was killed.
        let (mut one, mut other) = (Server::start("one", root.path()), Server::start("other", root.path()));
        one.listen(10 + round * 7);
        let of_one = one.kill();
        other.listen(40);
        let of_other = other.kill();
        assert_kept(root.path(), of_one).await;
        assert_kept(root.path(), of_other).await;
    }
}
