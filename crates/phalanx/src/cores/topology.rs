//! The order in which processors use the cores of a machine, from sysfs.
//!
//! | file under `/sys/devices` | meaning |
//! |---|---|
//! | `system/cpu/cpuN/topology/thread_siblings_list` | logical CPUs of the same physical core (SMT) |
//! | `system/cpu/cpuN/cache/indexI/{level,shared_cpu_list}` | CPUs that share a cache |
//! | `system/cpu/cpuN/cpu_capacity` | relative speed, 1024 for the fastest |
//! | `cpu_atom/cpus` | the efficient cores of a hybrid processor of Intel |
//!
//! If a file is missing or unreadable, a core has no sibling, no shared cache and full speed. So a container without
//! sysfs uses its cores in ascending order.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::read_to_string;
use std::path::Path;

/// The capacity of the fastest core, and of cores whose capacity is unknown.
const FULL_CAPACITY: u32 = 1_024;
/// The assumed capacity of an Intel efficiency core whose capacity is unknown.
const ATOM_CAPACITY: u32 = FULL_CAPACITY / 2;

/// A core that the process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Core {
    /// Its number.
    cpu: usize,
    /// The number of allowed siblings of the same physical core that have smaller numbers.
    sibling: usize,
    /// Its speed, relative to [`FULL_CAPACITY`].
    capacity: u32,
    /// The smallest number of the CPUs that share its last-level cache.
    cache: usize,
}

/// Reads the properties of the `allowed` cores from `devices`, which is normally `/sys/devices`.
pub(super) fn read(devices: &Path, allowed: &[usize]) -> Vec<Core> {
    let atoms = list(&devices.join("cpu_atom/cpus"));
    let core = |&cpu: &usize| {
        let folder = devices.join(format!("system/cpu/cpu{cpu}"));
        let siblings = list(&folder.join("topology/thread_siblings_list"));
        let smaller = |other: &&usize| **other < cpu && allowed.contains(other);
        let default_capacity = if atoms.contains(&cpu) { ATOM_CAPACITY } else { FULL_CAPACITY };
        Core {
            cpu,
            sibling: siblings.iter().filter(smaller).count(),
            capacity: number(&folder.join("cpu_capacity")).unwrap_or(default_capacity),
            cache: last_level_cache(&folder).unwrap_or(0),
        }
    };
    allowed.iter().map(core).collect()
}

/// The numbers of `cores` in the order of their use. Fast cores come first, beginning with those of the cache that has
/// the most fast cores. Then come slow cores, faster ones first, and finally the other hardware threads of the same
/// physical cores. A core is slow if it has less than 80 % of the largest capacity, which is the margin that the Linux
/// scheduler uses.
pub(super) fn order(mut cores: Vec<Core>) -> Vec<usize> {
    let largest = largest_capacity(&cores);
    let is_fast = |core: &Core| core.is_fast(largest);
    let mut fast_cores: HashMap<usize, usize> = HashMap::new();
    for core in cores.iter().filter(|core| core.sibling == 0 && is_fast(core)) {
        *fast_cores.entry(core.cache).or_default() += 1;
    }
    cores.sort_by_key(|core| {
        let missing_capacity = if is_fast(core) { 0 } else { largest - core.capacity };
        let neighbours = fast_cores.get(&core.cache).copied().unwrap_or(0);
        (core.sibling, missing_capacity, Reverse(neighbours), core.cache, core.cpu)
    });
    cores.into_iter().map(|core| core.cpu).collect()
}

/// The numbers of the slow ones of `cores`. Empty if all are fast.
pub(super) fn slow(cores: &[Core]) -> Vec<usize> {
    let largest = largest_capacity(cores);
    let slow = cores.iter().filter(|core| !core.is_fast(largest));
    slow.map(|core| core.cpu).collect()
}

fn largest_capacity(cores: &[Core]) -> u32 {
    cores.iter().map(|core| core.capacity).max().unwrap_or(FULL_CAPACITY)
}

impl Core {
    fn is_fast(&self, largest: u32) -> bool {
        u64::from(self.capacity) * 5 >= u64::from(largest) * 4
    }
}

/// The smallest number of the CPUs that share the cache of the highest level of the CPU with this folder.
fn last_level_cache(folder: &Path) -> Option<usize> {
    let caches = std::fs::read_dir(folder.join("cache")).ok()?;
    let indices = caches.flatten().map(|entry| entry.path());
    let levels = indices.filter_map(|index| Some((number(&index.join("level"))?, index)));
    let (_, last) = levels.max_by_key(|(level, _)| *level)?;
    list(&last.join("shared_cpu_list")).into_iter().min()
}

fn number(file: &Path) -> Option<u32> {
    read_to_string(file).ok()?.trim().parse().ok()
}

