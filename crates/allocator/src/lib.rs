//! Makes the C library's allocator give memory back to the system.
//!
//! This is the only crate of the workspace with `unsafe`: one call, which has no safe wrapper. It decides nothing else about
//! memory, and other C libraries need no such call.

/// Blocks of this size and more are mapped one by one, and unmapped when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED: libc::c_int = 1 << 20;

/// Makes glibc give each large block back when it is freed.
///
/// By default, the first large block that is freed raises the limit for mapped blocks to its size, up to 32 MB. Later ones come
/// from the heaps of the threads, where a small block behind a large one keeps it from being given back: after one message of
/// 15 MB, up to 95 MB stayed resident, and with a fixed limit never more than 16.
///
/// Call it before large blocks are allocated.
pub fn give_large_blocks_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `mallopt` takes two numbers and may be called at any time. A parameter that it refuses stays as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MAPPED);
    }
}
