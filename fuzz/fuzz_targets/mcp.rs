//! Searches for lines of MCP servers that break the laws of `baton_fuzz::mcp`, with libFuzzer. The tests of `crates/fuzz`
//! replay its corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| baton_fuzz::mcp(data));
