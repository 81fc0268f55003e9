//! A model that answers from a recording.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use baton_markup::diff::{hunks, similarity as similarity_of};

use super::file::{RecordedAnswer, RecordedMessage, Recording};
use super::normalise::normalise;
use crate::{Delta, ErrorKind, Message, Model, ModelError, ModelResponse, Request, Responding, Sink};

/// Maximum length of the diff in an error, in lines.
const LONGEST_DIFF: usize = 40;

/// A model that answers from a recording. The same conversation always gets the same answer; if it was
/// recorded several times, its answers are returned one after another, and then the last one again.
pub struct ReplayModel {
    exchanges: Vec<(Vec<String>, RecordedAnswer)>,
    /// Number of requests for each conversation.
    asked: Mutex<HashMap<Vec<String>, usize>>,
}

impl ReplayModel {
    /// Creates a model that answers from this recording.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let exchanges = recording.exchanges.into_iter().filter(|exchange| !exchange.messages.is_empty());
        let exchanges = exchanges.map(|exchange| (normalised(&exchange.messages), exchange.answer)).collect();
        Self { exchanges, asked: Mutex::default() }
    }

    fn find(&self, request: &Request) -> Result<&RecordedAnswer, ModelError> {
        let messages = normalised(&RecordedMessage::all(&request.messages));
        let answers: Vec<&RecordedAnswer> = self
            .exchanges
            .iter()
            .filter(|(recorded, _)| *recorded == messages)
            .map(|(_, answer)| answer)
            .collect();
        let Some(last) = answers.last() else { return Err(self.miss(&messages)) };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry(messages).or_default();
        *times += 1;
        Ok(answers.get(*times - 1).unwrap_or(last))
    }

    /// Returns the error for a conversation that is not in the recording: shows the closest one, and how it
    /// differs.
    fn miss(&self, messages: &[String]) -> ModelError {
        let text = messages.join("\n");
        let nearest = self.exchanges.iter().max_by_key(|(recorded, _)| similarity(recorded, messages));
        let why = match nearest {
            None => "The recording is empty.".to_owned(),
            Some((recorded, _)) => format!(
                "The recording has no answer to this conversation. The nearest one in it (-) differs from it (+):\n{}",
                diff(&recorded.join("\n"), &text)
            ),
        };
        let advice = "Record it again with `baton record`, or edit the recording.";
        ModelError::new(ErrorKind::NotFound, "replay", format!("{why}\n{advice}"))
    }

    async fn play(&self, request: &Request, sink: Sink<'_>) -> Result<ModelResponse, ModelError> {
        let calls_before: usize = request.messages.iter().map(|message| calls_of(message)).sum();
        let answer = self.find(request)?.answer(calls_before);
        if request.stream {
            stream(&answer, sink);
        }
        Ok(answer)
    }
}

/// Measures the similarity of two conversations: the length of their common prefix, then the similarity of
/// the next message.
fn similarity(recorded: &[String], messages: &[String]) -> (usize, u32) {
    let same = recorded.iter().zip(messages).take_while(|(a, b)| a == b).count();
    let (Some(a), Some(b)) = (recorded.get(same), messages.get(same)) else { return (same, 0) };
    let begin = |text: &str| text.chars().take(2_000).collect::<String>();
    let ratio = similarity_of(&begin(a), &begin(b));
    (same, (ratio * 1_000.0) as u32)
}

fn calls_of(message: &Message) -> usize {
    if let Message::Assistant { tool_calls, .. } = message { tool_calls.len() } else { 0 }
}

/// Normalises a conversation for comparison. Adjacent messages of the user's side are joined, because wire
/// formats differ in that.
fn normalised(messages: &[RecordedMessage]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut after_user = false;
    for message in messages {
        match (message, lines.last_mut()) {
            (RecordedMessage::User(text), Some(last)) if after_user => {
                last.push('\n');
                last.push_str(&normalise(text));
            }
            _ => lines.push(normalise(&message.rendered())),
        }
        after_user = matches!(message, RecordedMessage::User(_));
    }
    lines
}

