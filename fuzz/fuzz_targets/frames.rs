//! Searches for frames of JSON-RPC that break the laws of `baton_fuzz::frames`, with libFuzzer. The tests of `crates/fuzz`
//! replay its corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| baton_fuzz::frames(data));
