//! Scripts in prompts: what the server says when the test has queued nothing.
//!
//! The last user message of a request may contain directives. They are carried out in order:
//!
//! | directive | what happens |
//! |---|---|
//! | `[[text:WORDS]]` | says WORDS |
//! | `[[cited:WORDS]]` | says WORDS, and that they are the first ones of a source |
//! | `[[think:WORDS]]` | thinks WORDS aloud |
//! | `[[slow:N:MS]]` | says N words, MS milliseconds apart |
//! | `[[tool:NAME {json}]]` | calls a tool; when its result is there, goes on with the next directive |
//! | `[[tools:NAME {json};;NAME {json}]]` | calls several at once |
//! | `[[shell:COMMAND]]` | calls the client's own tool for commands, whatever it is called |
//! | `[[finish:REASON]]` | gives REASON for stopping |
//! | `[[sleep:MS]]` | waits |
//! | `[[hold:NAME]]` | waits until it is released by name |
//! | `[[hang]]` | stays and says nothing more |
//! | `[[drop]]`, `[[reset]]` | closes the connection in the middle, or tears it down |
//! | `[[truncate]]` | ends the body properly, but too early |
//! | `[[garbage]]`, `[[badjson]]`, `[[html]]` | sends bytes that are no events, events that are no JSON, a web page |
//! | `[[error:STATUS]]`, `[[error:STATUS:retry=S]]` | fails, with a Retry-After of S seconds |
//!
//! `*N` after a failure's name or status (`[[drop*1]]`, `[[error:500*2]]`) means: only the first N times that
//! this prompt is seen; then go on. Arguments of tools are sent as they stand, so that `[[tool:bash {oops]]`
//! is a call with broken arguments. Without anything to say, the answer is `echo N: PROMPT`, or `echo N:
//! RESULT` after tools.

use std::time::Duration;

use serde_json::Value;

use super::conversation::Conversation;
use super::state::State;
use super::{Action, Reply};

/// A directive: its name, and what follows the colon.
type Directive<'a> = (&'a str, &'a str);

/// What the script in this request says.
pub(super) fn reply(body: &Value, state: &State) -> Reply {
    let conversation = Conversation::read(body);
    let mut reply = Reply::new([]);
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
        reply.actions.push(Action::Text(echo(&conversation)));
    }
    reply
}

fn echo(conversation: &Conversation) -> String {
    let said = match conversation.results.last() {
        Some(result) => result.clone(),
        None => without_directives(&conversation.prompt),
    };
    format!("echo {}: {}", conversation.user_messages, said.trim())
}

/// A directive that ends the reply with a failure, unless it has happened often enough.
fn failure(name: &str, argument: &str, prompt: &str, state: &State) -> Option<Reply> {
    let (what, options) = argument.split_once(':').unwrap_or((argument, ""));
    let (name, times) = times(name);
    let (what, times) = if times.is_some() { (what, times) } else { self::times(what) };
    let half = || Action::Text("half an ".to_owned());
    let reply = match name {
        "error" => {
            let reply = Reply::error(what.parse().unwrap_or(500));
            match options.strip_prefix("retry=") {
                Some(seconds) => reply.header("retry-after", seconds),
                None => reply,
            }
        }
        "hang" => Reply::new([half(), Action::Hang]),
        "drop" => Reply::new([half(), Action::Drop]),
        "reset" => Reply::new([half(), Action::Reset]),
        "truncate" => Reply::new([half(), Action::Truncate]),
        "garbage" => Reply::new([Action::Raw("\u{0}\u{1}this is no answer\n".into())]),
        "badjson" => Reply::new([Action::Raw("data: {\"choices\": [oops\n\n".into())]),
        "html" => Reply::web_page(),
        _ => return None,
    };
    let happens = times.is_none_or(|times| state.times_seen(&format!("{name} {argument} {prompt}")) <= times);
    happens.then_some(reply)
}

/// Parts `500*2` into the thing and how often it happens.
fn times(text: &str) -> (&str, Option<u32>) {
    match text.split_once('*') {
        Some((what, times)) => (what, times.parse().ok()),
        None => (text, None),
    }
}

