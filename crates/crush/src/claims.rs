//! Claims of clients to workspaces. A workspace stays open while it is claimed.
//!
//! Creating a workspace claims it for a grace period, in which the client starts its stream. A stream claims it until its end,
//! and for a grace period after that, in which the client can reconnect. A claim ends when the client releases it, when it
//! expires, or when the client retires. This module reads no clock: callers pass the time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use baton_protocol::SessionId;
use uuid::Uuid;

/// Number of retired clients to remember. A client lives as long as its process.
const MAX_RETIRED: usize = 100_000;

/// How long claims last without a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GracePeriods {
    /// After the creation of the workspace.
    pub(crate) create: Duration,
    /// After the end of the last stream.
    pub(crate) detach: Duration,
}

/// Error for a claim of a client that has retired.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Retired;

/// Error for an operation that requires a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAttached;

#[derive(Debug, Default)]
struct Claim {
    streams: usize,
    /// When it expires, unless a stream starts.
    until: Option<Instant>,
    /// Whether the client released it during a stream: it then ends with the stream, without a grace period.
    released: bool,
    /// The session that the client shows.
    current_session: Option<SessionId>,
}

/// The claims of all clients, by workspace.
#[derive(Debug)]
pub(crate) struct Claims {
    grace: GracePeriods,
    by_workspace: HashMap<Uuid, HashMap<Uuid, Claim>>,
    retired: HashSet<Uuid>,
    retired_in_order: VecDeque<Uuid>,
}

impl Claims {
    pub(crate) fn new(grace: GracePeriods) -> Self {
        Self {
            grace,
            by_workspace: HashMap::new(),
            retired: HashSet::new(),
            retired_in_order: VecDeque::new(),
        }
    }

    /// Claims a workspace for a client that creates it, or renews the claim.
    pub(crate) fn create(&mut self, workspace: Uuid, client: Uuid, now: Instant) -> Result<(), Retired> {
        if self.is_retired(client) {
            return Err(Retired);
        }
        let until = now + self.grace.create;
        let claim = self.claim(workspace, client);
        claim.released = false;
        if claim.streams == 0 {
            claim.until = Some(until);
        }
        Ok(())
    }

    pub(crate) fn is_retired(&self, client: Uuid) -> bool {
        self.retired.contains(&client)
    }

    /// Whether any client claims a workspace.
    pub(crate) fn is_claimed(&self, workspace: Uuid) -> bool {
        self.by_workspace.contains_key(&workspace)
    }

    /// Claims a workspace for a stream. The client need not have created the workspace.
    pub(crate) fn attach(&mut self, workspace: Uuid, client: Uuid) {
        let claim = self.claim(workspace, client);
        claim.until = None;
        claim.streams += 1;
    }

    /// Ends a stream. Returns whether the workspace is still claimed.
    pub(crate) fn detach(&mut self, workspace: Uuid, client: Uuid, now: Instant) -> bool {
        let grace = self.grace.detach;
        let Some(claims) = self.by_workspace.get_mut(&workspace) else { return false };
        if let Some(claim) = claims.get_mut(&client) {
            claim.streams = claim.streams.saturating_sub(1);
            if claim.streams == 0 {
                claim.current_session = None;
                let has_grace = !claim.released && !grace.is_zero();
                claim.until = has_grace.then(|| now + grace);
            }
        }
        self.drop_ended(workspace)
    }

    /// Ends a client's claim without a grace period. Returns whether the workspace is still claimed.
    pub(crate) fn release(&mut self, workspace: Uuid, client: Uuid) -> bool {
        let Some(claims) = self.by_workspace.get_mut(&workspace) else { return false };
        if let Some(claim) = claims.get_mut(&client) {
            claim.released = true;
            claim.until = None;
        }
        self.drop_ended(workspace)
    }

