//! Messages while the journal is full.

use std::sync::atomic::{AtomicBool, Ordering};

use phalanx::{Graph, sim};
use phalanx_mqtt::PacketId;

use super::*;
use crate::durable::simulated::declare_journal;
use crate::model::delivery::How;
use crate::requests::JOURNAL_FULL;

/// The results of messages when the journal is full, and the number of those that are counted as dropped.
fn refused(messages: &[Arc<Message>]) -> (Vec<Reason>, u64) {
    let (mut reasons, mut dropped) = (Vec::new(), 0);
    sim::run(0, |world| {
        let mut graph = Graph::new();
        let (wal, _) = declare_journal(world, &mut graph, 0);
        let mut table = Table::with_wal(&Limits::default(), RecoveredRoutes::default(), wal);
        let batches = &mut [DeliveryBatch::default()];
        let at = (&*table.policy, Duration::ZERO);
        table.router.publish(messages, batches, at, (usize::MAX, &mut reasons));
        dropped = table.drops.count(DropReason::StoreFull);
        world.program(graph, |_| Ok(()));
    });
    (reasons, dropped)
}

#[test]
fn a_full_journal_refuses_what_its_sender_keeps() {
    let of = |delivery, source| {
        let (topic, retain, duplicate, properties) = ("t", false, false, Properties::NONE);
        let publish = Publish { topic, payload: b"x", delivery, retain, duplicate, properties };
        let mut own = Message::of(&publish, topic, (key(9), 0), Duration::ZERO);
        own.source = source;
        own.is_kept_by_sender = source == Source::Node;
        Arc::new(own)
    };
    let (once, least) = (Delivery::AtMostOnce, Delivery::AtLeastOnce(PacketId::MIN));
    let own = of(least, Source::Here);
    // Messages that this node hands over to its own sessions are already in its journal.
    let how = How { qos: own.qos, ..How::default() };
    let handed = Arc::new(own.moved(Source::Handed(1), &how, None));
    let all = vec![own, of(least, Source::Node), of(once, Source::Node), handed];
    let none = Reason::NO_MATCHING_SUBSCRIBERS;
    assert_eq!(refused(&all), (vec![JOURNAL_FULL, JOURNAL_FULL, none, none], 1));
}

/// Another thread fills and empties the journal at arbitrary moments.
#[test]
fn a_message_reaches_its_subscriber_or_is_refused() {
    sim::run(0, |world| {
        let mut graph = Graph::new();
        let (wal, _) = declare_journal(world, &mut graph, u64::MAX);
        let nothing = RecoveredRoutes::default();
        let mut table = Table::with_wal(&Limits::default(), nothing, wal.clone());
        table.router.subscribe(client(1), vec![request("t")]);
        let publish = Publish {
            topic: "t",
            payload: b"x",
            delivery: Delivery::AtLeastOnce(PacketId::MIN),
            retain: false,
            duplicate: false,
            properties: Properties::NONE,
        };
        let own = Arc::new(Message::of(&publish, "t", (key(9), 0), Duration::ZERO));
        // Enough messages that the other thread runs meanwhile, even on one core.
        let (messages, is_over) = (vec![own; 20_000], AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    wal.set_full(true);
                    wal.set_full(false);
                }
            });
            let mut is_right = true;
            for _ in 0..100 {
                let (mut reasons, batches) = (Vec::new(), &mut [DeliveryBatch::default()]);
                let at = (&*table.policy, Duration::ZERO);
                table.router.publish(&messages, batches, at, (usize::MAX, &mut reasons));
                let delivered = batches[0].count;
                let refused = reasons.iter().filter(|other| **other == JOURNAL_FULL).count();
                is_right &= delivered + refused == messages.len();
            }
            // Ends the thread before the assertion.
            is_over.store(true, Ordering::Relaxed);
            assert!(is_right);
        });
        world.program(graph, |_| Ok(()));
    });
}
