//! Reading records.

use super::{Stores, all_records, append, assert_records, create, id};
use crate::{Seq, Span, StoreError};

pub(super) async fn spans_select_exact_ranges(stores: &Stores) {
    // Records of neighbouring sessions must not leak in.
    create(stores, "r", &["x", "y"]).await;
    create(stores, "s", &["a", "b", "c", "d", "e"]).await;
    create(stores, "t", &["x", "y"]).await;
    let check = async |span: Span, expected: &[u64]| {
        for store in [&stores.ours, &stores.theirs] {
            let found = store.read(&id("s"), span).await.unwrap();
            let places: Vec<_> = found.iter().map(|record| record.seq.0).collect();
            assert_eq!(places, expected, "{span:?}");
        }
    };
    let after = |after, limit| Span::After { after: Seq(after), limit };
    let before = |before, limit| Span::Before { before: Seq(before), limit };
    check(after(0, 2), &[1, 2]).await;
    check(after(2, 2), &[3, 4]).await;
    check(after(4, 2), &[5]).await;
    check(after(5, 2), &[]).await;
    check(after(u64::MAX, 2), &[]).await;
    check(after(0, 0), &[]).await;
    check(after(0, 5), &[1, 2, 3, 4, 5]).await;
    check(after(0, usize::MAX), &[1, 2, 3, 4, 5]).await;
    check(before(6, 2), &[4, 5]).await;
    check(before(4, 2), &[2, 3]).await;
    check(before(2, 2), &[1]).await;
    check(before(1, 2), &[]).await;
    check(before(0, 2), &[]).await;
    check(before(4, 0), &[]).await;
    check(before(u64::MAX, 2), &[4, 5]).await;
    check(before(u64::MAX, usize::MAX), &[1, 2, 3, 4, 5]).await;
}

pub(super) async fn pages_end_with_the_last_record_that_fits(stores: &Stores) {
    create(stores, "s", &["aa", "bb", "cccc", "d"]).await;
    let check = async |span: Span, bytes: usize, expected: &[u64], is_cut: bool| {
        let page = stores.theirs.read_page(&id("s"), span, bytes).await.unwrap();
        let places: Vec<_> = page.records.iter().map(|record| record.seq.0).collect();
        assert_eq!((&*places, page.is_cut), (expected, is_cut), "{span:?}, {bytes} bytes");
    };
    let after = |after, limit| Span::After { after: Seq(after), limit };
    let before = |before, limit| Span::Before { before: Seq(before), limit };
    check(after(0, 9), 9, &[1, 2, 3, 4], false).await;
    check(after(0, 9), 8, &[1, 2, 3], true).await;
    check(after(0, 9), 5, &[1, 2], true).await;
    check(after(2, 9), 3, &[3], true).await;
    check(after(0, 1), 2, &[1], false).await;
    check(after(4, 9), 0, &[], false).await;
    check(before(9, 9), 9, &[1, 2, 3, 4], false).await;
    check(before(9, 9), 5, &[3, 4], true).await;
    check(before(4, 9), 0, &[3], true).await;
    check(before(2, 9), 0, &[1], false).await;
}

pub(super) async fn acknowledged_write_is_visible_to_all_stores(stores: &Stores) {
    let lease = create(stores, "s", &[]).await;
    for place in 0..20 {
        let head = stores.ours.append(append(&lease, place, &["a"])).await.unwrap();
        for store in [&stores.ours, &stores.theirs] {
            let last = store.read(&id("s"), Span::Before { before: Seq(u64::MAX), limit: 1 }).await.unwrap();
            assert_eq!(last[0].seq, head);
        }
    }
    assert_records(&all_records(&stores.theirs, "s").await, &["a"; 20]);
}

pub(super) async fn unknown_session_is_not_found(stores: &Stores) {
    let span = Span::After { after: Seq::ZERO, limit: 1 };
    let check = async |when: &str| {
        let found = stores.ours.read(&id("missing"), span).await;
        assert!(matches!(found, Err(StoreError::NotFound(name)) if name == id("missing")), "{when}");
        assert_eq!(stores.ours.summary(&id("missing")).await.unwrap(), None, "{when}");
    };
    check("with no session in the store").await;
    create(stores, "s", &["a"]).await;
    check("with another session in the store").await;
}
