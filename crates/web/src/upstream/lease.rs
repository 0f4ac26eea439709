//! A connection to a server that one request uses.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::{IoTimeout, Resolver};
use phalanx::runtime::report;
use phalanx::time::now;
use phalanx_tls::{Wire, dial};

use crate::upstream::counters::{Failure, UpstreamCounters};
use crate::upstream::group::{Group, Member};
use crate::upstream::health::is_exhausted;
use crate::upstream::local::{Busy, Slot};
use crate::upstream::pools::Pools;
use crate::upstream::tried::Tried;

/// Longest time for which a connection may have been unused if the request must not be sent twice. Servers keep unused
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
    pub(crate) resolver: Resolver,
    /// The servers that this request could not reach.
    tried: Tried,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        pools: &'a Rc<Pools>,
        counters: &'a UpstreamCounters,
        resolver: Resolver,
    ) -> Self {
        Self { pools, counters, resolver, tried: Tried::default() }
    }

    /// Obtains a connection: an unused one if possible, unless `is_fresh`. Nothing is sent yet, so the servers are
    /// tried until one accepts a connection. A request that cannot be sent twice (`may_repeat` is false) gets only a
    /// connection that has just been used, because the server may be closing an older one. The time limit applies to
    /// all waits for a slot together, and to all attempts to connect together: each attempt gets an equal part of the
    /// rest.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) async fn connect(
        &mut self,
        group: &Arc<Group>,
        may_repeat: bool,
        is_fresh: bool,
    ) -> Result<Lease, Failure> {
        let local = self.pools.local(group);
        let max_idle = if may_repeat { group.rule.keep_alive } else { MAX_UNSAFE_IDLE };
        let (mut to_wait, mut to_dial) = (group.rule.connect_timeout, group.rule.connect_timeout);
        loop {
            let begun = now();
            let slot = local.take_slot(group, self.tried, to_wait).await;
            let slot = slot.map_err(|Busy| Failure::Busy)?;
            to_wait = to_wait.saturating_sub(now().saturating_sub(begun));
            if !is_fresh && let Some(wire) = local.take_idle(slot.member, max_idle) {
                return Ok(Lease { group: group.clone(), slot, wire, is_reused: true });
            }
            let member = &group.members[slot.member];
            let address = (&*member.upstream.host, member.upstream.port);
            let left = self.tried.left(group.members.len()).max(1);
            let (begun, limit) = (now(), to_dial / u32::try_from(left).unwrap_or(u32::MAX));
            // Requests that have arrived are completed during a shutdown.
            let (connector, timeout) = (member.connector.as_ref(), IoTimeout::after(limit));
            match dial(&self.resolver, address, connector, timeout).await {
                Ok((wire, _)) => {
                    self.counters.connection();
                    return Ok(Lease { group: group.clone(), slot, wire, is_reused: false });
                }
                Err(error) => {
                    let is_exhausted = is_exhausted(&error);
                    if !is_exhausted {
                        self.failed(member, &error.to_string());
                    }
                    self.tried.add(slot.member);
                    let elapsed = now().saturating_sub(begun);
                    to_dial = to_dial.saturating_sub(elapsed);
                    if self.tried.left(group.members.len()) == 0 {
                        return Err(match elapsed >= limit {
                            true => Failure::ConnectTimeout,
                            false if is_exhausted => Failure::Exhausted,
                            false => Failure::Connect,
                        });
                    }
                }
            }
        }
    }

    fn failed(&self, member: &Member, why: &str) {
        self.report(member, member.health.failed(now()), why);
    }

    fn report(&self, member: &Member, is_ejected: bool, why: &str) {
        if is_ejected {
            self.counters.ejection();
            let server = &member.upstream;
            report(format_args!(
                "{server} has failed repeatedly and gets no requests for a while: {why}"
            ));
        }
    }

    /// Records that the server of this lease has not responded, or not completely.
    pub(crate) fn failed_at(&self, lease: &Lease, failure: Failure) {
        let member = lease.member();
        match failure {
            Failure::Truncated => {
                self.report(member, member.health.truncated(now()), failure.text());
            }
            _ => self.failed(member, failure.text()),
        }
    }
}

impl Lease {
    /// The server.
    pub(crate) fn member(&self) -> &Member {
        &self.group.members[self.slot.member]
    }

    /// Continues as a tunnel. Unless there are too many tunnels, another request gets the slot.
    pub(crate) fn begin_tunnel(&mut self) {
        self.slot.begin_tunnel(&self.group);
    }

    /// Keeps the connection for a later request.
    pub(crate) fn give_back(self, pools: &Rc<Pools>) {
        self.slot.local.keep(self.slot.member, self.wire);
        pools.watch();
    }
}