/// Returns the differing lines, with some context.
fn diff(recorded: &str, asked: &str) -> String {
    let (recorded, asked) = (format!("{recorded}\n"), format!("{asked}\n"));
    let diff = hunks(&recorded, &asked, 2);
    let mut lines: Vec<&str> = diff.lines().filter(|line| !line.starts_with("@@")).collect();
    let all = lines.len();
    lines.truncate(LONGEST_DIFF);
    let mut shown = lines.join("\n");
    if all > LONGEST_DIFF {
        shown.push_str(&format!("\n… and {} more lines", all - LONGEST_DIFF));
    }
    shown
}

fn stream(answer: &ModelResponse, sink: Sink<'_>) {
    let mut bytes = 0;
    if let Some(thought) = &answer.reasoning {
        sink(Delta::Reasoning(thought.clone()));
    }
    for word in answer.text.split_inclusive(' ') {
        bytes += word.len() as u64;
        sink(Delta::Text(word.to_owned()));
        sink(Delta::Progress { bytes });
    }
    for call in answer.tool_calls.clone() {
        sink(Delta::ToolCall { id: call.id, name: call.name, arguments: call.arguments });
    }
}

impl Model for ReplayModel {
    fn respond<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Responding<'a> {
        Box::pin(self.play(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/chat/completions"
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Recorder, RecordingModel};
    use super::*;
    use crate::demo::DemoModel;
    use crate::{Part, ToolCall};

    fn user(text: &str) -> Message {
        Message::User(vec![Part::Text(text.into())])
    }

    fn request(messages: Vec<Message>) -> Request {
        Request { messages: messages.into_iter().map(Arc::new).collect(), stream: true, ..Request::default() }
    }

    async fn ask(model: &dyn Model, messages: Vec<Message>) -> Result<ModelResponse, ModelError> {
        model.respond(&request(messages), &mut |_| {}).await
    }

    const RECORDING: &str = r#"{"user":["<date>2026-01-01</date> list /tmp/one/src"],"answer":{"text":"","calls":[{"name":"view","arguments":"{\"path\":\"/tmp/one/src\"}"}]}}
{"follows":1,"results":["a.rs"],"answer":{"text":"One file.","finish":"length"}}
# Somebody asks twice.
{"user":["roll"],"answer":{"text":"1"}}
{"user":["roll"],"answer":{"text":"2"}}
"#;

    fn player() -> ReplayModel {
        ReplayModel::new(Recording::parse(RECORDING).unwrap())
    }

    #[test]
    fn endpoint_is_one_that_sdks_know() {
        assert_eq!(player().endpoint(), "/chat/completions");
    }

    #[tokio::test]
    async fn recording_matches_on_another_day_in_another_directory() {
        let player = player();
        let question = || user("<date>2027-03-04</date> list /home/x/src");
        let first = ask(&player, vec![Message::System("anything".into()), question()]).await.unwrap();
        assert_eq!(first.tool_calls[0].arguments, r#"{"path":"/tmp/one/src"}"#);
        let answered = Message::Assistant {
            text: String::new(),
            tool_calls: vec![ToolCall {
                arguments: r#"{"path":"/x/y/src"}"#.into(),
                ..first.tool_calls[0].clone()
            }],
            reasoning_opaque: None,
        };
        let result = Message::Tool { call_id: "call_1".into(), content: "a.rs".into(), failed: false };
        let second = ask(&player, vec![question(), answered, result]).await.unwrap();
        assert_eq!((second.text.as_str(), second.finish), ("One file.", crate::Finish::Length));
    }

    #[tokio::test]
    async fn documented_recording_matches_a_prompt_with_the_current_time() {
        let recording = r#"{"user":["Say hello"],"answer":{"text":"Hello."}}"#;
        let player = ReplayModel::new(Recording::parse(recording).unwrap());
        let prompt = "<current_datetime>2026-11-15T20:30:53.223Z</current_datetime>\n\nSay hello";
        assert_eq!(ask(&player, vec![user(prompt)]).await.unwrap().text, "Hello.");
    }

    #[tokio::test]
    async fn spaces_in_tool_arguments_do_not_matter() {
        let spaced = r#"{"user":["hi"],"answer":{"text":"","calls":[{"name":"view","arguments":"{\"path\": \"a b\", \"n\": 1}"}]}}"#;
        let file = tempfile::NamedTempFile::new().unwrap();
        let recorder = Recorder::create(file.path(), Vec::new()).unwrap();
        let answered = r#"{"follows":1,"results":["x"],"answer":{"text":"Done."}}"#;
        let inner = ReplayModel::new(Recording::parse(&format!("{spaced}\n{answered}")).unwrap());
        let recording = RecordingModel::new(Arc::new(inner), recorder);
        let call = ask(&recording, vec![user("hi")]).await.unwrap().tool_calls.remove(0);
        let sent_back = ToolCall { arguments: r#"{"path":"a b","n":1}"#.into(), ..call };
        let call =
            Message::Assistant { text: String::new(), tool_calls: vec![sent_back], reasoning_opaque: None };
        let result = Message::Tool { call_id: "call_1".into(), content: "x".into(), failed: false };
        let conversation = vec![user("hi"), call, result];
        assert_eq!(ask(&recording, conversation.clone()).await.unwrap().text, "Done.");
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(text.lines().nth(1).unwrap().starts_with(r#"{"follows":1,"results":["x"]"#), "{text}");
        let player = ReplayModel::new(Recording::parse(&text).unwrap());
        assert_eq!(ask(&player, conversation).await.unwrap().text, "Done.");
    }

    #[tokio::test]
    async fn repeated_requests_get_the_recorded_answers_in_order() {
        let player = player();
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers.push(ask(&player, vec![user("roll")]).await.unwrap().text);
        }
        assert_eq!(answers, ["1", "2", "2"]);
    }

    #[tokio::test]
    async fn miss_shows_a_diff() {
        let error =
            ask(&player(), vec![user("<date>2026-01-01</date> list /tmp/one/tests")]).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert!(error.message.contains("-user: <date><date></date> list <path>/src"), "{error}");
        assert!(error.message.contains("+user: <date><date></date> list <path>/tests"), "{error}");
        let empty = ReplayModel::new(Recording::default());
        assert!(ask(&empty, vec![user("hi")]).await.unwrap_err().message.contains("empty"));
    }

    #[tokio::test]
    async fn recorded_conversation_is_replayed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let recorder = Recorder::create(file.path(), vec!["sk-geheim".into()]).unwrap();
        let demo = DemoModel::with_pause(std::time::Duration::ZERO);
        let recording = RecordingModel::new(Arc::new(demo), recorder);
        ask(&recording, vec![user("my key is sk-geheim")]).await.unwrap();
        let mut conversation = vec![user("hello")];
        let mut answers = Vec::new();
        for _ in 0..3 {
            let answer = ask(&recording, conversation.clone()).await.unwrap();
            conversation.push(Message::Assistant {
                text: answer.text.clone(),
                tool_calls: answer.tool_calls.clone(),
                reasoning_opaque: None,
            });
            conversation.push(user("and now?"));
            answers.push(answer.text);
        }
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains("sk-geheim"), "{text}");
        assert!(text.lines().nth(3).unwrap().starts_with(r#"{"follows":3,"user":["and now?"]"#), "{text}");
        let player = ReplayModel::new(Recording::parse(&text).unwrap());
        for (n, answer) in answers.iter().enumerate() {
            assert_eq!(&ask(&player, conversation[..=2 * n].to_vec()).await.unwrap().text, answer);
        }
    }

    #[test]
    fn invalid_line_is_reported() {
        for (text, expected) in [
            ("{\"answer\":{}}\n{oops", "line 2"),
            ("{\"follows\":7,\"answer\":{}}", "there is no line 7"),
            ("{\"anser\":{}}", "anser"),
        ] {
            let error = Recording::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
