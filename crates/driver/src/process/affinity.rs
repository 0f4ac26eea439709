//! The cores of helper threads.

/// Sets the CPU affinity of the calling thread to that of the process's main thread. A thread inherits the affinity of
/// the thread that starts it, so a helper that a processor starts may be restricted to fewer cores. Does nothing on
/// systems without these calls.
pub fn use_all_cores() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::thread::{sched_getaffinity, sched_setaffinity};
        if let Ok(cores) = sched_getaffinity(Some(rustix::process::getpid())) {
            let _ = sched_setaffinity(None, &cores);
        }
    }
}
