//! Counters of refusals because of a full disk, a full journal, or a journal that is behind.

use crate::drops::DropReason;
use crate::session::key::ClientKey;
use crate::session::table::Sessions;

impl Sessions {
    /// A client is not let in as its session cannot be kept.
    pub(super) fn refused_session(&self, client: &str) {
        let (disk_full, store_full) = (DropReason::SessionDiskFull, DropReason::SessionStoreFull);
        let reason = self.wal.reason(disk_full, store_full);
        self.counters.drops.add(reason, 1, || format!("of client {client:?}"));
    }

    /// So many subscriptions of a client are refused as they cannot be kept.
    pub(super) fn refused_subscriptions(&mut self, key: ClientKey, count: usize) {
        let (disk_full, store_full) =
            (DropReason::SubscriptionDiskFull, DropReason::SubscriptionStoreFull);
        let (reason, drops) = (self.wal.reason(disk_full, store_full), self.counters.drops.clone());
        let client = self.get(key).map(|session| &*session.client_id);
        drops.add(reason, count, || format!("of client {:?}", client.unwrap_or_default()));
    }
}
