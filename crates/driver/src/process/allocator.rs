//! Returning free memory of the global allocator to the system.
//!
//! # Safety
//! `malloc_trim` may be called at any time, on any thread. It frees no memory that is in use.

/// Returns free memory of the global allocator to the system. The allocator of glibc keeps free pages between objects
/// in use, and all free memory of a thread's arena below its last object. With other allocators, this does nothing.
///
/// It takes some milliseconds per gigabyte, during which allocations on other threads may wait. Call it after a peak,
/// on a thread that may block.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: see the top of the file.
    unsafe {
        libc::malloc_trim(0);
    }
}
