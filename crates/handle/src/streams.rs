//! Text that is being streamed: what a client that joins in the middle has missed.
//!
//! Deltas are ephemeral, so they are in no store. Their sum is kept here until the durable event that repeats it, and is sent
//! to each client that joins, or that has fallen behind, before its next delta.

use baton_protocol::event::StreamSoFar;
use baton_protocol::{AgentId, Body, Event, ToolCallId};

use crate::published::Published;

/// Longest text that is kept of a message, in bytes. Of a longer one, the end is kept.
const MAX_TEXT: usize = 256 << 10;

/// Longest output that is kept of a tool, in bytes.
const MAX_OUTPUT: usize = 64 << 10;

/// Number of streams that are kept. Sub-agents and parallel calls stream at the same time.
const MAX_STREAMS: usize = 64;

/// The open streams of a session, oldest first.
#[derive(Default)]
pub(crate) struct OpenStreams(Vec<OpenStream>);

/// A message, reasoning or output of which parts were shown, and whose end was not.
struct OpenStream {
    agent: Option<AgentId>,
    source: Source,
    text: String,
    /// Whether the beginning was dropped.
    is_cut: bool,
}

/// What is streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Message(String),
    Reasoning(String),
    Tool(ToolCallId),
}

impl Source {
    /// Whether a conversation streams only one such text at a time.
    fn is_of_the_same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Message(_), Self::Message(_)) | (Self::Reasoning(_), Self::Reasoning(_)) => true,
            (Self::Tool(one), Self::Tool(other)) => one == other,
            _ => false,
        }
    }

    fn max_length(&self) -> usize {
        match self {
            Self::Message(_) | Self::Reasoning(_) => MAX_TEXT,
            Self::Tool(_) => MAX_OUTPUT,
        }
    }
}

impl OpenStreams {
    /// Notes an event of a conversation: the main one, or a sub-agent's.
    pub(crate) fn apply(&mut self, agent: Option<&AgentId>, body: &Body) {
        match body {
            Body::MessageStart(start) => {
                self.append(agent, Source::Message(start.message_id.clone()), "");
            }
            Body::MessageDelta(delta) => {
                self.append(agent, Source::Message(delta.message_id.clone()), &delta.delta_content);
            }
            Body::ReasoningDelta(delta) => {
                self.append(agent, Source::Reasoning(delta.reasoning_id.clone()), &delta.delta_content);
            }
            Body::ToolPartialResult(part) => {
                self.append(agent, Source::Tool(part.tool_call_id.clone()), &part.partial_output);
            }
            Body::StreamSoFar(so_far) => self.replace(agent, so_far),
            Body::AssistantMessage(_) => {
                self.0.retain(|open| open.agent.as_ref() != agent || matches!(open.source, Source::Tool(_)));
            }
            Body::ToolComplete(complete) => {
                self.0.retain(|open| open.source != Source::Tool(complete.tool_call_id.clone()));
            }
            Body::TurnSettled(_) => self.0.clear(),
            _ => {}
        }
    }

    /// Notes an event that another server has published, if it is about a stream.
    pub(crate) fn apply_received(&mut self, event: &Published) {
        const KINDS: [&str; 8] = [
            "assistant.message_start",
            "assistant.message_delta",
            "assistant.reasoning_delta",
            "tool.execution_partial_result",
            "baton.stream_so_far",
            "assistant.message",
            "tool.execution_complete",
            "baton.turn_settled",
        ];
        if KINDS.contains(&&*event.kind)
            && let Ok(text) = std::str::from_utf8(&event.json)
            && let Ok(event) = Event::parse(text)
        {
            self.apply(event.agent_id.as_ref(), &event.body);
        }
    }

    /// Returns what a client that joins now has missed.
    pub(crate) fn so_far(&self) -> impl Iterator<Item = (Option<&AgentId>, Body)> {
        self.0.iter().map(|open| {
            let mut so_far =
                StreamSoFar { text: open.text.clone(), cut: open.is_cut, ..StreamSoFar::default() };
            match &open.source {
                Source::Message(id) => so_far.message_id = Some(id.clone()),
                Source::Reasoning(id) => so_far.reasoning_id = Some(id.clone()),
                Source::Tool(id) => so_far.tool_call_id = Some(id.clone()),
            }
            (open.agent.as_ref(), so_far.into())
        })
    }

    fn append(&mut self, agent: Option<&AgentId>, source: Source, text: &str) {
        let open = self.find_or_open(agent, source);
        open.text.push_str(text);
        open.shorten();
    }

