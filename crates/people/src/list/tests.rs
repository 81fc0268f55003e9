//! Tests of the list of people.

use baton_protocol::Author;
use baton_store::memory::MemoryStore;

use super::*;
use crate::directory;

fn people() -> (Arc<People>, Arc<People>) {
    let store = Arc::new(MemoryStore::default());
    (People::new(store.clone()), People::new(store))
}

fn ada() -> PersonName {
    "ada".parse().unwrap()
}

#[tokio::test]
async fn token_identifies_its_person_until_it_is_replaced_or_the_person_removed() {
    let (people, _) = people();
    let token = people.add(&ada(), Role::Approver, None).await.unwrap();
    let found = people.of_token(token.reveal()).await.unwrap().unwrap();
    assert_eq!((found.role(), found.author(Author::http()).0.as_str()), (Role::Approver, "ada"));
    assert!(matches!(people.add(&ada(), Role::Admin, None).await, Err(PeopleError::Exists(_))));
    assert_eq!(people.of_token("bp_wrong").await.unwrap(), None);
    let new = people.renew_token(&ada(), None).await.unwrap();
    assert_eq!(people.of_token(token.reveal()).await.unwrap(), None, "replaced");
    people.remove(&ada()).await.unwrap();
    assert_eq!(people.of_token(new.reveal()).await.unwrap(), None, "removed");
    assert!(matches!(people.remove(&ada()).await, Err(PeopleError::Unknown(_))));
}

#[tokio::test]
async fn changed_role_ends_the_earlier_identity_and_keeps_the_token() {
    let (people, _) = people();
    let token = people.add(&ada(), Role::Admin, None).await.unwrap();
    let before = people.of_token(token.reveal()).await.unwrap().unwrap();
    people.change_role(&ada(), Role::Viewer).await.unwrap();
    people.revoked(&before).await;
    assert_eq!(people.of_token(token.reveal()).await.unwrap().unwrap().role(), Role::Viewer);
    let nobody = "nobody".parse().unwrap();
    assert!(matches!(people.change_role(&nobody, Role::Viewer).await, Err(PeopleError::Unknown(_))));
}

#[tokio::test]
async fn expired_token_identifies_nobody() {
    let (people, _) = people();
    let token = people.add(&ada(), Role::Admin, Some(Duration::ZERO)).await.unwrap();
    assert_eq!(people.of_token(token.reveal()).await.unwrap(), None);
}

#[tokio::test]
async fn link_works_once_and_login_ends_with_its_person_or_the_owners_token() {
    let (people, _) = people();
    let owner = Digest::of("token");
    let code = people.link(None).await.unwrap();
    let login = people.redeem(code.reveal(), owner).await.unwrap().unwrap();
    assert_eq!(people.redeem(code.reveal(), owner).await.unwrap(), None, "used");
    let browser = Identity::OwnerBrowser { login: login.digest(), owner };
    assert_eq!(people.of_logins(["x", login.reveal()], owner).await.unwrap(), Some(browser));
    assert_eq!(people.of_login(login.reveal(), Digest::of("other")).await.unwrap(), None);
    people.log_out(login.reveal()).await.unwrap();
    assert_eq!(people.of_login(login.reveal(), owner).await.unwrap(), None);

    assert!(matches!(people.link(Some(&ada())).await, Err(PeopleError::Unknown(_))));
    people.add(&ada(), Role::Viewer, None).await.unwrap();
    let code = people.link(Some(&ada())).await.unwrap();
    let login = people.redeem(code.reveal(), owner).await.unwrap().unwrap();
    assert_eq!(people.of_login(login.reveal(), owner).await.unwrap().unwrap().role(), Role::Viewer);
    people.remove(&ada()).await.unwrap();
    assert_eq!(people.of_login(login.reveal(), owner).await.unwrap(), None);
}

#[tokio::test]
async fn standing_ends_with_the_login_the_person_or_the_owners_token() {
    let (people, _) = people();
    let owner = Digest::of("token");
    let token = people.add(&ada(), Role::Viewer, None).await.unwrap();
    let login = people.log_in(token.reveal()).await.unwrap().unwrap();
    let by_token = people.of_token(token.reveal()).await.unwrap().unwrap().standing(owner);
    let by_login = people.of_login(login.reveal(), owner).await.unwrap().unwrap().standing(owner);
    let of_owner = Identity::Owner.standing(owner);
    for standing in [by_token, by_login, of_owner] {
        assert!(people.holds(&standing, owner).await.unwrap(), "{standing:?}");
    }
    assert!(!people.holds(&of_owner, Digest::of("other")).await.unwrap());
    people.log_out(login.reveal()).await.unwrap();
    assert!(!people.holds(&by_login, owner).await.unwrap());
    people.remove(&ada()).await.unwrap();
    assert!(!people.holds(&by_token, owner).await.unwrap());
}

