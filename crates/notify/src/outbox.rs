//! The outbox as data: notifications, with the state of each delivery. No I/O and no clock.
//!
//! A server *claims* a delivery before it sends, and *settles* it afterwards. The claim counts the attempt and reserves the
//! delivery for [`RESERVED`], so that of several servers exactly one sends, and another one takes over if it dies in
//! between. A delivery that was claimed may have arrived, whatever became of the server: when its notification is withdrawn,
//! it is retracted; one that was never claimed is dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_protocol::{RequestId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::notification::{Notification, NotificationId, Subject};
use crate::target::Target;

/// How long a claimed delivery is left to the server that claimed it. Longer than any attempt takes.
pub const RESERVED: Duration = Duration::from_secs(30);
/// Number of attempts after which a delivery is given up, some two hours after the first.
pub const MAX_ATTEMPTS: u32 = 20;
/// Longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(600);
/// Maximum number of notifications; the oldest finished ones leave first, then the oldest.
const MAX_ENTRIES: usize = 300;
/// How long a finished notification is remembered, so that a recovery does not send it again.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// All notifications that are being delivered, or were delivered recently.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outbox {
    entries: Vec<Entry>,
    /// All turns that ended before this time have been noticed.
    noticed: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    notification: Notification,
    /// Why it was withdrawn, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    withdrawn: Option<String>,
    deliveries: BTreeMap<Target, Delivery>,
}

/// How far a delivery is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
enum Delivery {
    /// To be sent, at `next` or later.
    Waiting { attempts: u32, next: Timestamp },
    /// Sent. Messages that can be changed have a receipt.
    Sent { receipt: Option<String> },
    /// To be retracted, at `next` or later.
    Retracting { attempts: u32, next: Timestamp, receipt: Option<String> },
    /// Nothing is left to do: retracted, dropped, refused or given up.
    Done,
}

/// One attempt to deliver or to retract.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What is sent.
    pub notification: Notification,
    /// To whom.
    pub target: Target,
    /// What to do.
    pub action: JobAction,
    /// Number of this attempt, from 1.
    pub attempt: u32,
}

/// What a job does.
#[derive(Debug, Clone, PartialEq)]
pub enum JobAction {
    /// Send the notification.
    Send,
    /// Retract a notification that was, or may have been, sent.
    Retract {
        /// Receipt of the message, if there is one.
        receipt: Option<String>,
        /// Why, for people.
        reason: String,
    },
}

/// Result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It arrived.
    Delivered {
        /// Name of the message at the receiver, with which it can be changed.
        receipt: Option<String>,
    },
    /// It did not arrive; to be tried again, after this time if the receiver named one.
    Failed {
        /// Pause that the receiver asks for.
        pause: Option<Duration>,
    },
    /// It will never arrive.
    Refused,
}

impl Outbox {
    /// Adds a notification, unless it is known. Returns whether it was added.
    pub fn post(
        &mut self,
        notification: Notification,
        targets: impl IntoIterator<Item = Target>,
        now: Timestamp,
    ) -> bool {
        if self.find(&notification.id).is_some() {
            return false;
        }
        let waiting = |target| (target, Delivery::Waiting { attempts: 0, next: now });
        let deliveries: BTreeMap<_, _> = targets.into_iter().map(waiting).collect();
        if deliveries.is_empty() {
            return false;
        }
        self.entries.push(Entry { notification, withdrawn: None, deliveries });
        self.forget(now);
        true
    }

