//! The core behaviour, with the published Rust SDK.

mod clients;
mod sessions;
mod work;
mod world;
