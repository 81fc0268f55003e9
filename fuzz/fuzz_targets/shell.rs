//! Searches for shell lines that break the laws of `baton_fuzz::shell`, with libFuzzer. The tests of `crates/fuzz` replay
//! its corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| baton_fuzz::shell(data));
