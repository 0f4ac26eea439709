//! The files and encodings that a partition of the cache is loading, and the operations that wait for them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use phalanx::stage::Partition;
use phalanx::sync::oneshot;

use crate::files::cache::FileCache;
use crate::files::found::LoadResult;
use crate::site::HostId;

/// Loads in progress, by the keys of their paths.
#[derive(Default)]
pub(crate) struct Loads(HashMap<u64, Load>);

struct Load {
    host: HostId,
    path: Box<[u8]>,
    waiting: Vec<oneshot::LocalSender<LoadResult>>,
    /// Number of senders in `waiting` whose operations have stopped waiting.
    cancelled_count: usize,
    /// Signals that no operation waits any more.
    unwanted: Option<oneshot::LocalSender<()>>,
}

impl Loads {
    /// Starts loading `path`. Returns false if a path with this key is already being loaded.
    pub(crate) fn begin(&mut self, key: u64, host: HostId, path: &[u8]) -> bool {
        let Entry::Vacant(vacant) = self.0.entry(key) else { return false };
        let (path, waiting) = (path.into(), Vec::new());
        vacant.insert(Load { host, path, waiting, cancelled_count: 0, unwanted: None });
        true
    }

    /// Waits for `path` to be loaded. Returns false if the load in progress is for another path.
    pub(crate) fn wait_for(
        &mut self,
        key: u64,
        host: HostId,
        path: &[u8],
        sender: oneshot::LocalSender<LoadResult>,
    ) -> bool {
        match self.0.get_mut(&key) {
            Some(load) if (load.host, &*load.path) == (host, path) => {
                load.waiting.push(sender);
                true
            }
            _ => false,
        }
    }

    /// An event that occurs when the last operation stops waiting for a load. If none waits, it has already occurred.
    pub(crate) fn unwanted(&mut self, key: u64) -> oneshot::LocalReceiver<()> {
        let (sender, unwanted) = oneshot::local();
        if let Some(load) =
            self.0.get_mut(&key).filter(|load| load.cancelled_count < load.waiting.len())
        {
            load.unwanted = Some(sender);
        }
        unwanted
    }

    /// Returns the sender to drop if the operation was the last one that waited.
    fn cancel_wait(&mut self, key: u64) -> Option<oneshot::LocalSender<()>> {
        let load = self.0.get_mut(&key)?;
        load.cancelled_count += 1;
        load.unwanted.take_if(|_| load.cancelled_count == load.waiting.len())
    }

    /// Ends a load, whether it succeeded or not. Returns the operations that wait for it.
    pub(crate) fn end(&mut self, key: u64) -> Vec<oneshot::LocalSender<LoadResult>> {
        self.0.remove(&key).map(|load| load.waiting).unwrap_or_default()
    }
}

/// Guard of a load in progress. Dropping it ends the load, even if the operation is terminated; waiting operations then
/// retry.
pub(crate) struct LoadGuard<'a> {
    pub(crate) cache: &'a Partition<FileCache>,
    pub(crate) key: u64,
}

impl LoadGuard<'_> {
    pub(crate) fn end(self, result: &LoadResult) {
        for sender in self.cache.with(|cache| cache.loads.end(self.key)) {
            sender.send(result.clone());
        }
    }
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        drop(self.cache.with(|cache| cache.loads.end(self.key)));
    }
}

/// An operation that waits for a load. Dropping it stops waiting.
pub(crate) struct LoadWaiter<'a> {
    pub(crate) cache: &'a Partition<FileCache>,
    pub(crate) key: u64,
    pub(crate) receiver: oneshot::LocalReceiver<LoadResult>,
    pub(crate) is_done: bool,
}

impl LoadWaiter<'_> {
    /// Waits for the result; `None` if the operation that loaded was terminated.
    pub(crate) async fn result(mut self) -> Option<LoadResult> {
        let result = (&mut self.receiver).await;
        self.is_done = true;
        result
    }
}

impl Drop for LoadWaiter<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            drop(self.cache.with(|cache| cache.loads.cancel_wait(self.key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_for_one_path() {
        let mut loads = Loads::default();
        assert!(loads.begin(9, HostId(0), b"a") && !loads.begin(9, HostId(0), b"b"));
        let mut waits = |host, path| loads.wait_for(9, HostId(host), path, oneshot::local().0);
        assert!(!waits(0, b"b"), "another path of the same key");
        assert!(waits(0, b"a"));
        assert!(!waits(1, b"a"), "another host's");
        assert_eq!(loads.end(9).len(), 1);
    }
}