#[tokio::test]
async fn revocation_by_another_process_ends_an_identity() {
    let (people, others) = people();
    let token = people.add(&ada(), Role::Viewer, None).await.unwrap();
    let identity = people.of_token(token.reveal()).await.unwrap().unwrap();
    let watching = tokio::spawn({
        let (people, identity) = (people.clone(), identity.clone());
        async move { people.revoked(&identity).await }
    });
    tokio::task::yield_now().await;
    assert!(!watching.is_finished());
    others.remove(&ada()).await.unwrap();
    watching.await.unwrap();
}

#[tokio::test]
async fn owners_browser_is_revoked_by_its_logout() {
    let (people, others) = people();
    let owner = Digest::of("token");
    let (login, other) =
        (people.log_in_owner(owner).await.unwrap(), people.log_in_owner(owner).await.unwrap());
    let identity = people.of_login(login.reveal(), owner).await.unwrap().unwrap();
    let watching = tokio::spawn({
        let people = people.clone();
        async move { people.revoked(&identity).await }
    });
    people.log_out(other.reveal()).await.unwrap();
    tokio::task::yield_now().await;
    assert!(!watching.is_finished(), "another browser");
    others.log_out(login.reveal()).await.unwrap();
    watching.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn watching_identities_share_the_reads_of_the_list() {
    let (people, others) = people();
    let token = people.add(&ada(), Role::Viewer, None).await.unwrap();
    let identity = people.of_token(token.reveal()).await.unwrap().unwrap();
    let watching: Vec<_> = (0..100)
        .map(|_| {
            let (people, identity) = (people.clone(), identity.clone());
            tokio::spawn(async move { people.revoked(&identity).await })
        })
        .collect();
    tokio::time::sleep(INTERVAL / 2).await;
    let before = people.reads.load(std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(INTERVAL * 10).await;
    let reads = people.reads.load(std::sync::atomic::Ordering::Relaxed) - before;
    assert!((5..=15).contains(&reads), "{reads}");
    // The reader of the list has gone; another one follows.
    watching[0].abort();
    others.remove(&ada()).await.unwrap();
    for watching in watching.into_iter().skip(1) {
        watching.await.unwrap();
    }
}

#[tokio::test]
async fn logins_of_a_person_do_not_end_those_of_others() {
    let (people, _) = people();
    let owner = Digest::of("token");
    let own = people.log_in_owner(owner).await.unwrap();
    let token = people.add(&ada(), Role::Viewer, None).await.unwrap();
    let first = people.log_in(token.reveal()).await.unwrap().unwrap();
    for _ in 0..directory::MAX_LOGINS {
        people.log_in(token.reveal()).await.unwrap().unwrap();
    }
    assert_eq!(people.of_login(first.reveal(), owner).await.unwrap(), None, "the oldest of hers");
    assert!(people.of_login(own.reveal(), owner).await.unwrap().is_some());
}

#[tokio::test]
async fn logout_of_many_logins_is_one_write_and_of_unknown_ones_none() {
    let store = Arc::new(MemoryStore::default());
    let people = People::new(store.clone());
    let owner = Digest::of("token");
    let (one, two) = (people.log_in_owner(owner).await.unwrap(), people.log_in_owner(owner).await.unwrap());
    let version = || async { store.document(DOCUMENT).await.unwrap().unwrap().version };
    let before = version().await;
    people.log_out_all(["a", "b", "c"]).await.unwrap();
    assert_eq!(version().await, before);
    people.log_out_all(["a", one.reveal(), two.reveal()]).await.unwrap();
    assert_eq!(version().await, before + 1);
    assert_eq!(people.of_logins([one.reveal(), two.reveal()], owner).await.unwrap(), None);
}

#[tokio::test]
async fn secrets_are_not_stored() {
    let store = Arc::new(MemoryStore::default());
    let people = People::new(store.clone());
    let token = people.add(&ada(), Role::Viewer, None).await.unwrap();
    let code = people.link(None).await.unwrap();
    let login = people.redeem(code.reveal(), Digest::of("t")).await.unwrap().unwrap();
    let stored = store.document(DOCUMENT).await.unwrap().unwrap().body;
    let stored = String::from_utf8(stored.to_vec()).unwrap();
    for secret in [token, code, login] {
        assert!(!stored.contains(secret.reveal()), "{stored}");
    }
}
