//! Who holds which workspace. A workspace lives as long as somebody claims it.
//!
//! A claim is made by creating the workspace, and held for a while so that the client can come; or by streaming its
//! events, for as long as the stream lasts and a moment longer, so that a client may reconnect. It ends by being let go
//! of, by running out, or with its client. No clock in here: whoever calls says what time it is.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use baton_protocol::SessionId;
use uuid::Uuid;

/// How many clients are remembered that said goodbye for good. A client lives as long as a program.
const MOST_RETIRED: usize = 100_000;

/// How long claims are held without a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holds {
    /// After the workspace was created.
    pub(crate) create: Duration,
    /// After the last stream ended.
    pub(crate) detach: Duration,
}

/// A client that said goodbye for good wants to come back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Retired;

/// A client that has no stream wants something that needs one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAttached;

#[derive(Debug, Default)]
struct Claim {
    streams: usize,
    /// When it runs out, unless a stream comes.
    until: Option<Instant>,
    /// Whether the client has let go while it still streams: then there is nothing to wait for afterwards.
    released: bool,
    /// The session that the client looks at.
    looks_at: Option<SessionId>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Claims {
    holds: Holds,
    by_workspace: HashMap<Uuid, HashMap<Uuid, Claim>>,
    retired: HashSet<Uuid>,
    retired_in_order: VecDeque<Uuid>,
}

impl Claims {
    pub(crate) fn new(holds: Holds) -> Self {
        Self {
            holds,
            by_workspace: HashMap::new(),
            retired: HashSet::new(),
            retired_in_order: VecDeque::new(),
        }
    }

    /// A client creates the workspace, or says again that it wants it.
    pub(crate) fn create(&mut self, workspace: Uuid, client: Uuid, now: Instant) -> Result<(), Retired> {
        if self.is_retired(client) {
            return Err(Retired);
        }
        let until = now + self.holds.create;
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

    /// Whether anybody claims a workspace.
    pub(crate) fn is_claimed(&self, workspace: Uuid) -> bool {
        self.by_workspace.contains_key(&workspace)
    }

    /// A stream begins. The client need not have created the workspace.
    pub(crate) fn attach(&mut self, workspace: Uuid, client: Uuid) {
        let claim = self.claim(workspace, client);
        claim.until = None;
        claim.streams += 1;
    }

    /// A stream ends. Returns whether the workspace is still claimed.
    pub(crate) fn detach(&mut self, workspace: Uuid, client: Uuid, now: Instant) -> bool {
        let grace = self.holds.detach;
        let Some(claims) = self.by_workspace.get_mut(&workspace) else { return false };
        if let Some(claim) = claims.get_mut(&client) {
            claim.streams = claim.streams.saturating_sub(1);
            if claim.streams == 0 {
                claim.looks_at = None;
                let waits = !claim.released && !grace.is_zero();
                claim.until = waits.then(|| now + grace);
            }
        }
        self.drop_ended(workspace)
    }

    /// A client lets go. Returns whether the workspace is still claimed.
    pub(crate) fn release(&mut self, workspace: Uuid, client: Uuid) -> bool {
        let Some(claims) = self.by_workspace.get_mut(&workspace) else { return false };
        if let Some(claim) = claims.get_mut(&client) {
            claim.released = true;
            claim.until = None;
        }
        self.drop_ended(workspace)
    }

    /// A client says goodbye for good. Returns the workspaces that nobody claims any more.
    pub(crate) fn retire(&mut self, client: Uuid) -> Vec<Uuid> {
        if self.retired.insert(client) {
            self.retired_in_order.push_back(client);
        }
        if self.retired_in_order.len() > MOST_RETIRED
            && let Some(oldest) = self.retired_in_order.pop_front()
        {
            self.retired.remove(&oldest);
        }
        let concerned: Vec<Uuid> = self
            .by_workspace
            .iter()
            .filter(|(_, claims)| claims.contains_key(&client))
            .map(|(id, _)| *id)
            .collect();
        for workspace in &concerned {
            if let Some(claims) = self.by_workspace.get_mut(workspace) {
                claims.remove(&client);
            }
        }
        concerned.into_iter().filter(|workspace| !self.drop_ended(*workspace)).collect()
    }

    /// Lets claims run out. Returns the workspaces that nobody claims any more.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Uuid> {
        let ended = |claim: &Claim| claim.until.is_some_and(|until| until <= now);
        let mut concerned = Vec::new();
        for (workspace, claims) in &mut self.by_workspace {
            for claim in claims.values_mut().filter(|claim| ended(claim)) {
                claim.until = None;
                concerned.push(*workspace);
            }
        }
        concerned.sort_unstable();
        concerned.dedup();
        concerned.into_iter().filter(|workspace| !self.drop_ended(*workspace)).collect()
    }

    /// When the next claim runs out.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.by_workspace.values().flat_map(HashMap::values).filter_map(|claim| claim.until).min()
    }

