//! The working set of one routed cohort: messages of several publishers and their deliveries. Each processor pools its
//! batches, so routing does not allocate.

#![expect(clippy::vec_box, reason = "a batch is passed on in its box, and the box is pooled")]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use phalanx::task::Reply;
use phalanx::{Call, CallError, join, sleep};
use phalanx_mqtt::Reason;

use crate::access::Policy;
use crate::limits::delivery_limiter::{DeliveryLimiter, Permit};
use crate::model::client_key::ClientKey;
use crate::model::delivery::DeliveryBatch;
use crate::model::message::Message;
use crate::requests::{Answer, NODE_FULL, Publication};
use crate::routing::router::Router;
use crate::session::operations::{RETRY_DELAY, SessionStage};

/// Maximum number of batches in the pool. While one is routed, others are being delivered or wait for the disk.
const POOL_CAP: usize = 8;
/// Maximum number of deliveries made inside the routing stage, where they block other processors.
const MAX_DELIVERIES_HERE: usize = 16;
/// Capacity that each vector of a pooled batch keeps, in messages, publishers or answers.
const POOL_ITEM_CAP: usize = 4096;

thread_local! {
    static POOL: RefCell<Vec<Box<RoutingBatch>>> = const { RefCell::new(Vec::new()) };
}

/// A batch.
#[derive(Default)]
pub(crate) struct RoutingBatch {
    /// Deliveries by partition.
    pub(crate) batches: Vec<DeliveryBatch>,
    /// Batches that partitions are processing.
    lent: Vec<Arc<DeliveryBatch>>,
    answers: Vec<(Reply<Answer>, Answer)>,
    /// Replies to requests without persistent changes.
    done: Vec<Reply<Answer>>,
    /// Messages not yet routed. All are routed before the table changes.
    messages: Vec<Arc<Message>>,
    /// The publishers of `messages`, and the number of messages of each.
    owed: Vec<(Reply<Answer>, Publication, usize)>,
    reasons: Vec<Reason>,
    /// Approximate number of deliveries per message.
    each: usize,
    /// By partition, its first message of the publishers that have no hint yet.
    cursors: Vec<usize>,
    /// The permit for the batch's deliveries.
    permit: Option<Permit>,
}

impl RoutingBatch {
    /// An empty batch for `partitions` partitions.
    pub(crate) fn new(partitions: usize, delivery_limiter: &DeliveryLimiter) -> Box<Self> {
        let mut batch = POOL.with_borrow_mut(Vec::pop).unwrap_or_default();
        batch.batches.resize_with(partitions, DeliveryBatch::default);
        batch.permit = Some(delivery_limiter.empty_permit());
        batch
    }

    /// Returns the batch to the pool.
    fn end(mut self: Box<Self>) {
        fn clear<T>(all: &mut Vec<T>) {
            all.clear();
            all.shrink_to(POOL_ITEM_CAP);
        }
        self.batches.iter_mut().for_each(DeliveryBatch::clear);
        clear(&mut self.answers);
        clear(&mut self.done);
        clear(&mut self.messages);
        clear(&mut self.owed);
        clear(&mut self.reasons);
        self.permit = None;
        POOL.with_borrow_mut(|idle| {
            if idle.len() < POOL_CAP {
                idle.push(self);
            }
        });
    }

    /// Adds the messages of a publisher, or returns them immediately if other publishers wait for a permit.
    pub(crate) fn add(
        &mut self,
        mut own: Publication,
        reply: Reply<Answer>,
        delivery_limiter: &DeliveryLimiter,
    ) {
        if delivery_limiter.must_wait(own.permit.as_ref()) {
            return reply.send(Answer::Published(own));
        }
        self.add_permit(own.permit.take());
        let count = own.messages.len();
        self.messages.append(&mut own.messages);
        self.owed.push((reply, own, count));
    }

    /// Adds a completed request, which waits for the disk if `is_durable`.
    pub(crate) fn add_completed(&mut self, reply: Reply<Answer>, is_durable: bool) {
        match is_durable {
            true => self.answers.push((reply, Answer::Done)),
            false => self.done.push(reply),
        }
    }

    /// Adds the answer to a request with deliveries. It is sent when the changes are on disk.
    pub(crate) fn add_answer(&mut self, reply: Reply<Answer>, answer: Answer) {
        self.answers.push((reply, answer));
    }

    /// Adds the permit of a publisher that waited.
    pub(crate) fn add_permit(&mut self, permit: Option<Permit>) {
        if let (Some(own), Some(permit)) = (&mut self.permit, permit) {
            own.merge(permit);
        }
    }

    /// The number of further deliveries permitted.
    pub(crate) fn capacity_left(&self) -> usize {
        let deliveries = self.deliveries();
        self.permit.as_ref().map_or(usize::MAX, |permit| permit.available(deliveries))
    }

