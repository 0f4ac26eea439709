//! Tests of one partition of the session stage, without a broker.

mod at_once;
mod copies;
mod durable;
mod flow;
mod install;
mod moving;
mod node_capacity;
mod reconnect;
mod subscriptions;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use phalanx_mqtt::{
    Delivery, Kind, PacketId, Property, PropertyBuffer, Publish, QoS, Reason, SubscribeOptions,
    Version,
};

use crate::access::Covered;
use crate::config::{Config, Limits, WhenFull};
use crate::content::parse::parse_key;
use crate::counters::Counters;
use crate::durable::Wal;
use crate::durable::recovery::RecoveredSessions;
use crate::events::EventLog;
use crate::events::drops::DropReason;
use crate::limits::delivery_limiter::DeliveryLimiter;
use crate::limits::settings::{LiveLimits, Settings};
use crate::model::client_key::ClientKey;
use crate::model::delivery::{DeliveryBatch, How, Identifiers};
use crate::model::handed;
use crate::model::message::{Message, StoredMessage};
use crate::model::session::{Queued, Will};
use crate::model::subscriptions::subscription_size::SubscriptionSize;
use crate::requests::SubscriptionRequest;
use crate::session::partition::Sessions;
use crate::session::partition::close::Closing;
use crate::session::partition::open::{Opened, Opening};
use crate::session::state::directory::Directory;
use crate::session::state::effects::Effects;
use crate::session::state::outgoing::Answered;

fn sessions() -> Sessions {
    with(Limits::default())
}

fn with(limits: Limits) -> Sessions {
    partition(limits, 0, Directory::new(1))
}

fn partition(limits: Limits, partition: usize, directory: Directory) -> Sessions {
    let durable = (Wal::default(), RecoveredSessions::default());
    durable_partition(limits, (partition, directory), durable)
}

