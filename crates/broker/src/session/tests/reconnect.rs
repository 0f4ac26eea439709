//! Reconnecting clients: packet identifiers that are still in use, limits, and the end of sessions.

use std::task::{Poll, Waker};

use phalanx_mqtt::Frame;
use phalanx_store::{Record, SessionId};

use super::*;
use crate::durable::recovery::RecoveredSession;
use crate::durable::simulated::with_journal;
use crate::model::topic_aliases::may_have_alias;
use crate::requests::FirstIds;
use crate::session::partition::install::{Added, Arriving};
use crate::session::state::effects::Pulled;

/// The kinds of packets that a connection gets.
fn sent(sessions: &mut Sessions, connection: (ClientKey, u64)) -> Vec<Kind> {
    let pulled = sessions.pull(connection, &mut Vec::new(), at(0), (Waker::noop(), None));
    let Poll::Ready((Pulled::Output(output), _)) = pulled else { return Vec::new() };
    let (mut bytes, mut kinds) = (output.into_parts().0, Vec::new());
    while let Some(frame) = Frame::split(&bytes, Frame::MAX_PACKET).unwrap() {
        kinds.push(frame.kind());
        let length = frame.length();
        bytes.drain(..length);
    }
    kinds
}

fn answer(sessions: &mut Sessions, connection: (ClientKey, u64), kind: Kind, number: u16) {
    sessions.answered(connection, &[Answered { kind, id: id(number), failed: false }]);
}

#[test]
fn pubrel_does_not_wait_for_the_receive_maximum() {
    let mut sessions = sessions();
    let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
    let each = message(Delivery::ExactlyOnce(id(1)), b"x");
    deliver(&mut sessions, key, &vec![each.clone(); 3], at(0));
    answer(&mut sessions, (key, connection_id), Kind::PubRec, 3);
    let opening = Opening { receive_maximum: 2, ..opening() };
    let connection = (key, sessions.open(opening, at(1)).0.unwrap().connection_id);
    assert_eq!(sent(&mut sessions, connection), [Kind::PubRel, Kind::Publish, Kind::Publish]);
    // PUBREL does not count towards the receive maximum, before and after it is answered.
    deliver(&mut sessions, key, &vec![each; 2], at(1));
    assert!(sent(&mut sessions, connection).is_empty());
    answer(&mut sessions, connection, Kind::PubComp, 3);
    assert!(sent(&mut sessions, connection).is_empty());
    answer(&mut sessions, connection, Kind::PubRec, 1);
    assert_eq!(sent(&mut sessions, connection), [Kind::PubRel]);
    answer(&mut sessions, connection, Kind::PubComp, 1);
    assert_eq!(sent(&mut sessions, connection), [Kind::Publish]);
}

#[test]
fn the_receive_maximum_begins_anew_with_each_connection() {
    let mut sessions = sessions();
    let begun = Opening { version: Version::V3, ..opening() };
    let Opened { key, connection_id, .. } = sessions.open(begun, at(0)).0.unwrap();
    let (all, last): (Vec<_>, _) = ((1..=1024).map(id).collect(), id(5000));
    for ids in [&all[..], &(2000..3000).map(id).collect::<Vec<_>>()] {
        sessions.begin(key, connection_id, ids).unwrap().1.unwrap().set_routed();
    }
    let Opened { connection_id, .. } = open(&mut sessions, false, at(1));
    let mut begin = |ids: &[PacketId]| sessions.begin(key, connection_id, ids).map(|begun| begun.0);
    assert_eq!(begin(&[last]), Ok(vec![true]));
    assert_eq!(begin(&all[..1023]), Ok(vec![false; 1023]), "sent again");
    assert_eq!(begin(&[id(6000)]), Err(Reason::RECEIVE_MAXIMUM_EXCEEDED));
    sessions.release(key, connection_id, &[last]);
    assert_eq!(sessions.begin(key, connection_id, &[id(5001)]).unwrap().0, [true]);
}

