//! Laws of the outbox: random posts, withdrawals, claims by two servers, lost servers and results.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_notify::notification::{Notification, NotificationId, RequestKind, Subject};
use baton_notify::outbox::{Job, JobAction, MAX_ATTEMPTS, Outbox, RESERVED, Settlement, backoff};
use baton_notify::target::Target;
use baton_protocol::{RequestId, SessionId, Timestamp};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Post(u8),
    Withdraw(u8),
    /// A server claims what is due.
    Claim,
    /// The oldest job under way ends like this.
    Settle(Settlement),
    /// The server that works on the oldest job dies.
    Lose,
    Wait(u16),
}

fn op() -> impl Strategy<Value = Op> {
    let settlement = prop_oneof![
        3 => Just(Settlement::Delivered { receipt: Some("7".into()) }),
        2 => Just(Settlement::Failed { pause: None }),
        1 => Just(Settlement::Failed { pause: Some(Duration::from_secs(90)) }),
        1 => Just(Settlement::Refused),
    ];
    prop_oneof![
        1 => (0..4_u8).prop_map(Op::Post),
        1 => (0..4_u8).prop_map(Op::Withdraw),
        3 => Just(Op::Claim),
        3 => settlement.prop_map(Op::Settle),
        1 => Just(Op::Lose),
        2 => (1..60_u16).prop_map(Op::Wait),
    ]
}

fn session() -> SessionId {
    "s".parse().expect("an id")
}

fn id(n: u8) -> NotificationId {
    NotificationId::of_request(&session(), &RequestId(n.to_string()))
}

fn notification(n: u8, now: Timestamp) -> Notification {
    let request = RequestId(n.to_string());
    Notification {
        id: id(n),
        session: Some(session()),
        title: None,
        created: now,
        subject: Subject::Request { request, kind: RequestKind::Permission, tool: None, details: None },
    }
}

fn targets() -> [Target; 2] {
    [Target::Webhook, Target::Telegram(5)]
}

/// What the world knows beside the outbox.
#[derive(Default)]
struct World {
    outbox: Outbox,
    now: i64,
    /// Jobs under way, with the time until which each is reserved.
    running: Vec<(Job, i64)>,
    posted: BTreeSet<NotificationId>,
    withdrawn: BTreeSet<NotificationId>,
    attempts: BTreeMap<(NotificationId, Target, bool), u32>,
}

impl World {
    fn apply(&mut self, op: Op) {
        let now = Timestamp(self.now);
        match op {
            Op::Post(n) => {
                let is_new = self.posted.insert(id(n));
                assert_eq!(self.outbox.post(notification(n, now), targets(), now), is_new, "one id, once");
            }
            Op::Withdraw(n) => {
                let counts = self.posted.contains(&id(n)) && self.withdrawn.insert(id(n));
                assert_eq!(self.outbox.withdraw(&id(n), "answered", now), counts);
            }
            Op::Claim => self.claim(),
            Op::Settle(result) if !self.running.is_empty() => {
                let (job, _) = self.running.remove(0);
                self.outbox.settle(&job, &result, now);
            }
            Op::Lose if !self.running.is_empty() => drop(self.running.remove(0)),
            Op::Wait(seconds) => self.now += i64::from(seconds) * 1000,
            Op::Settle(_) | Op::Lose => {}
        }
        // What is stored is all that there is.
        let stored = serde_json::to_string(&self.outbox).expect("JSON");
        let read: Outbox = serde_json::from_str(&stored).expect("an outbox");
        assert_eq!(read, self.outbox);
    }

    fn claim(&mut self) {
        let now = self.now;
        for job in self.outbox.claim(|_| true, Timestamp(now)) {
            let key = (job.notification.id.clone(), job.target.clone());
            let retracts = matches!(job.action, JobAction::Retract { .. });
            assert_eq!(retracts, self.withdrawn.contains(&key.0), "sent only while it stands: {job:?}");
            let attempts = self.attempts.entry((key.0.clone(), key.1.clone(), retracts)).or_default();
            *attempts += 1;
            assert!(*attempts <= MAX_ATTEMPTS);
            let same = |(other, until): &&(Job, i64)| {
                (&other.notification.id, &other.target) == (&key.0, &key.1) && *until > now
            };
            let others = self.running.iter().filter(same);
            let sends = others.filter(|(other, _)| matches!(other.action, JobAction::Send) == !retracts);
            assert_eq!(sends.count(), 0, "one server at a time: {job:?}");
            if retracts {
                let sent = (key.0.clone(), key.1.clone(), false);
                assert!(self.attempts.contains_key(&sent), "only what may have arrived is retracted");
            }
            self.running.push((job, now + 30_000));
        }
    }

    /// Lets a healthy server work until nothing is left. Returns what it sent and retracted.
    fn drain(&mut self) -> Vec<(NotificationId, Target, bool)> {
        self.running.clear();
        let mut done = Vec::new();
        for _ in 0..100_000 {
            let Some(next) = self.outbox.next(|_| true) else { return done };
            self.now = self.now.max(next.0);
            for job in self.outbox.claim(|_| true, Timestamp(self.now)) {
                let arrived = Settlement::Delivered { receipt: None };
                self.outbox.settle(&job, &arrived, Timestamp(self.now));
                let retracts = matches!(job.action, JobAction::Retract { .. });
                done.push((job.notification.id, job.target, retracts));
            }
        }
        panic!("the outbox does not come to rest");
    }
}

