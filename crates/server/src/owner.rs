//! Who this process is, and whether another one still lives.
//!
//! A pid alone says little: it is used again after a while, and after a reboot at once. A pid, the moment that process
//! started and the machine's boot together are unique, so nobody is ever mistaken for somebody else.
#![expect(clippy::disallowed_methods, reason = "files of /proc are memory, and do not hang")]

use baton_protocol::SessionId;
use baton_store::{Holder, Owner, Store, StoreError, Take};

/// This process.
#[must_use]
pub fn this_process() -> Owner {
    let pid = std::process::id();
    Owner {
        server: uuid::Uuid::new_v4().to_string(),
        host: host(),
        boot: boot(),
        pid,
        started: started(pid).unwrap_or(0),
    }
}

/// Whether the process behind a lease may still be alive. Another machine's process is taken to be: only its own
/// machine could tell.
#[must_use]
pub fn is_alive(owner: &Owner) -> bool {
    if owner.host != host() {
        return true;
    }
    is_of_this_boot(owner) && started(owner.pid) == Some(owner.started)
}

/// How a session may be taken from its holder: from a dead one in any case, from a living one while it is idle. `us`
/// is the server that asks, if it is one: what it holds itself without having it in memory is what it could not give back
/// (a full disk, say).
#[must_use]
pub(crate) fn take_from(holder: &Holder, us: Option<&Owner>) -> Take {
    let ours = us.is_some_and(|us| us.server == holder.owner.server);
    if !ours && is_alive(&holder.owner) { Take::FromIdle(holder.epoch) } else { Take::From(holder.epoch) }
}

/// Deletes a session, unless another server is in the middle of something with it. `false` if there is none.
///
/// # Errors
/// With [`StoreError::Held`], which names the holder, in that case; and when the store fails.
pub async fn delete_session(
    store: &dyn Store,
    session: &SessionId,
    us: Option<&Owner>,
) -> Result<bool, StoreError> {
    match store.delete_if(session, Take::IfFree).await {
        Err(StoreError::Held { holder, .. }) => store.delete_if(session, take_from(&holder, us)).await,
        other => other,
    }
}

/// Whether a process ran since the machine was last started: if not, nothing it started can be running.
#[must_use]
pub fn is_of_this_boot(owner: &Owner) -> bool {
    owner.boot == boot()
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// When a process started, in clock ticks since the boot; `None` if there is no such process.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, and may contain anything, brackets included.
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    if fields.next() == Some("Z") {
        return None;
    }
    // After the name, the start time is the 20th field (the 22nd in all).
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_living_from_the_dead() {
        let me = this_process();
        assert!(is_alive(&me) && me.started > 0);
        assert!(!is_alive(&Owner { started: me.started + 1, ..me.clone() }), "the pid was used again");
        assert!(!is_alive(&Owner { boot: "another".into(), ..me.clone() }), "the machine was rebooted");
        assert!(is_alive(&Owner { host: "elsewhere".into(), pid: 1, ..me }), "who knows");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = Owner { pid: child.id(), started: started(child.id()).unwrap_or(1), ..this_process() };
        child.wait().unwrap();
        assert!(!is_alive(&dead));
    }

    #[tokio::test]
    async fn session_that_another_server_works_on_is_not_deleted() {
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
        assert!(delete_session(&store, &id, Some(&other)).await.unwrap(), "its own holder may");
        store.create(create(other, false)).await.unwrap();
        assert!(
            delete_session(&store, &id, Some(&us)).await.unwrap(),
            "an idle session moves to whoever asks"
        );
        store.create(create(Owner { boot: "another".into(), ..this_process() }, true)).await.unwrap();
        assert!(delete_session(&store, &id, None).await.unwrap(), "a dead holder holds nothing");
        assert!(!delete_session(&store, &id, None).await.unwrap(), "there is none");
    }
}
