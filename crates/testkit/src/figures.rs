//! What the measuring examples share. No test needs it: tests do not look at the clock.

/// Where `wanted` is in `text`. Fast: whoever measures shares the machine with what is measured.
#[must_use]
pub fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, wanted)
}

/// The sample that so many per cent do not exceed. Sorts the samples.
///
/// # Panics
/// When there are none.
pub fn percentile(samples: &mut [f64], percent: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[((samples.len() - 1) as f64 * percent / 100.0) as usize]
}
