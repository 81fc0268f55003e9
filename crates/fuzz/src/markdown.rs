//! Markdown that becomes HTML.

use baton_markup::html::{self, HeadingLevel};
use baton_markup::visible::is_hidden;

/// Elements that the renderer may write, with their attributes.
const ALLOWED: [(&str, &[&str]); 27] = [
    ("a", &["href", "title"]),
    ("blockquote", &[]),
    ("br", &[]),
    ("code", &["class"]),
    ("del", &[]),
    ("em", &[]),
    ("h1", &[]),
    ("h2", &[]),
    ("h3", &[]),
    ("h4", &[]),
    ("h5", &[]),
    ("h6", &[]),
    ("hr", &[]),
    ("input", &["disabled", "type", "checked"]),
    ("li", &[]),
    ("ol", &["start"]),
    ("p", &[]),
    ("pre", &[]),
    ("span", &[]),
    ("strong", &[]),
    ("table", &[]),
    ("tbody", &[]),
    ("td", &[]),
    ("th", &[]),
    ("thead", &[]),
    ("tr", &[]),
    ("ul", &[]),
];

/// Elements without an end.
const VOID: [&str; 3] = ["br", "hr", "input"];

/// Renders Markdown. The page has elements and attributes of the list only, closed in order; links lead to web and mail
/// addresses; nothing in it is hidden; and it is not much larger than the text.
pub fn markdown(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let page = html::markdown(text, HeadingLevel::H3);
    let mut open = Vec::new();
    let mut rest = &*page;
    while let Some((before, behind)) = rest.split_once('<') {
        is_text(before);
        let (tag, behind) = behind.split_once('>').unwrap_or_else(|| panic!("{page:?} ends within a tag"));
        element(tag, &mut open);
        rest = behind;
    }
    is_text(rest);
    assert_eq!(open, [""; 0], "all elements are closed: {page:?}");
    let hidden = |c: char| {
        is_hidden(c) && !matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
    };
    assert!(!page.contains(hidden), "{page:?} hides a character");
    is_text(&html::escaped(text));
}

/// Checks text outside of tags, or a value of an attribute.
fn is_text(text: &str) {
    assert!(!text.contains(['<', '>']), "{text:?}");
    for behind in text.split('&').skip(1) {
        let name = behind.split_once(';').map_or("", |(name, _)| name);
        assert!(["amp", "lt", "gt", "quot", "#39", "#x27"].contains(&name), "an ampersand in {text:?}");
    }
}

/// Checks a tag, given without its brackets.
fn element<'a>(tag: &'a str, open: &mut Vec<&'a str>) {
    if let Some(name) = tag.strip_prefix('/') {
        assert_eq!(open.pop(), Some(name), "{name:?} is closed");
        return;
    }
    let tag = tag.strip_suffix('/').unwrap_or(tag).trim_end();
    let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
    let Some((name, allowed)) = ALLOWED.into_iter().find(|(allowed, _)| *allowed == name) else {
        panic!("<{tag}> is not on the list")
    };
    while !attributes.is_empty() {
        let (attribute, behind) = attributes.split_once("=\"").unwrap_or_else(|| panic!("<{tag}>"));
        let (value, behind) = behind.split_once('"').unwrap_or_else(|| panic!("<{tag}>"));
        assert!(allowed.contains(&attribute), "<{name}> has the attribute {attribute:?}");
        check_value(attribute, value);
        attributes = behind.trim_start();
    }
    if !VOID.contains(&name) {
        open.push(name);
    }
}

fn check_value(attribute: &str, value: &str) {
    is_text(value);
    let is_fine = match attribute {
        "href" => {
            let lower = value.to_lowercase();
            ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
        }
        "class" => value.starts_with("language-"),
        "start" => value.bytes().all(|byte| byte.is_ascii_digit()),
        "type" => value == "checkbox",
        "disabled" | "checked" => value.is_empty(),
        _ => true,
    };
    assert!(is_fine, "{attribute}={value:?}");
}
