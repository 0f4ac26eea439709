//! Pinning threads to cores.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod topology;

/// The cores for `processors` threads, in the order of [`topology::order`]: the first for processor 0. None if the
/// process may not use as many cores, or the system does not say: two processors pinned to one core would starve each
/// other.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn cores(processors: usize) -> Option<Vec<usize>> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let allowed = sched_getaffinity(None).ok()?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if processors > allowed.len() {
        return None;
    }
    let cores = topology::read(std::path::Path::new("/sys/devices"), &allowed);
    Some(topology::order(cores))
}

/// Pins the calling thread to `core`. If the system refuses, the thread is not pinned.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn pin_to(core: usize) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut only = CpuSet::new();
    only.set(core);
    let _ = sched_setaffinity(None, &only);
}

/// None: this system has no such call.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn cores(_processors: usize) -> Option<Vec<usize>> {
    None
}

/// Does nothing: this system has no such call.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn pin_to(_core: usize) {}

#[cfg(all(test, any(target_os = "linux", target_os = "android"), not(miri)))]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity};

    use super::*;

    #[test]
    fn threads_are_pinned_to_the_first_cores_of_the_order() {
        let allowed = sched_getaffinity(None).unwrap();
        let order = cores(1).expect("there is a core");
        let mut distinct = CpuSet::new();
        order.iter().for_each(|core| distinct.set(*core));
        assert_eq!((order.len(), distinct), (allowed.count() as usize, allowed));
        let last = *order.last().unwrap();
        let pinned = std::thread::spawn(move || {
            pin_to(last);
            sched_getaffinity(None).unwrap()
        });
        let mut only = CpuSet::new();
        only.set(last);
        assert_eq!(pinned.join().unwrap(), only);
        assert_eq!(cores(order.len() + 1), None);
    }
}