fn calls(name: &str, argument: &str, conversation: &Conversation) -> Vec<Action> {
    let call = |text: &str| {
        let text = text.trim();
        let (name, arguments) = text.split_once(' ').unwrap_or((text, "{}"));
        Action::Call { name: name.to_owned(), arguments: arguments.trim().to_owned() }
    };
    match name {
        "tool" => vec![call(argument)],
        "tools" => argument.split(";;").map(call).collect(),
        "shell" => {
            let (name, arguments) = conversation.shell(argument);
            vec![Action::Call { name, arguments }]
        }
        _ => Vec::new(),
    }
}

fn actions(name: &str, argument: &str) -> Vec<Action> {
    let millis = |text: &str| Action::Sleep(Duration::from_millis(text.trim().parse().unwrap_or(0)));
    match name {
        "text" => vec![Action::Text(argument.to_owned())],
        "cited" => vec![Action::Cited(argument.to_owned())],
        "think" => vec![Action::Think(argument.to_owned())],
        "finish" => vec![Action::Finish(argument.to_owned())],
        "sleep" => vec![millis(argument)],
        "hold" => vec![Action::Hold(argument.to_owned())],
        "slow" => {
            let (words, gap) = argument.split_once(':').unwrap_or((argument, "10"));
            let words = words.trim().parse().unwrap_or(10);
            (1..=words).flat_map(|n: u32| [Action::Text(format!("word{n} ")), millis(gap)]).collect()
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
    let mut kept = String::new();
    let mut rest = prompt;
    while let Some((before, _, after)) = next_directive(rest) {
        kept.push_str(before);
        rest = after;
    }
    kept + rest
}

/// The text before a directive, its inside, and the text after it. `]]` inside of JSON, as in `{"a":[[1]]}`,
/// does not end it.
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

    fn say(messages: &[Value]) -> Vec<Action> {
        reply(&json!({"messages": messages}), &State::default()).actions
    }

    fn text(text: &str) -> Action {
        Action::Text(text.to_owned())
    }

    fn call(name: &str, arguments: &str) -> Action {
        Action::Call { name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn echoes_with_the_number_of_user_messages() {
        assert_eq!(say(&[user("hi")]), [text("echo 1: hi")]);
        assert_eq!(say(&[user("hi"), user("<reminder>x</reminder>"), user("you")]), [text("echo 2: you")]);
        assert_eq!(say(&[]), [text("echo 0: ")]);
    }

    #[test]
    fn goes_through_its_tools_one_message_at_a_time() {
        let prompt = user(r#"[[tool:a {"x":[[1]]}]] [[tools:b {};;c {oops]] [[text:done]]"#);
        let result = json!({"role": "tool", "content": "r"});
        assert_eq!(say(std::slice::from_ref(&prompt)), [call("a", r#"{"x":[[1]]}"#)]);
        assert_eq!(say(&[prompt.clone(), result.clone()]), [call("b", "{}"), call("c", "{oops")]);
        assert_eq!(say(&[prompt, result.clone(), result.clone(), result.clone()]), [text("done")]);
        assert_eq!(say(&[user("[[tool:a]]"), result]), [text("echo 1: r")]);
    }

    #[test]
    fn does_things_in_order() {
        let sleep = Action::Sleep(Duration::from_millis(5));
        assert_eq!(
            say(&[user("[[think:hm]][[text:a ]][[hold:x]][[sleep:5]][[text:b]]")]),
            [Action::Think("hm".into()), text("a "), Action::Hold("x".into()), sleep.clone(), text("b")]
        );
        assert_eq!(say(&[user("[[slow:2:5]]")]), [text("word1 "), sleep.clone(), text("word2 "), sleep]);
        assert_eq!(say(&[user("[[hold:x]] hi")]), [Action::Hold("x".into()), text("echo 1: hi")]);
    }

    #[test]
    fn fails_as_often_as_it_should() {
        let state = State::default();
        let status = |prompt: &str| reply(&json!({"messages": [user(prompt)]}), &state).status;
        assert_eq!([(); 3].map(|()| status("[[error:503*2]]")), [503, 503, 200]);
        assert_eq!(status("[[error:404]]"), 404);
        let limited = reply(&json!({"messages": [user("[[error:429:retry=1]]")]}), &state);
        assert_eq!(limited.headers.last(), Some(&("retry-after".to_owned(), "1".to_owned())));
        let drops = || say_with(&state, "[[drop*1]] hi").contains(&Action::Drop);
        assert_eq!([drops(), drops()], [true, false]);
    }

    fn say_with(state: &State, prompt: &str) -> Vec<Action> {
        reply(&json!({"messages": [user(prompt)]}), state).actions
    }
}
