//! The requests that the demo model understands: a handful of plain sentences.

use serde_json::{Map, Value, json};

/// A request of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    Run { command: String },
    Create { path: String, content: String },
    View { path: String },
    List,
    Ask { question: String },
}

/// Content of a new file if the prompt names none.
const SOME_CONTENT: &str = "Written by Baton's demo model.\n";

/// Recognises the request in a prompt.
pub(super) fn in_prompt(prompt: &str) -> Option<Intent> {
    let sentence = without_politeness(prompt.trim());
    let (verb, rest) = first_word(sentence);
    match verb.to_lowercase().as_str() {
        "ask" => ask(rest),
        "create" | "write" | "make" | "save" => create(rest),
        "read" | "show" | "view" | "open" | "print" | "display" => view(rest).or_else(|| list(rest)),
        "list" => list(rest),
        "run" | "execute" => run(rest),
        "what" if has_word(rest, "files") => Some(Intent::List),
        _ => None,
    }
    // A command in back-ticks is a request, whatever surrounds it.
    .or_else(|| quoted(prompt, '`').map(|command| Intent::Run { command: command.to_owned() }))
}

/// Returns the tool that a prompt names, and what follows it.
pub(super) fn tool_in(prompt: &str) -> Option<(&str, &str)> {
    let (verb, rest) = first_word(without_politeness(prompt.trim()));
    let is_call = ["call", "use"].contains(&verb.to_lowercase().as_str());
    let rest = rest.trim_start().strip_prefix("the tool ").unwrap_or(rest);
    let (name, rest) = first_word(rest);
    let name = name.trim_matches(['`', '"', ':', ',', '.']);
    (is_call && !name.is_empty()).then_some((name, rest))
}

/// Reads arguments: a JSON object, `name=value` pairs, or one text for the first argument of the schema.
pub(super) fn arguments_in(text: &str, schema: &Value) -> Value {
    let text = text.trim();
    let text = text.strip_prefix("with ").unwrap_or(text).trim();
    if let Ok(object @ Value::Object(_)) = baton_json::from_str(text) {
        return object;
    }
    let properties = schema["properties"].as_object();
    let typed = |name: &str, value: &str| match schema["properties"][name]["type"].as_str() {
        Some("string") | None => json!(value),
        Some(_) => baton_json::from_str(value).unwrap_or_else(|_| json!(value)),
    };
    let pairs: Option<Map<String, Value>> = text
        .split_whitespace()
        .map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), typed(name, unquoted(value)))))
        .collect();
    let required = schema["required"][0].as_str().map(str::to_owned);
    let first = required.or_else(|| properties.and_then(|all| all.keys().next().cloned()));
    match (pairs, first) {
        (Some(pairs), _) => Value::Object(pairs),
        (None, Some(first)) => json!({ first.as_str(): typed(&first, unquoted(text)) }),
        (None, None) => json!({}),
    }
}

