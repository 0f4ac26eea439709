//! One processor's share of a group: its slots, its unused connections and its waiting requests.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use phalanx::time::{now, timeout};
use phalanx_tls::Wire;

use crate::upstream::group::Group;
use crate::upstream::multiplexed::Connections;
use crate::upstream::queue::Queue;
use crate::upstream::shared_limit::SharedLimit;
use crate::upstream::slots::Slots;
use crate::upstream::tried::Tried;

/// A processor's share of a group.
pub(crate) struct Local {
    /// Weak, so that a group that a reload has removed is freed.
    group: Weak<Group>,
    members: Vec<Slots>,
    queue: Queue,
    /// Requests that wait, including those that were given a slot and have not resumed yet.
    waiting: Cell<usize>,
    /// Where the next search for a server begins, so that equally loaded servers take turns.
    turn: Cell<usize>,
}

/// No server has a free slot, and the request may not wait, or not longer.
pub(crate) struct Busy;

impl Local {
    pub(super) fn new(group: &Arc<Group>) -> Self {
        let members = group.members.iter().map(|_| Slots::default()).collect();
        Self {
            group: Arc::downgrade(group),
            members,
            queue: Queue::default(),
            waiting: Cell::default(),
            turn: Cell::default(),
        }
    }

    /// Whether this is the share of `group`.
    pub(super) fn is_of(&self, group: &Arc<Group>) -> bool {
        std::ptr::eq(self.group.as_ptr(), Arc::as_ptr(group))
    }

    /// Takes a slot of the server with the fewest requests, of those that are not in `tried`. Waits for at most `limit`
    /// if they are full.
    ///
    /// # Errors
    /// If too many wait, or for too long.
    pub(super) async fn take_slot(
        self: &Rc<Self>,
        group: &Group,
        tried: Tried,
        limit: Duration,
    ) -> Result<Slot, Busy> {
        // A server may have recovered; requests that already wait come first.
        self.serve_waiting(group);
        if let Some(member) = self.occupy(group, tried) {
            return Ok(Slot::new(self, member));
        }
        let _place = Place::take(self, group).ok_or(Busy)?;
        let recover = || self.serve_waiting(group);
        let waiting = self.queue.wait(tried, recover, |member| self.release(member));
        match timeout(limit, waiting).await {
            Ok(member) => Ok(Slot::new(self, member)),
            Err(_) => Err(Busy),
        }
    }

    /// The server for the next request; `None` if all candidates are full. If no server is healthy, all are candidates,
    /// because a failed request is no worse than one that is not sent.
    fn choose(&self, group: &Group, tried: Tried) -> Option<usize> {
        let (count, begin, now) = (self.members.len(), self.turn.get(), now());
        let is_good = |member: usize| group.members[member].health.is_good(now);
        let any_good = (0..count).any(|member| !tried.has(member) && is_good(member));
        let in_use = |member: usize| self.members[member].in_use.get();
        (0..count)
            .map(|n| (begin + n) % count)
            .filter(|member| !tried.has(*member) && (is_good(*member) || !any_good))
            .filter(|member| group.members[*member].in_use.has_room(in_use(*member)))
            .min_by_key(|member| in_use(*member))
    }

    /// Takes a slot of the server for the next request.
    fn occupy(&self, group: &Group, tried: Tried) -> Option<usize> {
        loop {
            let member = self.choose(group, tried)?;
            let slots = &self.members[member];
            // Another worker may have taken the last slot in the meantime.
            if take(&group.members[member].in_use, &slots.in_use) {
                slots.note_peak();
                self.turn.set(member + 1);
                group.members[member].health.chosen(now());
                return Some(member);
            }
        }
    }

    /// Frees a slot.
    fn release(&self, member: usize) {
        let group = self.group.upgrade();
        let limit = group.as_ref().map(|group| &group.members[member].in_use);
        give_back(limit, &self.members[member].in_use);
        // A request that waits keeps the group.
        if let Some(group) = group {
            self.serve_waiting(&group);
        }
    }

    /// Frees the place of a tunnel.
    fn release_tunnel(&self, member: usize) {
        let group = self.group.upgrade();
        let limit = group.as_ref().map(|group| &group.members[member].tunnels);
        give_back(limit, &self.members[member].tunnels);
    }

    /// Gives the free slots to the requests that wait, in order, as if they had just arrived.
    fn serve_waiting(&self, group: &Group) {
        let has_room = || {
            let mut all = self.members.iter().zip(&group.members);
            all.any(|(slots, member)| member.in_use.has_room(slots.in_use.get()))
        };
        while has_room() && self.queue.grant(|tried| self.occupy(group, tried)) {}
    }

    /// Takes the connection that was used last, if any is unused for less than `limit`. Closes connections on which
    /// something has arrived: the server has closed them, or has sent bytes that would be taken for the response to the
    /// next request.
    pub(super) fn take_idle(&self, member: usize, limit: Duration) -> Option<Wire> {
        let mut idle = self.members[member].idle.borrow_mut();
        // All below the last one are older.
        let next = || idle.pop_if(|(_, since)| now().saturating_sub(*since) < limit);
        std::iter::from_fn(next).map(|(wire, _)| wire).find(Wire::is_idle)
    }

