//! A session moves from one node to another: which messages each of the two copies gets.

use phalanx_store::Recovered;

use super::*;
use crate::access::Identity;
use crate::durable::Clocks;
use crate::durable::recovery::{RecoveredSession, RecoveredState};
use crate::durable::simulated::with_journal;
use crate::model::message::Source;
use crate::model::moving::{CUT_TOPIC, Cut, Holding, Moving};
use crate::requests::FirstIds;
use crate::session::partition::install::Arriving;
use crate::session::partition::moving::NotNow;

const TOKEN: &str = "token";

/// The journals of the holder, the new node and another one.
const NODES: [&str; 3] = ["h.1", "n.2", "x.3"];

fn owner() -> Identity {
    Identity { user: None, client: "c".into() }
}

/// The key of another node's session.
fn node(slot: u32) -> Option<ClientKey> {
    Some(ClientKey { partition: 0, slot: 100 + slot, generation: 0 })
}

/// Delivers messages to the session of client `c`, given by their origin and their payload, or as cuts.
fn deliver(sessions: &mut Sessions, all: &[(Option<ClientKey>, Result<&str, usize>)]) {
    deliver_by(TOKEN, sessions, all);
}

/// The same, with cuts of the move with this token.
fn deliver_by(
    token: &str,
    sessions: &mut Sessions,
    all: &[(Option<ClientKey>, Result<&str, usize>)],
) {
    let slot = sessions.names["c"];
    let (key, mut batch) = (sessions.key(slot), DeliveryBatch::default());
    for (from, what) in all {
        let mut own = match what {
            Ok(payload) => {
                let delivery = Delivery::ExactlyOnce(id(1));
                let message = message(delivery, payload.as_bytes());
                let mut message = Arc::into_inner(message).unwrap();
                message.source = if from.is_some() { Source::Node } else { Source::Here };
                message
            }
            Err(by) => {
                let [from, to] = [NODES[0], NODES[1]].map(str::to_owned);
                let (token, by) = (token.to_owned(), NODES[*by].to_owned());
                Message::cut(Cut { token, from, to, by, at: String::new() }.write())
            }
        };
        own.from = *from;
        batch.add(key, &Arc::new(own), How { qos: QoS::ExactlyOnce, ..How::default() });
    }
    sessions.deliver(&batch, at(1));
}

/// The payloads in the queue.
fn queued(sessions: &mut Sessions) -> Vec<String> {
    let slot = sessions.names["c"];
    let queue = sessions.at(slot).unwrap().queue.iter();
    queue.map(|queued| String::from_utf8_lossy(&queued.message.payload).into_owned()).collect()
}

fn nodes() -> Vec<String> {
    NODES.map(str::to_owned).to_vec()
}

/// The holder, whose client is disconnected and has a message in flight, and the new node with a copy of the session.
fn holder_and_copy(wal: &Wal) -> (Sessions, Sessions) {
    holder_and_copy_with(wal, Limits::default(), opening())
}

/// The same with these limits, for a client that connects like this.
fn holder_and_copy_with(wal: &Wal, limits: Limits, opening: Opening) -> (Sessions, Sessions) {
    let partition = || {
        let durable = (wal.clone(), RecoveredSessions::default());
        durable_partition(limits.clone(), (0, Directory::new(1)), durable)
    };
    let (mut holder, mut copy) = (partition(), partition());
    assert!(holder.open(opening, at(0)).0.is_ok());
    deliver(&mut holder, &[(None, Ok("sent"))]);
    let (left, _) = holder.leave(&owner(), (&TOKEN.into(), false), at(1));
    let left = left.expect("it leaves");
    let mut session = read(left.record.bytes());
    session.moving = Moving::Arriving { token: TOKEN.into(), message: 0, delivery: 0 };
    let place = copy.reserve(&owner()).expect("a free place");
    let arriving = Arriving { session, requests: Vec::new(), place };
    let first = FirstIds { message: 1 << 40, delivery: 1 << 40 };
    assert!(copy.install(arriving, first, at(1)).is_ok());
    (holder, copy)
}