/// A client may exceed the limit, because a reload may lower it and other partitions also have sessions.
#[test]
fn a_refused_client_keeps_its_session() {
    let mut sessions = with(Limits { sessions: 2, ..Limits::default() });
    let before = open(&mut sessions, false, at(0));
    sessions.counters.sessions.add(5);
    let other = Opening { client_id: "d".into(), ..opening() };
    assert_eq!(sessions.open(other, at(1)).0.err(), Some(Reason::QUOTA_EXCEEDED));
    let after = open(&mut sessions, true, at(1));
    assert!(!after.present && after.key != before.key, "in the place of its earlier one");
}

#[test]
fn adopted_sessions_and_other_nodes_may_exceed_the_number_of_sessions() {
    with_journal(0, |wal| async move {
        let durable = (wal, RecoveredSessions::default());
        let limits = Limits { sessions: 2, ..Limits::default() };
        let mut sessions = durable_partition(limits, (0, Directory::new(1)), durable);
        let mut add = |client: &str| {
            let session = RecoveredSession::holder(client.into(), Vec::new());
            let first = FirstIds { message: 1, delivery: 1 };
            let added = sessions.install(
                Arriving { session, requests: Vec::new(), place: None },
                first,
                at(0),
            );
            added.map_or_else(|refused| refused, |(added, ..)| added)
        };
        assert_eq!(["c", "d", "e"].map(&mut add), [Added::Yes, Added::Yes, Added::BeyondLimit]);
        assert_eq!(add("d"), Added::Exists);
        let new = |client: &str| Opening { client_id: client.into(), ..opening() };
        assert_eq!(sessions.open(new("f"), at(0)).0.err(), Some(Reason::QUOTA_EXCEEDED));
        assert!(sessions.open(new("d"), at(0)).0.is_ok_and(|opened| opened.present));
        assert!(sessions.open(new("$cluster/b"), at(0)).0.is_ok());
    });
}

/// The client disconnects at the same moment, and asks for another expiry interval.
#[test]
fn a_client_cannot_prolong_a_session_that_an_operator_ends() {
    let mut sessions = sessions();
    let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
    let reason = Reason::ADMINISTRATIVE_ACTION;
    assert!(sessions.end_session("c", |_| true, reason, &mut Effects::default()));
    let closing = Closing { will: false, expiry: Some(60) };
    sessions.close(key, connection_id, closing, at(0));
    assert!(sessions.names.is_empty());
}

#[test]
fn sessions_expire_in_steps() {
    let mut sessions = sessions();
    for number in 0..600 {
        let opening = Opening { client_id: number.to_string().into(), ..opening() };
        let opened = sessions.open(opening, at(0)).0.unwrap();
        away(&mut sessions, &opened, at(0));
    }
    let mut left = || {
        sessions.expire(at(61));
        sessions.names.len()
    };
    assert_eq!([left(), left(), left()], [600 - 256, 600 - 512, 0]);
}

#[test]
fn records_outlast_an_operation_of_an_earlier_connection() {
    let mut sessions = sessions();
    let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
    sessions.records.push(&Record::SessionEnd { session: SessionId(7) });
    sessions.release(key, connection_id + 1, &[id(1)]);
    sessions.subscribe(key, connection_id + 1, Vec::new());
    assert!(!sessions.records.is_empty());
}

#[test]
fn few_long_topics_get_aliases() {
    assert!(may_have_alias(1, 65_535) && !may_have_alias(1, 65_536));
    assert!(may_have_alias(64, 65_536) && !may_have_alias(64, 65_537));
    let mut sessions = sessions();
    let opening = Opening { most_aliases: 10, ..opening() };
    let key = sessions.open(opening, at(0)).0.unwrap().key;
    let topic = |n: u32| format!("{n}{}", "x".repeat(40_000));
    let message_to = |n| {
        let (topic, payload, qos) = (topic(n), &b"x"[..], QoS::AtMostOnce);
        let properties = phalanx_mqtt::Properties::NONE;
        let stored = StoredMessage { topic: &topic, payload, properties, qos, retain: false };
        Arc::new(Message::from_stored(0, &stored, None))
    };
    deliver(&mut sessions, key, &[message_to(1), message_to(2), message_to(3)], at(0));
    let attachment = sessions.get(key).unwrap().attachment.as_ref().unwrap();
    assert!(attachment.aliases.keys().map(|topic| &**topic).eq([topic(1)]));
}
