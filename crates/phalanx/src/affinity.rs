//! Binding a processor's thread to a core.

/// Binds the calling thread to the `index`th of the cores that the process may use, if there is
/// one for each of `processors`. Otherwise, and where the system refuses, it stays free: two
/// processors bound to one core would starve each other.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn to_core(index: usize, processors: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if processors <= cores.len() {
        let mut only = CpuSet::new();
        only.set(cores[index]);
        let _ = sched_setaffinity(None, &only);
    }
}

/// This system does not bind threads to cores.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn to_core(_index: usize, _processors: usize) {}
