//! A connection to a server that one request uses.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::{IoTimeout, Resolver};
use phalanx::time::{now, timeout};
use phalanx_tls::{Wire, dial};

use crate::upstream::counters::{Failure, UpstreamCounters};
use crate::upstream::group::{Group, Member};
use crate::upstream::health::is_exhausted;
use crate::upstream::local::{Busy, Slot};
use crate::upstream::multiplexed::{Claim, Dial};
use crate::upstream::pools::Pools;
use crate::upstream::tried::Tried;

/// Longest time for which a connection may have been unused if the request must not be sent twice. Servers keep unused
/// connections for several seconds.
const MAX_UNSAFE_IDLE: Duration = Duration::from_secs(1);

/// Connections with HTTP/2 that a request tries to use, because others have taken their places or the server has
/// announced that it closes them.
const MAX_DIALS: usize = 8;

/// A connection, and its slot at the server. Dropping it closes the connection.
pub(crate) struct Lease {
    group: Arc<Group>,
    slot: Slot,
    pub(crate) line: Line,
    /// Whether an earlier request has used the connection. The server may be closing it.
    pub(crate) is_reused: bool,
}

/// The connection of a request.
pub(crate) enum Line {
    /// With HTTP/1.1, for this request alone.
    Wire(Wire),
    /// With HTTP/2, shared with other requests.
    Multiplexed(Claim),
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
            let member = &group.members[slot.member];
            let is_http2 = member.upstream.is_http2;
            if !is_fresh
                && !is_http2
                && let Some(wire) = local.take_idle(slot.member, max_idle)
            {
                let line = Line::Wire(wire);
                return Ok(Lease { group: group.clone(), slot, line, is_reused: true });
            }
            let left = self.tried.left(group.members.len()).max(1);
            let (begun, limit) = (now(), to_dial / u32::try_from(left).unwrap_or(u32::MAX));
            let found = match is_http2 {
                true => self.multiplexed((group, &slot), is_fresh, limit).await,
                false => self.wire(member, limit).await,
            };
            match found {
                Ok(line) => {
                    let is_reused = matches!(&line, Line::Multiplexed(claim) if claim.is_reused);
                    return Ok(Lease { group: group.clone(), slot, line, is_reused });
                }
                Err(error) => {
                    self.tried.add(slot.member);
                    let elapsed = now().saturating_sub(begun);
                    to_dial = to_dial.saturating_sub(elapsed);
                    if self.tried.left(group.members.len()) == 0 {
                        let is_late = elapsed >= limit || error.kind() == io::ErrorKind::TimedOut;
                        return Err(match is_late {
                            true => Failure::ConnectTimeout,
                            false if is_exhausted(&error) => Failure::Exhausted,
                            false => Failure::Connect,
                        });
                    }
                }
            }
        }
    }

    /// Opens a connection with HTTP/1.1.
    async fn wire(&self, member: &Member, limit: Duration) -> Result<Line, Rc<io::Error>> {
        let address = (&*member.upstream.host, member.upstream.port);
        // Requests that have arrived are completed during a shutdown.
        let (connector, timeout) = (member.connector.as_ref(), IoTimeout::after(limit));
        match dial(&self.resolver, address, connector, timeout).await {
            Ok((wire, _)) => {
                self.counters.connection();
                Ok(Line::Wire(wire))
            }
            Err(error) => {
                if !is_exhausted(&error) {
                    self.failed(member, &error.to_string());
                }
                Err(Rc::new(error))
            }
        }
    }

    /// Finds or opens a connection with HTTP/2 that accepts another request. Its operation records failures.
    async fn multiplexed(
        &self,
        (group, slot): (&Arc<Group>, &Slot),
        is_fresh: bool,
        limit: Duration,
    ) -> Result<Line, Rc<io::Error>> {
        let (begun, member) = (now(), slot.member);
        for _ in 0..MAX_DIALS {
            let left = limit.saturating_sub(now().saturating_sub(begun));
            let connections = slot.local.connections(member);
            let connection = match connections.find(is_fresh) {
                Some(connection) => connection,
                None => {
                    let (stage, resolver, counters) =
                        (self.pools.stage(), self.resolver, self.counters);
                    let dial = Dial { stage, group, member, resolver, counters, limit: left };
                    let connection = connections.dial(dial)?;
                    self.pools.watch();
                    connection
                }
            };
            let claim = Claim::new(connection, &slot.local, member);
            match timeout(left, claim.connection().opened()).await {
                Ok(Ok(streams)) => {
                    connections.accepts(streams);
                    return Ok(Line::Multiplexed(claim));
                }
                Ok(Err(None)) => (),
                Ok(Err(Some(error))) => return Err(error),
                Err(_) => return Err(Rc::new(io::ErrorKind::TimedOut.into())),
            }
        }
        let error = io::Error::other("its new connections accept no requests");
        self.failed(&group.members[member], &error.to_string());
        Err(Rc::new(error))
    }

    fn failed(&self, member: &Member, reason: &str) {
        self.counters.failed(&member.upstream, member.health.failed(now()), reason);
    }

    /// Records that the server of this lease has not responded, or not completely.
    pub(crate) fn failed_at(&self, lease: &Lease, failure: Failure) {
        let member = lease.member();
        match failure {
            Failure::Truncated => {
                let is_ejected = member.health.truncated(now());
                self.counters.failed(&member.upstream, is_ejected, failure.text());
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

    /// Keeps the connection for a later request. One with HTTP/2 is kept anyway.
    pub(crate) fn give_back(self, pools: &Rc<Pools>) {
        if let Line::Wire(wire) = self.line {
            self.slot.local.keep(self.slot.member, wire);
            pools.watch();
        }
    }
}
