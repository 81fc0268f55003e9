//! News from the server.

use baton_protocol::event::{Event as SessionEvent, Outcome};

use crate::event::{Asked, Effect, Net};
use crate::state::{Link, State, View};
use crate::text;

/// Name of the model that answers when none is set up.
const DEMO: &str = "baton-demo";

impl State {
    pub(super) fn net(&mut self, net: Net) -> Vec<Effect> {
        match net {
            Net::Opened(state, events, has_earlier) => {
                let is_new = self.session.id != state.session.id;
                if is_new {
                    self.leave_session();
                }
                self.conversation.open(&events, state.session.head);
                self.has_earlier = has_earlier;
                self.reading_earlier = false;
                self.view = View::default();
                self.set_state(*state);
                return if is_new {
                    vec![Effect::FetchAllRequests, Effect::FetchSkills, Effect::FetchModels]
                } else {
                    Vec::new()
                };
            }
            Net::Connected => {
                if matches!(self.link, Link::Lost(..)) {
                    self.say("connected again");
                }
                self.link = Link::Connected;
                let mut effects = vec![Effect::FetchState, Effect::FetchAllRequests];
                if std::mem::take(&mut self.sends_later) {
                    effects.extend(self.send(false));
                }
                return effects;
            }
            Net::Note(note) => {
                self.say(&*note);
                self.about.notes = vec![note];
            }
            Net::Lost(why) => {
                if !matches!(self.link, Link::Lost(..)) {
                    self.link = Link::Lost(self.now, why);
                    self.conversation.lose();
                    self.reading_earlier = false;
                }
            }
            Net::Fatal(why) => self.link = Link::Fatal(why),
            Net::Event(seq, event) => return self.session_event(seq, &event),
            Net::Earlier(events, has_earlier) => {
                self.reading_earlier = false;
                self.has_earlier = has_earlier && !events.is_empty();
                self.conversation.prepend(&events);
            }
            Net::State(state) => self.set_state(*state),
            Net::Requests(requests) => {
                let known = self.requests.len();
                self.set_requests(requests);
                return self.notify_of_requests(known);
            }
            Net::AllRequests(mut requests) => {
                requests.retain(|request| {
                    request.session_id.as_ref() != Some(&self.session.id)
                        && request.is_for_people()
                        && !self.answered.contains(&request.request_id)
                });
                let known = self.inbox.len();
                self.inbox = requests;
                self.refresh_inbox();
                if self.inbox.len() > known {
                    return self.notify("another session waits for your answer").into_iter().collect();
                }
            }
            Net::Sessions(sessions) => {
                self.sessions = sessions;
                self.list_sessions();
            }
            Net::Models(models) => {
                self.about.is_demo = models.models.first().is_some_and(|model| model.id == DEMO);
                self.list_models(&models);
            }
            Net::Skills(skills) => {
                let named =
                    skills.into_iter().map(|skill| (skill.name, skill.description.unwrap_or_default()));
                self.skills = named.collect();
            }
            Net::Done(asked, result) => return self.done(asked, result),
        }
        Vec::new()
    }

    /// Forgets what belongs to the session that is left. The draft stays.
    fn leave_session(&mut self) {
        self.conversation = crate::conversation::Conversation::default();
        self.requests.clear();
        self.panel = None;
        self.queue.clear();
        self.context = None;
        self.turn_since = None;
        self.cancelling = false;
        self.search = None;
        self.overlay = None;
        *self.rows.borrow_mut() = crate::layout::RowCache::default();
    }

    fn session_event(&mut self, seq: Option<u64>, event: &SessionEvent) -> Vec<Effect> {
        let items = self.conversation.items().len();
        let found = self.conversation.apply(seq, event);
        if self.view.top.is_some() {
            self.view.unseen += self.conversation.items().len().saturating_sub(items);
        }
        let mut effects = Vec::new();
        if found.context.is_some() {
            self.context = found.context;
        }
        if let Some((request, by)) = &found.closed {
            self.closed_elsewhere(request, by.as_deref());
        }
        if found.settled.is_some() || found.idle {
            self.set_busy(false);
        } else if self.conversation.doing() != crate::conversation::Doing::Nothing {
            self.set_busy(true);
        }
        if found.state_changed {
            effects.push(Effect::FetchState);
        }
        if found.requests_changed {
            effects.push(Effect::FetchRequests);
        }
        if let Some(Outcome::Completed | Outcome::Failed) = found.settled {
            effects.extend(self.notify("the turn has ended"));
        }
        effects
    }

    fn notify_of_requests(&self, known: usize) -> Vec<Effect> {
        let waiting = self.requests.iter().filter(|request| request.is_for_people()).count();
        if waiting > known {
            self.notify("waiting for your answer").into_iter().collect()
        } else {
            Vec::new()
        }
    }

    /// Draws attention, if nobody looks.
    fn notify(&self, what: &str) -> Option<Effect> {
        let title = self.session.title.as_deref().unwrap_or("session");
        let text = format!("Baton: {what} ({})", text::cut(&text::one_line(title), 60));
        (self.focused == Some(false)).then_some(Effect::Notify(text))
    }

    fn done(&mut self, asked: Asked, result: Result<serde_json::Value, String>) -> Vec<Effect> {
        match (asked, result) {
            (Asked::Prompt(_), Ok(_)) => return vec![Effect::FetchState],
            (Asked::Prompt(text), Err(why)) => {
                // Back into the box: nothing that was typed is lost.
                let draft = self.editor.take().text;
                self.editor.set(&if draft.is_empty() { text } else { format!("{text}\n{draft}") });
                self.say(format!("not sent: {}", text::one_line(&why)));
            }
            (Asked::Answer(request), Ok(_)) => return self.answered(&request, None),
            (Asked::Answer(request), Err(why)) => return self.answered(&request, Some(text::one_line(&why))),
            (Asked::Cancel, Ok(_)) => return vec![Effect::FetchState],
            (Asked::Cancel, Err(why)) => {
                self.cancelling = false;
                self.say(format!("not cancelled: {}", text::one_line(&why)));
            }
            (Asked::Rewind(text), Ok(result)) => match result["outcome"].as_str() {
                Some("success") | None => {
                    self.editor.set(&text);
                    self.say("rewound; the prompt is in the box");
                    return vec![Effect::FetchState];
                }
                Some(outcome) => {
                    let why = result["error"].as_str().unwrap_or(outcome);
                    self.say(format!("not rewound: {}", text::one_line(why)));
                }
            },
            (Asked::Rewind(_), Err(why)) => self.say(format!("not rewound: {}", text::one_line(&why))),
            (Asked::Change(what), Ok(reply)) => {
                let reply = reply["text"].as_str().map(text::one_line);
                let shown = reply.filter(|text| !text.is_empty()).unwrap_or(what);
                if !shown.is_empty() {
                    self.say(shown);
                }
                return vec![Effect::FetchState];
            }
            (Asked::Change(_), Err(why)) => self.say(text::one_line(&why)),
        }
        Vec::new()
    }
}
