//! The core behaviours, as the published Rust SDK sees them.

mod clients;
mod sessions;
mod work;
mod world;
