//! Server-sent events, read from bytes as they arrive.
//!
//! A pure, incremental parser of the `text/event-stream` format. It knows nothing of models, and does no I/O.
//! Of the format's fields it keeps `event` and `data`: models' streams are never resumed, so `id` and `retry`
//! are dropped.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The name of the event, empty when it has none.
    pub name: String,
    /// Its data; several lines are joined with line feeds.
    pub data: String,
}

/// An event, or a line, that is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct TooLong {
    /// The limit.
    pub limit: usize,
}

/// Turns bytes into events. How the bytes are cut into pieces makes no difference.
///
/// Whole lines are collected before they are decoded, so that a character that is cut in two arrives in one
/// piece.
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    first_line: bool,
    after_carriage_return: bool,
}

impl Parser {
    /// A parser that refuses events longer than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: String::new(),
            data: None,
            first_line: true,
            after_carriage_return: false,
        }
    }

    /// Takes more bytes, and hands on the events that they complete.
    ///
    /// # Errors
    /// When an event becomes too long. The events before it have been handed on; the parser is of no use any
    /// more.
    pub fn push(&mut self, mut bytes: &[u8], mut on_event: impl FnMut(Event)) -> Result<(), TooLong> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_carriage_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.collect(bytes);
            };
            self.collect(&bytes[..end])?;
            self.after_carriage_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_of_line().map(&mut on_event);
        }
        Ok(())
    }

    /// What had begun when the bytes ended: an event without the empty line that completes it.
    ///
    /// The standard drops it. Some servers just hang up after their last line, so the caller may have a look.
    #[must_use]
    pub fn finish(mut self) -> Option<Event> {
        if !self.line.is_empty() {
            self.end_of_line();
        }
        self.take_event()
    }

    fn collect(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let begun = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if begun + bytes.len() > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if std::mem::take(&mut self.first_line) {
            text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        }
        let event = if text.is_empty() {
            self.take_event()
        } else {
            self.take_field(text);
            None
        };
        // The buffer is used again: one event is mostly as long as the next.
        self.line = line;
        self.line.clear();
        event
    }

    fn take_field(&mut self, line: &[u8]) {
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"event" => self.name = value.into_owned(),
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(&value);
                }
                None => self.data = Some(value.into_owned()),
            },
            // A comment (no field name), or a field that means nothing here.
            _ => {}
        }
    }

    fn take_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        self.data.take().map(|data| Event { name, data })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that comes of these pieces: the events, then what remains at the end.
    fn parse(pieces: &[&[u8]], limit: usize) -> (Vec<Event>, Result<Option<Event>, TooLong>) {
        let mut parser = Parser::new(limit);
        let mut events = Vec::new();
        for piece in pieces {
            if let Err(error) = parser.push(piece, |event| events.push(event)) {
                return (events, Err(error));
            }
        }
        (events, Ok(parser.finish()))
    }

    fn check(text: &str, expected: &[(&str, &str)]) {
        let (events, rest) = parse(&[text.as_bytes()], 1000);
        let events: Vec<_> = events.iter().map(|e| (e.name.as_str(), e.data.as_str())).collect();
        assert_eq!((events.as_slice(), rest), (expected, Ok(None)), "{text:?}");
    }

    #[test]
    fn reads_the_format_in_all_its_forms() {
        check("data: a\n\n", &[("", "a")]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]);
        check("event: e\r\ndata: a\r\ndata: b\r\n\r\n", &[("e", "a\nb")]);
        check("data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
        check("\u{FEFF}data: a\n\n", &[("", "a")]);
        check("event: e\ndata: a\ndata:b\ndata:  c\n\n", &[("e", "a\nb\n c")]);
        check(": a comment\n\ndata: a\n:another\n\n", &[("", "a")]);
        check("data\n\n", &[("", "")]);
        check("id: 7\nretry: 5\nunknown: x\ndata: a\n\n", &[("", "a")]);
        check("event: lost without data\n\ndata: a\n\n", &[("", "a")]);
        check("\n\n\n", &[]);
        check("data: {\"a\": \"b: c\"}\n\n", &[("", "{\"a\": \"b: c\"}")]);
    }

    #[test]
    fn shows_what_had_begun_when_the_bytes_ended() {
        let unfinished = |text: &str| parse(&[text.as_bytes()], 1000).1.unwrap().map(|event| event.data);
        assert_eq!(unfinished("data: [DONE]"), Some("[DONE]".to_owned()));
        assert_eq!(unfinished("data: [DONE]\n"), Some("[DONE]".to_owned()));
        assert_eq!(unfinished(": nothing"), None);
    }

    #[test]
    fn replaces_bytes_that_are_no_text() {
        assert_eq!(parse(&[b"data: a\xFFb\n\n"], 100).0[0].data, "a\u{FFFD}b");
    }

    #[test]
    fn refuses_an_event_that_is_too_long_and_keeps_those_before_it() {
        for long in ["data: 0123456789\n\n", "data: 01234\ndata: 56789\n\n", ": 0123456789 a comment\n\n"] {
            let text = format!("data: a\n\n{long}");
            let (events, end) = parse(&[text.as_bytes()], 12);
            assert_eq!((events.len(), end), (1, Err(TooLong { limit: 12 })), "{long}");
        }
    }

    /// Bytes in which line ends, colons and half characters are frequent.
    fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"data: ".to_vec()),
            Just(b"event:e".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\n\n".to_vec()),
            Just(b"\xEF\xBB\xBF".to_vec()),
            Just("käse 世界".as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..6),
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn how_the_bytes_are_cut_makes_no_difference(
            bytes in stream_bytes(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
            limit in 1usize..100,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([bytes.len()]);
            let starts = std::iter::once(0).chain(cuts.iter().copied());
            let pieces: Vec<&[u8]> = starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect();
            prop_assert_eq!(parse(&pieces, limit), parse(&[&bytes], limit));
        }
    }
}
