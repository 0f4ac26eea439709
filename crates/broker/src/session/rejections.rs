//! Counters of refusals because the disk or the journal is full or behind.

use crate::drops::DropReason;
use crate::model::client_key::ClientKey;
use crate::session::table::Sessions;

impl Sessions {
    /// Counts a rejected client.
    pub(super) fn refused_session(&self, client: &str) {
        let (disk_full, store_full) = (DropReason::SessionDiskFull, DropReason::SessionStoreFull);
        let reason = self.wal.reason(disk_full, store_full);
        self.counters.drops.add(reason, 1, || format!("of client {client:?}"));
    }

    /// Counts rejected subscriptions of a client.
    pub(super) fn refused_subscriptions(&mut self, key: ClientKey, count: usize) {
        let (disk_full, store_full) =
            (DropReason::SubscriptionDiskFull, DropReason::SubscriptionStoreFull);
        let (reason, drops) = (self.wal.reason(disk_full, store_full), self.counters.drops.clone());
        let client = self.get(key).map(|session| &*session.client_id);
        drops.add(reason, count, || format!("of client {:?}", client.unwrap_or_default()));
    }
}
