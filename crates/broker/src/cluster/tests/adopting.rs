//! Adoptions during which NATS loses everything, or requests are lost.

use std::sync::Arc;
use std::time::Duration;

use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_mqtt::{Properties, QoS, Reason};
use phalanx_nats::{Expected, StreamConfig};
use phalanx_store::Mirror;

use crate::access::{ADOPTED_CLIENTS, Identity, NODE_CLIENTS};
use crate::cluster::adoption::adopt::adopt;
use crate::cluster::adoption::installing::install;
use crate::cluster::tests::{
    JOURNAL, MAX_OPERATIONS, Program, journal, lease_of, renew_and_wait, run,
};
use crate::cluster_names::{BATCH, JournalName, OPEN};
use crate::connection::connect::kept_session::let_in;
use crate::durable::recovery::{RecoveredSession, RecoveredSessions, RecoveredState};
use crate::events::drops::DropReason;
use crate::kept::lease::{Lease, Record, StepError};
use crate::kept::state::OtherJournal;
use crate::model::message::{Message, StoredMessage};

/// Stores a lease of the journal that is not renewed, and a stream that does not store a seal, so that an adoption cannot
/// continue. Returns the stream's name.
async fn put_unsealed(program: &Program) -> String {
    let Program { streams, names, .. } = program;
    let subjects = [BATCH, OPEN].map(|kind| names.subject(&journal(), kind));
    let stream = StreamConfig { subjects: subjects.into(), ..names.stream(&journal()) };
    for name in [&names.leases(), &stream] {
        streams.create(name).await.unwrap();
    }
    let open = names.subject(&journal(), OPEN);
    streams.append(&open, Expected::Any, b"").await.unwrap();
    program.put_lease(&journal(), &lease_of(&journal())).await;
    stream.name
}

#[test]
fn an_adoption_ends_if_nats_has_lost_everything() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (leases, stream) = (names.leases(), put_unsealed(&program).await);
            let kept = program.start_watching();
            let holder = async || program.lease().await.map(|(_, lease)| lease.holder);
            while holder().await != kept.own_journal().map(|journal| journal.to_string()) {
                renew_and_wait(&kept).await;
            }
            for name in [&leases.name, &stream] {
                streams.delete(name).await.unwrap();
            }
            streams.create(&leases).await.unwrap();
            while program.lease().await.is_none() {
                renew_and_wait(&kept).await;
            }
            // Only the lost node's disk has its sessions.
            let (_, lease) = program.lease().await.unwrap();
            assert_eq!((&lease.holder, lease.is_adopted), (&journal().to_string(), false));
            assert!(lease.is_incomplete && kept.other_journals().unwrap().contains(&lease.holder));
            assert!(!kept.has_adopted("1"), "its messages count again");
        })
    });
}

/// NATS may lose the journal of a running node at this moment.
#[test]
fn a_journal_that_is_lost_while_it_is_read_is_not_adopted() {
    run(|program| {
        Box::pin(async move {
            let stream = program.put_stream(b"").await;
            program.put_missing(&stream).await;
            let kept = program.start_watching();
            while program.lease().await.unwrap().1.reader.is_none() {
                renew_and_wait(&kept).await;
            }
            program.streams.delete(&stream).await.unwrap();
            for _ in 0..200 {
                renew_and_wait(&kept).await;
            }
            let (_, lease) = program.lease().await.unwrap();
            assert_eq!((&lease.holder, lease.is_adopted), (&journal().to_string(), false));
        })
    });
}

/// As above, but after the adopting node has taken the lease.
#[test]
fn a_journal_that_is_lost_before_its_sessions_are_installed_is_given_back() {
    run(|program| {
        Box::pin(async move {
            let stream = put_unsealed(&program).await;
            let kept = program.start_watching();
            while program.lease().await.unwrap().1.holder == journal().to_string() {
                renew_and_wait(&kept).await;
            }
            program.streams.delete(&stream).await.unwrap();
            let since = now();
            while program.lease().await.unwrap().1.holder != journal().to_string() {
                assert!(!program.lease().await.unwrap().1.is_adopted);
                renew_and_wait(&kept).await;
            }
            assert!(now() - since < kept.timeout(), "not only by the next attempt");
            let given_back = Record { is_incomplete: true, ..lease_of(&journal()) };
            let (number, lease) = program.lease().await.unwrap();
            assert_eq!(lease, given_back);
            assert!(!kept.has_adopted("1"), "its messages count again");
            for _ in 0..200 {
                renew_and_wait(&kept).await;
            }
            assert_eq!(program.lease().await.unwrap(), (number, given_back));
            let (kept, mirror) = program.mirror("3");
            assert_eq!(mirror.open(JOURNAL, 1, 3).await, Ok(1));
            assert_eq!(kept.lost_reason(), None);
        })
    });
}

