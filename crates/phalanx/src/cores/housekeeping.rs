//! The cores of threads that serve no requests: the supervisor, the handler of signals, and writers of logs.
//!
//! On a machine with cores of several speeds they use the slow ones, so that the fast ones are left to the processors.
//! Threads for blocking calls may use all cores, because requests wait for them.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::path::Path;
    #[cfg(feature = "admin")]
    use std::sync::OnceLock;

    use phalanx_driver::{Restricted, process_cores, restrict};

    use crate::cores::topology;

    fn slow_cores() -> Vec<usize> {
        topology::slow(&topology::read(Path::new("/sys/devices"), &process_cores()))
    }

    /// Whether the process may use slow cores.
    #[cfg(feature = "admin")]
    pub(crate) fn has_slow_cores() -> bool {
        static HAS_SLOW_CORES: OnceLock<bool> = OnceLock::new();
        *HAS_SLOW_CORES.get_or_init(|| !slow_cores().is_empty())
    }

    /// Restricts the calling thread to slow cores until the result is dropped, if there are any.
    pub(crate) fn keep_to_slow_cores() -> Restricted {
        restrict(&slow_cores())
    }

    /// Restricts the calling thread, which serves no requests, to the slow cores of the machine. If all cores that the
    /// process may use have a similar speed, the thread may use all of them. Does nothing on systems other than Linux.
    ///
    /// Slow cores have less than 80 % of the largest capacity.
    pub fn use_slow_cores() {
        phalanx_driver::use_all_cores();
        std::mem::forget(keep_to_slow_cores());
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    #[cfg(feature = "admin")]
    pub(crate) fn has_slow_cores() -> bool {
        false
    }

    /// Does nothing: this system has no such calls.
    pub(crate) struct Unrestricted;

    pub(crate) fn keep_to_slow_cores() -> Unrestricted {
        Unrestricted
    }

    /// Does nothing: this system has no such calls.
    pub fn use_slow_cores() {}
}

#[cfg(feature = "admin")]
pub(crate) use self::system::has_slow_cores;
pub(crate) use self::system::keep_to_slow_cores;
pub use self::system::use_slow_cores;