    /// Withdraws a notification: what was not sent is dropped, what may have been is retracted. Returns whether that changed
    /// anything.
    pub fn withdraw(&mut self, id: &NotificationId, reason: &str, now: Timestamp) -> bool {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.notification.id == *id) else {
            return false;
        };
        if entry.withdrawn.is_some() {
            return false;
        }
        entry.withdrawn = Some(reason.to_owned());
        entry.deliveries.values_mut().for_each(|delivery| delivery.withdraw(now));
        true
    }

    /// Claims what is due for the targets that `serves` selects.
    pub fn claim(&mut self, serves: impl Fn(&Target) -> bool, now: Timestamp) -> Vec<Job> {
        let mut jobs = Vec::new();
        for entry in &mut self.entries {
            for (target, delivery) in &mut entry.deliveries {
                if !serves(target) {
                    continue;
                }
                if let Some((action, attempt)) = delivery.claim(entry.withdrawn.as_deref(), now) {
                    let (notification, target) = (entry.notification.clone(), target.clone());
                    jobs.push(Job { notification, target, action, attempt });
                }
            }
        }
        jobs
    }

    /// Records the result of a job.
    pub fn settle(&mut self, job: &Job, result: &Settlement, now: Timestamp) {
        let id = &job.notification.id;
        let found = self.entries.iter_mut().find(|entry| entry.notification.id == *id);
        let delivery = found.and_then(|entry| entry.deliveries.get_mut(&job.target));
        if let Some(delivery) = delivery {
            delivery.settle(job, result, now);
        }
    }

    /// Returns when the next delivery is due for the targets that `serves` selects.
    #[must_use]
    pub fn next(&self, serves: impl Fn(&Target) -> bool) -> Option<Timestamp> {
        let all = self.entries.iter().flat_map(|entry| &entry.deliveries);
        all.filter(|(target, _)| serves(target)).filter_map(|(_, delivery)| delivery.next()).min()
    }

    /// Returns a notification that was not withdrawn.
    #[must_use]
    pub fn standing(&self, id: &NotificationId) -> Option<&Notification> {
        self.find(id).filter(|entry| entry.withdrawn.is_none()).map(|entry| &entry.notification)
    }

    /// Returns the notification with this id and whether it was withdrawn; none if it is forgotten.
    #[must_use]
    pub fn named(&self, id: &str) -> Option<(&Notification, bool)> {
        let entry = self.entries.iter().find(|entry| entry.notification.id.as_str() == id)?;
        Some((&entry.notification, entry.withdrawn.is_some()))
    }

    /// Returns the requests whose notifications were not withdrawn.
    #[must_use]
    pub fn requests(&self) -> Vec<(SessionId, RequestId)> {
        let standing = self.entries.iter().filter(|entry| entry.withdrawn.is_none());
        let requests = standing.filter_map(|entry| match &entry.notification.subject {
            Subject::Request { request, .. } => Some((entry.notification.session.clone()?, request.clone())),
            Subject::Turn { .. } | Subject::Test => None,
        });
        requests.collect()
    }

    /// Whether a message with buttons, which somebody may press, is at one of the targets that `among` selects. A withdrawn one
    /// counts until its buttons are gone: a press of one replies that the request was answered.
    #[must_use]
    pub fn awaits_answer(&self, among: impl Fn(&Target) -> bool) -> bool {
        let asking = self.entries.iter().filter(|entry| entry.notification.can_be_denied());
        let mut deliveries = asking.flat_map(|entry| &entry.deliveries);
        deliveries.any(|(target, delivery)| among(target) && *delivery != Delivery::Done)
    }

    /// Returns the number of unfinished deliveries, and when the oldest of their notifications was created.
    #[must_use]
    pub fn backlog(&self) -> (usize, Option<Timestamp>) {
        let waits = |entry: &&Entry| entry.deliveries.values().any(|delivery| delivery.next().is_some());
        let count = self.entries.iter().flat_map(|entry| entry.deliveries.values());
        let count = count.filter(|delivery| delivery.next().is_some()).count();
        (count, self.entries.iter().filter(waits).map(|entry| entry.notification.created).min())
    }

    /// Returns the time before which all ends of turns have been noticed.
    #[must_use]
    pub fn noticed(&self) -> Timestamp {
        self.noticed
    }

    /// Moves the time before which all ends of turns have been noticed. It never goes back.
    pub fn notice_until(&mut self, time: Timestamp) {
        self.noticed = self.noticed.max(time);
    }

    /// Forgets finished notifications that are old, and the oldest ones if there are too many.
    fn forget(&mut self, now: Timestamp) {
        let limit = earlier(now, REMEMBERED);
        self.entries.retain(|entry| entry.is_in_use() || entry.notification.created > limit);
        while self.entries.len() > MAX_ENTRIES {
            let finished = self.entries.iter().position(|entry| !entry.is_in_use());
            self.entries.remove(finished.unwrap_or(0));
        }
    }

    fn find(&self, id: &NotificationId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.notification.id == *id)
    }
}

