//! Answering from a recording.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use similar::TextDiff;

use super::alike::simplify;
use super::tape::{Heard, Recording, Told};
use crate::{Answer, Asking, Delta, ErrorKind, Message, Model, ModelError, Request, Sink};

/// The longest diff that is shown, in lines. The point of it is to be read.
const LONGEST_DIFF: usize = 40;

/// A model that answers from a recording. The same conversation always gives the same answer; one that is asked about
/// several times gives its answers one after another, and then the last one again.
pub struct ReplayModel {
    takes: Vec<(Vec<String>, Told)>,
    /// How often each conversation was asked about.
    asked: Mutex<HashMap<Vec<String>, usize>>,
}

impl ReplayModel {
    /// A model that says what this recording says.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let takes = recording.takes.into_iter().filter(|take| !take.heard.is_empty());
        let takes = takes.map(|take| (compared(&take.heard), take.answer)).collect();
        Self { takes, asked: Mutex::default() }
    }

    fn find(&self, request: &Request) -> Result<&Told, ModelError> {
        let heard = compared(&Heard::all(&request.messages));
        let answers: Vec<&Told> =
            self.takes.iter().filter(|(recorded, _)| *recorded == heard).map(|(_, told)| told).collect();
        let Some(last) = answers.last() else { return Err(self.miss(&heard)) };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry(heard).or_default();
        *times += 1;
        Ok(answers.get(*times - 1).unwrap_or(last))
    }

    /// Nothing in the recording is like this. Says what is the nearest, and where it differs.
    fn miss(&self, heard: &[String]) -> ModelError {
        let text = heard.join("\n");
        let nearest = self.takes.iter().max_by_key(|(recorded, _)| likeness(recorded, heard));
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

    async fn play(&self, request: &Request, sink: Sink<'_>) -> Result<Answer, ModelError> {
        let calls_before: usize = request.messages.iter().map(|message| calls_of(message)).sum();
        let answer = self.find(request)?.answer(calls_before);
        if request.stream {
            stream(&answer, sink);
        }
        Ok(answer)
    }
}

/// How much two conversations are alike: how far they are the same, and then how much the next words are.
fn likeness(recorded: &[String], heard: &[String]) -> (usize, u32) {
    let same = recorded.iter().zip(heard).take_while(|(a, b)| a == b).count();
    let (Some(a), Some(b)) = (recorded.get(same), heard.get(same)) else { return (same, 0) };
    let begin = |text: &str| text.chars().take(2_000).collect::<String>();
    let ratio = TextDiff::from_words(begin(a), begin(b)).ratio();
    (same, (ratio * 1_000.0) as u32)
}

fn calls_of(message: &Message) -> usize {
    if let Message::Assistant { tool_calls, .. } = message { tool_calls.len() } else { 0 }
}

/// A conversation as it is compared: neighbours on the user's side are one, because wires differ in that.
fn compared(heard: &[Heard]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut after_user = false;
    for heard in heard {
        match (heard, lines.last_mut()) {
            (Heard::User(text), Some(last)) if after_user => {
                last.push('\n');
                last.push_str(&simplify(text));
            }
            _ => lines.push(simplify(&heard.rendered())),
        }
        after_user = matches!(heard, Heard::User(_));
    }
    lines
}

/// The lines that differ, with some that do not around them.
fn diff(recorded: &str, asked: &str) -> String {
    let (recorded, asked) = (format!("{recorded}\n"), format!("{asked}\n"));
    let diff = TextDiff::from_lines(&recorded, &asked).unified_diff().context_radius(2).to_string();
    let mut lines: Vec<&str> = diff.lines().filter(|line| !line.starts_with("@@")).collect();
    let all = lines.len();
    lines.truncate(LONGEST_DIFF);
    let mut shown = lines.join("\n");
    if all > LONGEST_DIFF {
        shown.push_str(&format!("\n… and {} more lines", all - LONGEST_DIFF));
    }
    shown
}

fn stream(answer: &Answer, sink: Sink<'_>) {
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
    fn ask<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Asking<'a> {
        Box::pin(self.play(request, sink))
    }

    fn endpoint(&self) -> &'static str {
        "/replay"
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

    async fn ask(model: &dyn Model, messages: Vec<Message>) -> Result<Answer, ModelError> {
        model.ask(&request(messages), &mut |_| {}).await
    }

    const TAPE: &str = r#"{"user":["<date>2026-01-01</date> list /tmp/one/src"],"answer":{"text":"","calls":[{"name":"view","arguments":"{\"path\":\"/tmp/one/src\"}"}]}}
{"follows":1,"results":["a.rs"],"answer":{"text":"One file.","finish":"length"}}
# Somebody asks twice.
{"user":["roll"],"answer":{"text":"1"}}
{"user":["roll"],"answer":{"text":"2"}}
"#;

    fn player() -> ReplayModel {
        ReplayModel::new(Recording::parse(TAPE).unwrap())
    }

    #[tokio::test]
    async fn answers_on_another_day_in_another_directory() {
        let player = player();
        let question = || user("<date>2027-03-04</date> list /home/x/src");
        let first = ask(&player, vec![Message::System("anything".into()), question()]).await.unwrap();
        assert_eq!(first.tool_calls[0].arguments, r#"{"path":"/tmp/one/src"}"#);
        let said = Message::Assistant {
            text: String::new(),
            tool_calls: vec![ToolCall {
                arguments: r#"{"path":"/x/y/src"}"#.into(),
                ..first.tool_calls[0].clone()
            }],
            reasoning_opaque: None,
        };
        let result = Message::Tool { call_id: "call_1".into(), content: "a.rs".into(), failed: false };
        let second = ask(&player, vec![question(), said, result]).await.unwrap();
        assert_eq!((second.text.as_str(), second.finish), ("One file.", crate::Finish::Length));
    }

    #[tokio::test]
    async fn asked_again_it_goes_on_and_then_stays() {
        let player = player();
        let mut said = Vec::new();
        for _ in 0..3 {
            said.push(ask(&player, vec![user("roll")]).await.unwrap().text);
        }
        assert_eq!(said, ["1", "2", "2"]);
    }

    #[tokio::test]
    async fn a_miss_shows_where_it_differs() {
        let error =
            ask(&player(), vec![user("<date>2026-01-01</date> list /tmp/one/tests")]).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert!(error.message.contains("-user: <date><date></date> list <path>/src"), "{error}");
        assert!(error.message.contains("+user: <date><date></date> list <path>/tests"), "{error}");
        let empty = ReplayModel::new(Recording::default());
        assert!(ask(&empty, vec![user("hi")]).await.unwrap_err().message.contains("empty"));
    }

    #[tokio::test]
    async fn what_is_recorded_is_played() {
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
    fn a_bad_line_is_named() {
        for (text, words) in [
            ("{\"answer\":{}}\n{oops", "line 2"),
            ("{\"follows\":7,\"answer\":{}}", "there is no line 7"),
            ("{\"anser\":{}}", "anser"),
        ] {
            let error = Recording::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
