//! The cores of helper threads.

#[cfg(any(target_os = "linux", target_os = "android"))]
use std::sync::{Mutex, PoisonError};

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// The cores of the main thread before [`restrict`], while it is restricted.
#[cfg(any(target_os = "linux", target_os = "android"))]
static MAIN_THREAD: Mutex<Option<CpuSet>> = Mutex::new(None);

/// The cores that the process may use: those of its main thread, without a restriction by [`restrict`]. `None` if the
/// system does not report them.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn all_cores() -> Option<CpuSet> {
    let main_thread = MAIN_THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    main_thread.or_else(|| sched_getaffinity(Some(rustix::process::getpid())).ok())
}

/// Sets the CPU affinity of the calling thread to that of the process's main thread. A thread inherits the affinity of
/// the thread that starts it, so a helper that a processor starts may be restricted to fewer cores. Does nothing on
/// systems without these calls.
pub fn use_all_cores() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(cores) = all_cores() {
        let _ = sched_setaffinity(None, &cores);
    }
}

/// The numbers of the cores that [`use_all_cores`] gives a thread. Empty if the system does not report them.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn process_cores() -> Vec<usize> {
    let Some(cores) = all_cores() else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)).collect()
}

/// Restricts the calling thread to these cores until the result is dropped on the same thread. If the system refuses,
/// or if there are none, the thread keeps its cores. [`use_all_cores`] still gives other threads all cores, even if the
/// calling thread is the main thread.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn restrict(cores: &[usize]) -> Restricted {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    let Some(before) = sched_getaffinity(None).ok().filter(|_| set.count() > 0) else {
        return Restricted { before: None };
    };
    let is_main_thread = gettid() == rustix::process::getpid();
    if is_main_thread {
        *MAIN_THREAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
    }
    let _ = sched_setaffinity(None, &set);
    Restricted { before: Some((before, is_main_thread)) }
}

/// A restriction of the thread that has created it. Its cores return when it is dropped.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug)]
pub struct Restricted {
    /// The cores before it, and whether the thread is the main thread. `None` if the thread kept its cores.
    before: Option<(CpuSet, bool)>,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Drop for Restricted {
    fn drop(&mut self) {
        let Some((before, is_main_thread)) = self.before.take() else { return };
        let _ = sched_setaffinity(None, &before);
        if is_main_thread {
            *MAIN_THREAD.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

#[cfg(all(test, not(miri), any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;

    #[test]
    fn a_restriction_ends_when_it_is_dropped() {
        let here = || sched_getaffinity(None).unwrap();
        let before = here();
        let all = process_cores();
        let mut first = CpuSet::new();
        first.set(all[0]);
        let restricted = restrict(&all[..1]);
        assert_eq!(here(), first);
        // Another thread inherits them and is not confined to them.
        let other = std::thread::spawn(move || {
            let inherited = here();
            use_all_cores();
            (inherited, here())
        });
        assert_eq!(other.join().unwrap(), (first, before));
        drop(restricted);
        assert_eq!(here(), before);
        drop(restrict(&[]));
        assert_eq!(here(), before);
    }
}
