//! A connection to a server that one request uses.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::blocking::BlockingStage;
use phalanx::time::now;
use phalanx_tls::{Wire, dial};

use crate::upstream::counters::{Failure, UpstreamCounters};
use crate::upstream::group::{Group, Member};
use crate::upstream::local::{Busy, Slot};
use crate::upstream::pools::Pools;

/// Time for which a connection may be unused before a request that must not be sent twice. Servers keep unused
/// connections for several seconds.
const MAX_UNSAFE_IDLE: Duration = Duration::from_secs(1);

/// A connection, and its slot at the server. Dropping it closes the connection.
pub(crate) struct Lease {
    group: Arc<Group>,
    slot: Slot,
    pub(crate) wire: Wire,
    /// Whether an earlier request has used the connection. The server may be closing it.
    pub(crate) is_reused: bool,
}

/// How a request finds a server.
pub(crate) struct Search<'a> {
    pub(crate) pools: &'a Rc<Pools>,
    pub(crate) counters: &'a UpstreamCounters,
    /// Threads that resolve host names.
    pub(crate) resolver: BlockingStage<()>,
    /// The servers that could not be reached, by bits.
    tried: u64,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        pools: &'a Rc<Pools>,
        counters: &'a UpstreamCounters,
        resolver: BlockingStage<()>,
    ) -> Self {
        Self { pools, counters, resolver, tried: 0 }
    }

    /// Obtains a connection: an unused one, unless `is_fresh`. Nothing is sent yet, so each server is tried until one
    /// accepts a connection. A request that must not be sent twice (`is_idempotent` is false) gets only a connection
    /// that has just been used, since the server may be closing it otherwise.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn connect(
        &mut self,
        group: &Arc<Group>,
        is_idempotent: bool,
        is_fresh: bool,
    ) -> Result<Lease, Failure> {
        let local = self.pools.local(group);
        let max_idle = if is_idempotent { group.rule.keep_alive } else { MAX_UNSAFE_IDLE };
        loop {
            let slot = local.take_slot(group, self.tried).await;
            let slot = slot.map_err(|Busy| Failure::Busy)?;
            if !is_fresh && let Some(wire) = local.take_idle(slot.member, max_idle) {
                return Ok(Lease { group: group.clone(), slot, wire, is_reused: true });
            }
            let member = &group.members[slot.member];
            let address = (&*member.upstream.host, member.upstream.port);
            let (begun, limit) = (now(), group.rule.connect_timeout);
            match dial(&self.resolver, address, None, limit).await {
                Ok((wire, _)) => {
                    self.counters.connection();
                    return Ok(Lease { group: group.clone(), slot, wire, is_reused: false });
                }
                Err(_) => {
                    self.failed(member);
                    self.tried |= 1 << (slot.member % 64);
                    let is_last = self.tried.count_ones() as usize >= group.members.len().min(64);
                    if is_last {
                        return Err(match now().saturating_sub(begun) >= limit {
                            true => Failure::ConnectTimeout,
                            false => Failure::Connect,
                        });
                    }
                }
            }
        }
    }

    fn failed(&self, member: &Member) {
        if member.health.failed(now()) {
            self.counters.ejection();
        }
    }

    /// The server of this lease has not responded.
    pub(crate) fn failed_at(&self, lease: &Lease) {
        self.failed(lease.member());
    }
}

impl Lease {
    /// The server.
    pub(crate) fn member(&self) -> &Member {
        &self.group.members[self.slot.member]
    }

    /// Keeps the connection for a later request.
    pub(crate) fn give_back(self, pools: &Rc<Pools>) {
        self.slot.local.keep(self.slot.member, self.wire);
        pools.watch();
    }
}
