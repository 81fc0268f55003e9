//! Framing of JSON-RPC messages: a `Content-Length` header, a blank line, that many bytes of JSON.
//!
//! The decoder is a pure function over a buffer, so it can be fuzzed and used with any transport. It is
//! lenient when reading (any case, additional headers) and strict when writing: exactly one header, because
//! one of the official SDKs reads one header line and skips the next without looking at it.

use bytes::{Buf, Bytes, BytesMut};

/// Maximum size of a header block.
const MAX_HEADER: usize = 8 * 1024;

/// Error that makes a stream unreadable. The start of the next frame cannot be found after any of these, so
/// the connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No blank line within the first 8 KiB.
    #[error("no end of the header within {MAX_HEADER} bytes: this is not a Content-Length framed stream")]
    HeaderTooLong,
    /// A malformed line in the header block. The request line of HTTP is one: a browser must not be taken for
    /// a client, even if the rest of its request looks like a frame.
    #[error("{0:?} is not a header: this is not a Content-Length framed stream")]
    NotAHeader(String),
    /// A header block without a length.
    #[error("a frame without a Content-Length header")]
    NoLength,
    /// A header block with several lengths, which is ambiguous.
    #[error("a frame with more than one Content-Length header")]
    SeveralLengths,
    /// A length that is not a number.
    #[error("the Content-Length {0:?} is not a number of bytes")]
    BadLength(String),
    /// A frame larger than the limit.
    #[error("a frame of {len} bytes is larger than the limit of {max} bytes")]
    TooLarge {
        /// The announced length.
        len: u64,
        /// The limit.
        max: usize,
    },
}

/// Splits a byte stream into frames.
#[derive(Debug)]
pub struct Decoder {
    max_body: usize,
    /// Length of the body to read next, once its header was parsed.
    body: Option<usize>,
}

impl Decoder {
    /// Creates a decoder that refuses bodies over `max_body` bytes before it reserves memory for them.
    #[must_use]
    pub fn new(max_body: usize) -> Self {
        Self { max_body, body: None }
    }

    /// Changes the limit on bodies. A body whose header was accepted keeps the previous limit.
    pub fn limit(&mut self, max_body: usize) {
        self.max_body = max_body;
    }

    /// Takes the next complete frame out of `buffer`, or returns `None` if more bytes are needed.
    ///
    /// # Errors
    /// When the stream is not framed correctly.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let length = match self.body {
            Some(length) => length,
            None => match self.decode_header(buffer)? {
                Some(length) => *self.body.insert(length),
                None => return Ok(None),
            },
        };
        if buffer.len() < length {
            // Growing in steps prevents a false header from reserving the announced length at once.
            buffer.reserve((length - buffer.len()).min(1 << 20));
            return Ok(None);
        }
        self.body = None;
        Ok(Some(buffer.split_to(length).freeze()))
    }

    fn decode_header(&self, buffer: &mut BytesMut) -> Result<Option<usize>, FrameError> {
        let window = &buffer[..buffer.len().min(MAX_HEADER)];
        let Some((end, skip)) = find_blank_line(window) else {
            return if buffer.len() >= MAX_HEADER { Err(FrameError::HeaderTooLong) } else { Ok(None) };
        };
        let length = content_length(&buffer[..end])?;
        if length > self.max_body as u64 {
            return Err(FrameError::TooLarge { len: length, max: self.max_body });
        }
        buffer.advance(end + skip);
        Ok(Some(usize::try_from(length).unwrap_or(usize::MAX)))
    }
}

/// Returns the end of the header block, and the length of its terminator.
fn find_blank_line(bytes: &[u8]) -> Option<(usize, usize)> {
    let crlf = bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| (at, 4));
    let lf = bytes.windows(2).position(|w| w == b"\n\n").map(|at| (at, 2));
    match (crlf, lf) {
        (Some(a), Some(b)) => Some(if a.0 < b.0 { a } else { b }),
        (a, b) => a.or(b),
    }
}

fn content_length(header: &[u8]) -> Result<u64, FrameError> {
    let mut length = None;
    for line in header.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let line = String::from_utf8_lossy(line);
        let (name, value) = parse_header(&line).ok_or_else(|| FrameError::NotAHeader(shortened(&line)))?;
        if name.eq_ignore_ascii_case("content-length") && length.replace(parse_length(value)?).is_some() {
            return Err(FrameError::SeveralLengths);
        }
    }
    length.ok_or(FrameError::NoLength)
}

