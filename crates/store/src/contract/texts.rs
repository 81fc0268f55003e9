//! The index of texts.

use super::{Stores, append, create, id};
use crate::texts::{Hit, TextIndex, Texts, Unindexed, Words};
use crate::{Seq, Store};

fn index(store: &dyn Store) -> &dyn TextIndex {
    store.texts().unwrap()
}

fn texts(name: &str, after: u64, through: u64, of: &[(u64, &str)]) -> Texts {
    let words = of.iter().map(|(seq, text)| (Seq(*seq), Words::of(text))).collect();
    Texts { session: id(name), after: Seq(after), through: Seq(through), words }
}

fn hit(name: &str, matches: u64, first: u64) -> Hit {
    Hit { session: id(name), matches, first: Seq(first) }
}

async fn find(store: &dyn Store, query: &str) -> Vec<Hit> {
    index(store).find(Words::of(query), 10).await.unwrap()
}

pub(super) async fn indexed_words_are_found_by_their_beginning(stores: &Stores) {
    let (ours, theirs) = (&*stores.ours, &*stores.theirs);
    let lease = create(stores, "a", &["1", "2", "3"]).await;
    create(stores, "b", &["1"]).await;
    ours.append(append(&lease, 3, &["4"])).await.unwrap();
    let of_a =
        texts("a", 0, 4, &[(1, "Fix the retry logic"), (3, "retried: LOGIC is sound"), (4, "unrelated")]);
    assert!(index(ours).index(of_a).await.unwrap());
    assert!(index(theirs).index(texts("b", 0, 1, &[(1, "no logic at all")])).await.unwrap());
    assert_eq!(find(theirs, "logic").await, [hit("a", 2, 1), hit("b", 1, 1)], "last written first");
    assert_eq!(find(ours, "sound logic").await, [hit("a", 1, 3)], "all words in one record, in any order");
    assert_eq!(find(ours, "RETR log").await, [hit("a", 2, 1)]);
    assert_eq!(find(ours, "etry").await, [], "the middle of a word");
    assert_eq!(find(ours, "logic absent").await, []);
    assert_eq!(find(ours, " -- ").await, [], "no words");
    assert_eq!(index(ours).find(Words::of("logic"), 1).await.unwrap(), [hit("a", 2, 1)]);
}

pub(super) async fn cursor_moves_once(stores: &Stores) {
    let (ours, theirs) = (index(&*stores.ours), index(&*stores.theirs));
    create(stores, "a", &["1", "2"]).await;
    let (one, other) = tokio::join!(
        ours.index(texts("a", 0, 2, &[(1, "word")])),
        theirs.index(texts("a", 0, 2, &[(1, "word")]))
    );
    assert_ne!(one.unwrap(), other.unwrap(), "one of two indexers wins");
    assert_eq!(find(&*stores.ours, "word").await, [hit("a", 1, 1)]);
    assert!(!ours.index(texts("a", 2, 3, &[(3, "early")])).await.unwrap(), "beyond the last record");
    assert!(!ours.index(texts("missing", 0, 1, &[])).await.unwrap());
    assert_eq!(find(&*stores.ours, "early").await, []);
}

pub(super) async fn appended_records_are_unindexed(stores: &Stores) {
    let (ours, theirs) = (&*stores.ours, &*stores.theirs);
    let lease = create(stores, "a", &["1", "2"]).await;
    let behind = |indexed, head| [Unindexed { session: id("a"), indexed: Seq(indexed), head: Seq(head) }];
    assert_eq!(index(theirs).unindexed(9).await.unwrap(), behind(0, 2));
    assert!(index(ours).index(texts("a", 0, 1, &[])).await.unwrap());
    assert_eq!(index(theirs).unindexed(9).await.unwrap(), behind(1, 2));
    assert!(index(ours).index(texts("a", 1, 2, &[])).await.unwrap());
    assert_eq!(index(theirs).unindexed(9).await.unwrap(), []);
    ours.append(append(&lease, 2, &["3"])).await.unwrap();
    assert_eq!(index(theirs).unindexed(9).await.unwrap(), behind(2, 3));
    assert_eq!(index(theirs).unindexed(0).await.unwrap(), []);
}

pub(super) async fn deleted_session_is_not_found(stores: &Stores) {
    create(stores, "a", &["1"]).await;
    assert!(index(&*stores.ours).index(texts("a", 0, 1, &[(1, "gone")])).await.unwrap());
    assert!(stores.theirs.delete(&id("a")).await.unwrap());
    assert_eq!(find(&*stores.ours, "gone").await, []);
    create(stores, "a", &["1"]).await;
    assert_eq!(find(&*stores.theirs, "gone").await, [], "another session under the same id");
    assert_eq!(index(&*stores.theirs).unindexed(9).await.unwrap().len(), 1);
}

pub(super) async fn odd_texts_are_indexed(stores: &Stores) {
    let many: String = (0..20_000).map(|number| format!("w{number} ")).collect();
    let all = [
        (1, "it's \"quoted\" OR NOT * ( ) : & | ! <-> \\ %"),
        (2, "漢字 and ÄRGER, İstanbul"),
        (3, many.as_str()),
        (4, "\0\u{202e}null"),
    ];
    create(stores, "a", &["1", "2", "3", "4"]).await;
    let ours = &*stores.ours;
    assert!(index(ours).index(texts("a", 0, 4, &all)).await.unwrap());
    for (query, first) in
        [("quoted\" OR", 1), ("'s NOT", 1), ("字", 2), ("ärg", 2), ("w19999", 3), ("NULL", 4)]
    {
        assert_eq!(find(ours, query).await, [hit("a", 1, first)], "{query}");
    }
    assert_eq!(find(ours, "and*zzz").await, []);
}
