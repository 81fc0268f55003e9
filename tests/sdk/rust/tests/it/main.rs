//! The core behaviours, as the published Rust SDK sees them.

mod sessions;
mod work;
mod world;
