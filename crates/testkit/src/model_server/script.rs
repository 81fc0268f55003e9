//! Scripts in prompts: the answers when the test has queued no reply.
//!
//! The last user message of a request may contain directives. They are performed in order:
//!
//! | directive | effect |
//! |---|---|
//! | `[[text:WORDS]]` | sends WORDS |
//! | `[[cited:WORDS]]` | sends WORDS with a citation |
//! | `[[think:WORDS]]` | sends WORDS as reasoning |
//! | `[[slow:N:MS]]` | sends N words, MS milliseconds apart |
//! | `[[tool:NAME {json}]]` | calls a tool; continues with the next directive after its result |
//! | `[[tools:NAME {json};;NAME {json}]]` | calls several tools at once |
//! | `[[ending:SUFFIX {json}]]` | calls the tool whose name ends with SUFFIX: programs prefix the tools of MCP servers |
//! | `[[shell:COMMAND]]` | calls the client's shell tool, whatever its name |
//! | `[[finish:REASON]]` | finishes with REASON |
//! | `[[sleep:MS]]` | pauses |
//! | `[[hold:NAME]]` | waits until NAME is released |
//! | `[[hang]]` | sends nothing more, but keeps the connection open |
//! | `[[drop]]`, `[[reset]]` | closes or resets the connection in the middle |
//! | `[[truncate]]` | ends the body properly, but too early |
//! | `[[garbage]]`, `[[badjson]]`, `[[html]]` | sends bytes that are no events, events that are no JSON, a web page |
//! | `[[error:STATUS]]`, `[[error:STATUS:retry=S]]` | fails, optionally with a Retry-After of S seconds |
//!
//! `*N` after a failure's name or status (`[[drop*1]]`, `[[error:500*2]]`) limits it to the first N times that
//! this prompt is seen. Arguments of tools are sent as they are, so `[[tool:bash {oops]]` is a call with invalid
//! arguments. Without any text, the answer is `echo N: PROMPT`, or `echo N: RESULT` after tools.

use std::time::Duration;

use serde_json::Value;

use super::conversation::Conversation;
use super::state::State;
use super::{ReplyAction, ScriptedReply};

/// A directive: its name, and the text after the colon.
type Directive<'a> = (&'a str, &'a str);

/// Returns the reply to the script in this request.
pub(super) fn reply(body: &Value, state: &State) -> ScriptedReply {
    let conversation = Conversation::read(body);
    let mut reply = ScriptedReply::new([]);
    let mut results = conversation.results.len();
    let mut speaks = false;
    for (name, argument) in directives(&conversation.prompt) {
        if let Some(failure) = failure(name, argument, &conversation.prompt, state) {
            reply.status = failure.status;
            reply.headers.extend(failure.headers);
            reply.actions.extend(failure.actions);
            return reply;
        }
        let calls = calls(name, argument, &conversation);
        if results > 0 && !calls.is_empty() {
            results = results.saturating_sub(calls.len());
            reply.actions.clear();
            continue;
        }
        if !calls.is_empty() {
            reply.actions.extend(calls);
            return reply;
        }
        speaks |= matches!(name, "text" | "cited" | "slow" | "finish");
        reply.actions.extend(actions(name, argument));
    }
    if !speaks {
        reply.actions.push(ReplyAction::Text(echo(&conversation)));
    }
    reply
}

fn echo(conversation: &Conversation) -> String {
    let text = match conversation.results.last() {
        Some(result) => result.clone(),
        None => without_directives(&conversation.prompt),
    };
    format!("echo {}: {}", conversation.user_messages, text.trim())
}

/// Returns the failure of a directive, unless it has happened often enough.
fn failure(name: &str, argument: &str, prompt: &str, state: &State) -> Option<ScriptedReply> {
    let (what, options) = argument.split_once(':').unwrap_or((argument, ""));
    let (name, times) = times(name);
    let (what, times) = if times.is_some() { (what, times) } else { self::times(what) };
    let half = || ReplyAction::Text("half an ".to_owned());
    let reply = match name {
        "error" => {
            let reply = ScriptedReply::error(what.parse().unwrap_or(500));
            match options.strip_prefix("retry=") {
                Some(seconds) => reply.header("retry-after", seconds),
                None => reply,
            }
        }
        "hang" => ScriptedReply::new([half(), ReplyAction::Hang]),
        "drop" => ScriptedReply::new([half(), ReplyAction::Drop]),
        "reset" => ScriptedReply::new([half(), ReplyAction::Reset]),
        "truncate" => ScriptedReply::new([half(), ReplyAction::Truncate]),
        "garbage" => ScriptedReply::new([ReplyAction::Raw("\u{0}\u{1}this is no answer\n".into())]),
        "badjson" => ScriptedReply::new([ReplyAction::Raw("data: {\"choices\": [oops\n\n".into())]),
        "html" => ScriptedReply::web_page(),
        _ => return None,
    };
    let happens = times.is_none_or(|times| state.times_seen(&format!("{name} {argument} {prompt}")) <= times);
    happens.then_some(reply)
}

/// Splits `500*2` into the status and the number of times.
fn times(text: &str) -> (&str, Option<u32>) {
    match text.split_once('*') {
        Some((what, times)) => (what, times.parse().ok()),
        None => (text, None),
    }
}