    /// Ends all claims of a client, and refuses new ones. Returns the workspaces that are no longer claimed.
    pub(crate) fn retire(&mut self, client: Uuid) -> Vec<Uuid> {
        if self.retired.insert(client) {
            self.retired_in_order.push_back(client);
        }
        if self.retired_in_order.len() > MAX_RETIRED
            && let Some(oldest) = self.retired_in_order.pop_front()
        {
            self.retired.remove(&oldest);
        }
        let affected: Vec<Uuid> = self
            .by_workspace
            .iter()
            .filter(|(_, claims)| claims.contains_key(&client))
            .map(|(id, _)| *id)
            .collect();
        for workspace in &affected {
            if let Some(claims) = self.by_workspace.get_mut(workspace) {
                claims.remove(&client);
            }
        }
        affected.into_iter().filter(|workspace| !self.drop_ended(*workspace)).collect()
    }

    /// Ends claims that have expired. Returns the workspaces that are no longer claimed.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Uuid> {
        let ended = |claim: &Claim| claim.until.is_some_and(|until| until <= now);
        let mut affected = Vec::new();
        for (workspace, claims) in &mut self.by_workspace {
            for claim in claims.values_mut().filter(|claim| ended(claim)) {
                claim.until = None;
                affected.push(*workspace);
            }
        }
        affected.sort_unstable();
        affected.dedup();
        affected.into_iter().filter(|workspace| !self.drop_ended(*workspace)).collect()
    }

    /// Returns when the next claim expires.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.by_workspace.values().flat_map(HashMap::values).filter_map(|claim| claim.until).min()
    }

    /// Sets the session that a client shows, if any.
    pub(crate) fn set_current_session(
        &mut self,
        workspace: Uuid,
        client: Uuid,
        session: Option<SessionId>,
    ) -> Result<(), NotAttached> {
        let claim = self.by_workspace.get_mut(&workspace).and_then(|claims| claims.get_mut(&client));
        let claim = claim.filter(|claim| claim.streams > 0).ok_or(NotAttached)?;
        claim.current_session = session;
        Ok(())
    }

    /// Counts the clients that show a session.
    pub(crate) fn viewers(&self, workspace: Uuid, session: &SessionId) -> usize {
        let claims = self.by_workspace.get(&workspace).into_iter().flat_map(HashMap::values);
        claims.filter(|claim| claim.streams > 0 && claim.current_session.as_ref() == Some(session)).count()
    }

    fn claim(&mut self, workspace: Uuid, client: Uuid) -> &mut Claim {
        self.by_workspace.entry(workspace).or_default().entry(client).or_default()
    }

    /// Removes claims without a stream and without a grace period. Returns whether any is left.
    fn drop_ended(&mut self, workspace: Uuid) -> bool {
        let Some(claims) = self.by_workspace.get_mut(&workspace) else { return false };
        claims.retain(|_, claim| claim.streams > 0 || claim.until.is_some());
        let claimed = !claims.is_empty();
        if !claimed {
            self.by_workspace.remove(&workspace);
        }
        claimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: Uuid = Uuid::from_u128(1);
    const A: Uuid = Uuid::from_u128(2);
    const B: Uuid = Uuid::from_u128(3);

    struct World {
        claims: Claims,
        start: Instant,
    }

    impl World {
        fn new() -> Self {
            Self::with_grace(10)
        }

        fn with_grace(seconds: u64) -> Self {
            let grace =
                GracePeriods { create: Duration::from_secs(30), detach: Duration::from_secs(seconds) };
            Self { claims: Claims::new(grace), start: Instant::now() }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn create(&mut self, client: Uuid, seconds: u64) {
            self.claims.create(W, client, self.at(seconds)).unwrap();
        }

        fn detach(&mut self, client: Uuid, seconds: u64) -> bool {
            self.claims.detach(W, client, self.at(seconds))
        }

        /// Expires claims. Returns whether the workspace is no longer claimed.
        fn ends_at(&mut self, seconds: u64) -> bool {
            self.claims.expire(self.at(seconds)) == [W]
        }
    }

    #[test]
    fn claim_of_a_creation_expires() {
        let mut world = World::new();
        world.create(A, 0);
        assert_eq!(world.claims.next_deadline(), Some(world.at(30)));
        assert!(!world.ends_at(29) && world.ends_at(30));
        assert_eq!(world.claims.next_deadline(), None);
        world.create(A, 0);
        world.create(A, 20);
        assert!(!world.ends_at(30) && world.ends_at(50), "creating again renews the claim");
    }

    #[test]
    fn stream_claims_until_its_end_and_a_grace_period() {
        let mut world = World::new();
        world.create(A, 0);
        world.claims.attach(W, A);
        assert!(!world.ends_at(1000));
        assert!(world.detach(A, 1000));
        assert!(!world.ends_at(1009) && world.ends_at(1010));
        world.claims.attach(W, A);
        assert!(world.detach(A, 0));
        world.claims.attach(W, A);
        assert!(!world.ends_at(1000), "a reconnect within the grace period keeps the claim");
    }

    #[test]
    fn two_streams_of_one_client_are_one_claim() {
        let mut world = World::new();
        world.claims.attach(W, A);
        world.claims.attach(W, A);
        assert!(world.detach(A, 0));
        assert!(!world.ends_at(1000), "the other stream is still open");
        assert!(world.detach(A, 0) && world.ends_at(10));
    }

    #[test]
    fn claims_of_clients_are_independent() {
        let mut world = World::with_grace(0);
        world.claims.attach(W, A);
        world.claims.attach(W, B);
        assert!(world.detach(A, 0), "B still streams");
        assert!(!world.detach(B, 0), "without a grace period, the claim ends at once");
    }

    #[test]
    fn release_skips_the_grace_period() {
        let mut world = World::new();
        world.create(A, 0);
        assert!(!world.claims.release(W, A), "it was the only claim");
        assert!(!world.claims.release(W, A), "a second release is no error");
        world.claims.attach(W, A);
        assert!(world.claims.release(W, A), "its stream continues");
        assert!(!world.detach(A, 0));
        world.claims.attach(W, A);
        assert!(world.claims.release(W, A));
        world.create(A, 0);
        assert!(world.detach(A, 0), "creating again revokes the release");
    }

    #[test]
    fn retired_client_loses_its_claims_and_gets_no_new_ones() {
        let mut world = World::new();
        let other = Uuid::from_u128(9);
        world.claims.attach(W, A);
        world.claims.create(other, A, world.at(0)).unwrap();
        world.claims.attach(other, B);
        assert_eq!(world.claims.retire(A), [W], "B still claims the other workspace");
        assert_eq!(world.claims.create(W, A, world.at(0)), Err(Retired));
        assert!(world.claims.retire(A).is_empty());
        assert!(!world.detach(A, 0), "the stream ends later, without a claim");
    }

    #[test]
    fn only_a_streaming_client_shows_a_session() {
        let mut world = World::new();
        let session: SessionId = "s".parse().unwrap();
        let look =
            |world: &mut World, to: Option<&SessionId>| world.claims.set_current_session(W, A, to.cloned());
        assert_eq!(look(&mut world, Some(&session)), Err(NotAttached));
        world.create(A, 0);
        assert_eq!(look(&mut world, Some(&session)), Err(NotAttached), "a claim is not a stream");
        world.claims.attach(W, A);
        assert_eq!(look(&mut world, Some(&session)), Ok(()));
        assert_eq!(world.claims.viewers(W, &session), 1);
        assert_eq!(look(&mut world, None), Ok(()));
        assert_eq!(world.claims.viewers(W, &session), 0);
        look(&mut world, Some(&session)).unwrap();
        world.detach(A, 0);
        assert_eq!(world.claims.viewers(W, &session), 0, "a client without a stream shows nothing");
    }
}