    /// Keeps the connection of a request that ends for a later one.
    pub(super) fn keep(&self, member: usize, wire: Wire) {
        let Some(group) = self.group.upgrade() else { return };
        let slots = &self.members[member];
        slots.idle.borrow_mut().push((wire, now()));
        // The slot of the request is still in use.
        slots.close_surplus(slots.in_use.get() - 1, &group, member);
    }

    /// The connections with HTTP/2 to a server.
    pub(super) fn connections(&self, member: usize) -> &Connections {
        &self.members[member].connections
    }

    /// Closes an unused connection with HTTP/2 if there are more than the rule permits.
    pub(super) fn trim(&self, member: usize) {
        let limit = self.group.upgrade().map_or(0, |group| group.rule.max_idle);
        self.connections(member).trim(limit);
    }

    /// Closes connections that are unused for too long or no longer needed, at time [`Duration::MAX`] all unused ones;
    /// those in use get no further requests then. Returns whether any is left. Each call begins an interval of the peaks.
    pub(super) fn expire(&self, now: Duration) -> bool {
        let group = self.group.upgrade();
        let limit = group.as_ref().map_or(Duration::ZERO, |group| group.rule.keep_alive);
        let mut any = false;
        for (member, slots) in self.members.iter().enumerate() {
            slots.idle.borrow_mut().retain(|(_, since)| now.saturating_sub(*since) < limit);
            slots.begin_interval();
            if let Some(group) = &group {
                slots.close_surplus(slots.in_use.get(), group, member);
            }
            any |= !slots.idle.borrow().is_empty();
            any |= slots.connections.expire(now, limit);
        }
        any
    }

    /// Whether the group is gone and no request uses its connections.
    pub(super) fn is_over(&self) -> bool {
        self.group.strong_count() == 0 && self.members.iter().all(|slots| slots.in_use.get() == 0)
    }
}

/// Takes one unit of `limit` for a processor that uses `count`. Returns false if the limit is reached.
fn take(limit: &SharedLimit, count: &Cell<usize>) -> bool {
    let is_taken = limit.try_take(count.get());
    count.set(count.get() + usize::from(is_taken));
    is_taken
}

/// Returns one unit to `limit`, unless the group is gone.
fn give_back(limit: Option<&SharedLimit>, count: &Cell<usize>) {
    let before = count.replace(count.get() - 1);
    if let Some(limit) = limit {
        limit.give_back(before);
    }
}

/// A place among the requests that wait. Dropping it frees the place.
struct Place<'a> {
    local: &'a Local,
    group: &'a Group,
}

impl<'a> Place<'a> {
    /// Returns `None` if the maximum number of requests wait.
    fn take(local: &'a Local, group: &'a Group) -> Option<Self> {
        take(&group.waiting, &local.waiting).then(|| Self { local, group })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        give_back(Some(&self.group.waiting), &self.local.waiting);
    }
}

/// A slot for one request at a server. Dropping it frees the slot.
pub(super) struct Slot {
    pub(super) local: Rc<Local>,
    pub(super) member: usize,
    /// Whether it belongs to a tunnel, so that another request may have the slot.
    is_tunnel: bool,
}

impl Slot {
    fn new(local: &Rc<Local>, member: usize) -> Self {
        Self { local: local.clone(), member, is_tunnel: false }
    }