fn calls(name: &str, argument: &str, conversation: &Conversation) -> Vec<ReplyAction> {
    let call = |text: &str| {
        let text = text.trim();
        let (name, arguments) = text.split_once(' ').unwrap_or((text, "{}"));
        ReplyAction::Call { name: name.to_owned(), arguments: arguments.trim().to_owned() }
    };
    match name {
        "tool" => vec![call(argument)],
        "tools" => argument.split(";;").map(call).collect(),
        "ending" => {
            let (suffix, arguments) = argument.trim().split_once(' ').unwrap_or((argument.trim(), "{}"));
            let name = conversation.tool_ending(suffix);
            vec![ReplyAction::Call { name, arguments: arguments.trim().to_owned() }]
        }
        "shell" => {
            let (name, arguments) = conversation.shell(argument);
            vec![ReplyAction::Call { name, arguments }]
        }
        _ => Vec::new(),
    }
}

fn actions(name: &str, argument: &str) -> Vec<ReplyAction> {
    let millis = |text: &str| ReplyAction::Sleep(Duration::from_millis(text.trim().parse().unwrap_or(0)));
    match name {
        "text" => vec![ReplyAction::Text(argument.to_owned())],
        "cited" => vec![ReplyAction::Cited(argument.to_owned())],
        "think" => vec![ReplyAction::Think(argument.to_owned())],
        "finish" => vec![ReplyAction::Finish(argument.to_owned())],
        "sleep" => vec![millis(argument)],
        "hold" => vec![ReplyAction::Hold(argument.to_owned())],
        "slow" => {
            let (words, gap) = argument.split_once(':').unwrap_or((argument, "10"));
            let words = words.trim().parse().unwrap_or(10);
            (1..=words).flat_map(|n: u32| [ReplyAction::Text(format!("word{n} ")), millis(gap)]).collect()
        }
        _ => Vec::new(),
    }
}

fn directives(prompt: &str) -> Vec<Directive<'_>> {
    let mut found = Vec::new();
    let mut rest = prompt;
    while let Some((_, inside, after)) = next_directive(rest) {
        found.push(inside.split_once(':').unwrap_or((inside, "")));
        rest = after;
    }
    found
}

fn without_directives(prompt: &str) -> String {
    let mut outside = String::new();
    let mut rest = prompt;
    while let Some((before, _, after)) = next_directive(rest) {
        outside.push_str(before);
        rest = after;
    }
    outside + rest
}

/// Returns the text before a directive, its content, and the text after it. `]]` inside of JSON, as in
/// `{"a":[[1]]}`, does not end it.
fn next_directive(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("[[")?;
    let ends = rest.match_indices("]]").map(|(at, _)| at);
    let end = ends.into_iter().find(|at| !rest[at + 2..].starts_with(['}', ']']))?;
    Some((before, &rest[..end], &rest[end + 2..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn say(messages: &[Value]) -> Vec<ReplyAction> {
        reply(&json!({"messages": messages}), &State::default()).actions
    }

    fn text(text: &str) -> ReplyAction {
        ReplyAction::Text(text.to_owned())
    }

    fn call(name: &str, arguments: &str) -> ReplyAction {
        ReplyAction::Call { name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn echo_has_the_number_of_user_messages() {
        assert_eq!(say(&[user("hi")]), [text("echo 1: hi")]);
        assert_eq!(say(&[user("hi"), user("<reminder>x</reminder>"), user("you")]), [text("echo 2: you")]);
        assert_eq!(say(&[]), [text("echo 0: ")]);
    }

    #[test]
    fn tools_are_called_one_after_another() {
        let prompt = user(r#"[[tool:a {"x":[[1]]}]] [[tools:b {};;c {oops]] [[text:done]]"#);
        let result = json!({"role": "tool", "content": "r"});
        assert_eq!(say(std::slice::from_ref(&prompt)), [call("a", r#"{"x":[[1]]}"#)]);
        assert_eq!(say(&[prompt.clone(), result.clone()]), [call("b", "{}"), call("c", "{oops")]);
        assert_eq!(say(&[prompt, result.clone(), result.clone(), result.clone()]), [text("done")]);
        assert_eq!(say(&[user("[[tool:a]]"), result]), [text("echo 1: r")]);
    }

    #[test]
    fn directives_are_performed_in_order() {
        let sleep = ReplyAction::Sleep(Duration::from_millis(5));
        assert_eq!(
            say(&[user("[[think:hm]][[text:a ]][[hold:x]][[sleep:5]][[text:b]]")]),
            [
                ReplyAction::Think("hm".into()),
                text("a "),
                ReplyAction::Hold("x".into()),
                sleep.clone(),
                text("b")
            ]
        );
        assert_eq!(say(&[user("[[slow:2:5]]")]), [text("word1 "), sleep.clone(), text("word2 "), sleep]);
        assert_eq!(say(&[user("[[hold:x]] hi")]), [ReplyAction::Hold("x".into()), text("echo 1: hi")]);
    }

    #[test]
    fn failure_happens_the_given_number_of_times() {
        let state = State::default();
        let status = |prompt: &str| reply(&json!({"messages": [user(prompt)]}), &state).status;
        assert_eq!([(); 3].map(|()| status("[[error:503*2]]")), [503, 503, 200]);
        assert_eq!(status("[[error:404]]"), 404);
        let limited = reply(&json!({"messages": [user("[[error:429:retry=1]]")]}), &state);
        assert_eq!(limited.headers.last(), Some(&("retry-after".to_owned(), "1".to_owned())));
        let drops = || say_with(&state, "[[drop*1]] hi").contains(&ReplyAction::Drop);
        assert_eq!([drops(), drops()], [true, false]);
    }

    fn say_with(state: &State, prompt: &str) -> Vec<ReplyAction> {
        reply(&json!({"messages": [user(prompt)]}), state).actions
    }
}