proptest! {
    #[test]
    fn one_server_sends_each_notification_and_retracts_what_may_have_arrived(
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut world = World::default();
        ops.into_iter().for_each(|op| world.apply(op));
        let refused_or_sent = world.outbox.clone();
        let done = world.drain();
        for (id, _, retracts) in &done {
            prop_assert_eq!(*retracts, world.withdrawn.contains(id));
        }
        prop_assert_eq!(world.outbox.backlog(), (0, None));
        // Nothing that was finished is touched again.
        prop_assert!(refused_or_sent.backlog().0 >= done.len());
    }

    #[test]
    fn without_refusals_everything_is_sent_until_it_is_withdrawn(
        ops in proptest::collection::vec(op(), 1..80),
    ) {
        let mut world = World::default();
        for op in ops {
            if !matches!(op, Op::Settle(Settlement::Refused)) {
                world.apply(op);
            }
        }
        drop(world.drain());
        for id in world.posted.difference(&world.withdrawn) {
            prop_assert!(world.outbox.standing(id).is_some());
        }
        prop_assert_eq!(world.outbox.next(|_| true), None);
    }
}

#[test]
fn receipt_of_a_message_that_was_withdrawn_on_its_way_reaches_the_retraction() {
    let (mut outbox, start) = (Outbox::default(), Timestamp(1000));
    outbox.post(notification(1, start), [Target::Telegram(5)], start);
    let job = outbox.claim(|_| true, start).remove(0);
    outbox.withdraw(&id(1), "answered", start);
    assert!(outbox.claim(|_| true, start).is_empty(), "the message may still be on its way");
    outbox.settle(&job, &Settlement::Delivered { receipt: Some("42".into()) }, start);
    let retraction = outbox.claim(|_| true, start).remove(0);
    let expected = JobAction::Retract { receipt: Some("42".into()), reason: "answered".into() };
    assert_eq!(retraction.action, expected);
}

#[test]
fn delivery_is_given_up_in_the_end() {
    let (mut outbox, mut now) = (Outbox::default(), Timestamp(0));
    outbox.post(notification(1, now), [Target::Webhook], now);
    let mut attempts = 0;
    while let Some(next) = outbox.next(|_| true) {
        now = next;
        for job in outbox.claim(|_| true, now) {
            attempts += 1;
            outbox.settle(&job, &Settlement::Failed { pause: None }, now);
        }
    }
    assert_eq!(attempts, MAX_ATTEMPTS);
    assert!(now.0 > 3_600_000 && now.0 < 4 * 3_600_000, "{now}");
}

#[test]
fn pauses_grow_and_have_a_limit() {
    assert_eq!(backoff(1), Duration::from_secs(2));
    assert!((1..40).all(|n| backoff(n) <= backoff(n + 1) && backoff(n) <= Duration::from_secs(600)));
    assert!(RESERVED > Duration::from_secs(20), "longer than an attempt may take");
}

#[test]
fn delivery_of_a_channel_that_is_not_configured_here_is_left_to_others() {
    let (mut outbox, now) = (Outbox::default(), Timestamp(0));
    outbox.post(notification(1, now), targets(), now);
    let claimed = outbox.claim(|target| *target == Target::Webhook, now);
    assert_eq!(claimed.iter().map(|job| job.target.clone()).collect::<Vec<_>>(), [Target::Webhook]);
    assert_eq!(outbox.claim(|_| true, now).len(), 1);
}

#[test]
fn buttons_are_read_until_they_are_gone() {
    let (mut outbox, now) = (Outbox::default(), Timestamp(0));
    let awaits = |outbox: &Outbox| outbox.awaits_answer(|_| true);
    outbox.post(notification(1, now), [Target::Telegram(7)], now);
    let sent = outbox.claim(|_| true, now).remove(0);
    outbox.settle(&sent, &Settlement::Delivered { receipt: Some("1".into()) }, now);
    assert!(awaits(&outbox));
    outbox.withdraw(&id(1), "Allowed by ada.", now);
    assert!(awaits(&outbox), "the message still shows its buttons");
    assert!(outbox.named(id(1).as_str()).is_some_and(|(_, withdrawn)| withdrawn));
    let retraction = outbox.claim(|_| true, now).remove(0);
    outbox.settle(&retraction, &Settlement::Delivered { receipt: None }, now);
    assert!(!awaits(&outbox));
    assert_eq!(outbox.named(id(2).as_str()), None, "nobody knows what became of it");
}

#[test]
fn message_that_is_sent_after_the_answer_is_retracted() {
    let (mut outbox, now) = (Outbox::default(), Timestamp(0));
    outbox.post(notification(1, now), [Target::Telegram(7)], now);
    let late = outbox.claim(|_| true, now).remove(0);
    outbox.withdraw(&id(1), "Denied by ada.", now);
    assert!(
        !outbox.post(notification(1, now), [Target::Telegram(7)], now),
        "an older state is no new request"
    );
    outbox.settle(&late, &Settlement::Delivered { receipt: Some("1".into()) }, now);
    let next = outbox.claim(|_| true, now).remove(0);
    let reason = "Denied by ada.".to_owned();
    assert_eq!(next.action, JobAction::Retract { receipt: Some("1".into()), reason });
}