/// Removes `<tag>…</tag>` blocks, which programs add to prompts.
pub(super) fn without_blocks(text: &str) -> String {
    let mut rest = text;
    let mut text_outside = String::new();
    while let Some(begin) = rest.find('<') {
        let tag: String =
            rest[begin + 1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let end_tag = format!("</{tag}>");
        let end = rest[begin..].find(&end_tag).filter(|_| !tag.is_empty());
        let (keep, skip_to) = match end {
            Some(end) => (begin, begin + end + end_tag.len()),
            None => (begin + 1, begin + 1),
        };
        text_outside.push_str(&rest[..keep]);
        rest = &rest[skip_to..];
    }
    text_outside.push_str(rest);
    text_outside.trim().to_owned()
}

fn ask(rest: &str) -> Option<Intent> {
    let (me, question) = first_word(rest);
    if !me.trim_end_matches([':', ',']).eq_ignore_ascii_case("me") {
        return None;
    }
    let question = question.trim_start_matches([':', ' ']).trim_end_matches(['.', '?', ' ']);
    let question = if question.is_empty() { "What shall I do next" } else { question };
    let mut letters = question.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    Some(Intent::Ask { question: format!("{first}{}?", letters.as_str()) })
}

fn create(rest: &str) -> Option<Intent> {
    let (head, content) = split_content(rest);
    let path = path_in(head)?;
    let content = content.filter(|content| !content.is_empty()).unwrap_or(SOME_CONTENT);
    Some(Intent::Create { path: path.to_owned(), content: content.to_owned() })
}

/// Splits `file.txt with the content "hello"` into the file and its content.
fn split_content(rest: &str) -> (&str, Option<&str>) {
    const MARKS: [&str; 6] =
        [" with the content", " with content", " with the text", " containing", " saying", " with"];
    // ASCII only, so that positions in both texts are the same.
    let lower = rest.to_ascii_lowercase();
    let found = MARKS.iter().find_map(|mark| lower.find(mark).map(|at| (at, at + mark.len())));
    match found {
        Some((begin, end)) => {
            (&rest[..begin], Some(unquoted(rest[end..].trim_start_matches(['s', ':', ' ', '\n']))))
        }
        None => (rest, None),
    }
}

fn view(rest: &str) -> Option<Intent> {
    path_in(rest).map(|path| Intent::View { path: path.to_owned() })
}

fn list(rest: &str) -> Option<Intent> {
    ["files", "file", "directory", "folder"].iter().any(|word| has_word(rest, word)).then_some(Intent::List)
}

fn run(rest: &str) -> Option<Intent> {
    let command = quoted(rest, '`').unwrap_or_else(|| {
        let line = rest.lines().next().unwrap_or_default().trim();
        let line =
            ["the command", "command"].iter().find_map(|words| line.strip_prefix(words)).unwrap_or(line);
        line.trim_start_matches([':', ' ']).trim_end_matches(['.', ' '])
    });
    (!command.is_empty()).then(|| Intent::Run { command: command.to_owned() })
}

/// Finds a word that looks like a path: in back-ticks, after "file", or with a dot or a slash inside.
fn path_in(text: &str) -> Option<&str> {
    if let Some(path) = quoted(text, '`') {
        return (!path.contains(char::is_whitespace)).then_some(path);
    }
    let words =
        || text.split_whitespace().map(|word| unquoted(word).trim_end_matches([',', ':', '?', '!', '.']));
    let looks_like_one = |word: &&str| word.len() > 1 && word.trim_end_matches('.').contains(['.', '/']);
    let after_file = || {
        let mut words = words().skip_while(|word| !word.eq_ignore_ascii_case("file")).skip(1);
        words.find(|word| !matches!(word.to_lowercase().as_str(), "called" | "named" | ""))
    };
    words().find(looks_like_one).or_else(after_file)
}

/// Returns the text between the first two marks.
fn quoted(text: &str, mark: char) -> Option<&str> {
    let (_, rest) = text.split_once(mark)?;
    let (inside, _) = rest.split_once(mark)?;
    Some(inside.trim()).filter(|inside| !inside.is_empty())
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    for mark in ['`', '"', '\''] {
        if let Some(inside) = text.strip_prefix(mark).and_then(|text| text.strip_suffix(mark)) {
            return inside;
        }
    }
    text
}

fn without_politeness(mut sentence: &str) -> &str {
    const POLITE: [&str; 8] = ["please", "now", "then", "can", "could", "would", "you", "hey"];
    loop {
        let (word, rest) = first_word(sentence);
        let word = word.trim_end_matches(',').to_lowercase();
        if rest.is_empty() || !POLITE.contains(&word.as_str()) {
            return sentence;
        }
        sentence = rest;
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

fn has_word(text: &str, wanted: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(command: &str) -> Option<Intent> {
        Some(Intent::Run { command: command.into() })
    }

    fn view(path: &str) -> Option<Intent> {
        Some(Intent::View { path: path.into() })
    }

    fn create(path: &str, content: &str) -> Option<Intent> {
        Some(Intent::Create { path: path.into(), content: content.into() })
    }

    fn ask(question: &str) -> Option<Intent> {
        Some(Intent::Ask { question: question.into() })
    }

    #[test]
    fn plain_sentences_are_recognised() {
        let check =
            |prompt: &str, expected: Option<Intent>| assert_eq!(in_prompt(prompt), expected, "{prompt}");
        check("run ls -la", run("ls -la"));
        check("Please run the command: echo hi.", run("echo hi"));
        check("Could you please execute `git status`, thanks", run("git status"));
        check("What does `uname -a` say?", run("uname -a"));
        check("show me the output of `ls -l src`", run("ls -l src"));
        check("create a file notes.txt with content hello world", create("notes.txt", "hello world"));
        check("Write the file `a/b.md` with the content \"x y\"", create("a/b.md", "x y"));
        check("create file greeting containing 'hi'", create("greeting", "hi"));
        check("make a file called todo", create("todo", SOME_CONTENT));
        check("write notes.txt with contents: hello", create("notes.txt", "hello"));
        check("read file README.md", view("README.md"));
        check("show me src/main.rs, please", view("src/main.rs"));
        check("View the file Makefile.", view("Makefile"));
        check("list files", Some(Intent::List));
        check("List the files in this directory", Some(Intent::List));
        check("show me the files", Some(Intent::List));
        check("What files are there?", Some(Intent::List));
        check("ask me which colour I like", ask("Which colour I like?"));
        check("Ask me: are you sure?", ask("Are you sure?"));
        check("ask me", ask("What shall I do next?"));
    }

    #[test]
    fn other_prompts_contain_no_request() {
        for prompt in
            ["", "hello", "How do I run my tests?", "run", "please", "ask them", "Write a poem", "read on"]
        {
            assert_eq!(in_prompt(prompt), None, "{prompt}");
        }
    }

    #[test]
    fn tagged_blocks_are_removed() {
        assert_eq!(without_blocks("<current_datetime>now</current_datetime>\n\nhi\n<a b=\"c\">x</a>"), "hi");
        assert_eq!(without_blocks("1 < 2 and <b stays"), "1 < 2 and <b stays");
        assert_eq!(without_blocks("<only>this</only>"), "");
    }

    proptest! {
        #[test]
        fn arguments_are_quoted_from_the_prompt(prompt in "\\PC{0,60}", verb in "(run|create|show|ask me|list|)") {
            let prompt = format!("{verb} {}", without_blocks(&prompt));
            let argument = match in_prompt(&prompt) {
                Some(Intent::Run { command }) => command,
                Some(Intent::Create { path, .. } | Intent::View { path }) => path,
                Some(Intent::Ask { .. } | Intent::List) | None => return Ok(()),
            };
            prop_assert!(!argument.is_empty() && prompt.contains(&argument), "{argument:?} in {prompt:?}");
        }
    }
}