impl Entry {
    /// Whether something may still be sent or retracted.
    fn is_in_use(&self) -> bool {
        let may_be_withdrawn =
            self.withdrawn.is_none() && matches!(self.notification.subject, Subject::Request { .. });
        self.deliveries.values().any(|delivery| match delivery {
            Delivery::Waiting { .. } | Delivery::Retracting { .. } => true,
            Delivery::Sent { .. } => may_be_withdrawn,
            Delivery::Done => false,
        })
    }
}

impl Delivery {
    fn next(&self) -> Option<Timestamp> {
        match self {
            Self::Waiting { next, .. } | Self::Retracting { next, .. } => Some(*next),
            Self::Sent { .. } | Self::Done => None,
        }
    }

    fn withdraw(&mut self, now: Timestamp) {
        *self = match std::mem::replace(self, Self::Done) {
            Self::Waiting { attempts: 0, .. } | Self::Done => Self::Done,
            // An attempt may be under way: its settlement brings the receipt, and the retraction forward.
            Self::Waiting { next, .. } => {
                Self::Retracting { attempts: 0, next: next.max(later(now, RESERVED)), receipt: None }
            }
            Self::Sent { receipt } => Self::Retracting { attempts: 0, next: now, receipt },
            retracting @ Self::Retracting { .. } => retracting,
        };
    }

    /// Claims the delivery. Returns what to do, and the number of the attempt.
    fn claim(&mut self, withdrawn: Option<&str>, now: Timestamp) -> Option<(JobAction, u32)> {
        let (attempts, next, action) = match self {
            Self::Waiting { attempts, next } => (attempts, next, JobAction::Send),
            Self::Retracting { attempts, next, receipt } => {
                let reason = withdrawn.unwrap_or_default().to_owned();
                (attempts, next, JobAction::Retract { receipt: receipt.clone(), reason })
            }
            Self::Sent { .. } | Self::Done => return None,
        };
        if *next > now {
            return None;
        }
        if *attempts == MAX_ATTEMPTS {
            *self = Self::Done;
            return None;
        }
        *attempts += 1;
        *next = later(now, RESERVED);
        Some((action, *attempts))
    }

    /// Records a result. The failure of an attempt whose reservation had expired changes nothing: another one is under way.
    fn settle(&mut self, job: &Job, result: &Settlement, now: Timestamp) {
        match (&mut *self, &job.action) {
            (Self::Waiting { attempts, next }, JobAction::Send) => match result {
                Settlement::Delivered { receipt } => *self = Self::Sent { receipt: receipt.clone() },
                Settlement::Failed { .. } if job.attempt != *attempts => {}
                Settlement::Failed { pause } => *next = later(now, pause.unwrap_or(backoff(*attempts))),
                Settlement::Refused => *self = Self::Done,
            },
            // Withdrawn while it was being sent. A late result does not start a second retraction beside one under way.
            (Self::Retracting { attempts, next, receipt }, JobAction::Send) => {
                let due = if *attempts == 0 { now } else { *next };
                match result {
                    Settlement::Delivered { receipt: given } => {
                        receipt.clone_from(given);
                        *next = due;
                    }
                    Settlement::Failed { .. } => *next = due,
                    Settlement::Refused => *self = Self::Done,
                }
            }
            (Self::Retracting { attempts, next, .. }, JobAction::Retract { .. }) => match result {
                Settlement::Delivered { .. } | Settlement::Refused => *self = Self::Done,
                Settlement::Failed { .. } if job.attempt != *attempts => {}
                Settlement::Failed { pause } => *next = later(now, pause.unwrap_or(backoff(*attempts))),
            },
            // A late result of an attempt whose reservation had expired.
            (Self::Sent { .. } | Self::Done, _) | (Self::Waiting { .. }, JobAction::Retract { .. }) => {}
        }
    }
}

/// Returns the pause after this many failed attempts: two seconds, doubled each time up to ten minutes.
#[must_use]
pub fn backoff(attempts: u32) -> Duration {
    let doubled = Duration::from_secs(2).saturating_mul(1 << attempts.saturating_sub(1).min(16));
    doubled.min(MAX_PAUSE)
}

/// Returns the time this much later.
#[must_use]
pub(crate) fn later(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp(time.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

/// Returns the time this much earlier.
#[must_use]
pub(crate) fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp(time.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
