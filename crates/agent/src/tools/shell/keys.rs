//! Input for a command: text and named keys.

/// An element of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Keystroke {
    Text(String),
    /// Ctrl+C: a signal, because there is no terminal.
    Interrupt,
    /// Ctrl+D: the end of the input.
    EndOfInput,
}

/// Parses input such as `yes{enter}`. Unknown names in braces stay text.
pub(crate) fn parse(input: &str) -> Vec<Keystroke> {
    let mut keys = Vec::new();
    let mut text = String::new();
    let mut rest = input;
    while let Some(start) = rest.find('{') {
        text += &rest[..start];
        rest = &rest[start..];
        let named = rest.find('}').and_then(|end| Some((key(&rest[1..end])?, end + 1)));
        match named {
            Some((Keystroke::Text(sequence), length)) => {
                text += &sequence;
                rest = &rest[length..];
            }
            Some((key, length)) => {
                flush(&mut text, &mut keys);
                keys.push(key);
                rest = &rest[length..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text += rest;
    flush(&mut text, &mut keys);
    keys
}

fn flush(text: &mut String, keys: &mut Vec<Keystroke>) {
    if !text.is_empty() {
        keys.push(Keystroke::Text(std::mem::take(text)));
    }
}

fn key(name: &str) -> Option<Keystroke> {
    let text = match name.to_ascii_lowercase().as_str() {
        "ctrl+c" | "ctrl-c" => return Some(Keystroke::Interrupt),
        "ctrl+d" | "ctrl-d" => return Some(Keystroke::EndOfInput),
        "enter" | "return" => "\n",
        "tab" => "\t",
        "space" => " ",
        "escape" | "esc" => "\x1b",
        "backspace" => "\x7f",
        "up" => "\x1b[A",
        "down" => "\x1b[B",
        "right" => "\x1b[C",
        "left" => "\x1b[D",
        _ => return None,
    };
    Some(Keystroke::Text(text.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn named_keys_are_parsed_and_other_braces_stay() {
        let text = |text: &str| Keystroke::Text(text.into());
        assert_eq!(parse("yes{enter}"), [text("yes\n")]);
        assert_eq!(parse("{up}{ENTER}"), [text("\x1b[A\n")]);
        assert_eq!(
            parse("a{ctrl+c}b{ctrl+d}"),
            [text("a"), Keystroke::Interrupt, text("b"), Keystroke::EndOfInput]
        );
        assert_eq!(parse("{\"json\": {}}{enter}"), [text("{\"json\": {}}\n")]);
        assert_eq!(parse("{{enter}"), [text("{\n")]);
        assert_eq!(parse(""), []);
    }

    proptest! {
        #[test]
        fn text_without_keys_is_unchanged(input in "[^}]*") {
            let typed: String = parse(&input).into_iter().map(|key| match key {
                Keystroke::Text(text) => text,
                other => panic!("{other:?}"),
            }).collect();
            prop_assert_eq!(typed, input);
        }
    }
}
