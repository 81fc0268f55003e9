//! Laws of a session under any sequence of inputs, results, crashes and resumes: the promises P2, P3 and P5.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a broken law must fail the test")]

#[path = "laws/checks.rs"]
mod checks;
#[path = "laws/ops.rs"]
mod ops;
#[path = "laws/run.rs"]
mod run;
mod world;

use baton_protocol::event::Body;
use checks::{History, check_idle, check_now, check_plans, check_serialisation};
use ops::op;
use proptest::prelude::*;
use run::Run;

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn session_keeps_its_promises(ops in proptest::collection::vec(op(), 1..60)) {
        let mut run = Run::new();
        for op in &ops {
            run.apply(op);
            check_now(&run.world);
        }
        check_serialisation(&run.world);
        run.drain();
        check_now(&run.world);
        check_plans(&run.world);
        check_idle(&run.world, History::Whole);
        run.check_answers();
        run.world.close();
        prop_assert!(run.world.pending.is_empty(), "every ask has a reply: {:?}", run.world.pending);
    }

    /// A crash may cut the log anywhere.
    #[test]
    fn every_prefix_of_a_history_opens_and_becomes_idle(ops in proptest::collection::vec(op(), 1..40), cut in any::<prop::sample::Index>()) {
        let mut run = Run::new();
        ops.iter().for_each(|op| run.apply(op));
        let keep = 1 + cut.index(run.world.log.len());
        run.world.log.truncate(keep);
        run.world.crash();
        run.world.accepted.retain(|id| {
            run.world.log.iter().any(|e| matches!(&e.body, Body::PromptAccepted(a) if a.prompt_id == *id))
        });
        run.drain();
        check_now(&run.world);
        check_idle(&run.world, History::Torn);
    }
}
