//! Heartbeats, takeover and self-fencing of two servers, explored exhaustively over a simulated clock.
//!
//! Every interleaving of sending, delivering, acknowledging and losing heartbeats, of pausing and resuming a server, of
//! taking a session, appending to it and starting work, within a few seconds. The rules are those of the program
//! ([`Pulse`], [`DEAD_AFTER`], epochs); only clock, network and store are simulated.

use std::collections::HashSet;
use std::time::Duration;

use baton_store::members::DEAD_AFTER;
use baton_store::pulse::Pulse;

const SERVERS: usize = 2;
/// Length of a step of the clock: a server that has to stop has done so before the next step, in which others may take.
const STEP: Duration = Duration::from_millis(1500);
const STEPS: u32 = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    step: u32,
    /// When the store last heard of each server.
    seen: [Duration; SERVERS],
    holder: usize,
    epoch: u32,
    servers: [Server; SERVERS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    pulse: Pulse,
    beat: Beat,
    /// Epoch of the lease that it believes to have.
    lease: Option<u32>,
    /// Whether an append was acknowledged whose work has not been started yet.
    may_start: bool,
    /// Whether tools run.
    runs: bool,
    paused: bool,
    pauses_left: u32,
}

/// A heartbeat on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Beat {
    None,
    Sent(Duration),
    Delivered(Duration),
}

impl Server {
    fn stop(&mut self) {
        (self.lease, self.may_start, self.runs) = (None, false, false);
    }
}

impl World {
    fn start() -> Self {
        let server = |lease| Server {
            pulse: Pulse::entered(Duration::ZERO),
            beat: Beat::None,
            lease,
            may_start: false,
            runs: false,
            paused: false,
            pauses_left: 1,
        };
        let servers = [server(Some(1)), server(None)];
        Self { step: 0, seen: [Duration::ZERO; SERVERS], holder: 0, epoch: 1, servers }
    }

    fn now(&self) -> Duration {
        STEP * self.step
    }

    /// Returns all states that can follow.
    fn next(&self, fencing: bool) -> Vec<Self> {
        let mut all = Vec::new();
        if self.step < STEPS {
            let mut later = self.clone();
            later.step += 1;
            // A server that is not paused looks at its pulse far more often than the clock of this model steps.
            (0..SERVERS).for_each(|id| later.look_at_pulse(id, fencing));
            all.push(later);
        }
        (0..SERVERS).for_each(|id| self.act(id, fencing, &mut all));
        all
    }

    fn look_at_pulse(&mut self, id: usize, fencing: bool) {
        let now = self.now();
        let server = &mut self.servers[id];
        if fencing && !server.paused && server.pulse.must_stop(now) {
            server.stop();
        }
    }

    fn act(&self, id: usize, fencing: bool, all: &mut Vec<Self>) {
        let now = self.now();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            all.push(world);
        };
        let server = &self.servers[id];
        match server.beat {
            Beat::Sent(sent) => {
                // The network delivers and loses without asking whether the server is paused.
                add(&|world| {
                    world.seen[id] = now;
                    world.servers[id].beat = Beat::Delivered(sent);
                });
                add(&|world| world.servers[id].beat = Beat::None);
            }
            Beat::Delivered(sent) if !server.paused => add(&|world| {
                world.servers[id].pulse.acknowledged(sent, now);
                world.servers[id].beat = Beat::None;
            }),
            Beat::None if !server.paused => add(&|world| world.servers[id].beat = Beat::Sent(now)),
            Beat::Delivered(_) | Beat::None => {}
        }
        if server.paused {
            return add(&|world| {
                world.servers[id].paused = false;
                world.look_at_pulse(id, fencing);
            });
        }
        if server.pauses_left > 0 {
            add(&|world| {
                world.servers[id].paused = true;
                world.servers[id].pauses_left -= 1;
            });
        }
        let is_fenced = fencing && server.pulse.is_fenced(now);
        let holder_is_dead = now.saturating_sub(self.seen[self.holder]) >= DEAD_AFTER;
        let may_take = self.holder != id && holder_is_dead && server.pulse.may_judge(now);
        if may_take && !is_fenced {
            add(&|world| {
                (world.holder, world.epoch) = (id, world.epoch + 1);
                world.servers[id].lease = Some(world.epoch);
            });
        }
        if let Some(epoch) = server.lease {
            // An append: refused by the epoch, in the store.
            add(&|world| match world.epoch == epoch {
                true => world.servers[id].may_start = true,
                false => world.servers[id].stop(),
            });
        }
        if server.may_start && !is_fenced {
            add(&|world| {
                let server = &mut world.servers[id];
                (server.may_start, server.runs) = (false, true);
            });
        }
    }

    /// Tools of a paused server's session cannot be stopped by it; it does so before anything else when it resumes.
    fn is_broken(&self) -> bool {
        self.servers.iter().filter(|server| server.runs && !server.paused).count() > 1
    }
}

/// Explores all states. Returns how many there are, and the first broken one.
fn explore(fencing: bool) -> (usize, Option<World>) {
    let mut known = HashSet::from([World::start()]);
    let mut todo = vec![World::start()];
    while let Some(world) = todo.pop() {
        if world.is_broken() {
            return (known.len(), Some(world));
        }
        for next in world.next(fencing) {
            if known.insert(next.clone()) {
                todo.push(next);
            }
        }
    }
    (known.len(), None)
}

#[test]
fn two_servers_never_run_tools_of_one_session_at_once() {
    let (states, broken) = explore(true);
    assert_eq!(broken, None);
    assert!(states > 10_000, "the model explored only {states} states");
}

#[test]
fn without_self_fencing_they_would() {
    assert!(explore(false).1.is_some(), "the model cannot fail");
}
