//! Tests of the table, without a broker.

mod cuts;
mod full;
mod handovers;
mod relays;
mod retained;
mod runs;
mod shares;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{
    Delivery, Properties, Property, PropertyBuffer, Publish, QoS, Reason, SubscribeOptions, Will,
};
use phalanx_store::Record;

use super::{Router, SENT_IMMEDIATELY};
use crate::access::{self, Covered, Identity, NODE_CLIENTS, Policy};
use crate::config::{Config, Limits};
use crate::content::parse::{PacketFilter, ParsedSubscription, parse};
use crate::durable::Wal;
use crate::durable::recovery::RecoveredRoutes;
use crate::durable::simulated::with_journal;
use crate::events::EventLog;
use crate::events::drops::{DropReason, Drops};
use crate::model::client_key::ClientKey;
use crate::model::delivery::DeliveryBatch;
use crate::model::message::{Message, Source};
use crate::peers::Peers;
use crate::requests::{Subscriber, SubscriptionRequest};
use crate::routing::retained::RetainedBudget;

/// A table with one partition of sessions.
struct Table {
    router: Router,
    policy: Arc<Policy>,
    drops: Drops,
}

impl Table {
    fn new(limits: &Limits, restored: RecoveredRoutes) -> Self {
        Self::with_wal(limits, restored, Wal::default())
    }

    fn with_wal(limits: &Limits, restored: RecoveredRoutes, wal: Wal) -> Self {
        let policy = access::open(&Config::new()).unwrap().load_full();
        let drops = Drops::new(EventLog::default());
        let context = (&*policy, drops.clone(), None);
        Self { router: Router::new(limits, wal, restored, context), policy, drops }
    }

    /// Publishes messages. Returns the slots of the receivers, by message.
    fn publish(&mut self, messages: &[Arc<Message>]) -> Vec<Vec<u32>> {
        let mut batches = [DeliveryBatch::default()];
        let at = (&*self.policy, Duration::ZERO);
        self.router.publish_own(messages, &mut batches, at);
        let of = |message: &Arc<Message>| {
            let all = batches[0].deliveries.iter();
            let is_own = |other: &Arc<Message>| Arc::ptr_eq(other, message);
            let own = all.filter(|one| batches[0].run(one).iter().any(is_own));
            own.map(|one| one.client.slot).collect()
        };
        messages.iter().map(of).collect()
    }
}

fn key(slot: u32) -> ClientKey {
    ClientKey { partition: 0, slot, generation: 0 }
}

fn client(slot: u32) -> Subscriber {
    let identity = Identity { user: None, client: format!("client {slot}").into() };
    Subscriber { key: key(slot), durable_id: 0, identity, adoptions: None, has_messages: false }
}

/// Another node, with this name.
fn node(slot: u32, name: &str) -> Subscriber {
    let identity = Identity { user: None, client: format!("{NODE_CLIENTS}{name}").into() };
    Subscriber { identity, ..client(slot) }
}

fn request(text: &str) -> SubscriptionRequest {
    let ParsedSubscription { key, content } = parse(text, PacketFilter::default()).unwrap();
    let (options, identifier, covered) = (SubscribeOptions::default(), None, Covered::UNKNOWN);
    let only_at_most_once = false;
    SubscriptionRequest { key, content, options, identifier, covered, only_at_most_once }
}

