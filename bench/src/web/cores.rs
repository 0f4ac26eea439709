//! Assignment of cores to servers and load.

use std::io;
use std::process::{Child, Command};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores of the servers and of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    pub(crate) server: usize,
    pub(crate) load: usize,
}

impl Cores {
    /// The given cores, by default the first two that this process may use; one core for both if there is only
    /// one.
    ///
    /// # Errors
    /// When this process may not use a given core.
    pub(crate) fn choose(server: Option<usize>, load: Option<usize>) -> io::Result<Self> {
        let cores = allowed()?;
        for core in [server, load].into_iter().flatten() {
            if !cores.contains(&core) {
                let text = format!(
                    "core {core} is not available to this process; available are {cores:?}"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        let server =
            server.unwrap_or_else(|| *cores.iter().find(|c| Some(**c) != load).unwrap_or(&0));
        let other = cores.iter().find(|core| **core != server).copied();
        Ok(Self { server, load: load.or(other).unwrap_or(server) })
    }
}

/// The cores that this process may use.
///
/// # Errors
/// When the kernel does not report them.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// Binds this thread, and the threads and processes it starts, to a core until dropped.
pub(crate) struct Bound(CpuSet);

impl Bound {
    /// Binds this thread to `core`.
    pub(crate) fn to(core: usize) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only)?;
        Ok(Self(before))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// Runs `f` with this thread, and the threads and processes it starts, bound to `core`.
pub(crate) fn bound<R>(core: usize, f: impl FnOnce() -> R) -> io::Result<R> {
    let _bound = Bound::to(core)?;
    Ok(f())
}

/// Starts a process bound to `core`, by inheritance from this thread.
pub(crate) fn spawn(core: usize, command: &mut Command) -> io::Result<Child> {
    let _bound = Bound::to(core)?;
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_bound() {
        let cores = Cores::choose(None, None).unwrap();
        let before = sched_getaffinity(None).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "grep Cpus_allowed_list /proc/self/status"]);
        let child = spawn(cores.load, command.stdout(std::process::Stdio::piped())).unwrap();
        let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(text.split_whitespace().last(), Some(&*cores.load.to_string()));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        assert!(Cores::choose(Some(1023), None).is_err());
        assert_eq!(Cores::choose(Some(cores.load), None).unwrap().server, cores.load);
    }
}
