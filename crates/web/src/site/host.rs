//! One host, compiled: its root, and all that is decided for its requests.

use phalanx::fs::Dir;

use crate::config::HostConfig;

/// Tells the files of one host from those of another in the cache. A host whose rules change by a
/// reload gets another, since what is cached may depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostId(pub(crate) u32);

/// A host as requests meet it.
pub(crate) struct Host {
    pub(crate) id: HostId,
    /// Beneath it all of the host's files are opened.
    pub(crate) root: Dir,
    /// As it was asked for.
    pub(crate) config: HostConfig,
}

impl Host {
    pub(crate) fn new(id: HostId, config: HostConfig, root: Dir) -> Self {
        Self { id, root, config }
    }
}