    /// Routes the added messages until the permitted deliveries or the work of one cohort are used up. The caller then
    /// calls [`settle`](Self::settle), before it adds other messages.
    pub(crate) fn route(&mut self, router: &mut Router, at: (&Policy, Duration)) {
        if self.owed.is_empty() {
            return;
        }
        let before = self.deliveries();
        self.reasons.clear();
        self.cursors.clear();
        self.cursors.extend(self.batches.iter().map(|batch| batch.messages.len()));
        let mut first = 0;
        for (_, own, count) in &self.owed {
            if own.insists {
                router.insist(self.messages.get(first).and_then(|message| message.from));
            }
            first += count;
        }
        let (mut routed, mut room) = (0, self.capacity_left());
        while room > 0 && routed < self.messages.len() && !router.is_exhausted() {
            let left = &self.messages[routed..];
            routed += router.publish(left, &mut self.batches, at, (room, &mut self.reasons));
            room = self.capacity_left();
        }
        self.each = (self.deliveries() - before).div_ceil(routed.max(1));
        // Here, because the deliveries may be gone when the results are assigned.
        let mut first = 0;
        for (_, publication, count) in &mut self.owed {
            let publisher = self.messages.get(first).and_then(|message| message.from);
            publication.near = only_partition(&self.batches, &mut self.cursors, publisher);
            first += *count;
        }
    }

    /// Assigns the results of the routed messages to their publishers.
    pub(crate) fn settle(&mut self, router: &mut Router) {
        let each = self.each;
        let (mut messages, mut reasons) = (self.messages.drain(..), self.reasons.drain(..));
        for (reply, mut own, count) in self.owed.drain(..) {
            own.messages.extend(messages.by_ref().take(count));
            own.reasons.extend(reasons.by_ref().take(count));
            if let Some(at) = own.reasons.iter().position(|reason| *reason == NODE_FULL) {
                own.reasons.truncate(at);
                own.full = router.full_node_of(own.messages[at].from);
            }
            if own.reasons.is_empty() && count > 0 {
                // Answered now, so that this publisher queues for a permit before publishers that arrive later.
                reply.send(Answer::Published(own));
                continue;
            }
            own.each = each;
            if let Some(begun) = &own.begun
                && own.reasons.iter().any(|reason| reason.is_failure())
            {
                // Before the messages count as routed, because the client may already have reconnected and retransmit
                // them.
                let refused = own.messages.iter().zip(&own.reasons);
                let refused = refused.filter(|(_, reason)| reason.is_failure());
                begun.refuse(refused.filter_map(|(message, _)| message.begun.map(|(_, id)| id)));
            }
            self.answers.push((reply, Answer::Published(own)));
        }
        router.end_waits();
    }

    /// Corrects the permit to the actual number of deliveries.
    pub(crate) fn begin(&mut self) {
        let deliveries = self.deliveries();
        if let Some(permit) = &mut self.permit {
            permit.resize(deliveries);
        }
    }

    fn deliveries(&self) -> usize {
        self.batches.iter().map(|batch| batch.count).sum()
    }

    /// Whether there are no deliveries.
    pub(crate) fn is_for_nobody(&self) -> bool {
        self.batches.iter().all(|batch| batch.deliveries.is_empty())
    }

    /// Marks QoS 2 messages as routed, if all messages that were registered together have been routed.
    pub(crate) fn set_routed(&self) {
        for (_, answer) in &self.answers {
            if let Answer::Published(Publication { begun: Some(begun), messages, reasons, .. }) =
                answer
                && messages.len() == reasons.len()
            {
                begun.set_routed();
            }
        }
    }

    /// Delivers a small batch immediately to the partitions on this processor, if no other deliveries are in flight. This
    /// reduces the latency and the cost of single messages. It preserves the order, because no earlier delivery is
    /// pending.
    pub(crate) fn deliver_here(&mut self, sessions: SessionStage) {
        if self.deliveries() > MAX_DELIVERIES_HERE
            || !self.permit.as_ref().is_some_and(Permit::is_alone)
        {
            return;
        }
        for (partition, batch) in self.batches.iter_mut().enumerate() {
            if !batch.deliveries.is_empty() && sessions.try_deliver(partition, batch) {
                batch.clear();
            }
        }
    }

    /// Hands each partition its deliveries, and releases the permit. Returns whether all were accepted.
    pub(crate) async fn deliver(&mut self, sessions: SessionStage) -> bool {
        let is_delivered = self.hand_over(sessions).await;
        self.permit = None;
        is_delivered
    }

    async fn hand_over(&mut self, sessions: SessionStage) -> bool {
        self.lent.resize_with(self.batches.len(), Arc::default);
        loop {
            let mut full = (0..self.batches.len()).filter(|partition| self.is_full(*partition));
            let is_lost = match (full.next(), full.next()) {
                (None, _) => return true,
                (Some(only), None) => {
                    let handed = self.lend(only, sessions).await;
                    !self.take_back(only, handed)
                }
                _ => {
                    let full: Vec<_> = (0..self.batches.len())
                        .filter(|partition| self.is_full(*partition))
                        .collect();
                    let calls: Vec<_> =
                        full.iter().map(|partition| self.lend(*partition, sessions)).collect();
                    let handed = full.into_iter().zip(join(calls).await);
                    let taken = handed.map(|(partition, handed)| self.take_back(partition, handed));
                    !taken.fold(true, |all, is_taken| all & is_taken)
                }
            };
            if is_lost {
                return false;
            }
            if !self.is_for_nobody() {
                // Some partitions were full. Retry only those.
                sleep(RETRY_DELAY).await;
            }
        }
    }