fn read(record: &[u8]) -> RecoveredSession {
    let recovered = Recovered::from_entry(record).expect("records");
    let clocks = Clocks { now: at(1), day: at(1) };
    RecoveredState::at(recovered, 1, clocks).unwrap().sessions.remove(0).sessions.remove(0)
}

#[test]
fn a_session_consists_of_the_parts_before_and_behind_the_cuts() {
    with_journal(0, |wal| async move {
        let (mut holder, mut copy) = holder_and_copy(&wal);
        let held = |sessions: &mut Sessions| sessions.holding(&owner(), at(1));
        assert_eq!(held(&mut holder), Some((Holding::Has, 0)));
        assert_eq!(held(&mut copy), Some((Holding::Arriving, 0)));
        deliver(&mut holder, &[(None, Ok("h0")), (node(2), Ok("x0")), (None, Err(0))]);
        let own = |sessions: &mut Sessions| sessions.give(&owner(), TOKEN, (&nodes(), at(1)));
        assert_eq!(own(&mut holder).err(), Some(NotNow::Busy), "not all have divided");
        let rest = [(None, Ok("h1")), (node(1), Ok("n0")), (node(2), Err(2)), (node(2), Ok("x1"))];
        deliver(&mut holder, &rest);
        // A repeated cut changes nothing.
        deliver(&mut holder, &[(node(1), Err(1)), (node(1), Ok("n1")), (node(1), Err(1))]);
        assert_eq!(holder.give(&owner(), "other", (&nodes(), at(1))).err(), Some(NotNow::Over));
        let (state, _) = own(&mut holder).expect("all have divided");
        assert_eq!(held(&mut holder), Some((Holding::Given, 0)));
        assert_eq!(holder.open(opening(), at(1)).0.err(), Some(Reason::SERVER_BUSY));

        let begin = [(node(2), Ok("x0")), (node(0), Err(0)), (node(0), Ok("h1")), (None, Err(1))];
        deliver(&mut copy, &begin);
        let left = read(state.bytes());
        left.messages().for_each(|message| message.set_number(0));
        let mut left = Some(left);
        let early = copy.arrive(&owner(), TOKEN, (&mut left, &nodes()), at(1)).err();
        assert_eq!(early, Some(NotNow::Busy), "not all have divided");
        deliver(&mut copy, &[(None, Ok("n1")), (node(2), Err(2)), (node(2), Ok("x1"))]);
        assert_eq!(copy.open(opening(), at(1)).0.err(), Some(Reason::SERVER_BUSY));
        assert!(copy.arrive(&owner(), TOKEN, (&mut left, &nodes()), at(1)).is_ok());
        assert_eq!(queued(&mut copy), ["h0", "x0", "n0", "h1", "n1", "x1"]);
        assert_eq!(held(&mut copy), Some((Holding::Arriving, 1)), "it is not on disk");
        assert!(!copy.arrived(&owner(), "other") && copy.arrived(&owner(), TOKEN));
        assert_eq!(held(&mut copy), Some((Holding::Has, 1)));
        let opened = copy.open(opening(), at(2)).0.unwrap();
        let own = copy.get(opened.key).unwrap();
        assert_eq!((own.inflight.len(), opened.present), (1, true), "that in flight moved, too");
        assert!(holder.drop_given(&owner(), 1, &mut Effects::default()));
        assert_eq!(holder.names.len(), 0);
    });
}

/// The sessions of a partition, the messages in their queues and those in flight, according to the gauges.
fn shown(sessions: &Sessions) -> [i64; 3] {
    let Counters { sessions, queued, inflight, .. } = &sessions.counters;
    [sessions.get(), queued.member("0").get(), inflight.member("0").get()]
}

