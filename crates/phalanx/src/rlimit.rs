//! How much of the system this process may use.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit on open files as far as this user may: a server of many connections wants more
/// than the 1,024 that a shell gives. Children inherit it. Returns the limit, if there is one.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let all = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // Refused, the old limit holds, and that is what is returned.
        let _ = setrlimit(Resource::Nofile, all);
    }
    getrlimit(Resource::Nofile).current
}
