//! Helpers of the measuring examples. Not for tests: tests do not measure time.

/// Returns the position of `wanted` in `text`. Fast, because the measuring program shares the machine with
/// the measured one.
#[must_use]
pub fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, wanted)
}

/// Returns a percentile. Sorts the samples.
///
/// # Panics
/// When there are no samples.
pub fn percentile(samples: &mut [f64], percent: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[((samples.len() - 1) as f64 * percent / 100.0) as usize]
}
