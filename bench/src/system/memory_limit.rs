//! Limits on the memory of processes, with the page cache that they fill: control groups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A control group with a limit. It is removed when it is dropped, if its processes have ended.
pub(crate) struct MemoryLimit {
    directory: PathBuf,
}

impl MemoryLimit {
    /// A group beneath that of this process, with a limit in bytes.
    pub(crate) fn new(name: &str, bytes: u64) -> io::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let (root, file) = match is_unified() {
            true => ("/sys/fs/cgroup", "memory.max"),
            false => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        };
        let path = own_group(&own, is_unified()).ok_or(io::ErrorKind::NotFound)?;
        let name = format!("phalanx-bench-{}-{name}", std::process::id());
        let directory = Path::new(root).join(path.trim_start_matches('/')).join(name);
        fs::create_dir(&directory)?;
        let limit = Self { directory };
        fs::write(limit.directory.join(file), bytes.to_string())?;
        Ok(limit)
    }

    /// Moves a process into the group. Pages that it fills from now on count.
    pub(crate) fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.procs"), process.to_string())
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Whether the memory controller belongs to the unified hierarchy (version 2).
fn is_unified() -> bool {
    !Path::new("/sys/fs/cgroup/memory").is_dir()
}

/// The group of a process in the hierarchy of the memory controller, from `/proc/PID/cgroup`.
fn own_group(text: &str, unified: bool) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let mine = match unified {
            true => controllers.is_empty(),
            false => controllers.split(',').any(|each| each == "memory"),
        };
        mine.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_the_memory_controller() {
        let old = "12:cpu,cpuacct:/a\n3:memory:/b/c\n0::/d\n";
        assert_eq!(own_group(old, false), Some("/b/c"));
        assert_eq!(own_group("0::/user.slice\n", true), Some("/user.slice"));
        assert_eq!(own_group("0::/user.slice\n", false), None);
    }
}
