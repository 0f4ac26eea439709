//! A partition of sessions without a broker around it.

use std::sync::Arc;
use std::time::Duration;

use phalanx_mqtt::{Delivery, Kind, PacketId, Properties, Publish, QoS, Reason, Version};

use crate::config::Config;
use crate::counters::Counters;
use crate::durable::Ledger;
use crate::durable::restored::RestoredSessions;
use crate::message::Message;
use crate::routing::delivery::{Batch, How, Identifiers};
use crate::session::close::Closing;
use crate::session::key::ClientKey;
use crate::session::open::{Opened, Opening};
use crate::session::outgoing::Answered;
use crate::session::table::Sessions;
use crate::terms::{Followed, Live, Terms};

fn sessions() -> Sessions {
    let live = Live::new(Terms::new(Config::new(), None));
    let nothing = RestoredSessions::default();
    Sessions::new((0, 1), Followed::new(live), Counters::new(), Ledger::default(), nothing)
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A client comes whose session outlives its connection.
fn open(sessions: &mut Sessions, clean_start: bool, now: Duration) -> Opened {
    let opening = Opening {
        client_id: "c".into(),
        user: None,
        version: Version::V5,
        clean_start,
        expiry: 60,
        receive_maximum: 10,
        most: 1 << 20,
        most_aliases: 0,
        will: None,
    };
    sessions.open(opening, now).0.expect("it is let in")
}

fn message(delivery: Delivery, payload: &[u8]) -> Arc<Message> {
    let publish = Publish {
        topic: "t",
        payload,
        delivery,
        retain: false,
        duplicate: false,
        properties: Properties::NONE,
    };
    let nobody = ClientKey { partition: 0, slot: 9, generation: 0 };
    Arc::new(Message::of(&publish, "t", (nobody, 0), at(0)))
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

#[test]
fn a_receipt_said_again_and_again_is_not_answered_without_end() {
    let mut sessions = sessions();
    let Opened { key, link, .. } = open(&mut sessions, true, at(0));
    let mut batch = Batch::default();
    let how = How { qos: QoS::ExactlyOnce, retain: false, identifiers: Identifiers::of(None) };
    batch.add(key, &message(Delivery::ExactlyOnce(id(1)), b"x"), how);
    sessions.deliver(&batch, at(0));
    let receipts = vec![Answered { kind: Kind::PubRec, id: id(1), failed: false }; 1000];
    let mut written = || {
        sessions.answered(key, link, &receipts);
        sessions.get(key).unwrap().link.as_ref().unwrap().out.len()
    };
    assert!(written() >= 1000, "each is answered while there is room");
    (0..200).for_each(|_| _ = written());
    assert_eq!(written(), written());
}

#[test]
fn who_comes_and_goes_is_looked_after_once() {
    let mut sessions = sessions();
    let leave = |sessions: &mut Sessions, Opened { key, link, .. }: Opened, now| {
        sessions.close(key, link, Closing { will: true, expiry: None }, now);
    };
    for second in 0..10 {
        let opened = open(&mut sessions, second % 3 == 0, at(second));
        assert_eq!(sessions.due.len(), 0, "it is here");
        leave(&mut sessions, opened, at(second));
        assert_eq!(sessions.next_due(), Some(at(second + 60)));
        assert_eq!(sessions.due.len(), 1, "it was here {second} times before");
    }
    sessions.expire(at(68));
    assert_eq!((sessions.due.len(), sessions.names.len()), (1, 1));
    sessions.expire(at(69));
    assert_eq!((sessions.due.len(), sessions.names.len()), (0, 0));
}

#[test]
fn what_nobody_has_subscribed_to_is_not_noted() {
    let mut sessions = sessions();
    let Opened { key, .. } = open(&mut sessions, true, at(0));
    let session = sessions.get(key).unwrap();
    (session.number, session.lasts) = (7, true);
    session.keys.insert("known".into());
    let keys: [Box<str>; 3] = ["known", "unknown", "known"].map(Into::into);
    let reasons = sessions.unsubscribe(key, &keys);
    let before = sessions.notes.len();
    sessions.unsubscribed(key, &keys[1..], &reasons[1..]);
    assert_eq!(sessions.notes.len(), before);
    sessions.unsubscribed(key, &keys, &reasons);
    assert!(sessions.notes.len() > before);
}

#[test]
fn what_was_refused_while_its_client_came_back_is_new() {
    let mut sessions = sessions();
    let Opened { key, link, .. } = open(&mut sessions, true, at(0));
    let ids = [id(1), id(2)];
    let (new, first) = sessions.begin(key, link, &ids).unwrap();
    assert_eq!(new, [true, true]);
    let Opened { key, link, .. } = open(&mut sessions, false, at(1));
    let begin = |sessions: &mut Sessions| sessions.begin(key, link, &ids);
    assert_eq!(begin(&mut sessions).err(), Some(Reason::SERVER_BUSY), "nobody knows yet");
    let first = first.expect("its session outlives its connection");
    first.refuse([id(2)]);
    first.set_routed();
    let (new, second) = begin(&mut sessions).unwrap();
    assert_eq!(new, [false, true], "the first has arrived, the second has not");
    // Nobody knows where these have gone.
    second.unwrap().refuse(ids);
    let (new, third) = begin(&mut sessions).unwrap();
    assert_eq!(new, [false, true]);
    third.unwrap().set_routed();
    assert_eq!(begin(&mut sessions).unwrap().0, [false, false]);
}