fn message(topic: &str, retain: bool, properties: &[Property<'_>]) -> Arc<Message> {
    with_payload(topic, b"x", retain, properties)
}

fn with_payload(
    topic: &str,
    payload: &[u8],
    retain: bool,
    properties: &[Property<'_>],
) -> Arc<Message> {
    let mut buffer = PropertyBuffer::new();
    properties.iter().for_each(|property| buffer.push(*property).unwrap());
    let (delivery, properties) = (Delivery::AtMostOnce, buffer.get());
    let publish = Publish { topic, payload, delivery, retain, duplicate: false, properties };
    Arc::new(Message::of(&publish, topic, (key(9), 0), Duration::ZERO))
}

#[test]
fn a_client_that_subscribes_is_connected() {
    // Both sessions were stored, and the first one without a shared subscription.
    let clients =
        vec![(client(1), vec![request("other")]), (client(2), vec![request("$share/g/t")])];
    let mut table =
        Table::new(&Limits::default(), RecoveredRoutes { clients, ..Default::default() });
    table.router.subscribe(client(1), vec![request("$share/g/t")]);
    for _ in 0..4 {
        assert_eq!(table.publish(&[message("t", false, &[])]), [[1]]);
    }
}

/// The topics of the records about retained messages, after these messages.
fn recorded(messages: Vec<Arc<Message>>) -> Vec<String> {
    recorded_with(&Limits::default(), messages)
}

/// Like [`recorded`], with limits.
fn recorded_with(limits: &Limits, messages: Vec<Arc<Message>>) -> Vec<String> {
    records(limits, None, messages)
}

/// Like [`recorded_with`], by a node of a cluster if `peers` are given.
fn records(limits: &Limits, peers: Option<Arc<Peers>>, messages: Vec<Arc<Message>>) -> Vec<String> {
    let limits = limits.clone();
    with_journal(0, |wal| async move {
        let nothing = RecoveredRoutes { next_message: 1, ..Default::default() };
        let mut table = Table::with_wal(&limits, nothing, wal);
        table.router.peers = peers.clone();
        table.publish(&messages);
        let of = |record| match record {
            Record::Retain { topic, .. } => Some(format!("+{topic}")),
            Record::Unretain { topic } => Some(format!("-{topic}")),
            _ => None,
        };
        table.router.wal.recorded().records().filter_map(of).collect()
    })
}

#[test]
fn a_will_is_delivered_if_there_is_no_room_to_retain_it() {
    let limits = Limits { retained: 0, ..Limits::default() };
    let mut table = Table::new(&limits, RecoveredRoutes::default());
    table.router.subscribe(client(1), vec![request("#")]);
    let (topic, payload, qos, retain) = ("t", &b"gone"[..], QoS::AtLeastOnce, true);
    let will = Will { topic, payload, qos, retain, properties: Properties::NONE };
    assert_eq!(table.publish(&[Arc::new(Message::of_will(&will))]), [[1]]);
    assert_eq!(table.drops.count(DropReason::RetainedFull), 1);
    assert_eq!(table.publish(&[message("t", true, &[])]), [[0; 0]], "its publisher is told");
}

#[test]
fn a_message_of_another_broker_is_delivered_if_there_is_no_room_to_retain_it() {
    let limits = Limits { retained: 1, ..Limits::default() };
    let mut table = Table::new(&limits, RecoveredRoutes::default());
    table.router.subscribe(client(1), vec![request("#")]);
    let first = message("first", true, &[]);
    assert_eq!(table.publish(std::slice::from_ref(&first)), [[1]]);
    let of = |source, is_kept_by_sender| {
        let mut own = Arc::try_unwrap(message("t", true, &[])).unwrap();
        (own.source, own.is_kept_by_sender) = (source, is_kept_by_sender);
        Arc::new(own)
    };
    let of_bridge = of(Source::Here, true);
    let messages = [of(Source::Here, false), of(Source::Node, false), of_bridge];
    assert_eq!(table.publish(&messages), [vec![], vec![1], vec![1]]);
    assert_eq!(table.drops.count(DropReason::RetainedFull), 3);
    assert!(table.router.retained().holds(&first) && !table.router.retained().has("t"));
    let limits = Limits { retained: 0, ..Limits::default() };
    assert_eq!(recorded_with(&limits, vec![of(Source::Node, false)]), [""; 0]);
}

/// The next message removes the expired one before the journal has numbered it.
#[test]
fn an_expired_message_is_not_recorded_as_retained() {
    let expired = || message("a", true, &[Property::MessageExpiry(0)]);
    assert_eq!(recorded(vec![expired(), message("b", true, &[])]), ["-a", "+b"]);
    // Nothing has removed the message yet. A later sweep records its removal.
    assert_eq!(recorded(vec![expired()]), ["+a"]);
    assert_eq!(recorded(vec![expired(), message("a", true, &[])]), ["-a", "+a"]);
}

/// Even an attribute named like one of the broker's, without the leading U+0000.
#[test]
fn filters_may_test_any_attribute() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    for (slot, filter) in [(1, "$where/\"$filter\" = 5/t"), (2, "t?$filter=6"), (3, "t?filter=5")] {
        table.router.subscribe(client(slot), vec![request(filter)]);
    }
    let of = |name| message("t", false, &[Property::User(name, "5")]);
    assert_eq!(
        table.publish(&[of("$filter"), of("filter"), of("other")]),
        [vec![1], vec![3], vec![]]
    );
}

/// The numbers of retained messages that a new subscription of client 1 gets, by cohort.
fn received(table: &mut Table, filter: &str) -> Vec<usize> {
    let mut pending = table.router.subscribe(client(1), vec![request(filter), request("#")]);
    let (mut all, mut is_done) = (Vec::new(), false);
    while !is_done {
        let (at, mut batch) = ((Duration::ZERO, &*table.policy), DeliveryBatch::default());
        let budget = &mut RetainedBudget::default();
        is_done = table.router.send_retained(&mut pending, at, &mut batch, budget);
        all.push(batch.deliveries.len());
    }
    all
}

#[test]
fn the_limit_of_retained_messages_for_one_client_changes_with_a_reload() {
    let limits = Limits { queued_messages: 0, ..Limits::default() };
    let mut table = Table::new(&limits, RecoveredRoutes::default());
    let count = SENT_IMMEDIATELY + 5;
    let all: Vec<_> = (0..count).map(|n| message(&format!("t/{n}"), true, &[])).collect();
    table.publish(&all);
    let omitted = |table: &Table| table.drops.count(DropReason::RetainedLeftOut);
    assert_eq!(received(&mut table, "none").iter().sum::<usize>(), SENT_IMMEDIATELY);
    assert_eq!(omitted(&table), 5);
    table.router.set_queued_messages(5);
    assert_eq!(received(&mut table, "none").iter().sum::<usize>(), count);
    assert_eq!(omitted(&table), 5);
    // The messages of the second subscription are omitted, and counted.
    assert_eq!(received(&mut table, "t/+").iter().sum::<usize>(), count);
    assert_eq!(omitted(&table), 5 + count as u64);
}

/// One client does not delay others, whether its filters match or not.
#[test]
fn a_cohort_examines_some_retained_messages() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    let all: Vec<_> = (0..10_000).map(|n| message(&format!("t/{n}"), true, &[])).collect();
    table.publish(&all);
    let numbers = |nothing, first, full, last| {
        let parts = [vec![0; nothing], vec![first], vec![1024; full], vec![last]];
        parts.concat()
    };
    assert_eq!(received(&mut table, "t/+?n=1"), numbers(9, 240, 9, 544));
    let skipped = received(&mut table, "none/+");
    assert_eq!(skipped, numbers(0, 1023, 8, 785), "other topics are skipped");
    // Long ones.
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    let long = [Property::User("k", &"v".repeat(1000))];
    let all: Vec<_> = (0..1000).map(|n| message(&format!("t/{n}"), true, &long)).collect();
    table.publish(&all);
    assert_eq!(received(&mut table, "t/+?n=1"), [vec![0; 15], vec![999, 1]].concat());
}

