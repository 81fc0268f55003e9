//! What a command has printed and nobody has read yet, in bounded memory.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::tools::lock;
use crate::tools::text::{clip, readable, size, without_partial_end, without_partial_start};

/// How much of the beginning is kept. The end is worth more: that is where errors are.
const HEAD: usize = 16 * 1024;
/// How much of the end is kept. Together they stay below the limit from which any output is put into a file.
const TAIL: usize = 32 * 1024;

/// The beginning and the end of a stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct Excerpt {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Excerpt {
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

    /// All bytes, as long as none were lost.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        [self.head.as_slice(), self.tail.make_contiguous()].concat()
    }

    /// The text; `whole` says where all of it is.
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

/// Bytes that are no text take three times their room as replacement characters.
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

/// Is called with new output.
pub(crate) type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// The file that has the whole output.
#[derive(Debug, Clone)]
pub(crate) struct OutputFile {
    pub(crate) path: PathBuf,
    /// It has reached its limit, and the rest was dropped.
    pub(crate) is_full: bool,
}

/// What a command prints, between the one who reads it from the command and those who read it here.
#[derive(Default)]
pub(crate) struct Output(Mutex<Shared>);

#[derive(Default)]
struct Shared {
    unread: Excerpt,
    file: Option<OutputFile>,
    progress: Option<Progress>,
}

impl Output {
    pub(crate) fn new(progress: Option<Progress>) -> Self {
        Self(Mutex::new(Shared { progress, ..Shared::default() }))
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        lock(&self.0).unread.push(bytes);
    }

    /// What must be in a file before `more` bytes can be pushed without losing any.
    pub(crate) fn before_overflow(&self, more: usize) -> Option<Vec<u8>> {
        let mut shared = lock(&self.0);
        shared.unread.would_overflow(more).then(|| shared.unread.bytes())
    }

    pub(crate) fn set_file(&self, file: OutputFile) {
        lock(&self.0).file = Some(file);
    }

    /// Takes the text that nobody has read yet.
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

    pub(crate) fn progress(&self) -> Option<Progress> {
        lock(&self.0).progress.clone()
    }

    /// Nobody watches any longer: the call that started the command has returned.
    pub(crate) fn stop_progress(&self) {
        lock(&self.0).progress = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However the bytes arrive, the beginning and the end are kept and everything is counted.
        #[test]
        fn an_excerpt_keeps_both_ends(chunks in proptest::collection::vec(0usize..40_000, 0..8)) {
            let mut excerpt = Excerpt::default();
            let mut all: Vec<u8> = Vec::new();
            for length in chunks {
                let chunk: Vec<u8> = (0..length).map(|i| b'a' + ((all.len() + i) % 23) as u8).collect();
                let fits = all.len() + length <= HEAD + TAIL;
                prop_assert_eq!(excerpt.would_overflow(length), !fits);
                excerpt.push(&chunk);
                all.extend(chunk);
            }
            let text = excerpt.into_text("W");
            if all.len() <= HEAD + TAIL {
                prop_assert_eq!(text.as_bytes(), &all);
            } else {
                prop_assert!(text.as_bytes().starts_with(&all[..HEAD]));
                prop_assert!(text.as_bytes().ends_with(&all[all.len() - TAIL..]));
                prop_assert!(text.contains(" left out here. W]"));
            }
        }

        #[test]
        fn any_bytes_fit_the_limit(
            sample in proptest::collection::vec(any::<u8>(), 1..64),
            length in 40_000usize..60_000,
        ) {
            let mut excerpt = Excerpt::default();
            excerpt.push(&sample.iter().copied().cycle().take(length).collect::<Vec<_>>());
            prop_assert!(excerpt.into_text("W").len() < crate::tools::spill::DEFAULT_LIMIT);
        }
    }
}