#[test]
fn the_gauges_count_one_copy_and_no_marks() {
    for arrives in [true, false] {
        with_journal(0, move |wal| async move {
            let (mut holder, mut copy) = holder_and_copy(&wal);
            let one = |sessions: &Sessions| sessions.counters.places.is_full(1);
            assert_eq!((shown(&holder), shown(&copy)), ([1, 0, 1], [0; 3]));
            let two = |sessions: &Sessions| sessions.counters.places.is_full(2);
            assert!(one(&copy) && !two(&copy), "the copy has the place that was reserved for it");
            let all = [(None, Ok("h0")), (None, Err(0)), (node(1), Err(1)), (node(2), Err(2))];
            deliver(&mut holder, &all);
            assert_eq!(shown(&holder), [1, 1, 1]);
            assert_eq!(holder.counters.delivered.count(), 2);
            let (state, _) = holder.give(&owner(), TOKEN, (&nodes(), at(1))).unwrap();
            deliver(&mut holder, &[(None, Ok("h1"))]);
            deliver(&mut copy, &[(node(0), Err(0)), (node(0), Ok("h1")), (None, Err(1))]);
            deliver(&mut copy, &[(node(2), Err(2))]);
            assert_eq!((shown(&holder), shown(&copy)), ([0; 3], [0; 3]));
            assert!(one(&holder) && one(&copy));
            match arrives {
                true => {
                    let left = read(state.bytes());
                    left.messages().for_each(|message| message.set_number(0));
                    let mut left = Some(left);
                    assert!(copy.arrive(&owner(), TOKEN, (&mut left, &nodes()), at(1)).is_ok());
                    assert!(holder.drop_given(&owner(), 1, &mut Effects::default()));
                    assert_eq!((shown(&holder), shown(&copy)), ([0; 3], [1, 2, 1]));
                }
                false => {
                    copy.give_up(&owner(), TOKEN, &mut Effects::default());
                    assert!(holder.stay(&owner(), TOKEN, at(1)));
                    assert_eq!((shown(&holder), shown(&copy)), ([1, 2, 1], [0; 3]));
                }
            }
            assert_eq!((one(&holder), one(&copy)), (!arrives, arrives));
        });
    }
}

#[test]
fn a_session_moves_to_a_node_with_a_free_place() {
    let mut sessions = with(Limits { sessions: 2, ..Limits::default() });
    let other = |client: &str| Identity { user: None, client: client.into() };
    assert!(sessions.open(opening(), at(0)).0.is_ok());
    let place = sessions.reserve(&other("d"));
    assert!(matches!(place, Ok(Some(_))));
    assert_eq!(sessions.reserve(&other("e")).err(), Some(NotNow::Full));
    let new = Opening { client_id: "e".into(), ..opening() };
    assert_eq!(
        sessions.open(new, at(0)).0.err(),
        Some(Reason::QUOTA_EXCEEDED),
        "the place is taken"
    );
    assert!(matches!(sessions.reserve(&owner()), Ok(None)), "there is a copy");
    let owner = Identity { user: Some("eve".into()), ..owner() };
    assert_eq!(sessions.reserve(&owner).err(), Some(NotNow::Over));
    drop(place);
    assert!(sessions.reserve(&other("e")).is_ok());
}

#[test]
fn a_session_that_does_not_arrive_stays() {
    for is_given in [false, true] {
        with_journal(0, move |wal| async move {
            let (mut holder, mut copy) = holder_and_copy(&wal);
            let all = [(None, Err(0)), (node(1), Err(1)), (node(2), Err(2)), (node(2), Ok("x"))];
            deliver(&mut holder, &all);
            if is_given {
                assert!(holder.give(&owner(), TOKEN, (&nodes(), at(1))).is_ok());
            }
            copy.give_up(&owner(), "other", &mut Effects::default());
            assert_eq!(copy.names.len(), 1);
            copy.give_up(&owner(), TOKEN, &mut Effects::default());
            assert_eq!(copy.names.len(), 0);
            assert!(!holder.drop_given(&owner(), 0, &mut Effects::default()));
            assert!(!holder.stay(&owner(), "other", at(2)));
            if is_given {
                assert!(holder.stay(&owner(), TOKEN, at(2)));
                assert_eq!(queued(&mut holder), ["x"], "without cuts");
            }
            // The client may return before the session is given away.
            let opened = holder.open(Opening { must_exist: true, ..opening() }, at(2)).0.unwrap();
            assert!(opened.present && matches!(holder.get(opened.key).unwrap().moving, Moving::No));
            assert_eq!(queued(&mut holder), ["x"]);
            assert_eq!(holder.give(&owner(), TOKEN, (&nodes(), at(1))).err(), Some(NotNow::Over));
            let gone = copy.open(Opening { must_exist: true, ..opening() }, at(2)).0.err();
            assert_eq!(gone, Some(Reason::SERVER_BUSY), "no new session begins");
        });
    }
}