fn durable_partition(
    limits: Limits,
    place: (usize, Directory),
    (wal, restored): (Wal, RecoveredSessions),
) -> Sessions {
    let mut config = Config::new();
    config.limits = limits;
    let settings = Arc::new(ArcSwap::from_pointee(Settings::new(config, None)));
    let (limits, counters) = (LiveLimits::new(settings), Counters::new(EventLog::default()));
    Sessions::new(place, limits, counters, (wal, DeliveryLimiter::new(1)), restored)
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Connects a client whose session outlives the connection.
fn open(sessions: &mut Sessions, clean_start: bool, now: Duration) -> Opened {
    come(sessions, clean_start, now).0
}

fn opening() -> Opening {
    Opening {
        client_id: "c".into(),
        user: None,
        origin: None,
        version: Version::V5,
        clean_start: false,
        expiry: 60,
        receive_maximum: 10,
        most: 1 << 20,
        must_exist: false,
        most_aliases: 0,
        will: None,
    }
}

/// Like [`open`], but also returns the effects.
fn come(sessions: &mut Sessions, clean_start: bool, now: Duration) -> (Opened, Effects) {
    let opening = Opening { clean_start, ..opening() };
    let (opened, effects, _) = sessions.open(opening, now);
    (opened.expect("the broker accepts the connection"), effects)
}

#[test]
fn a_limit_may_have_any_value() {
    for most in [usize::MAX, i64::MAX as usize + 1, 1] {
        let mut sessions = with(Limits { sessions: most, ..Limits::default() });
        open(&mut sessions, true, at(0));
    }
}

#[test]
fn a_partition_does_not_release_the_client_of_another() {
    let directory = Directory::new(2);
    let new = |number| partition(Limits::default(), number, directory.clone());
    let (mut first, mut second) = (new(0), new(1));
    let client = "c".into();
    assert_eq!(first.claim(&client), 0);
    open(&mut first, false, at(0));
    // A rejected CONNECT ends the session: the client is noted once for the claim and once for the end.
    assert_eq!(first.claim(&client), 0);
    let slot = first.names[&client];
    first.remove(slot, None, &mut Effects::default());
    assert_eq!(first.departed, [client.clone(), client.clone()]);
    // The other partition claims the client between the two releases.
    let noted = first.departed.pop().expect("noted twice");
    first.release_departed();
    assert_eq!(second.claim(&client), 1);
    open(&mut second, false, at(0));
    first.departed.push(noted);
    first.release_departed();
    assert_eq!(directory.find("c"), Some(1));
    assert_eq!(first.claim(&client), 1);
}

fn message(delivery: Delivery, payload: &[u8]) -> Arc<Message> {
    expiring(delivery, payload, None)
}

/// A message that expires after `expires` seconds.
fn expiring(delivery: Delivery, payload: &[u8], expires: Option<u32>) -> Arc<Message> {
    let mut properties = PropertyBuffer::new();
    let expiry = expires.map(Property::MessageExpiry);
    expiry.into_iter().for_each(|expiry| properties.push(expiry).unwrap());
    let publish = Publish {
        topic: "t",
        payload,
        delivery,
        retain: false,
        duplicate: false,
        properties: properties.get(),
    };
    let nobody = ClientKey { partition: 0, slot: 9, generation: 0 };
    Arc::new(Message::of(&publish, "t", (nobody, 0), at(0)))
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

#[test]
fn answers_to_repeated_pubrecs_are_limited() {
    let mut sessions = sessions();
    let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
    let mut batch = DeliveryBatch::default();
    let how = How { qos: QoS::ExactlyOnce, retain: false, identifiers: Identifiers::of(None) };
    batch.add(key, &message(Delivery::ExactlyOnce(id(1)), b"x"), how);
    sessions.deliver(&batch, at(0));
    let receipts = vec![Answered { kind: Kind::PubRec, id: id(1), failed: false }; 1000];
    let mut written = || {
        sessions.answered((key, connection_id), &receipts);
        sessions.get(key).unwrap().attachment.as_ref().unwrap().out.len()
    };
    assert!(written() >= 1000, "every PUBREC is answered while the buffer has room");
    (0..200).for_each(|_| _ = written());
    assert_eq!(written(), written());
}

#[test]
fn a_reconnecting_session_has_one_timer() {
    let mut sessions = sessions();
    let leave = |sessions: &mut Sessions, Opened { key, connection_id, .. }: Opened, now| {
        sessions.close(key, connection_id, Closing { will: true, expiry: None }, now);
    };
    for second in 0..10 {
        let opened = open(&mut sessions, second % 3 == 0, at(second));
        assert_eq!(sessions.due.len(), 0, "connected");
        leave(&mut sessions, opened, at(second));
        assert_eq!(sessions.next_due(), Some(at(second + 60)));
        assert_eq!(sessions.due.len(), 1, "after {second} connections before");
    }
    sessions.expire(at(68));
    assert_eq!((sessions.due.len(), sessions.names.len()), (1, 1));
    sessions.expire(at(69));
    assert_eq!((sessions.due.len(), sessions.names.len()), (0, 0));
}

#[test]
fn messages_without_subscribers_are_not_stored() {
    let mut sessions = sessions();
    let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
    let session = sessions.get(key).unwrap();
    (session.number, session.lasts) = (7, true);
    session.keys.insert("known".into(), SubscriptionSize::default());
    let keys: [Box<str>; 3] = ["known", "unknown", "known"].map(Into::into);
    let removed = sessions.unsubscribe(key, connection_id, &keys).unwrap();
    let before = sessions.records.len();
    sessions.unsubscribed(key, &keys[1..], &removed[1..]);
    assert_eq!(sessions.records.len(), before);
    sessions.unsubscribed(key, &keys, &removed);
    assert!(sessions.records.len() > before);
}

#[test]
fn messages_refused_during_a_reconnect_are_new() {
    let mut sessions = sessions();
    let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
    let ids = [id(1), id(2)];
    let (new, first) = sessions.begin(key, connection_id, &ids).unwrap();
    assert_eq!(new, [true, true]);
    let Opened { key, connection_id, .. } = open(&mut sessions, false, at(1));
    let begin = |sessions: &mut Sessions| sessions.begin(key, connection_id, &ids);
    assert_eq!(begin(&mut sessions).err(), Some(Reason::SERVER_BUSY), "not acknowledged yet");
    let first = first.expect("the session is persistent");
    first.refuse([id(2)]);
    first.set_routed();
    let (new, second) = begin(&mut sessions).unwrap();
    assert_eq!(new, [false, true], "only the first message was acknowledged");
    // The outcome of these messages is unknown.
    second.unwrap().refuse(ids);
    let (new, third) = begin(&mut sessions).unwrap();
    assert_eq!(new, [false, true]);
    third.unwrap().set_routed();
    assert_eq!(begin(&mut sessions).unwrap().0, [false, false]);
}

#[test]
fn expired_queued_messages_take_no_room() {
    let mut sessions = with(Limits { queued_messages: 3, ..Limits::default() });
    let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
    sessions.close(key, connection_id, Closing { will: false, expiry: None }, at(0));
    let mut come = |expires, now| {
        let how = How { qos: QoS::AtLeastOnce, retain: false, identifiers: Identifiers::of(None) };
        let mut batch = DeliveryBatch::default();
        batch.add(key, &expiring(Delivery::AtLeastOnce(id(1)), b"x", expires), how);
        sessions.deliver(&batch, at(now));
        let session = sessions.get(key).unwrap();
        let bytes: usize = session.queue.iter().map(|queued| queued.message.size()).sum();
        assert_eq!(session.queued_bytes, bytes);
        let left = |queued: &Queued| queued.message.expires().map(|at| at.as_secs());
        session.queue.iter().map(left).collect::<Vec<_>>()
    };
    come(None, 0);
    come(Some(10), 0);
    assert_eq!(come(Some(5), 0), [None, Some(10), Some(5)]);
    assert_eq!(come(Some(20), 4), [None, Some(10), Some(5)], "the queue is full");
    assert_eq!(come(Some(20), 5), [None, Some(10), Some(20)]);
    assert_eq!(come(None, 9), [None, Some(10), Some(20)]);
    assert_eq!(come(None, 10), [None, Some(20), None]);
}

fn will(delay: u64, due: Option<u64>) -> Will {
    let (qos, properties) = (QoS::AtLeastOnce, phalanx_mqtt::Properties::NONE);
    let will = phalanx_mqtt::Will { topic: "t", payload: b"gone", qos, retain: false, properties };
    Will { message: Message::of_will(&will), delay: at(delay), due: due.map(at) }
}

#[test]
fn wills_are_stored_until_the_router_has_them() {
    let mut sessions = sessions();
    let Opened { key, .. } = open(&mut sessions, true, at(0));
    let session = sessions.get(key).unwrap();
    (session.number, session.lasts, session.will) = (7, true, Some(Box::new(will(0, None))));
    // The session is taken over and ended before the router accepts the will.
    let effects = come(&mut sessions, false, at(0)).1;
    let id = effects.wills[0].id.expect("the session is persistent");
    assert_eq!((effects.wills.len(), sessions.pending_wills.of(7).count()), (1, 1));
    let before = sessions.records.len();
    open(&mut sessions, true, at(0));
    assert_eq!(
        sessions.records.len(),
        before,
        "the session must not end before its will is published"
    );
    sessions.will_published(id);
    assert!(sessions.records.len() > before);
    assert_eq!(sessions.pending_wills.of(7).count(), 0);
}

#[test]
fn reconnecting_in_time_cancels_the_will() {
    let comes = |delay, due| {
        let mut sessions = sessions();
        let Opened { key, .. } = open(&mut sessions, true, at(0));
        sessions.get(key).unwrap().will = Some(Box::new(will(delay, due)));
        !come(&mut sessions, false, at(20)).1.wills.is_empty()
    };
    assert!(comes(0, None), "the connection was taken over");
    assert!(!comes(5, None) && !comes(5, Some(21)));
    // After a restart, before any timer has run.
    assert!(comes(0, Some(20)) && comes(5, Some(20)));
}

/// The drops so far, by reason.
fn dropped(sessions: &Sessions) -> Vec<(DropReason, u64)> {
    let drops = &sessions.counters.drops;
    let all = DropReason::ALL.iter().map(|reason| (*reason, drops.count(*reason)));
    all.filter(|(_, count)| *count > 0).collect()
}

/// Delivers messages to the session with their own QoS.
fn deliver(sessions: &mut Sessions, key: ClientKey, messages: &[Arc<Message>], now: Duration) {
    let mut batch = DeliveryBatch::default();
    for message in messages {
        batch.add(key, message, How { qos: message.qos, ..How::default() });
    }
    sessions.deliver(&batch, now);
}

fn away(sessions: &mut Sessions, opened: &Opened, now: Duration) {
    let closing = Closing { will: false, expiry: None };
    sessions.close(opened.key, opened.connection_id, closing, now);
}

#[test]
fn every_message_is_delivered_or_counted_as_dropped() {
    let once = |payload: &[u8]| message(Delivery::AtMostOnce, payload);
    let surely = |payload: &[u8]| message(Delivery::AtLeastOnce(id(1)), payload);
    for when_full in [WhenFull::DropNewest, WhenFull::DropOldest] {
        let mut sessions = with(Limits { queued_messages: 2, when_full, ..Limits::default() });
        let opened = open(&mut sessions, false, at(0));
        // Messages in the output buffer, and one that exceeds the client's maximum packet size.
        let long = vec![0; 2 << 20];
        deliver(&mut sessions, opened.key, &[once(b"1"), once(b"2"), once(&long)], at(0));
        assert_eq!(dropped(&sessions), [(DropReason::PacketTooLarge, 1)]);
        away(&mut sessions, &opened, at(1));
        let mut expected = vec![(DropReason::ConnectionLost, 2), (DropReason::PacketTooLarge, 1)];
        assert_eq!(dropped(&sessions), expected);
        // While disconnected, QoS 0 is not queued, and two QoS 1 messages are.
        let expiring = expiring(Delivery::AtLeastOnce(id(1)), b"x", Some(5));
        deliver(&mut sessions, opened.key, &[once(b"3"), expiring, surely(b"4")], at(1));
        expected.insert(0, (DropReason::Offline, 1));
        assert_eq!(dropped(&sessions), expected);
        deliver(&mut sessions, opened.key, &[surely(b"5")], at(2));
        expected.insert(0, (DropReason::QueueFull, 1));
        assert_eq!(dropped(&sessions), expected, "the oldest QoS 1 message is not dropped");
        // The expired message frees space.
        deliver(&mut sessions, opened.key, &[surely(b"6")], at(10));
        expected.insert(3, (DropReason::Expired, 1));
        assert_eq!(dropped(&sessions), expected);
        // The session ends with two queued messages.
        open(&mut sessions, true, at(11));
        expected.insert(3, (DropReason::SessionEnded, 2));
        assert_eq!(dropped(&sessions), expected);
        // Counts sent messages, and queued ones even if they were dropped later.
        assert_eq!(sessions.counters.delivered.count(), 2 + 2 + 1);
    }
}

#[test]
fn invalid_stored_messages_are_not_sent() {
    let mut sessions = sessions();
    let opened = open(&mut sessions, false, at(0));
    let mut properties = PropertyBuffer::new();
    properties.push(Property::ResponseTopic("a/#")).unwrap();
    let stored = StoredMessage {
        topic: "t",
        payload: b"x",
        properties: properties.get(),
        qos: QoS::AtLeastOnce,
        retain: false,
    };
    let poison = Arc::new(Message::from_stored(1, &stored, None));
    deliver(&mut sessions, opened.key, &[poison], at(0));
    assert_eq!(dropped(&sessions), [(DropReason::Invalid, 1)]);
    let session = sessions.get(opened.key).unwrap();
    assert_eq!((session.inflight.len(), session.queue.len()), (0, 0));
}

#[test]
fn messages_for_a_lost_node_are_taken_in_order() {
    let mut sessions = with(Limits { queued_messages: 3, ..Limits::default() });
    let client = "$cluster/a.1";
    let opening = Opening { client_id: client.into(), receive_maximum: 2, ..opening() };
    let key = sessions.open(opening, at(0)).0.unwrap().key;
    let deliver = |payload: &[u8], identifiers, sessions: &mut Sessions| {
        let mut batch = DeliveryBatch::default();
        let how = How { qos: QoS::ExactlyOnce, retain: false, identifiers };
        batch.add(key, &message(Delivery::ExactlyOnce(id(1)), payload), how).number = 1;
        sessions.deliver(&batch, at(0));
    };
    for payload in [b"0", b"1", b"2", b"3", b"4"] {
        deliver(payload, Identifiers::None, &mut sessions);
    }
    // The queue is full, but the mark of a handover is not dropped.
    deliver(b"5", Identifiers::None, &mut sessions);
    deliver(b"mark", handed::mark(7), &mut sessions);
    let mut take = |most| {
        let taken = sessions.take_messages(client, &[id(1)], most).unwrap();
        let payloads =
            taken.messages.iter().map(|delivery| delivery.message.payload.clone()).collect();
        (taken.are_all, payloads)
    };
    let expected = |all: &[&[u8]]| all.iter().map(|payload| payload.to_vec()).collect::<Vec<_>>();
    // The node has received the first one.
    assert_eq!(take(2), (false, expected(&[b"1", b"2", b"3"])));
    assert_eq!(take(9), (true, expected(&[b"4", b"mark"])));
    assert_eq!(take(9), (true, Vec::new()));
    let session = sessions.get(key).unwrap();
    assert!(session.attachment.is_none() && session.load() == Default::default());
    assert!(sessions.take_messages("$cluster/b.2", &[], 9).is_none());
}
