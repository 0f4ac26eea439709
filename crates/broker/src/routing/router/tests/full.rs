//! Messages while the journal is full.

use std::sync::atomic::{AtomicBool, Ordering};

use phalanx_mqtt::PacketId;

use super::*;
use crate::requests::JOURNAL_FULL;

/// The results of messages, when the journal is full.
fn refused(messages: Vec<Arc<Message>>) -> (Vec<Reason>, u64) {
    let result = Arc::new(Mutex::new(None));
    let of_world = result.clone();
    sim::run(0, move |world| {
        let options = Options { salt: Some(0), ..Options::default() };
        let files = BTreeMap::<String, Vec<u8>>::new();
        let (store, _) = Store::open_in(&files, world.root(), Path::new("/"), options).unwrap();
        let mut graph = Graph::new();
        let journal = store.declare(&mut graph);
        let stage = graph.shared("test", ());
        let wal = Wal::new(journal, stage, (0, DISK_TIMEOUT), 1);
        let mut table = Table::with_wal(&Limits::default(), RecoveredRoutes::default(), wal);
        let (mut reasons, batches) = (Vec::new(), &mut [DeliveryBatch::default()]);
        let at = (&*table.policy, Duration::ZERO);
        table.router.publish(&messages, batches, at, (usize::MAX, &mut reasons));
        *of_world.lock().unwrap() = Some((reasons, table.drops.count(DropReason::StoreFull)));
        world.program(graph, |_| Ok(()));
    });
    result.lock().unwrap().take().unwrap()
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
    // This node has what it hands over to its own sessions in its journal.
    let handed = Arc::new(own.handed(Source::Handed(1)));
    let all = vec![own, of(least, Source::Node), of(once, Source::Node), handed];
    let none = Reason::NO_MATCHING_SUBSCRIBERS;
    assert_eq!(refused(all), (vec![JOURNAL_FULL, JOURNAL_FULL, none, none], 1));
}

/// It becomes full and has room again at any moment, on another processor.
#[test]
fn a_message_reaches_its_subscriber_or_is_refused() {
    sim::run(0, |world| {
        let options = Options { salt: Some(0), ..Options::default() };
        let files = BTreeMap::<String, Vec<u8>>::new();
        let (store, _) = Store::open_in(&files, world.root(), Path::new("/"), options).unwrap();
        let mut graph = Graph::new();
        let (journal, stage) = (store.declare(&mut graph), graph.shared("test", ()));
        let wal = Wal::new(journal, stage, (u64::MAX, DISK_TIMEOUT), 1);
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
        // So many that the other thread runs meanwhile, also if there is one processor.
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
                let delivered = batches[0].deliveries.len();
                let refused = reasons.iter().filter(|own| **own == JOURNAL_FULL).count();
                is_right &= delivered + refused == messages.len();
            }
            // The thread ends first.
            is_over.store(true, Ordering::Relaxed);
            assert!(is_right);
        });
        world.program(graph, |_| Ok(()));
    });
}