    fn is_full(&self, partition: usize) -> bool {
        !self.batches[partition].deliveries.is_empty()
    }

    /// Lends a partition its deliveries; the buffers are reused.
    fn lend(&mut self, partition: usize, sessions: SessionStage) -> Call<()> {
        let batch = std::mem::take(&mut self.batches[partition]);
        match Arc::get_mut(&mut self.lent[partition]) {
            Some(lent) => *lent = batch,
            None => self.lent[partition] = Arc::new(batch),
        }
        sessions.deliver(partition, self.lent[partition].clone())
    }

    /// Takes a partition's batch back. A delivered batch is cleared. If the partition was full and the batch must arrive,
    /// the batch stays for a retry. Returns false if deliveries were lost.
    fn take_back(&mut self, partition: usize, handed: Result<(), CallError>) -> bool {
        let lent = Arc::get_mut(&mut self.lent[partition]);
        let Some(mut batch) = lent.map(std::mem::take) else { return handed.is_ok() };
        match handed {
            Ok(()) => batch.clear(),
            Err(CallError::Full { .. }) if batch.must_arrive() => (),
            Err(_) => return false,
        }
        self.batches[partition] = batch;
        true
    }

    /// Answers publishers that need not wait for the disk; while the disk is backlogged, these are fewer. The messages
    /// were delivered to the sessions, so the publishers' next messages follow them.
    pub(crate) fn answer_unkept(&mut self, is_backlogged: bool) {
        let unkept = |(_, answer): &mut (_, Answer)| match answer {
            Answer::Published(own) => {
                !own.messages.iter().any(|message| message.is_awaited(is_backlogged))
            }
            _ => false,
        };
        self.answers.extract_if(.., unkept).for_each(|(reply, answer)| reply.send(answer));
        self.done.drain(..).for_each(|reply| reply.send(Answer::Done));
    }

    /// Answers all requests.
    pub(crate) fn answer(mut self: Box<Self>) {
        self.answers.drain(..).for_each(|(reply, answer)| reply.send(answer));
        self.done.drain(..).for_each(|reply| reply.send(Answer::Done));
        self.end();
    }

    /// Answers all requests whose changes were made but are not on disk.
    #[cold]
    pub(crate) fn answer_late(mut self: Box<Self>) {
        for (_, answer) in &mut self.answers {
            if let Answer::Published(own) = answer {
                own.is_late = true;
            }
        }
        self.answer();
    }
}

/// The partition of all receivers of a publisher, if there is only one. In each partition, the publisher's messages are
/// consecutive, and begin at the cursor.
fn only_partition(
    batches: &[DeliveryBatch],
    cursors: &mut [usize],
    publisher: Option<ClientKey>,
) -> Option<u16> {
    let (mut only, mut partitions) = (None, 0);
    for (partition, (batch, cursor)) in batches.iter().zip(cursors).enumerate() {
        let left = batch.messages[*cursor..].iter();
        let count = left.take_while(|message| message.from == publisher).count();
        if count > 0 {
            *cursor += count;
            (only, partitions) = (Some(partition as u16), partitions + 1);
        }
    }
    only.filter(|_| partitions == 1)
}

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Delivery, Properties, Publish};

    use super::*;
    use crate::model::delivery::How;

    /// The hints for publishers whose messages have receivers in these partitions.
    fn hints(publishers: &[&[u16]]) -> Vec<Option<u16>> {
        let mut batches = [DeliveryBatch::default(), DeliveryBatch::default()];
        let key = |slot| ClientKey { partition: 0, slot, generation: 0 };
        for (publisher, receivers) in publishers.iter().enumerate() {
            let publish = Publish {
                topic: "t",
                payload: b"",
                delivery: Delivery::AtMostOnce,
                retain: false,
                duplicate: false,
                properties: Properties::NONE,
            };
            let message = Message::of(&publish, "t", (key(publisher as u32), 0), Duration::ZERO);
            let message = Arc::new(message);
            for partition in *receivers {
                batches[usize::from(*partition)].add(key(9), &message, How::default());
            }
        }
        let mut cursors = [0; 2];
        let all = 0..publishers.len() as u32;
        all.map(|publisher| only_partition(&batches, &mut cursors, Some(key(publisher)))).collect()
    }

    #[test]
    fn each_publisher_has_its_own_hint() {
        assert_eq!(hints(&[&[1], &[0], &[1]]), [Some(1), Some(0), Some(1)]);
        assert_eq!(hints(&[&[0, 1], &[], &[1, 1]]), [None, None, Some(1)]);
    }
}