    /// Frees the slot if `group` permits another tunnel.
    pub(super) fn begin_tunnel(&mut self, group: &Group) {
        let tunnels = &self.local.members[self.member].tunnels;
        if !self.is_tunnel && take(&group.members[self.member].tunnels, tunnels) {
            self.is_tunnel = true;
            self.local.release(self.member);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        match self.is_tunnel {
            true => self.local.release_tunnel(self.member),
            false => self.local.release(self.member),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use phalanx::sim;

    use super::*;
    use crate::config::Proxy;
    use crate::upstream::queue::RECOVERY_INTERVAL;

    /// The slot that a waiting request was given, if any.
    async fn granted(
        mut request: std::pin::Pin<&mut impl Future<Output = Result<Slot, Busy>>>,
    ) -> Option<Slot> {
        poll_fn(|context| {
            Poll::Ready(match request.as_mut().poll(context) {
                Poll::Ready(slot) => slot.ok(),
                Poll::Pending => None,
            })
        })
        .await
    }

    /// Requests that wait get the slots of a server that recovers, although no request arrives or ends.
    #[test]
    fn requests_that_wait_notice_a_recovery() {
        sim::block_on(
            1,
            Some(1),
            |_| (),
            |()| async {
                let to = ["http://a", "http://b"].map(|url| url.parse().unwrap()).to_vec();
                let group = Group::new(&Proxy { to, max_requests: 2, ..Proxy::default() }, 1, None);
                let local = Rc::new(Local::new(&group));
                let take = || local.take_slot(&group, Tried::default(), Duration::MAX);
                let health = &group.members[0].health;
                (0..3).for_each(|_| _ = health.failed(now()));
                let [Ok(one), Ok(other)] = [take().await, take().await] else {
                    panic!("the other server is free")
                };
                assert_eq!([one.member, other.member], [1, 1]);
                let (mut first, mut second) = (pin!(take()), pin!(take()));
                assert!(granted(first.as_mut()).await.is_none());
                assert!(granted(second.as_mut()).await.is_none());
                let slot = first.await.unwrap_or_else(|Busy| panic!("a trial"));
                assert_eq!(slot.member, 0);
                assert!(granted(second.as_mut()).await.is_none(), "one trial at a time");
                let begun = now();
                health.responded(now());
                let slot = second.await.unwrap_or_else(|Busy| panic!("a slot"));
                assert_eq!(slot.member, 0);
                assert!(now() - begun < 2 * RECOVERY_INTERVAL);
                drop((one, other));
            },
        );
    }

    /// Tunnels leave their slots to requests, up to their own limit.
    #[test]
    fn tunnels_have_a_limit_of_their_own() {
        sim::block_on(
            1,
            Some(1),
            |_| (),
            |()| async {
                let to = vec!["http://a".parse().unwrap()];
                let rule = Proxy { to, max_requests: 1, max_tunnels: 2, ..Proxy::default() };
                let group = Group::new(&rule, 1, None);
                let local = Rc::new(Local::new(&group));
                let take = || local.take_slot(&group, Tried::default(), Duration::MAX);
                let mut tunnels = Vec::new();
                for _ in 0..2 {
                    let mut slot = granted(pin!(take())).await.expect("a slot");
                    slot.begin_tunnel(&group);
                    tunnels.push(slot);
                }
                let mut third = granted(pin!(take())).await.expect("a slot");
                third.begin_tunnel(&group);
                let mut waiting = pin!(take());
                assert!(granted(waiting.as_mut()).await.is_none(), "the third one has the slot");
                tunnels.pop();
                assert!(granted(waiting.as_mut()).await.is_none(), "a tunnel has no slot");
                third.begin_tunnel(&group);
                let slot = granted(waiting.as_mut()).await.expect("the slot of the third");
                drop((tunnels, third, slot));
                let slots = &local.members[0];
                assert_eq!((slots.in_use.get(), slots.tunnels.get()), (0, 0));
            },
        );
    }

    /// The clients of one worker of many may use most of a server that no other worker needs.
    #[test]
    fn a_busy_worker_uses_an_idle_server() {
        sim::block_on(
            1,
            Some(1),
            |_| (),
            |()| async {
                let to = vec!["http://a".parse().unwrap()];
                let group = Group::new(&Proxy { to, ..Proxy::default() }, 64, None);
                let locals = [(); 2].map(|()| Rc::new(Local::new(&group)));
                let take = |n: usize| locals[n].take_slot(&group, Tried::default(), Duration::MAX);
                let mut slots = Vec::new();
                for _ in 0..130 {
                    slots.push(granted(pin!(take(0))).await.expect("a slot"));
                }
                let mut waiting = pin!(take(0));
                assert!(granted(waiting.as_mut()).await.is_none(), "all that it may take");
                for _ in 0..2 {
                    slots.push(granted(pin!(take(1))).await.expect("its own part"));
                }
                let mut other = pin!(take(1));
                assert!(granted(other.as_mut()).await.is_none());
                drop(slots.remove(0));
                assert!(granted(waiting.as_mut()).await.is_some(), "the slot of its own request");
                assert!(granted(other.as_mut()).await.is_none());
                // The slots of the first worker, without a request that ends on the second.
                drop(slots.drain(..129));
                assert!(other.await.is_ok());
            },
        );
    }

    #[test]
    fn requests_wait_for_a_server_in_good_health() {
        sim::block_on(
            1,
            Some(1),
            |_| (),
            |()| async {
                let to = ["http://a", "http://b"].map(|url| url.parse().unwrap()).to_vec();
                let group = Group::new(&Proxy { to, max_requests: 1, ..Proxy::default() }, 1, None);
                let local = Rc::new(Local::new(&group));
                let take = || local.take_slot(&group, Tried::default(), Duration::MAX);
                let [Ok(one), Ok(other)] = [take().await, take().await] else {
                    panic!("both are free")
                };
                let mut waiting = pin!(take());
                assert!(granted(waiting.as_mut()).await.is_none());
                group.members[one.member].health.checked(false);
                let down = one.member;
                drop(one);
                assert!(granted(waiting.as_mut()).await.is_none(), "it is down");
                // The server recovers. The next request waits behind the first.
                group.members[down].health.checked(true);
                let mut next = pin!(take());
                assert!(granted(next.as_mut()).await.is_none());
                let first = granted(waiting.as_mut()).await.expect("a slot");
                assert_eq!(first.member, down);
                drop(other);
                assert!(granted(next.as_mut()).await.is_some());
            },
        );
    }
}
