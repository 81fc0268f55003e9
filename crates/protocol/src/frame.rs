//! Frames of the JSON-RPC door: a `Content-Length` header, a blank line, that many bytes of JSON.
//!
//! The decoder is a pure function over a buffer, so that it can be fuzzed and used on any transport. It is generous in
//! what it reads (any case, further headers) and strict in what it writes: exactly one header, because one of the
//! official SDKs reads one header line and skips the next whatever it says.

use bytes::{Buf, Bytes, BytesMut};

/// A header block larger than this is not a header block.
const MAX_HEADER: usize = 8 * 1024;

/// Why a stream cannot be read any further. There is no way to find the next frame after any of these, so the
/// connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No blank line within the first 8 KiB.
    #[error("no end of the header within {MAX_HEADER} bytes: this is not a Content-Length framed stream")]
    HeaderTooLong,
    /// A line in the header block that is none. The first line of an HTTP request is such a line: a browser must not be
    /// taken for a client, however well the rest of what it sends looks like a frame.
    #[error("{0:?} is not a header: this is not a Content-Length framed stream")]
    NotAHeader(String),
    /// A header block without a length.
    #[error("a frame without a Content-Length header")]
    NoLength,
    /// A header block with several lengths, of which nobody can say which is meant.
    #[error("a frame with more than one Content-Length header")]
    SeveralLengths,
    /// A length that is not a number.
    #[error("the Content-Length {0:?} is not a number of bytes")]
    BadLength(String),
    /// More than the connection may send at once.
    #[error("a frame of {len} bytes is larger than the limit of {max} bytes")]
    TooLarge {
        /// The announced length.
        len: u64,
        /// The limit.
        max: usize,
    },
}

/// Cuts a byte stream into frames.
#[derive(Debug)]
pub struct Decoder {
    max_body: usize,
    /// The length of the body that is being waited for, once its header has been read.
    body: Option<usize>,
}

impl Decoder {
    /// A decoder that refuses bodies over `max_body` bytes before any memory is set aside for them.
    #[must_use]
    pub fn new(max_body: usize) -> Self {
        Self { max_body, body: None }
    }

    /// Changes the limit on bodies. A body that is under way keeps the limit that its header was held to.
    pub fn limit(&mut self, max_body: usize) {
        self.max_body = max_body;
    }

    /// Takes the next whole frame out of `buffer`, or nothing when more bytes are needed.
    ///
    /// # Errors
    /// When the stream is not framed as it should be; see [`FrameError`].
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let length = match self.body {
            Some(length) => length,
            None => match self.decode_header(buffer)? {
                Some(length) => *self.body.insert(length),
                None => return Ok(None),
            },
        };
        if buffer.len() < length {
            // Growing in steps keeps a lying header from reserving its claim at once.
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

/// Where the header block ends, and how many bytes its end takes.
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
        let (name, value) = parse_header(&line).ok_or_else(|| FrameError::NotAHeader(beginning(&line)))?;
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
    number.ok_or_else(|| FrameError::BadLength(beginning(value)))
}

/// As much of a line as belongs into a message.
fn beginning(text: &str) -> String {
    text.trim().chars().take(40).collect()
}

/// Puts a body into a frame.
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
    fn reads_what_clients_send() {
        let two = b"Content-Length: 2\r\n\r\n{}Content-Length: 4\r\n\r\nnull";
        assert_eq!(decode_all(&[two]).unwrap(), [b"{}".to_vec(), b"null".to_vec()]);
        let generous = b"content-type: application/json\r\nCONTENT-LENGTH:2\r\n\r\n{}";
        assert_eq!(decode_all(&[generous]).unwrap(), [b"{}".to_vec()]);
        assert_eq!(decode_all(&[b"Content-Length: 2\n\n{}"]).unwrap(), [b"{}".to_vec()]);
    }

    #[test]
    fn refuses_what_cannot_be_a_frame() {
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
    fn http_is_not_taken_for_frames() {
        for first in ["POST / HTTP/1.1", "GET /a:b HTTP/1.1", "OPTIONS * HTTP/1.1", "Content-Length : 2"] {
            let request = format!("{first}\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}");
            let error = decode_all(&[request.as_bytes()]).unwrap_err();
            assert_eq!(error, FrameError::NotAHeader(first.into()));
        }
    }

    proptest! {
        #[test]
        fn survives_any_bytes(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8)) {
            let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let _ = decode_all(&chunks);
        }

        #[test]
        fn what_is_encoded_is_decoded_however_it_is_cut(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..6),
            cut in 1usize..40,
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|b| encode(b)).collect();
            let chunks: Vec<&[u8]> = stream.chunks(cut).collect();
            prop_assert_eq!(decode_all(&chunks).unwrap(), bodies);
        }
    }
}
