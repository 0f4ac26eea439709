//! The general allocator: returning memory that it keeps.
//!
//! # Safety
//! `malloc_trim` may be called at any time, on any thread. It frees no memory that is in use.

/// Returns free memory of the general allocator to the system. The allocator of glibc keeps pages between objects that
/// are in use, and all that a thread's arena has freed below its last object. Elsewhere this does nothing.
///
/// It takes some milliseconds for each gigabyte, while allocations on other threads may wait: for the time after a
/// peak, on a thread that may block.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: see the top of the file.
    unsafe {
        libc::malloc_trim(0);
    }
}
