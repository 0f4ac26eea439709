//! Resource limits of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files (`RLIMIT_NOFILE`) to the hard limit, because servers with many connections need
/// more than the 1,024 that a shell usually grants. Child processes inherit the limit. Returns the new soft limit;
/// `None` if it is unlimited.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let all = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // On failure the old limit remains, and is returned below.
        let _ = setrlimit(Resource::Nofile, all);
    }
    getrlimit(Resource::Nofile).current
}