/// The numbers in a list of the kernel such as `0-3,8`; empty if the file is missing or has another format.
fn list(file: &Path) -> Vec<usize> {
    let Ok(text) = read_to_string(file) else { return Vec::new() };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    let ranges: Option<Vec<_>> = text.trim().split(',').map(range).collect();
    ranges.unwrap_or_default().into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use tempfile::TempDir;

    use super::*;

    /// A `/sys/devices` in a folder.
    struct Sysfs(TempDir);

    impl Sysfs {
        fn new() -> Self {
            Self(TempDir::new().unwrap())
        }

        fn file(&self, path: &str, content: &str) {
            let path = self.0.path().join(path);
            create_dir_all(path.parent().unwrap()).unwrap();
            write(path, format!("{content}\n")).unwrap();
        }

        /// A CPU with its own first-level cache.
        fn cpu(&self, cpu: usize, siblings: &str, last_level: &str) {
            let folder = format!("system/cpu/cpu{cpu}");
            self.file(&format!("{folder}/topology/thread_siblings_list"), siblings);
            let own = cpu.to_string();
            for (index, level, shared) in [(0, "1", &*own), (3, "3", last_level)] {
                self.file(&format!("{folder}/cache/index{index}/level"), level);
                self.file(&format!("{folder}/cache/index{index}/shared_cpu_list"), shared);
            }
        }

        fn capacity(&self, cpu: usize, capacity: &str) {
            self.file(&format!("system/cpu/cpu{cpu}/cpu_capacity"), capacity);
        }

        fn order(&self, allowed: &[usize]) -> Vec<usize> {
            order(read(self.0.path(), allowed))
        }

        fn slow(&self, allowed: &[usize]) -> Vec<usize> {
            slow(&read(self.0.path(), allowed))
        }
    }

    #[test]
    fn physical_cores_come_before_their_further_threads() {
        let sysfs = Sysfs::new();
        for cpu in 0..8 {
            sysfs.cpu(cpu, &format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1), "0-7");
        }
        assert_eq!(sysfs.order(&[0, 1, 2, 3, 4, 5, 6, 7]), [0, 2, 4, 6, 1, 3, 5, 7]);
        assert_eq!(sysfs.slow(&[0, 1, 2, 3, 4, 5, 6, 7]), [0; 0]);
        assert_eq!(sysfs.order(&[1, 2, 3, 5]), [1, 2, 5, 3], "only allowed siblings count");
    }

    #[test]
    fn cores_that_share_a_cache_are_adjacent() {
        let sysfs = Sysfs::new();
        for cpu in 0..8 {
            // Interleaved, as the nodes of some machines are.
            let cache = if cpu % 2 == 0 { "0,2,4,6" } else { "1,3,5,7" };
            sysfs.cpu(cpu, &cpu.to_string(), cache);
        }
        assert_eq!(sysfs.order(&[0, 1, 2, 3, 4, 5, 6, 7]), [0, 2, 4, 6, 1, 3, 5, 7]);
        assert_eq!(sysfs.order(&[0, 1, 3, 4, 5]), [1, 3, 5, 0, 4], "the cache with the most cores");
    }

    #[test]
    fn slow_cores_come_after_fast_ones_and_before_further_threads() {
        let sysfs = Sysfs::new();
        for cpu in 0..4 {
            sysfs.cpu(cpu, &format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1), "0-7");
        }
        for cpu in 4..8 {
            sysfs.cpu(cpu, &cpu.to_string(), "0-7");
        }
        sysfs.file("cpu_core/cpus", "0-3");
        sysfs.file("cpu_atom/cpus", "4-7");
        assert_eq!(sysfs.order(&[0, 1, 2, 3, 4, 5, 6, 7]), [0, 2, 4, 5, 6, 7, 1, 3]);
        assert_eq!(sysfs.slow(&[0, 1, 2, 3, 4, 5, 6, 7]), [4, 5, 6, 7]);
        assert_eq!(sysfs.slow(&[4, 5]), [0; 0], "the process may use no fast one");
    }

    #[test]
    fn the_capacity_of_arm_orders_three_kinds_of_cores() {
        let sysfs = Sysfs::new();
        for (cpu, capacity) in ["250", "250", "620", "620", "1000", "1024"].iter().enumerate() {
            sysfs.cpu(cpu, &cpu.to_string(), "0-5");
            sysfs.capacity(cpu, capacity);
        }
        assert_eq!(sysfs.order(&[0, 1, 2, 3, 4, 5]), [4, 5, 2, 3, 0, 1]);
        assert_eq!(sysfs.slow(&[0, 1, 2, 3, 4, 5]), [0, 1, 2, 3]);
    }

    #[test]
    fn without_sysfs_cores_are_used_in_ascending_order() {
        assert_eq!(Sysfs::new().order(&[2, 3, 5, 9]), [2, 3, 5, 9]);
        assert_eq!(Sysfs::new().slow(&[2, 3, 5, 9]), [0; 0]);
    }

    #[test]
    fn unreadable_values_count_as_missing() {
        let sysfs = Sysfs::new();
        for cpu in 0..3 {
            sysfs.cpu(cpu, "1-", "x");
            sysfs.capacity(cpu, "fast");
        }
        assert_eq!(sysfs.order(&[0, 1, 2]), [0, 1, 2]);
    }
}
