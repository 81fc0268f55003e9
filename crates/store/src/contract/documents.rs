//! Documents.

use bytes::Bytes;

use super::Stores;
use crate::Document;

pub(super) async fn document_is_read_as_written(stores: &Stores) {
    let (ours, theirs) = (&stores.ours, &stores.theirs);
    assert_eq!(ours.document("people").await.unwrap(), None);
    assert!(!ours.write_document("people", 1, Bytes::from_static(b"early")).await.unwrap(), "does not exist");
    assert!(ours.write_document("people", 0, Bytes::from_static(b"one")).await.unwrap());
    assert!(!theirs.write_document("people", 0, Bytes::from_static(b"late")).await.unwrap(), "exists");
    assert!(theirs.write_document("people", 1, Bytes::from_static(b"\0two\xff")).await.unwrap());
    for store in [ours, theirs] {
        let written = Document { version: 2, body: Bytes::from_static(b"\0two\xff") };
        assert_eq!(store.document("people").await.unwrap(), Some(written));
        assert_eq!(store.document("other").await.unwrap(), None);
        assert_eq!(store.list().await.unwrap(), [], "documents are no sessions");
    }
}

pub(super) async fn one_of_many_concurrent_writers_wins(stores: &Stores) {
    stores.ours.write_document("d", 0, Bytes::new()).await.unwrap();
    let write = |at: usize| {
        let store = if at.is_multiple_of(2) { &stores.ours } else { &stores.theirs };
        store.write_document("d", 1, Bytes::from(vec![at as u8]))
    };
    let (a, b, c, d) = tokio::join!(write(0), write(1), write(2), write(3));
    let won = [a, b, c, d].into_iter().filter(|written| *written.as_ref().unwrap()).count();
    assert_eq!(won, 1);
    assert_eq!(stores.theirs.document("d").await.unwrap().unwrap().version, 2);
}
