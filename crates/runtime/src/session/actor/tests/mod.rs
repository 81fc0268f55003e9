//! Tests of the actor over a store with planned faults and a paused clock.
//!
//! Time advances only when every task waits, so timers fire at exact times and no test waits for the clock.

mod asks;
mod durable;
mod extensions;
mod hooks;
mod lease;
mod leaving;
mod links;
mod moved;
mod panics;
mod retries;
mod size;
mod store;
mod workflows;
mod world;