#[test]
fn a_small_scan_does_not_wait_for_large_ones() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    let all: Vec<_> = (0..10_000).map(|n| message(&format!("t/{n}"), true, &[])).collect();
    table.publish(&all);
    let mut pending: Vec<_> =
        (1..=7).map(|n| table.router.subscribe(client(n), vec![request("t/+?n=1")])).collect();
    pending.push(table.router.subscribe(client(8), vec![request("t/77")]));
    let (at, mut batch) = ((Duration::ZERO, &*table.policy), DeliveryBatch::default());
    let mut budget = RetainedBudget::default();
    let mut is_done = Vec::new();
    for own in &mut pending {
        is_done.push(table.router.send_retained(own, at, &mut batch, &mut budget));
    }
    let examined: Vec<_> = pending[..7].iter().map(|request| request.progress.examined).collect();
    assert_eq!(examined, [1024, 1024, 1024, 1024, 16, 16, 16]);
    assert_eq!((is_done.iter().position(|is| *is), batch.deliveries.len()), (Some(7), 1));
}

/// A message of this many bytes with the field `n` = 1.
fn long_json(topic: &str, retain: bool, bytes: usize) -> Arc<Message> {
    let payload = format!("{{\"a\":\"{}\",\"n\":1}}", "x".repeat(bytes));
    with_payload(topic, payload.as_bytes(), retain, &[])
}