    /// A client looks at a session, or at none.
    pub(crate) fn look_at(
        &mut self,
        workspace: Uuid,
        client: Uuid,
        session: Option<SessionId>,
    ) -> Result<(), NotAttached> {
        let claim = self.by_workspace.get_mut(&workspace).and_then(|claims| claims.get_mut(&client));
        let claim = claim.filter(|claim| claim.streams > 0).ok_or(NotAttached)?;
        claim.looks_at = session;
        Ok(())
    }

    /// How many clients look at a session.
    pub(crate) fn lookers(&self, workspace: Uuid, session: &SessionId) -> usize {
        let claims = self.by_workspace.get(&workspace).into_iter().flat_map(HashMap::values);
        claims.filter(|claim| claim.streams > 0 && claim.looks_at.as_ref() == Some(session)).count()
    }

    fn claim(&mut self, workspace: Uuid, client: Uuid) -> &mut Claim {
        self.by_workspace.entry(workspace).or_default().entry(client).or_default()
    }

    /// Removes claims that hold nothing. Returns whether any is left.
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
            let holds = Holds { create: Duration::from_secs(30), detach: Duration::from_secs(seconds) };
            Self { claims: Claims::new(holds), start: Instant::now() }
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

        /// Whether the workspace ends at this moment.
        fn ends_at(&mut self, seconds: u64) -> bool {
            self.claims.expire(self.at(seconds)) == [W]
        }
    }

    #[test]
    fn a_claim_waits_for_its_client_and_runs_out() {
        let mut world = World::new();
        world.create(A, 0);
        assert_eq!(world.claims.next_deadline(), Some(world.at(30)));
        assert!(!world.ends_at(29) && world.ends_at(30));
        assert_eq!(world.claims.next_deadline(), None);
        world.create(A, 0);
        world.create(A, 20);
        assert!(!world.ends_at(30) && world.ends_at(50), "asking again is asking for more time");
    }

    #[test]
    fn a_stream_holds_it_for_as_long_as_it_lasts_and_a_moment_longer() {
        let mut world = World::new();
        world.create(A, 0);
        world.claims.attach(W, A);
        assert!(!world.ends_at(1000));
        assert!(world.detach(A, 1000));
        assert!(!world.ends_at(1009) && world.ends_at(1010));
        world.claims.attach(W, A);
        assert!(world.detach(A, 0));
        world.claims.attach(W, A);
        assert!(!world.ends_at(1000), "who comes back in time has lost nothing, created or not");
    }

    #[test]
    fn two_streams_of_one_client_are_one_claim() {
        let mut world = World::new();
        world.claims.attach(W, A);
        world.claims.attach(W, A);
        assert!(world.detach(A, 0));
        assert!(!world.ends_at(1000), "the other still streams");
        assert!(world.detach(A, 0) && world.ends_at(10));
    }

    #[test]
    fn each_client_holds_for_itself() {
        let mut world = World::with_grace(0);
        world.claims.attach(W, A);
        world.claims.attach(W, B);
        assert!(world.detach(A, 0), "B is still there");
        assert!(!world.detach(B, 0), "without a grace it ends at once");
    }

    #[test]
    fn letting_go_skips_the_grace() {
        let mut world = World::new();
        world.create(A, 0);
        assert!(!world.claims.release(W, A), "it was the only one");
        assert!(!world.claims.release(W, A), "and again is no error");
        world.claims.attach(W, A);
        assert!(world.claims.release(W, A), "its stream goes on");
        assert!(!world.detach(A, 0));
        world.claims.attach(W, A);
        assert!(world.claims.release(W, A));
        world.create(A, 0);
        assert!(world.detach(A, 0), "who creates again has not let go");
    }

    #[test]
    fn who_retires_leaves_everything_and_does_not_come_back() {
        let mut world = World::new();
        let other = Uuid::from_u128(9);
        world.claims.attach(W, A);
        world.claims.create(other, A, world.at(0)).unwrap();
        world.claims.attach(other, B);
        assert_eq!(world.claims.retire(A), [W], "B still holds the other one");
        assert_eq!(world.claims.create(W, A, world.at(0)), Err(Retired));
        assert!(world.claims.retire(A).is_empty());
        assert!(!world.detach(A, 0), "its stream ends later, and finds nothing");
    }

    #[test]
    fn only_who_streams_looks_at_a_session() {
        let mut world = World::new();
        let session: SessionId = "s".parse().unwrap();
        let look = |world: &mut World, to: Option<&SessionId>| world.claims.look_at(W, A, to.cloned());
        assert_eq!(look(&mut world, Some(&session)), Err(NotAttached));
        world.create(A, 0);
        assert_eq!(look(&mut world, Some(&session)), Err(NotAttached), "a claim is not a stream");
        world.claims.attach(W, A);
        assert_eq!(look(&mut world, Some(&session)), Ok(()));
        assert_eq!(world.claims.lookers(W, &session), 1);
        assert_eq!(look(&mut world, None), Ok(()));
        assert_eq!(world.claims.lookers(W, &session), 0);
        look(&mut world, Some(&session)).unwrap();
        world.detach(A, 0);
        assert_eq!(world.claims.lookers(W, &session), 0, "who is away looks at nothing");
    }
}
