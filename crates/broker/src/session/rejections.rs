//! Counters of refusals because the disk or the journal is full or behind.

use crate::events::drops::{DropReason, Dropped};
use crate::model::client_key::ClientKey;
use crate::model::session::Session;
use crate::session::table::Sessions;

impl Sessions {
    /// Counts a rejected client.
    pub(super) fn refused_session(&self, client: &str, user: Option<&str>) {
        let (disk_full, store_full) = (DropReason::SessionDiskFull, DropReason::SessionStoreFull);
        let reason = self.wal.reason(disk_full, store_full);
        let what = || Dropped { client: Some(client), user, ..Dropped::default() };
        self.counters.drops.add(reason, 1, what);
    }

    /// Counts rejected subscriptions of a client.
    pub(super) fn refused_subscriptions(&mut self, key: ClientKey, count: usize) {
        let (disk_full, store_full) =
            (DropReason::SubscriptionDiskFull, DropReason::SubscriptionStoreFull);
        let (reason, drops) = (self.wal.reason(disk_full, store_full), self.counters.drops.clone());
        let session = self.get(key).map(|session| &*session);
        drops.add(reason, count, || session.map(Session::as_receiver).unwrap_or_default());
    }
}
