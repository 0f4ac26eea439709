//! Pinning threads to cores.

/// Pins the calling thread to core number `index` of those available to the process, if there is one for each
/// of `processors`. Otherwise, or if the system refuses, the thread is not pinned: two processors pinned to
/// one core would starve each other.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn pin_to_core(index: usize, processors: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if processors <= cores.len() {
        let mut only = CpuSet::new();
        only.set(cores[index]);
        let _ = sched_setaffinity(None, &only);
    }
}

/// Does nothing: this system has no such call.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn pin_to_core(_index: usize, _processors: usize) {}
