//! Assignment of cores to servers and load.

use std::io;
use std::process::{Child, Command};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores of the servers and of the load; the same for both where there are too few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    pub(crate) server: Vec<usize>,
    pub(crate) load: Vec<usize>,
}

impl Cores {
    /// The given cores. By default `processors` cores for the servers and the others for the load, or all for both
    /// if no core would be left. By default `processors` is [`default_processors`].
    pub(crate) fn choose(
        server: &[usize],
        load: &[usize],
        processors: Option<usize>,
    ) -> io::Result<Self> {
        let cores = allowed()?;
        for core in server.iter().chain(load) {
            if !cores.contains(core) {
                let text = format!(
                    "core {core} is not available to this process; available are {cores:?}"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        let processors = processors.unwrap_or_else(|| default_processors(cores.len()));
        let without = |taken: &[usize]| -> Vec<usize> {
            cores.iter().copied().filter(|core| !taken.contains(core)).collect()
        };
        let or_all = |found: Vec<usize>| if found.is_empty() { cores.clone() } else { found };
        let server = match server {
            [] if processors < cores.len() => {
                or_all(without(load).into_iter().take(processors).collect())
            }
            [] => cores.clone(),
            given => given.to_vec(),
        };
        let load = match load {
            [] => or_all(without(&server)),
            given => given.to_vec(),
        };
        Ok(Self { server, load })
    }

    /// Whether servers and load compete for a core.
    pub(crate) fn are_shared(&self) -> bool {
        self.server.iter().any(|core| self.load.contains(core))
    }
}

/// Number of processors of a server on a machine with this many cores: all of them, or three quarters where the
/// rest is enough for the load.
fn default_processors(cores: usize) -> usize {
    (cores - cores / 4).max(1)
}

/// The core of a measurement with one thread: the first usable one.
pub(crate) fn first() -> io::Result<[usize; 1]> {
    allowed().map(|cores| [cores.first().copied().unwrap_or(0)])
}

/// The cores that this process may use.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// Binds this thread, and the threads and processes it starts, to cores until dropped.
pub(crate) struct Bound(CpuSet);

impl Bound {
    /// Binds this thread to `cores`.
    pub(crate) fn to(cores: &[usize]) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut only = CpuSet::new();
        cores.iter().for_each(|core| only.set(*core));
        sched_setaffinity(None, &only)?;
        Ok(Self(before))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// Runs `f` with this thread, and the threads and processes it starts, bound to `cores`.
pub(crate) fn bound<R>(cores: &[usize], f: impl FnOnce() -> R) -> io::Result<R> {
    let _bound = Bound::to(cores)?;
    Ok(f())
}

/// Starts a process bound to `cores`, by inheritance from this thread.
pub(crate) fn spawn(cores: &[usize], command: &mut Command) -> io::Result<Child> {
    let _bound = Bound::to(cores)?;
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_bound() {
        let core = first().unwrap();
        let before = sched_getaffinity(None).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "grep Cpus_allowed_list /proc/self/status"]);
        let child = spawn(&core, command.stdout(std::process::Stdio::piped())).unwrap();
        let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(text.split_whitespace().last(), Some(&*core[0].to_string()));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn the_load_has_its_own_cores_if_any_are_left() {
        let all = allowed().unwrap();
        let one = Cores::choose(&[], &[], Some(1)).unwrap();
        assert_eq!(one.server, [all[0]]);
        assert_eq!(one.are_shared(), all.len() == 1);
        let more = Cores::choose(&[], &[], Some(all.len())).unwrap();
        assert_eq!((&more.server, &more.load), (&all, &all));
        assert!(Cores::choose(&[1023], &[], None).is_err());
        let last = *all.last().unwrap();
        let given = Cores::choose(&[last], &[], None).unwrap();
        assert_eq!(given.server, [last]);
    }

    #[test]
    fn a_quarter_is_left_to_the_load() {
        assert_eq!([1, 2, 3, 4, 16].map(default_processors), [1, 2, 3, 3, 12]);
    }
}
