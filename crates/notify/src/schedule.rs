//! Pending requests that are not due yet. They are lost with the process, because the histories have them. Reads no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_protocol::{RequestId, SessionId, Timestamp};

use crate::facts::{SessionFacts, request_of};
use crate::notification::Subject;
use crate::outbox::later;

/// The requests of all sessions.
#[derive(Debug, Default)]
pub struct Schedule {
    sessions: BTreeMap<SessionId, BTreeMap<String, Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    /// When people are notified; none if they were.
    due: Option<Timestamp>,
    request: RequestId,
}

impl Schedule {
    /// Notes which requests of a session wait now. Returns those that do not wait any more.
    pub(crate) fn note(&mut self, facts: &SessionFacts, delay: Duration, now: Timestamp) -> Vec<RequestId> {
        let known = self.sessions.remove(&facts.session).unwrap_or_default();
        let mut current = BTreeMap::new();
        for request in facts.waiting.iter().filter_map(request_of) {
            let key = request.to_string();
            let due = known.get(&key).map_or(Some(later(now, delay)), |waiting| waiting.due);
            current.insert(key, Waiting { due, request: request.clone() });
        }
        let gone = known.into_iter().filter(|(key, _)| !current.contains_key(key));
        let gone = gone.map(|(_, waiting)| waiting.request).collect();
        if !current.is_empty() {
            self.sessions.insert(facts.session.clone(), current);
        }
        gone
    }

    /// Returns when the next request is due.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        self.sessions.values().flat_map(BTreeMap::values).filter_map(|waiting| waiting.due).min()
    }

    /// Takes the requests that are due, as sessions with those among their facts that they should be announced for.
    pub fn take_due(&mut self, now: Timestamp) -> Vec<(SessionId, Vec<RequestId>)> {
        let mut all = Vec::new();
        for (session, requests) in &mut self.sessions {
            let due = requests.values_mut().filter(|waiting| waiting.due.is_some_and(|due| due <= now));
            let taken: Vec<RequestId> = due
                .map(|waiting| {
                    waiting.due = None;
                    waiting.request.clone()
                })
                .collect();
            if !taken.is_empty() {
                all.push((session.clone(), taken));
            }
        }
        all
    }

    /// Makes requests due again, which could not be announced.
    pub fn postpone(&mut self, session: &SessionId, requests: &[RequestId], until: Timestamp) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        for request in requests {
            if let Some(waiting) = known.get_mut(&request.to_string()) {
                waiting.due = Some(until);
            }
        }
    }
}

/// Returns the subjects of these requests.
pub(crate) fn chosen(facts: &SessionFacts, requests: &[RequestId]) -> Vec<Subject> {
    let is_chosen = |subject: &&Subject| request_of(subject).is_some_and(|id| requests.contains(id));
    facts.waiting.iter().filter(is_chosen).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notification::RequestKind;

    fn facts(requests: &[&str]) -> SessionFacts {
        let subject = |id: &&str| Subject::Request {
            request: RequestId((*id).to_owned()),
            kind: RequestKind::Permission,
            tool: None,
            details: None,
        };
        SessionFacts {
            session: "s".parse().unwrap(),
            title: None,
            waiting: requests.iter().map(subject).collect(),
        }
    }

    #[test]
    fn request_is_due_once_and_only_while_it_waits() {
        let (mut schedule, delay) = (Schedule::default(), Duration::from_secs(20));
        schedule.note(&facts(&["a", "b"]), delay, Timestamp(0));
        schedule.note(&facts(&["a", "b"]), delay, Timestamp(10_000));
        assert_eq!(schedule.next(), Some(Timestamp(20_000)), "a further event does not make it young again");
        assert!(schedule.take_due(Timestamp(19_999)).is_empty());
        let gone = schedule.note(&facts(&["a"]), delay, Timestamp(19_999));
        assert_eq!(gone, [RequestId("b".into())]);
        let due = schedule.take_due(Timestamp(20_000));
        assert_eq!(due, [("s".parse().unwrap(), vec![RequestId("a".into())])]);
        assert!(schedule.take_due(Timestamp(30_000)).is_empty(), "once");
        schedule.postpone(&due[0].0, &due[0].1, Timestamp(31_000));
        assert_eq!(schedule.take_due(Timestamp(31_000)), due);
        assert_eq!(schedule.note(&facts(&[]), delay, Timestamp(32_000)), [RequestId("a".into())]);
        assert_eq!(schedule.next(), None);
    }
}
