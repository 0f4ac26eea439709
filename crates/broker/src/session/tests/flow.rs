//! Messages to a client: in flight, queued, and dropped.

use std::task::{Poll, Waker};

use super::*;
use crate::events::Origin;
use crate::listen::{Scheme, interned};
use crate::session::partition::inspect::Kick;
use crate::session::state::effects::Pulled;

/// The numbers of messages in flight and in the queue.
fn held(sessions: &mut Sessions, key: ClientKey) -> (usize, usize) {
    let session = sessions.get(key).unwrap();
    let unreceived = session.inflight.iter().filter_map(|(_, own)| own.message.as_ref());
    let bytes: usize = unreceived.map(|(message, _)| message.size()).sum();
    assert_eq!(session.inflight.bytes(), bytes);
    (session.inflight.len(), session.queue.len())
}

#[test]
fn the_number_of_messages_in_flight_is_limited() {
    for (asked, most) in [(1, 1), (3, 3), (u16::MAX, 3)] {
        let mut sessions = with(Limits { inflight_messages: 3, ..Limits::default() });
        let opening = Opening { receive_maximum: asked, ..opening() };
        let key = sessions.open(opening, at(0)).0.unwrap().key;
        let all = vec![message(Delivery::AtLeastOnce(id(1)), b"x"); 5];
        deliver(&mut sessions, key, &all, at(0));
        assert_eq!(held(&mut sessions, key), (most, 5 - most));
    }
}

#[test]
fn the_size_of_messages_in_flight_is_limited() {
    let each = message(Delivery::ExactlyOnce(id(1)), &[0; 1000]);
    // A message beyond the limit is alone in flight, and one more waits.
    for (queued_bytes, most) in [(3 * each.size(), 3), (each.size() - 1, 1)] {
        let mut sessions = with(Limits { queued_bytes, ..Limits::default() });
        let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
        deliver(&mut sessions, key, &vec![each.clone(); 5], at(0));
        assert_eq!(held(&mut sessions, key), (most, 1));
        assert_eq!(dropped(&sessions), [(DropReason::QueueFull, 4 - most as u64)]);
        pull(&mut sessions, (key, connection_id));
        assert_eq!(held(&mut sessions, key), (most, 1), "the window is full");
        // The client has received the message; only its packet identifier is in use.
        let received = [Answered { kind: Kind::PubRec, id: id(1), failed: false }];
        sessions.answered((key, connection_id), &received);
        pull(&mut sessions, (key, connection_id));
        assert_eq!(held(&mut sessions, key), (most + 1, 0));
    }
}

/// Takes the output of a connection.
fn pull(sessions: &mut Sessions, connection: (ClientKey, u64)) -> Option<Pulled> {
    match sessions.pull(connection, &mut Vec::new(), at(0), (Waker::noop(), None)) {
        Poll::Ready((pulled, _)) => Some(pulled),
        Poll::Pending => None,
    }
}

/// The publisher has already been acknowledged.
#[test]
fn no_message_is_dropped_for_its_size_alone() {
    let long = message(Delivery::AtLeastOnce(id(1)), &[0; 1000]);
    let short = message(Delivery::AtLeastOnce(id(1)), b"x");
    let mut sessions = with(Limits { queued_bytes: long.size() - 1, ..Limits::default() });
    let opened = open(&mut sessions, true, at(0));
    let Opened { key, connection_id, .. } = opened;
    deliver(&mut sessions, key, &[short.clone(), long.clone()], at(0));
    assert_eq!(held(&mut sessions, key), (1, 1), "behind a message in flight");
    let answer = [Answered { kind: Kind::PubAck, id: id(1), failed: false }];
    sessions.answered((key, connection_id), &answer);
    pull(&mut sessions, (key, connection_id));
    assert_eq!(held(&mut sessions, key), (1, 0));
    away(&mut sessions, &opened, at(0));
    deliver(&mut sessions, key, std::slice::from_ref(&long), at(0));
    assert_eq!((held(&mut sessions, key), dropped(&sessions)), ((1, 1), vec![]));
    deliver(&mut sessions, key, &[short], at(0));
    assert_eq!(held(&mut sessions, key), (1, 1), "others do not wait with it");
    assert_eq!(dropped(&sessions), [(DropReason::QueueFull, 1)]);
}

