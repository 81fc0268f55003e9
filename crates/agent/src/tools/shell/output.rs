//! Unread output of a command, in bounded memory.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::tools::lock;
use crate::tools::text::{clip, readable, size, without_partial_end, without_partial_start};

/// Bytes that are kept of the beginning. The end is worth more: errors are there.
const HEAD: usize = 16 * 1024;
/// Bytes that are kept of the end. Together they stay below the limit above which outputs are stored in a file.
const TAIL: usize = 32 * 1024;

/// The beginning and the end of a stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct HeadAndTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl HeadAndTail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(TAIL)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(TAIL);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Whether pushing `more` bytes would lose some.
    pub(crate) fn would_overflow(&self, more: usize) -> bool {
        self.total + more as u64 > (HEAD + TAIL) as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns all bytes, if none were lost.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        [self.head.as_slice(), self.tail.make_contiguous()].concat()
    }

    /// Returns the text; `whole` says where the whole output is.
    pub(crate) fn into_text(mut self, whole: &str) -> String {
        let left_out = self.total - (self.head.len() + self.tail.len()) as u64;
        if left_out == 0 {
            return shorten(readable(&self.bytes()));
        }
        let head = readable(without_partial_end(&self.head));
        let tail = readable(without_partial_start(self.tail.make_contiguous()));
        let note = format!("\n[{} of output left out here. {whole}]\n", size(left_out));
        [clip(&head, HEAD), &note, clip_start(&tail, TAIL)].concat()
    }
}

/// Shortens a text: invalid bytes take three times their size as replacement characters.
fn shorten(text: String) -> String {
    if text.len() <= HEAD + TAIL {
        return text;
    }
    let (head, tail) = (clip(&text, HEAD), clip_start(&text, TAIL));
    let note = format!("\n[{} left out here that are not text.]\n", size((text.len() - HEAD - TAIL) as u64));
    [head, &note, tail].concat()
}

fn clip_start(text: &str, limit: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(limit))..]
}

/// Callback for new output.
pub(crate) type OutputCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// The file with the whole output.
#[derive(Debug, Clone)]
pub(crate) struct OutputFile {
    pub(crate) path: PathBuf,
    /// The limit was reached, and the rest dropped.
    pub(crate) is_full: bool,
}

/// Output of a command, shared by the task that reads its pipe and the tools.
#[derive(Default)]
pub(crate) struct CommandOutput(Mutex<Shared>);

#[derive(Default)]
struct Shared {
    unread: HeadAndTail,
    file: Option<OutputFile>,
    progress: Option<OutputCallback>,
}

impl CommandOutput {
    pub(crate) fn new(progress: Option<OutputCallback>) -> Self {
        Self(Mutex::new(Shared { progress, ..Shared::default() }))
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        lock(&self.0).unread.push(bytes);
    }

    /// Returns the bytes that must be stored in a file before `more` bytes are pushed.
    pub(crate) fn before_overflow(&self, more: usize) -> Option<Vec<u8>> {
        let mut shared = lock(&self.0);
        shared.unread.would_overflow(more).then(|| shared.unread.bytes())
    }

    pub(crate) fn set_file(&self, file: OutputFile) {
        lock(&self.0).file = Some(file);
    }

    /// Takes the unread text.
    pub(crate) fn take(&self) -> String {
        let mut shared = lock(&self.0);
        let unread = std::mem::take(&mut shared.unread);
        let whole = match &shared.file {
            Some(file) if file.is_full => {
                format!("The first part of the whole is in {}, the rest was dropped.", file.path.display())
            }
            Some(file) => format!("The whole is in {}.", file.path.display()),
            None => "It could not be stored in a file.".to_owned(),
        };
        drop(shared);
        unread.into_text(&whole)
    }

    pub(crate) fn has_unread(&self) -> bool {
        !lock(&self.0).unread.is_empty()
    }

    pub(crate) fn progress(&self) -> Option<OutputCallback> {
        lock(&self.0).progress.clone()
    }

    /// Removes the callback, after the call that started the command has returned.
    pub(crate) fn stop_progress(&self) {
        lock(&self.0).progress = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However the bytes arrive, the beginning and the end are kept and all bytes are counted.
        #[test]
        fn head_and_tail_are_kept(chunks in proptest::collection::vec(0usize..40_000, 0..8)) {
            let mut output = HeadAndTail::default();
            let mut all: Vec<u8> = Vec::new();
            for length in chunks {
                let chunk: Vec<u8> = (0..length).map(|i| b'a' + ((all.len() + i) % 23) as u8).collect();
                let fits = all.len() + length <= HEAD + TAIL;
                prop_assert_eq!(output.would_overflow(length), !fits);
                output.push(&chunk);
                all.extend(chunk);
            }
            let text = output.into_text("W");
            if all.len() <= HEAD + TAIL {
                prop_assert_eq!(text.as_bytes(), &all);
            } else {
                prop_assert!(text.as_bytes().starts_with(&all[..HEAD]));
                prop_assert!(text.as_bytes().ends_with(&all[all.len() - TAIL..]));
                prop_assert!(text.contains(" left out here. W]"));
            }
        }

        #[test]
        fn text_of_any_bytes_is_below_the_limit(
            sample in proptest::collection::vec(any::<u8>(), 1..64),
            length in 40_000usize..60_000,
        ) {
            let mut output = HeadAndTail::default();
            output.push(&sample.iter().copied().cycle().take(length).collect::<Vec<_>>());
            prop_assert!(output.into_text("W").len() < crate::tools::spill::DEFAULT_LIMIT);
        }
    }
}
