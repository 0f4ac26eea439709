//! The size of the second-level cache, from which the runtime derives the maximum cohort size
//! ([`Graph::cache_bytes`](crate::Graph::cache_bytes)).
//!
//! The third-level cache is not used, because a virtual machine shares it with other machines.

use std::fs;
use std::path::Path;

/// Description of the first core's caches on Linux; the other cores of a server usually have the same.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// Bytes of second-level cache per core, divided if cores share it; zero if unknown.
pub(crate) fn second_level_cache() -> usize {
    level_in(Path::new(CACHES), "2", true).unwrap_or(0)
}

/// Bytes of the cache of a level; zero if unknown.
pub(super) fn cache_bytes(level: u8) -> usize {
    level_in(Path::new(CACHES), &level.to_string(), false).unwrap_or(0)
}

/// The bytes of a cache level, divided by the number of cores that share it if `divide` is set.
fn level_in(caches: &Path, level: &str, divide: bool) -> Option<usize> {
    let entries = fs::read_dir(caches).ok()?.flatten();
    let read = |cache: &Path, name: &str| {
        fs::read_to_string(cache.join(name)).ok().map(|text| text.trim().to_owned())
    };
    entries.map(|entry| entry.path()).find_map(|cache| {
        let is =
            |name: &str, expected: &str| read(&cache, name).is_some_and(|text| text == expected);
        if !is("level", level) || is("type", "Instruction") {
            return None;
        }
        let sharing = read(&cache, "shared_cpu_list").and_then(|list| cores(&list)).unwrap_or(1);
        let sharing = if divide { sharing.max(1) } else { 1 };
        Some(bytes(&read(&cache, "size")?)? / sharing)
    })
}

/// Parses a size such as `512K` or `2M`, or bytes.
fn bytes(text: &str) -> Option<usize> {
    let (number, unit) = match text.strip_suffix(['K', 'M']) {
        Some(number) if text.ends_with('K') => (number, 1 << 10),
        Some(number) => (number, 1 << 20),
        None => (text, 1),
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

/// Number of cores in a list such as `0-1,4`.
fn cores(list: &str) -> Option<usize> {
    list.split(',').try_fold(0usize, |count, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let span = last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)?;
        count.checked_add(span)?.checked_add(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_lists_are_read() {
        let sizes = ["512K", "2M", "4096", "", "K", "99999999999999999999K"].map(bytes);
        assert_eq!(sizes, [Some(512 << 10), Some(2 << 20), Some(4096), None, None, None]);
        let lists = ["0", "0-1", "0-3,8-11", "1-0", "", "a-b"].map(cores);
        assert_eq!(lists, [Some(1), Some(2), Some(8), None, None, None]);
    }

    #[test]
    fn of_the_second_level_is_taken_the_share_of_a_core() {
        let machine = tempfile::tempdir().unwrap();
        let cache = |name: &str, files: [(&str, &str); 4]| {
            let cache = machine.path().join(name);
            fs::create_dir(&cache).unwrap();
            for (file, text) in files {
                fs::write(cache.join(file), format!("{text}\n")).unwrap();
            }
        };
        let of = |level, kind, size, shared| {
            [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)]
        };
        assert_eq!(level_in(machine.path(), "2", true), None);
        cache("index0", of("1", "Data", "32K", "0-1"));
        cache("index1", of("2", "Instruction", "64K", "0"));
        cache("index3", of("3", "Unified", "32768K", "0-15"));
        assert_eq!(level_in(machine.path(), "2", true), None);
        cache("index2", of("2", "Unified", "1024K", "0-1"));
        assert_eq!(level_in(machine.path(), "2", true), Some(512 << 10));
        assert_eq!(level_in(machine.path(), "3", false), Some(32 << 20));
        assert_eq!(level_in(Path::new("/nonexistent"), "2", true), None);
    }
}