#[test]
fn a_copy_that_does_not_know_a_node_does_not_become_the_session() {
    with_journal(0, |wal| async move {
        let (mut holder, mut copy) = holder_and_copy(&wal);
        let cuts = [(node(0), Err(0)), (None, Err(1)), (node(2), Err(2))];
        deliver(&mut holder, &[(None, Err(0)), (node(1), Err(1)), (node(2), Err(2))]);
        let (state, _) = holder.give(&owner(), TOKEN, (&nodes(), at(1))).unwrap();
        deliver(&mut copy, &cuts);
        deliver(&mut copy, &[(node(5), Ok("y"))]);
        let failed =
            copy.arrive(&owner(), TOKEN, (&mut Some(read(state.bytes())), &nodes()), at(1));
        assert_eq!(failed.err(), Some(NotNow::Busy));
    });
}

#[test]
fn a_cut_that_is_late_does_nothing() {
    with_journal(0, |wal| async move {
        let (mut holder, _) = holder_and_copy(&wal);
        assert!(holder.stay(&owner(), TOKEN, at(2)));
        deliver(&mut holder, &[(node(2), Err(2))]);
        assert!(queued(&mut holder).is_empty());
        // The next move.
        assert!(holder.leave(&owner(), (&"second".into(), false), at(3)).0.is_ok());
        deliver(&mut holder, &[(node(2), Err(2)), (node(2), Ok("x"))]);
        deliver_by("second", &mut holder, &[(None, Err(0)), (node(1), Err(1))]);
        let early = holder.give(&owner(), "second", (&nodes(), at(3))).err();
        assert_eq!(early, Some(NotNow::Busy), "the third node has not divided its messages");
        // The client is back.
        let opened = holder.open(opening(), at(4)).0.unwrap();
        deliver_by("second", &mut holder, &[(node(2), Err(2))]);
        let sent = holder.get(opened.key).unwrap().attachment.as_ref().unwrap().out.clone();
        assert!(!String::from_utf8_lossy(&sent).contains(CUT_TOPIC));
    });
}

#[test]
fn a_client_that_is_back_is_not_disconnected_again() {
    with_journal(0, |wal| async move {
        let (mut holder, _) = holder_and_copy(&wal);
        let opened = holder.open(opening(), at(2)).0.unwrap();
        let again = holder.leave(&owner(), (&TOKEN.into(), true), at(2)).0;
        assert_eq!(again.err(), Some(NotNow::Over));
        assert!(holder.get(opened.key).unwrap().attachment.is_some());
    });
}

#[test]
fn a_session_that_moves_keeps_its_will_and_its_limits() {
    with_journal(0, |wal| async move {
        let will = Some((Arc::into_inner(message(Delivery::AtMostOnce, b"will")).unwrap(), at(30)));
        let limits = Limits { queued_messages: 5, ..Limits::default() };
        let opening = Opening { will, ..opening() };
        let (mut holder, mut copy) = holder_and_copy_with(&wal, limits, opening);
        deliver(&mut holder, &[(None, Ok("holder")); 9]);
        deliver(&mut holder, &[(None, Err(0)), (node(1), Err(1)), (node(2), Err(2))]);
        deliver(&mut copy, &[(node(0), Err(0)), (None, Err(1)), (node(2), Err(2))]);
        deliver(&mut copy, &[(None, Ok("new")); 2]);
        let (state, _) = holder.give(&owner(), TOKEN, (&nodes(), at(1))).unwrap();
        let mut left = Some(read(state.bytes()));
        assert!(copy.arrive(&owner(), TOKEN, (&mut left, &nodes()), at(1)).is_ok());
        assert_eq!(queued(&mut copy), ["holder"; 5]);
        assert!(copy.arrived(&owner(), TOKEN));
        assert_eq!(holder.expire(at(100)).wills.len(), 0);
        assert_eq!(copy.expire(at(30)).wills.len(), 0);
        assert_eq!(copy.expire(at(31)).wills.len(), 1, "the client did not come");
    });
}