/// Output with QoS 0 messages, which waits for the disk or for another processor.
#[test]
fn output_that_the_sender_does_not_take_counts_as_lost() {
    let once = message(Delivery::AtMostOnce, b"x");
    for is_taken in [false, true] {
        let mut sessions = sessions();
        let Opened { key, connection_id, .. } = open(&mut sessions, true, at(0));
        deliver(&mut sessions, key, &vec![once.clone(); 2], at(0));
        let mut pulled = pull(&mut sessions, (key, connection_id)).unwrap();
        sessions.guard(key, &mut pulled);
        let Pulled::Output(output) = pulled else { panic!("the connection ends") };
        match is_taken {
            true => assert_eq!(output.into_parts().1, 2),
            false => drop(output),
        }
        let expected = [(DropReason::ConnectionLost, 2)];
        assert_eq!(dropped(&sessions), expected[usize::from(is_taken)..]);
    }
}

#[test]
fn only_clients_that_learn_the_receive_maximum_have_to_respect_it() {
    let ids: Vec<_> = (1..=2000).map(id).collect();
    for (version, is_accepted) in [(Version::V5, false), (Version::V3, true)] {
        let mut sessions = sessions();
        let opening = Opening { version, ..opening() };
        let Opened { key, connection_id, .. } = sessions.open(opening, at(0)).0.unwrap();
        assert_eq!(sessions.begin(key, connection_id, &ids).is_ok(), is_accepted);
    }
}

/// The topic alias that the broker adds makes a packet longer.
#[test]
fn a_message_that_fits_without_a_topic_alias_is_sent() {
    let small = message(Delivery::AtMostOnce, b"x");
    let sent = |most, most_aliases, count: usize| {
        let mut sessions = sessions();
        let key = sessions.open(Opening { most, most_aliases, ..opening() }, at(0)).0.unwrap().key;
        deliver(&mut sessions, key, &vec![small.clone(); count], at(0));
        let length = sessions.get(key).unwrap().attachment.as_ref().unwrap().out.len();
        (length, dropped(&sessions).len())
    };
    let (length, _) = sent(1000, 0, 1);
    assert_eq!(sent(length, 9, 2), (2 * length, 0), "no alias fits");
    // The first message defines the alias of the topic "t", which is longer than the topic.
    assert_eq!(sent(length + 3, 9, 2), (2 * length + 3 + 2, 0));
    assert_eq!(sent(length - 1, 9, 1), (0, 1));
}

/// Even if they follow messages that must not be dropped.
#[test]
fn the_oldest_messages_of_qos_0_are_dropped() {
    let limits =
        Limits { queued_messages: 4, when_full: WhenFull::DropOldest, ..Limits::default() };
    let mut sessions = with(limits);
    let opening = Opening { receive_maximum: 1, ..opening() };
    let Opened { key, connection_id, .. } = sessions.open(opening, at(0)).0.unwrap();
    let once = |payload: &[u8]| message(Delivery::AtMostOnce, payload);
    let surely = |payload: &[u8]| message(Delivery::AtLeastOnce(id(1)), payload);
    let come = |all: &[Arc<Message>], sessions: &mut Sessions| {
        deliver(sessions, key, all, at(0));
        let queue = &sessions.get(key).unwrap().queue;
        let payloads = queue.iter().flat_map(|queued| queued.message.payload.clone()).collect();
        String::from_utf8(payloads).unwrap()
    };
    // The first one is in flight.
    let first = [surely(b"0"), surely(b"a"), once(b"b"), surely(b"c"), once(b"d")];
    assert_eq!(come(&first, &mut sessions), "abcd");
    assert_eq!(come(&[once(b"e")], &mut sessions), "acde");
    assert_eq!(come(&[surely(b"f"), surely(b"g")], &mut sessions), "acfg");
    assert_eq!(come(&[once(b"h")], &mut sessions), "acfg", "none is left");
    let answer = [Answered { kind: Kind::PubAck, id: id(1), failed: false }];
    sessions.answered((key, connection_id), &answer);
    pull(&mut sessions, (key, connection_id));
    assert_eq!(come(&[once(b"i"), once(b"j")], &mut sessions), "cfgj");
    assert_eq!(dropped(&sessions), [(DropReason::QueueFull, 5)]);
}

/// A bridge may be connected to an address from which clients also connect.
#[test]
fn operators_disconnect_clients_of_an_address_but_no_bridges() {
    let mut sessions = with(Limits::default());
    let address = "192.0.2.1:1883".parse().unwrap();
    let origin =
        Some(Origin { address: Some(address), listen: interned(Scheme::Mqtt.at(address)) });
    for client_id in ["$bridge/other", "c"] {
        let opening = Opening { client_id: client_id.into(), origin, ..opening() };
        sessions.open(opening, at(0)).0.unwrap();
    }
    assert_eq!(sessions.kick(&Kick::Address(address.ip())), 1);
    assert_eq!(sessions.kick(&Kick::Client("$bridge/other".into())), 1);
}