fn parse_header(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_word.then_some((name, value.trim()))
}

fn parse_length(value: &str) -> Result<u64, FrameError> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let number = if digits { value.parse().ok() } else { None };
    number.ok_or_else(|| FrameError::BadLength(shortened(value)))
}

/// Shortens a line for an error message.
fn shortened(text: &str) -> String {
    text.trim().chars().take(40).collect()
}

/// Encodes a body as a frame.
#[must_use]
pub fn encode(body: &[u8]) -> Bytes {
    let header = format!("Content-Length: {}\r\n\r\n", body.len());
    let mut frame = Vec::with_capacity(header.len() + body.len());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(body);
    Bytes::from(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode_all(chunks: &[&[u8]]) -> Result<Vec<Vec<u8>>, FrameError> {
        let (mut decoder, mut buffer, mut out) = (Decoder::new(1 << 16), BytesMut::new(), Vec::new());
        for chunk in chunks {
            buffer.extend_from_slice(chunk);
            while let Some(frame) = decoder.decode(&mut buffer)? {
                out.push(frame.to_vec());
            }
        }
        Ok(out)
    }

    #[test]
    fn frames_of_all_clients_are_decoded() {
        let two = b"Content-Length: 2\r\n\r\n{}Content-Length: 4\r\n\r\nnull";
        assert_eq!(decode_all(&[two]).unwrap(), [b"{}".to_vec(), b"null".to_vec()]);
        let generous = b"content-type: application/json\r\nCONTENT-LENGTH:2\r\n\r\n{}";
        assert_eq!(decode_all(&[generous]).unwrap(), [b"{}".to_vec()]);
        assert_eq!(decode_all(&[b"Content-Length: 2\n\n{}"]).unwrap(), [b"{}".to_vec()]);
    }

    #[test]
    fn malformed_frames_are_refused() {
        let gigabyte = decode_all(&[b"Content-Length: 1073741824\r\n\r\n"]).unwrap_err();
        assert_eq!(gigabyte, FrameError::TooLarge { len: 1 << 30, max: 1 << 16 });
        assert_eq!(
            decode_all(&[b"Content-Length: -1\r\n\r\n"]).unwrap_err(),
            FrameError::BadLength("-1".into())
        );
        let huge = decode_all(&[b"Content-Length: 99999999999999999999999\r\n\r\n"]).unwrap_err();
        assert!(matches!(huge, FrameError::BadLength(_)));
        assert_eq!(decode_all(&[b"Content-Type: json\r\n\r\n{}"]).unwrap_err(), FrameError::NoLength);
        let two = decode_all(&[b"Content-Length: 2\r\ncontent-length: 3\r\n\r\n{}\n"]).unwrap_err();
        assert_eq!(two, FrameError::SeveralLengths);
        assert_eq!(decode_all(&[&[b'x'; MAX_HEADER]]).unwrap_err(), FrameError::HeaderTooLong);
    }

    #[test]
    fn http_requests_are_refused() {
        for first in ["POST / HTTP/1.1", "GET /a:b HTTP/1.1", "OPTIONS * HTTP/1.1", "Content-Length : 2"] {
            let request = format!("{first}\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}");
            let error = decode_all(&[request.as_bytes()]).unwrap_err();
            assert_eq!(error, FrameError::NotAHeader(first.into()));
        }
    }

    /// Generates bytes in which parts of frames are frequent.
    fn chunk() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            Just(b"Content-Length: ".to_vec()),
            Just(b"2".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n\r\n".to_vec()),
            Just(b"Content-Length: 2\r\n\r\n{".to_vec()),
            Just(b"}".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..30),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_decode_the_same_across_any_chunks(chunks in proptest::collection::vec(chunk(), 0..40)) {
            let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(decode_all(&chunks), decode_all(&[&chunks.concat()]));
        }

        #[test]
        fn encoded_frames_are_decoded_across_any_chunks(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..6),
            cut in 1usize..40,
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|b| encode(b)).collect();
            let chunks: Vec<&[u8]> = stream.chunks(cut).collect();
            prop_assert_eq!(decode_all(&chunks).unwrap(), bodies);
        }
    }
}
