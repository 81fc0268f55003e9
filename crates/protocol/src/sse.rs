//! Server-sent events: a pure, incremental parser of the `text/event-stream` format.
//!
//! Used for the streams of model providers and for those of Baton's own HTTP API. It does no I/O. The field
//! `retry` is ignored, and `id` is reported only with the event that contains it: callers keep their cursor.

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `id` field, if the event has one.
    pub id: Option<String>,
    /// The `event` field, empty if the event has none.
    pub name: String,
    /// The `data` field; several lines are joined with line feeds.
    pub data: String,
}

/// Error for an event or line that exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct TooLong {
    /// The limit.
    pub limit: usize,
}

/// Parses a byte stream into events, independently of how the bytes are split into chunks.
///
/// Whole lines are collected before they are decoded, so that a character split between two chunks is decoded
/// correctly.
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    line: Vec<u8>,
    id: Option<String>,
    name: String,
    data: Option<String>,
    first_line: bool,
    after_carriage_return: bool,
}

impl Parser {
    /// Creates a parser that refuses events longer than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            id: None,
            name: String::new(),
            data: None,
            first_line: true,
            after_carriage_return: false,
        }
    }

    /// Takes more bytes and calls `on_event` for each event that they complete.
    ///
    /// # Errors
    /// When an event becomes too long. `on_event` was called for the events before it; the parser is unusable
    /// from then on.
    pub fn push(&mut self, mut bytes: &[u8], mut on_event: impl FnMut(SseEvent)) -> Result<(), TooLong> {
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

    /// Returns the unfinished event at the end of the bytes: one without the empty line that completes it.
    ///
    /// The standard discards it. Some servers close the connection after their last line, so the caller decides.
    #[must_use]
    pub fn finish(mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_of_line();
        }
        self.take_event()
    }

    fn collect(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let length = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if length + bytes.len() > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_of_line(&mut self) -> Option<SseEvent> {
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
        // Reuses the buffer: events tend to have similar lengths.
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
            b"id" => self.id = Some(value.into_owned()),
            b"event" => self.name = value.into_owned(),
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(&value);
                }
                None => self.data = Some(value.into_owned()),
            },
            // A comment (no field name), or an unknown field.
            _ => {}
        }
    }

    fn take_event(&mut self) -> Option<SseEvent> {
        let (id, name) = (self.id.take(), std::mem::take(&mut self.name));
        self.data.take().map(|data| SseEvent { id, name, data })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses these chunks: returns the events, then the unfinished event at the end.
    fn parse(pieces: &[&[u8]], limit: usize) -> (Vec<SseEvent>, Result<Option<SseEvent>, TooLong>) {
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
    fn all_forms_of_the_format_are_parsed() {
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
    fn id_belongs_to_its_own_event_only() {
        let (events, _) = parse(&[b"id: 7\ndata: a\n\ndata: b\n\nid: 9\n\ndata: c\n\n"], 1000);
        let ids: Vec<_> = events.iter().map(|event| event.id.as_deref()).collect();
        assert_eq!(ids, [Some("7"), None, None]);
    }

    #[test]
    fn unfinished_event_is_returned_at_the_end() {
        let unfinished = |text: &str| parse(&[text.as_bytes()], 1000).1.unwrap().map(|event| event.data);
        assert_eq!(unfinished("data: [DONE]"), Some("[DONE]".to_owned()));
        assert_eq!(unfinished("data: [DONE]\n"), Some("[DONE]".to_owned()));
        assert_eq!(unfinished(": nothing"), None);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(parse(&[b"data: a\xFFb\n\n"], 100).0[0].data, "a\u{FFFD}b");
    }

    #[test]
    fn oversized_event_is_refused_after_the_events_before_it() {
        for long in ["data: 0123456789\n\n", "data: 01234\ndata: 56789\n\n", ": 0123456789 a comment\n\n"] {
            let text = format!("data: a\n\n{long}");
            let (events, end) = parse(&[text.as_bytes()], 12);
            assert_eq!((events.len(), end), (1, Err(TooLong { limit: 12 })), "{long}");
        }
    }

    /// Generates bytes in which line ends, colons and partial characters are frequent.
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
        fn events_are_independent_of_chunk_boundaries(
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
