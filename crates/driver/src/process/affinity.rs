//! The cores of helper threads.

/// Gives the calling thread the cores of the process's main thread. A thread inherits the cores of the thread that
/// starts it, so a helper that a processor starts may have fewer. Does nothing on systems without such calls.
pub fn use_all_cores() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::thread::{sched_getaffinity, sched_setaffinity};
        if let Ok(cores) = sched_getaffinity(Some(rustix::process::getpid())) {
            let _ = sched_setaffinity(None, &cores);
        }
    }
}
