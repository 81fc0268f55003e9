//! Owners of sessions: server processes, alive or not.

use std::time::Duration;

use baton_process::Instance;
use baton_protocol::SessionId;
use baton_store::{Holder, Owner, Store, StoreError, Take};

/// Pause between two looks at a process that is to end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Returns the owner of sessions that this process opens.
#[must_use]
pub fn this_process() -> Owner {
    let Instance { server, host, boot, pid, started } = Instance::current();
    Owner { server, host, boot, pid, started }
}

/// Returns the server process that an owner stands for.
#[must_use]
pub fn instance(owner: &Owner) -> Instance {
    let Owner { server, host, boot, pid, started } = owner.clone();
    Instance { server, host, boot, pid, started }
}

/// Whether the process behind a lease may still be alive. A process of another host counts as alive.
#[must_use]
pub fn is_alive(owner: &Owner) -> bool {
    instance(owner).is_alive()
}

/// Asks a server of this host to stop, and waits until it has. Returns `false` if it still runs after `limit`.
pub async fn stop(owner: &Owner, limit: Duration) -> bool {
    instance(owner).terminate();
    let ended = async {
        while is_alive(owner) {
            // The end of a process that is not our child is no event everywhere.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(limit, ended).await.is_ok()
}

/// Returns the condition for acquiring a session from its holder: always from a dead process, only while idle from a live
/// one. `us` is the calling server, if it is one: a lease that it holds for a session that is not live is one that it
/// failed to release, for example because the disk was full.
///
/// # Errors
/// When the store knows its servers and cannot be asked.
pub async fn take_from(store: &dyn Store, holder: &Holder, us: Option<&Owner>) -> Result<Take, StoreError> {
    let ours = us.is_some_and(|us| us.server == holder.owner.server);
    let lives = !ours && lives(store, &holder.owner).await?;
    Ok(if lives { Take::FromIdle(holder.epoch) } else { Take::From(holder.epoch) })
}

/// Whether a holder of sessions may still be alive. The store says so if it knows its servers; otherwise the process does.
///
/// # Errors
/// When the store knows its servers and cannot be asked.
pub async fn lives(store: &dyn Store, owner: &Owner) -> Result<bool, StoreError> {
    match store.members() {
        Some(members) => Ok(members.member(&owner.server).await?.is_some_and(|member| member.is_alive())),
        None => Ok(is_alive(owner)),
    }
}

/// Deletes a session, unless another server holds it and is busy. Returns `false` if it does not exist.
///
/// # Errors
/// [`StoreError::Held`], which names the holder, if another server is busy with it; otherwise when the store fails.
pub async fn delete_session(
    store: &dyn Store,
    session: &SessionId,
    us: Option<&Owner>,
) -> Result<bool, StoreError> {
    match store.delete_if(session, Take::IfFree).await {
        Err(StoreError::Held { holder, .. }) => {
            store.delete_if(session, take_from(store, &holder, us).await?).await
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn session_of_a_busy_server_is_not_deleted() {
        use baton_store::NewSession;
        use baton_store::memory::MemoryStore;
        let store = MemoryStore::default();
        let id: SessionId = "s".parse().unwrap();
        let create = |owner: Owner, busy| NewSession {
            session: id.clone(),
            owner,
            created: baton_protocol::Timestamp::now(),
            records: Vec::new(),
            meta: bytes::Bytes::new(),
            busy,
        };
        let (us, other) = (this_process(), this_process());
        store.create(create(other.clone(), true)).await.unwrap();
        let refused = delete_session(&store, &id, Some(&us)).await.unwrap_err();
        let expected = format!("session s is in use by process {}", std::process::id());
        assert!(refused.to_string().starts_with(&expected), "{refused}");
        assert!(delete_session(&store, &id, Some(&other)).await.unwrap(), "its own holder may delete it");
        store.create(create(other, false)).await.unwrap();
        assert!(
            delete_session(&store, &id, Some(&us)).await.unwrap(),
            "an idle session may be deleted by another server"
        );
        store.create(create(Owner { boot: "another".into(), ..this_process() }, true)).await.unwrap();
        assert!(delete_session(&store, &id, None).await.unwrap(), "a dead holder does not count");
        assert!(!delete_session(&store, &id, None).await.unwrap(), "it no longer exists");
    }
}