    fn replace(&mut self, agent: Option<&AgentId>, so_far: &StreamSoFar) {
        let StreamSoFar { message_id, reasoning_id, tool_call_id, text, cut } = so_far.clone();
        let source = (message_id.map(Source::Message))
            .or(reasoning_id.map(Source::Reasoning))
            .or(tool_call_id.map(Source::Tool));
        if let Some(source) = source {
            let open = self.find_or_open(agent, source);
            (open.text, open.is_cut) = (text, cut);
        }
    }

    /// Returns an open stream. A new one replaces that of an attempt that was given up.
    fn find_or_open(&mut self, agent: Option<&AgentId>, source: Source) -> &mut OpenStream {
        let is_it = |open: &OpenStream| open.source == source && open.agent.as_ref() == agent;
        let position = self.0.iter().position(is_it).unwrap_or_else(|| {
            let gone =
                |open: &OpenStream| open.agent.as_ref() == agent && open.source.is_of_the_same_kind(&source);
            self.0.retain(|open| !gone(open));
            if self.0.len() == MAX_STREAMS {
                self.0.remove(0);
            }
            self.0.push(OpenStream { agent: agent.cloned(), source, text: String::new(), is_cut: false });
            self.0.len() - 1
        });
        &mut self.0[position]
    }
}

impl OpenStream {
    /// Drops the beginning of a text that is too long. Not at each delta: dropping it copies the rest.
    fn shorten(&mut self) {
        let limit = self.source.max_length();
        if self.text.len() > 2 * limit {
            let start = self.text.ceil_char_boundary(self.text.len() - limit);
            self.text.drain(..start);
            self.is_cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::event::{MessageDelta, MessageStart, ToolPartialResult, TurnSettled};
    use baton_protocol::event::{Outcome, ReasoningDelta};

    use super::*;

    fn delta(id: &str, text: &str) -> Body {
        MessageDelta { message_id: id.into(), delta_content: text.into() }.into()
    }

    fn texts(streams: &OpenStreams) -> Vec<(Option<String>, String)> {
        let texts = streams.so_far().map(|(_, body)| match body {
            Body::StreamSoFar(so_far) => (so_far.message_id, so_far.text),
            other => panic!("{other:?}"),
        });
        texts.collect()
    }

    #[test]
    fn text_is_gathered_until_its_message_is_complete() {
        let mut streams = OpenStreams::default();
        streams.apply(None, &MessageStart { message_id: "m".into() }.into());
        for text in ["one ", "two"] {
            streams.apply(None, &delta("m", text));
        }
        let agent = AgentId::from("a");
        streams.apply(Some(&agent), &delta("other", "of an agent"));
        let of_main = (Some("m".to_owned()), "one two".to_owned());
        assert_eq!(texts(&streams), [of_main.clone(), (Some("other".into()), "of an agent".into())]);
        let message = r#"{"type":"assistant.message","data":{"messageId":"other","content":"x"},"agentId":"a","id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:54.223Z","parentId":null}"#;
        streams.apply_received(&Published::received(None, "assistant.message", true, message.into()));
        assert_eq!(texts(&streams), [of_main]);
        let settled = TurnSettled { prompt_ids: vec![], outcome: Outcome::Cancelled, reason: String::new() };
        streams.apply(None, &settled.into());
        assert_eq!(texts(&streams), []);
    }

    #[test]
    fn second_attempt_replaces_the_first() {
        let mut streams = OpenStreams::default();
        streams.apply(None, &delta("first", "half of an ans"));
        let thought = ReasoningDelta { reasoning_id: "r".into(), delta_content: "hm".into() };
        streams.apply(None, &thought.into());
        streams.apply(None, &delta("second", "an"));
        assert_eq!(texts(&streams), [(None, "hm".into()), (Some("second".into()), "an".into())]);
    }

    #[test]
    fn long_output_keeps_its_end() {
        let mut streams = OpenStreams::default();
        let part = |text: &str| {
            Body::from(ToolPartialResult { tool_call_id: "c".into(), partial_output: text.into() })
        };
        for _ in 0..MAX_OUTPUT {
            streams.apply(None, &part("é\n"));
        }
        streams.apply(None, &part("the end"));
        let (_, body) = streams.so_far().next().unwrap();
        let Body::StreamSoFar(so_far) = body else { panic!("{body:?}") };
        assert!(so_far.cut && so_far.text.len() <= 2 * MAX_OUTPUT && so_far.text.ends_with("the end"));
    }
}
