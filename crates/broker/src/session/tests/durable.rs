//! A partition with a journal.

use phalanx_store::{Entry, Record, Recovered, SessionId};

use super::*;
use crate::durable::recovery::RecoveredState;
use crate::durable::simulated::with_journal;
use crate::durable::{Clocks, put_session};
use crate::model::session::Session;

#[test]
fn a_full_journal_refuses_new_sessions_only() {
    with_journal(0, |wal| async move {
        let durable = (wal.clone(), RecoveredSessions::default());
        let mut sessions = durable_partition(Limits::default(), (0, Directory::new(1)), durable);
        open(&mut sessions, false, at(0));
        let short = || Opening { client_id: "short".into(), expiry: 0, ..opening() };
        let guest = sessions.open(short(), at(0)).0.unwrap();
        wal.set_full(true);
        let lasting = Opening { expiry: 60, ..short() };
        assert_eq!(sessions.open(lasting, at(0)).0.err(), Some(Reason::QUOTA_EXCEEDED));
        let own = sessions.get(guest.key).expect("the earlier session stays");
        assert!(own.is_on(guest.connection_id));
        // The session replaces an existing one.
        assert!(!open(&mut sessions, true, at(0)).present);
    });
}

/// A partition with the session of client `c`, recovered at 1000 s. The client had disconnected at 900 s.
fn recovered(expiry: u32, own: Option<Will>) -> Sessions {
    recovered_for("c", expiry, own).0
}

/// The same with the session of this client. Also returns the number of clients that the router knows.
fn recovered_for(client: &str, expiry: u32, own: Option<Will>) -> (Sessions, usize) {
    let will = own.map(Box::new);
    let number = 7;
    let session = Session { number, expiry, left: 900, will, ..Session::new(client.into(), None) };
    let mut records = Entry::new();
    put_session(&mut records, &session, std::iter::empty());
    let mut stored = phalanx_store::Session::default();
    for record in records.records() {
        let Record::Session { client, expiry, left, will, .. } = record else { continue };
        (stored.client, stored.expiry, stored.left) = (client.into(), expiry, left);
        stored.will = will.to_vec().into();
    }
    let mut recovered = Recovered::default();
    recovered.sessions.insert(SessionId(number), stored);
    let clocks = Clocks { now: at(0), day: at(1000) };
    let mut state = RecoveredState::at(recovered, 1, clocks).unwrap();
    let durable = (Wal::default(), state.sessions.remove(0));
    let sessions = durable_partition(Limits::default(), (0, Directory::new(1)), durable);
    (sessions, state.routes.clients.len())
}

/// Messages for a node are queued before its first lane, even if it has announced no filters.
#[test]
fn the_router_knows_recovered_sessions_for_nodes() {
    for (client, is_known) in [("$cluster/b.1", true), ("$adopted/b.1/c.1", true), ("b", false)] {
        let (mut sessions, known) = recovered_for(client, 3600, None);
        assert_eq!((sessions.routed(client).is_some(), known), (is_known, usize::from(is_known)));
    }
}

/// Even before the partition has resumed its sessions.
#[test]
fn a_session_that_expired_during_a_downtime_is_not_resumed() {
    for (expiry, delay, is_present, wills) in
        [(60, 1000, false, 1), (200, 50, true, 1), (200, 150, true, 0)]
    {
        let (opened, effects) = come(&mut recovered(expiry, Some(will(delay, None))), false, at(1));
        assert_eq!((opened.present, effects.wills.len()), (is_present, wills), "{expiry} {delay}");
        let other = Opening { user: Some("other".into()), ..opening() };
        let refused = recovered(expiry, None).open(other, at(1)).0.err();
        assert_eq!(refused, is_present.then_some(Reason::NOT_AUTHORIZED));
    }
}