/// A long message uses up the cohort's budget, and is not read once the budget is spent.
#[test]
fn a_cohort_reads_one_long_retained_message() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    let all: Vec<_> = (0..3).map(|n| long_json(&format!("t/{n}"), true, 300 << 10)).collect();
    table.publish(&all);
    let mut pending: Vec<_> = (1..=5)
        .map(|n| table.router.subscribe(client(n), vec![request("t/+?$json&n=1")]))
        .collect();
    for cohort in 1..=15 {
        let (at, mut batch) = ((Duration::ZERO, &*table.policy), DeliveryBatch::default());
        let mut budget = RetainedBudget::default();
        pending.retain_mut(|request| {
            !table.router.send_retained(request, at, &mut batch, &mut budget)
        });
        assert_eq!(batch.deliveries.len(), 1, "cohort {cohort}");
    }
    // Only one more scan finds the end of the topics.
    assert!(pending.len() <= 1, "{}", pending.len());
}

/// The text of a filter counts, because a long filter takes longer than a short message.
#[test]
fn a_cohort_evaluates_a_long_filter_a_few_times() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    let all: Vec<_> = (0..100).map(|n| message(&format!("t/{n}"), true, &[])).collect();
    table.publish(&all);
    let values: Vec<_> = (0..1500).map(|n| format!("{n}")).collect();
    let filter = format!("$where/n IN ({}) OR n IS NULL/t/+", values[..250].join(","));
    let bytes = filter.len();
    let cohorts = received(&mut table, &filter);
    let first = 1 + (64 << 10) / bytes;
    assert_eq!(cohorts[0], first.min(100), "{bytes} bytes");
}

/// Many messages match many filters, after earlier ones matched few.
#[test]
fn deliveries_by_content_fit_the_room() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    for slot in 0..10 {
        table.router.subscribe(client(slot), vec![request("t?n=1"), request("$where/n > 0/+")]);
    }
    let of = |n| message("t", false, &[Property::User("n", n)]);
    for _ in 0..10 {
        assert!(table.publish(&vec![of("0"); 1000]).iter().all(Vec::is_empty));
    }
    let messages: Vec<_> = (0..1000).map(|_| of("1")).collect();
    let (mut routed, mut most, room) = (0, 0, 200);
    let everybody: Vec<_> = (0..10).collect();
    while routed < messages.len() {
        let (mut batches, mut reasons) = ([DeliveryBatch::default()], Vec::new());
        let at = (&*table.policy, Duration::ZERO);
        let left = &messages[routed..];
        let count = table.router.publish(left, &mut batches, at, (room, &mut reasons));
        assert!(count > 0 && reasons == vec![Reason::SUCCESS; count]);
        let [DeliveryBatch { deliveries, messages: routed_now, .. }] = &batches;
        assert!(routed_now.iter().zip(left).all(|(one, other)| Arc::ptr_eq(one, other)));
        for of_one in deliveries.chunk_by(|one, other| one.message == other.message) {
            let mut receivers: Vec<_> = of_one.iter().map(|one| one.client.slot).collect();
            receivers.sort_unstable();
            assert_eq!(receivers, everybody);
        }
        (routed, most) = (routed + count, most.max(deliveries.len()));
    }
    // The receivers of a single message may exceed the room.
    assert!(most <= room + 10, "{most} deliveries");
    assert!(most >= 40, "{most} deliveries, of messages that are matched together");
}

#[test]
fn a_cohort_reads_some_json() {
    let mut table = Table::new(&Limits::default(), RecoveredRoutes::default());
    table.router.subscribe(client(1), vec![request("$where-json/n = 1/t")]);
    let messages: Vec<_> = (0..5).map(|_| long_json("t", false, 400 << 10)).collect();
    let mut publish = |messages: &[Arc<Message>]| {
        let (mut batches, mut reasons) = ([DeliveryBatch::default()], Vec::new());
        let at = (&*table.policy, Duration::ZERO);
        let room = (usize::MAX, &mut reasons);
        let routed = table.router.publish(messages, &mut batches, at, room);
        assert_eq!(batches[0].deliveries.len(), routed);
        let is_exhausted = table.router.is_exhausted();
        table.router.tend();
        (routed, is_exhausted, table.router.is_exhausted())
    };
    assert_eq!(publish(&messages), (3, true, false));
    assert_eq!(publish(&messages[3..]), (2, false, false));
}
