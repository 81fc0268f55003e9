//! Normalises texts: replaces what differs between two runs of the same conversation.

/// Tags of the line with the current time that is added to prompts.
const CLOCK: (&str, &str) = ("<current_datetime>", "</current_datetime>");

/// Removes the current time, which is added to prompts. Replaces other dates and times by `<date>`, ids by `<id>`, and
/// absolute paths by `<path>/name`.
pub(super) fn normalise(text: &str) -> String {
    let text = without_clock(text);
    let mut simple = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let at_word = !before.is_alphanumeric();
        let found = if at_word { date(rest).or_else(|| id(rest)) } else { None };
        let found = found.or_else(|| if at_word || before == '/' { path(rest) } else { None });
        let (length, shown) = found.unwrap_or_else(|| (first.len_utf8(), first.to_string()));
        simple.push_str(&shown);
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    simple.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Removes the lines with the current time, and the empty lines after them: recordings that people write do not have them.
fn without_clock(text: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(CLOCK.0) {
        let Some((_, after)) = after.split_once(CLOCK.1) else { break };
        kept.push_str(before);
        rest = after.trim_start_matches(['\r', '\n']);
    }
    kept + rest
}

/// Returns the length of the prefix that matches a pattern, in which `0` stands for any digit.
fn fits(text: &str, pattern: &str) -> Option<usize> {
    let mut chars = text.chars();
    for wanted in pattern.chars() {
        let found = chars.next()?;
        let same = if wanted == '0' { found.is_ascii_digit() } else { found == wanted };
        if !same {
            return None;
        }
    }
    Some(pattern.len())
}

/// Matches a date such as `2026-11-15`, with or without a time of day.
fn date(text: &str) -> Option<(usize, String)> {
    let mut length = fits(text, "0000-00-00")?;
    let time = ["T00:00:00", " 00:00:00", "T00:00", " 00:00"];
    if let Some(more) = time.iter().find_map(|pattern| fits(&text[length..], pattern)) {
        length += more;
        let fraction = text[length..].strip_prefix('.').unwrap_or_default();
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        length += if digits > 0 { digits + 1 } else { 0 };
        let zones = ["Z", "+00:00", "-00:00", "+0000", "-0000"];
        length += zones.iter().find_map(|zone| fits(&text[length..], zone)).unwrap_or(0);
    }
    Some((length, "<date>".to_owned()))
}

/// Matches a UUID, or another long hexadecimal number such as a commit id.
fn id(text: &str) -> Option<(usize, String)> {
    let length = text.bytes().take_while(|byte| byte.is_ascii_hexdigit() || *byte == b'-').count();
    let word = text[..length].trim_end_matches('-');
    let ends = !text[word.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_id = word.len() >= 16 && digits > 0 && !word.contains("--") && ends;
    is_id.then(|| (word.len(), "<id>".to_owned()))
}

/// Matches an absolute path of at least two parts. The last part is kept: it is what the conversation is
/// about.
fn path(text: &str) -> Option<(usize, String)> {
    let is_part = |c: char| c.is_alphanumeric() || "/._-~@+:".contains(c);
    let length = text.find(|c| !is_part(c)).unwrap_or(text.len());
    // A full stop or colon after a path belongs to the sentence.
    let whole = text[..length].trim_end_matches(['.', ':']);
    let path = whole.trim_end_matches('/');
    if !path.starts_with('/') || path.matches('/').count() < 2 {
        return None;
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    Some((whole.len(), format!("<path>/{}", normalise_name(name))))
}

/// Normalises a file name, which may itself be an id or a date.
fn normalise_name(name: &str) -> String {
    match id(name).or_else(|| date(name)) {
        Some((length, shown)) => shown + &name[length..],
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_between_two_runs_are_normalised() {
        for (text, expected) in [
            ("at 2026-11-15T20:30:53.223Z, or 2026-11-15 20:30.", "at <date>, or <date>."),
            (
                "user: <current_datetime>2026-11-15T20:30:53Z</current_datetime>\n\nSay hello",
                "user: Say hello",
            ),
            ("<current_datetime>never ends 2026-11-15", "<current_datetime>never ends <date>"),
            ("session 0190c2f0-0000-7000-8000-000000000001 of bc60152", "session <id> of bc60152"),
            ("commit 3f786850e387550fdab836ed7e6dc881de23001b", "commit <id>"),
            ("read /tmp/a1/src/main.rs:12: no", "read <path>/main.rs:12: no"),
            ("in /home/me/work/. Then", "in <path>/work. Then"),
            ("\"/tmp/x/0190c2f0-0000-7000-8000-000000000001.txt\"", "\"<path>/<id>.txt\""),
            ("http://127.0.0.1:4711/v1/models", "http:<path>/models"),
            ("and/or 1/2 3 /tmp", "and/or 1/2 3 /tmp"),
            ("Käse  \n世界 ", "Käse\n世界"),
            ("deadbeefdeadbeefs and 1234", "deadbeefdeadbeefs and 1234"),
        ] {
            assert_eq!(normalise(text), expected, "{text}");
        }
    }
}