/// The adopting node was lost, too.
#[test]
fn a_journal_without_a_stream_was_adopted_only_if_its_sessions_were_installed() {
    for is_installed in [false, true] {
        run(move |program| {
            Box::pin(async move {
                let Program { streams, names, .. } = &program;
                streams.create(&names.leases()).await.unwrap();
                let lost_adopter = lease_of(&JournalName { node: "c".into(), id: 2 });
                program.put_lease(&journal(), &Record { is_installed, ..lost_adopter }).await;
                let kept = program.start_watching();
                let own = kept.own_journal().unwrap().to_string();
                let is_over = |lease: &Record| match is_installed {
                    true => lease.is_adopted,
                    false => lease.holder == journal().to_string(),
                };
                while !is_over(&program.lease().await.unwrap().1) {
                    renew_and_wait(&kept).await;
                }
                let (_, lease) = program.lease().await.unwrap();
                assert_eq!(lease.holder == own, is_installed, "{lease:?}");
                assert_eq!((lease.is_incomplete, lease.is_adopted), (!is_installed, is_installed));
            })
        });
    }
}

#[test]
fn the_lease_shows_that_the_sessions_are_installed_before_the_stream_is_deleted() {
    run(|program| {
        Box::pin(async move {
            let stream = program.put_stream(b"").await;
            let last = program.put_missing(&stream).await;
            program.streams.purge(&stream, last).await.unwrap();
            let kept = program.start_watching();
            while program.streams.state(&stream).await.is_ok() {
                kept.record_renewal(now());
                sleep(Duration::from_millis(1)).await;
            }
            let (_, lease) = program.lease().await.unwrap();
            assert!(lease.is_installed, "{lease:?}");
        })
    });
}

/// The stream may be lost, so the sessions are not read again.
#[test]
fn sessions_are_installed_while_the_broker_is_busy() {
    run(|program| {
        Box::pin(async move {
            let (stage, kept) = (program.context.stages.sessions, program.kept("2"));
            let node = format!("{NODE_CLIENTS}c.0000000000000002");
            let all =
                [&*node, "x"].map(|client| RecoveredSession::holder(client.into(), Vec::new()));
            let all = RecoveredSessions { sessions: all.into(), ..RecoveredSessions::default() };
            let state = RecoveredState { sessions: vec![all], ..RecoveredState::default() };
            let waiting: Vec<_> = (0..MAX_OPERATIONS).map(|_| stage.clients_with(0, "")).collect();
            let lost = journal();
            let mut installed = Box::pin(install(&program.context, &kept, &lost, state));
            let outcome = select(installed.as_mut(), sleep(Duration::from_millis(1))).await;
            assert!(matches!(outcome, Either::Right(())));
            drop(waiting);
            installed.await.unwrap();
            let handover = format!("{ADOPTED_CLIENTS}{}/c.0000000000000002", journal());
            let mut clients = stage.clients_with(0, "").await.unwrap();
            clients.sort();
            assert!(clients.iter().map(|client| &**client).eq([&*handover, "x"]), "{clients:?}");
        })
    });
}

#[test]
fn the_record_of_an_adoption_may_be_stored_without_an_answer() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let created = streams.create(&names.leases()).await.unwrap().created;
            let own = lease_of(&JournalName { node: "b".into(), id: 1 });
            let lease = Lease::new(streams, names, &journal(), own.clone(), (0, &created));
            lease.renew().await.unwrap();
            let adopted = Record { is_adopted: true, ..own };
            program.put_lease(&journal(), &adopted).await;
            assert!(matches!(lease.renew().await, Err(StepError::Retry(_))));
            lease.mark_adopted().await.unwrap();
            assert_eq!(program.lease().await.unwrap().1, adopted);
        })
    });
}

