//! Backpressure from connected nodes: publishers of QoS 1 and 2 wait while the queue for a node that wants their messages
//! is full. They do not wait for a node that is disconnected, or that acknowledges nothing.
//!
//! Only clients of this node wait, and only for queues of this node. Messages that come over a lane are processed
//! immediately, so two nodes never wait for each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phalanx::select;
use phalanx::sleep;
use phalanx::sync::oneshot;
use phalanx::task::Either;

use crate::lock::lock;

/// The capacities of the queues for nodes, by client identifier of this node's session for the node.
#[derive(Default)]
pub(crate) struct NodeCapacities(Mutex<BTreeMap<Arc<str>, Arc<NodeCapacity>>>);

/// Whether the queue for one node has space. The session sets it, the router reads it, and publishers wait for it.
#[derive(Default)]
pub(crate) struct NodeCapacity {
    state: AtomicU8,
    /// The number of times that the node has acknowledged messages.
    progress: AtomicU64,
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
}

/// The states: the queue has space or the node is disconnected; the queue is full; the queue was full for too long
/// without progress.
const OPEN: u8 = 0;
const FULL: u8 = 1;
const GIVEN_UP: u8 = 2;

impl NodeCapacities {
    /// The capacity of the queue of this session.
    pub(crate) fn of(&self, client: &Arc<str>) -> Arc<NodeCapacity> {
        lock(&self.0).entry(client.clone()).or_default().clone()
    }

    /// Removes the capacity of a session that has ended.
    pub(crate) fn forget(&self, client: &str) {
        if let Some(capacity) = lock(&self.0).remove(client) {
            capacity.open();
        }
    }
}

impl NodeCapacity {
    /// Whether publishers have to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.state.load(Ordering::SeqCst) == FULL
    }

    /// Whether publishers no longer wait although the queue is full. The queue then applies its limits.
    pub(crate) fn is_given_up(&self) -> bool {
        self.state.load(Ordering::SeqCst) == GIVEN_UP
    }

    /// Marks the queue as full.
    pub(crate) fn fill(&self) {
        let _ = self.state.compare_exchange(OPEN, FULL, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Marks that the queue has space, or that the node is disconnected, and wakes the publishers.
    pub(crate) fn open(&self) {
        if self.state.swap(OPEN, Ordering::SeqCst) != OPEN {
            self.wake();
        }
    }

    /// Records that the node has acknowledged messages.
    pub(crate) fn progressed(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets publishers continue, until the queue has had space again.
    pub(crate) fn give_up(&self) {
        let order = Ordering::SeqCst;
        if self.state.compare_exchange(FULL, GIVEN_UP, order, order).is_ok() {
            self.wake();
        }
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.into_iter().for_each(|waiting| waiting.send(()));
    }

    /// Waits until the queue has space, for at most `limit`. If the node acknowledges nothing during all that time,
    /// [gives up](Self::give_up).
    pub(crate) async fn wait(&self, limit: Duration) {
        let before = self.progress.load(Ordering::Relaxed);
        let (sender, receiver) = oneshot::shared();
        lock(&self.waiting).push(sender);
        // Checked after registering, so that no wake-up is missed.
        if !self.is_full() {
            return;
        }
        if let Either::Right(()) = select(receiver, sleep(limit)).await
            && self.progress.load(Ordering::Relaxed) == before
        {
            self.give_up();
        }
        // Removes the entries of publishers whose wait timed out.
        lock(&self.waiting).retain(|waiting| !waiting.is_closed());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::rc::Rc;

    use phalanx::sim;
    use phalanx::time::now;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Waits, and calls `happens` a second later. Returns the time waited, in whole seconds.
    async fn waited(capacity: &NodeCapacity, happens: impl Fn(&NodeCapacity)) -> u64 {
        let begun = now();
        let took = Rc::new(Cell::new(None));
        let of_wait = took.clone();
        let waits = pin!(async {
            capacity.wait(LIMIT).await;
            of_wait.set(Some(now() - begun));
        });
        let happens = pin!(async {
            sleep(Duration::from_secs(1)).await;
            happens(capacity);
            std::future::pending::<()>().await;
        });
        select(waits, happens).await;
        took.get().expect("it waits for a limited time").as_secs()
    }

    #[test]
    fn publishers_wait_for_a_node_that_makes_progress() {
        sim::block_on(
            0,
            None,
            |_| (),
            |()| async {
                let capacity = NodeCapacities::default().of(&Arc::from("$cluster/b"));
                assert_eq!(waited(&capacity, |_| ()).await, 0);
                capacity.fill();
                assert_eq!(waited(&capacity, NodeCapacity::open).await, 1);
                capacity.fill();
                assert_eq!(waited(&capacity, NodeCapacity::progressed).await, LIMIT.as_secs());
                assert!(capacity.is_full(), "it makes progress");
                assert_eq!(waited(&capacity, |_| ()).await, LIMIT.as_secs());
                assert!(capacity.is_given_up() && !capacity.is_full());
                capacity.fill();
                assert_eq!(waited(&capacity, |_| ()).await, 0, "nobody waits");
                capacity.open();
                capacity.fill();
                assert!(capacity.is_full() && lock(&capacity.waiting).is_empty());
            },
        );
    }
}
