//! Searches for Markdown that break the laws of `baton_fuzz::markdown`, with libFuzzer. The tests of `crates/fuzz` replay
//! its corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| baton_fuzz::markdown(data));