/// A new session here would end the one that the client may have at another node.
#[test]
fn a_client_is_refused_if_it_is_unknown_whether_its_session_is_here() {
    run(|program| {
        Box::pin(async move {
            let (stage, kept) = (program.context.stages.sessions, program.start_watching());
            kept.record_renewal(now());
            let waiting: Vec<_> = (0..MAX_OPERATIONS).map(|_| stage.clients_with(0, "")).collect();
            let client = Identity { user: None, client: "x".into() };
            let refused = let_in(&program.context, &kept, &client, true).await.err();
            assert_eq!(refused.map(|(reason, _)| reason), Some(Reason::SERVER_BUSY));
            drop(waiting);
        })
    });
}

#[test]
fn a_session_whose_client_identifier_another_user_has_is_counted() {
    run(|program| {
        Box::pin(async move {
            let kept = program.kept("2");
            let stored = StoredMessage {
                topic: "t",
                payload: b"x",
                properties: Properties::NONE,
                qos: QoS::AtLeastOnce,
                retain: false,
            };
            for user in [Some("eve"), Some("eve"), None] {
                let message = Arc::new(Message::from_stored(5, &stored, None));
                let mut own = RecoveredSession::holder("x".into(), vec![message]);
                own.user = user.map(Into::into);
                let sessions = vec![own];
                let all = RecoveredSessions { sessions, ..RecoveredSessions::default() };
                let state = RecoveredState { sessions: vec![all], ..RecoveredState::default() };
                install(&program.context, &kept, &journal(), state).await.unwrap();
            }
            let dropped = program.context.counters.drops.count(DropReason::SessionEnded);
            assert_eq!((kept.metrics.adopted.count(), dropped), (1, 1));
            let line = kept.last_line_about(&journal()).unwrap();
            assert!(line.starts_with("1 sessions of a.0000000000000007 were dropped"), "{line}");
        })
    });
}

#[test]
fn a_journal_that_only_the_disk_has_is_not_adopted() {
    run(|program| {
        Box::pin(async move {
            let (_, mirror) = program.mirror("1");
            mirror.open(JOURNAL, 1, 3).await.unwrap();
            let (number, lease) = program.lease().await.unwrap();
            let kept = program.kept("2");
            kept.set_own_journal(JournalName { node: "b".into(), id: 1 });
            let since = Duration::ZERO;
            let (start, is_unreadable) = (lease.start.clone(), false);
            let other = OtherJournal { lease, start, is_unreadable, number, since };
            kept.with_others(|others| others.insert(journal(), other));
            adopt(&program.context, &kept, &program.streams, &journal(), (number, "")).await;
            let (_, Record { holder, .. }) = program.lease().await.unwrap();
            assert_eq!(holder, journal().to_string());
        })
    });
}

#[test]
fn a_node_that_joins_during_an_adoption_is_known_when_it_ends() {
    run(|program| {
        Box::pin(async move {
            let streams = &program.streams;
            let (lost, joined) = (journal(), JournalName { node: "c".into(), id: 2 });
            let stream = program.put_stream(b"").await;
            // The adoption cannot continue as long as a message is missing.
            let last = program.put_missing(&stream).await;
            let kept = program.start_watching();
            while program.lease().await.unwrap().1.reader.is_none() {
                renew_and_wait(&kept).await;
            }
            program.put_lease(&joined, &lease_of(&joined)).await;
            sleep(Duration::from_secs(2)).await;
            streams.purge(&stream, last).await.unwrap();
            loop {
                let known = kept.other_journals().unwrap();
                if !known.contains(&lost.to_string()) {
                    assert!(known.contains(&joined.to_string()), "{known:?}");
                    break;
                }
                sleep(Duration::from_millis(5)).await;
            }
        })
    });
}

/// No other node can take the lease from a running node.
#[test]
fn a_node_that_cannot_adopt_gives_the_lease_back() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let stream = put_unsealed(&program).await;
            let kept = program.start_watching();
            while program.lease().await.unwrap().1.holder == journal().to_string() {
                renew_and_wait(&kept).await;
            }
            // The stream was created again and has other contents than those read.
            streams.delete(&stream).await.unwrap();
            streams.create(&names.stream(&journal())).await.unwrap();
            for _ in 0..2 {
                let batch = names.subject(&journal(), BATCH);
                streams.append(&batch, Expected::Any, b"too short").await.unwrap();
            }
            for _ in 0..20 {
                renew_and_wait(&kept).await;
            }
            assert_eq!(program.lease().await.unwrap().1, lease_of(&journal()));
            assert!(!kept.has_adopted("1"), "its messages count again");
        })
    });
}
