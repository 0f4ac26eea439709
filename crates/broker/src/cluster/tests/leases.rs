//! Leases that NATS loses, and their restoration.

use std::time::Duration;

use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, sleep};
use phalanx_store::Mirror;

use crate::cluster::adoption::leases::Leases;
use crate::cluster::tests::{JOURNAL, Program, journal, lease_of, renew_and_wait, run};
use crate::cluster_names::JournalName;
use crate::kept::lease::Record;
use crate::kept::state::OtherJournal;

/// The journal's stream is not lost, so nothing is sent again.
#[test]
fn a_lease_that_nats_has_lost_is_taken_again() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (leases, other) = (names.leases(), JournalName { node: "b".into(), id: 1 });
            let (kept, mirror) = program.stored_mirror("1", 1).await;
            for is_purged in [false, true] {
                if is_purged {
                    streams.purge_subject(&leases.name, &names.lease(&journal())).await.unwrap();
                } else {
                    streams.delete(&leases.name).await.unwrap();
                    streams.create(&leases).await.unwrap();
                    // The new stream's numbers exceed those of the lost one.
                    for _ in 0..100 {
                        program.put_lease(&other, &lease_of(&other)).await;
                    }
                }
                while !mirror.is_behind() {
                    sleep(Duration::from_millis(100)).await;
                }
                assert_eq!(mirror.open(JOURNAL, 1, 2).await, Ok(2));
                mirror.complete().await.unwrap();
                sleep(Duration::from_secs(10)).await;
                assert!(kept.is_open() && !mirror.is_behind());
                assert_eq!(program.lease().await.unwrap().1, lease_of(&journal()));
            }
        })
    });
}

/// The restoring node has not seen the last start. The stream is complete, so it restores the lease as complete.
#[test]
fn a_restored_lease_does_not_end_the_sessions_of_a_living_node() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let leases = names.leases();
            let (kept, mirror) = program.stored_mirror("2", 1).await;
            streams.delete(&leases.name).await.unwrap();
            streams.create(&leases).await.unwrap();
            for _ in 0..100 {
                program.put_lease(&journal(), &lease_of(&journal())).await;
            }
            while !mirror.is_behind() {
                assert_eq!(kept.lost_reason(), None);
                sleep(Duration::from_millis(100)).await;
            }
            assert_eq!(mirror.open(JOURNAL, 1, 2).await, Ok(2));
            mirror.complete().await.unwrap();
            sleep(Duration::from_secs(10)).await;
            assert!(kept.is_open() && kept.lost_reason().is_none());
            assert_eq!(program.lease().await.unwrap().1.start, "2");
        })
    });
}

#[test]
fn the_lease_of_a_lost_node_outlives_the_loss_of_all_streams() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let stream = program.put_stream(b"").await;
            let kept = program.start_watching();
            while kept.other_journals().is_none() {
                renew_and_wait(&kept).await;
            }
            for lost in [&stream, &names.leases().name] {
                streams.delete(lost).await.unwrap();
            }
            streams.create(&names.leases()).await.unwrap();
            for _ in 0..100 {
                renew_and_wait(&kept).await;
                // Clients wait for the node.
                assert!(kept.other_journals().unwrap().contains(&journal().to_string()));
            }
            let (_, lease) = program.lease().await.unwrap();
            assert!(lease.is_incomplete && lease.holder == journal().to_string(), "{lease:?}");
            // An operator gives up the sessions.
            let lease = names.lease(&journal());
            streams.purge_subject(&names.leases().name, &lease).await.unwrap();
            while !kept.other_journals().unwrap().is_empty() {
                renew_and_wait(&kept).await;
            }
        })
    });
}

#[test]
fn leases_of_adopted_journals_are_read_once() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (stream, live) = (names.leases(), JournalName { node: "c".into(), id: 2 });
            let kept = program.kept("2");
            kept.record_renewal(now());
            let mut leases = Leases::default();
            for from in [Some(2), Some(1)] {
                streams.create(&stream).await.unwrap();
                if from == Some(2) {
                    let adopted = Record { is_adopted: true, ..lease_of(&journal()) };
                    program.put_lease(&journal(), &adopted).await;
                }
                program.put_lease(&live, &lease_of(&live)).await;
                let found = leases.read(&kept, streams).await.unwrap();
                assert!(found.keys().eq([&live]) && leases.from == from, "{found:?}");
                // NATS loses all messages, and numbers begin again.
                streams.delete(&stream.name).await.unwrap();
            }
        })
    });
}

/// Without the lease, the returning node would continue sessions that another node has.
#[test]
fn the_lease_of_an_adopted_journal_outlives_the_loss_of_all_streams() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let stream = names.leases();
            let kept = program.kept("2");
            let mut leases = Leases::default();
            streams.create(&stream).await.unwrap();
            let other = lease_of(&JournalName { node: "b".into(), id: 1 });
            let adopted = Record { is_adopted: true, ..other };
            program.put_lease(&journal(), &adopted).await;
            assert!(leases.read(&kept, streams).await.unwrap().is_empty());
            for has_returned in [false, true] {
                streams.delete(&stream.name).await.unwrap();
                streams.create(&stream).await.unwrap();
                if has_returned {
                    // The node waits before it takes the lease.
                    sleep(kept.timeout()).await;
                    program.put_lease(&journal(), &lease_of(&journal())).await;
                    // First a node that was not cut off restores it.
                    assert!(leases.read(&kept, streams).await.is_err());
                    assert_eq!(program.lease().await.unwrap().1, lease_of(&journal()));
                }
                kept.record_renewal(now());
                assert!(leases.read(&kept, streams).await.unwrap().is_empty());
                assert_eq!(program.lease().await.unwrap().1, adopted, "{has_returned}");
            }
        })
    });
}

/// Another node may have restored the lease, because it missed the adoption.
#[test]
fn a_node_whose_sessions_were_given_back_keeps_them() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (stream, own) = (names.leases(), lease_of(&journal()));
            let other = lease_of(&JournalName { node: "b".into(), id: 1 });
            let adopted = Record { is_adopted: true, ..other.clone() };
            let missed = Record { is_incomplete: true, is_restored: true, ..own.clone() };
            let installed = Record { is_installed: true, ..other };
            for (taken, is_kept) in [(own, true), (missed, false), (installed, false)] {
                let kept = program.kept("2");
                let mut leases = Leases::default();
                streams.create(&stream).await.unwrap();
                program.put_lease(&journal(), &adopted).await;
                leases.read(&kept, streams).await.unwrap();
                // An operator deletes the lease, and NATS loses all messages, perhaps twice.
                streams.delete(&stream.name).await.unwrap();
                streams.create(&stream).await.unwrap();
                program.put_lease(&journal(), &taken).await;
                kept.record_renewal(now());
                let found = leases.read(&kept, streams).await.unwrap();
                assert_eq!(found.contains_key(&journal()), is_kept, "{taken:?}");
                let expected = if is_kept { &taken } else { &adopted };
                assert_eq!(program.lease().await.unwrap().1, *expected);
            }
        })
    });
}

/// The node that restored the lease may have missed an adoption, which the adopter then records again.
#[test]
fn a_restored_lease_is_taken_after_the_timeout() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            streams.create(&names.leases()).await.unwrap();
            let restored =
                Record { is_incomplete: true, is_restored: true, ..lease_of(&journal()) };
            let other = lease_of(&JournalName { node: "b".into(), id: 1 });
            for is_adopted in [true, false] {
                program.put_lease(&journal(), &restored).await;
                let (kept, mirror) = program.mirror("2");
                let mut opened = mirror.open(JOURNAL, 1, 2);
                let waited = select(opened.as_mut(), sleep(kept.timeout() * 9 / 10)).await;
                assert!(matches!(waited, Either::Right(())));
                if is_adopted {
                    let adopted = Record { is_adopted: true, ..other.clone() };
                    program.put_lease(&journal(), &adopted).await;
                }
                assert_eq!(opened.await.is_err(), is_adopted);
            }
            assert!(!program.lease().await.unwrap().1.is_restored);
        })
    });
}

/// NATS loses the leases before this node has recorded the adoption.
#[test]
fn an_adoption_that_was_not_recorded_is_restored() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let stream = names.leases();
            let kept = program.kept("2");
            kept.set_own_journal(JournalName { node: "b".into(), id: 1 });
            let mut leases = Leases::default();
            streams.create(&stream).await.unwrap();
            leases.read(&kept, streams).await.unwrap();
            leases.note_adopted(&kept, journal());
            streams.delete(&stream.name).await.unwrap();
            streams.create(&stream).await.unwrap();
            // Another node restores it.
            program.put_lease(&journal(), &lease_of(&journal())).await;
            kept.record_renewal(now());
            assert!(leases.read(&kept, streams).await.unwrap().is_empty());
            assert!(program.lease().await.unwrap().1.is_adopted);
        })
    });
}

/// Only nodes that were not cut off restore the leases of lost nodes: others may have missed an adoption.
#[test]
fn a_node_without_a_lease_restores_only_those_of_adopted_journals() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (stream, lost) = (names.leases(), JournalName { node: "c".into(), id: 2 });
            // The holder has installed the sessions, but did not record the adoption.
            let installed = JournalName { node: "d".into(), id: 3 };
            let of_installed = Record { is_installed: true, ..lease_of(&lost) };
            let kept = program.kept("2");
            let mut leases = Leases::default();
            streams.create(&stream).await.unwrap();
            leases.read(&kept, streams).await.unwrap();
            kept.with_others(|others| {
                let both = [(&lost, lease_of(&lost)), (&installed, of_installed.clone())];
                for (journal, lease) in both {
                    let (start, is_unreadable) = ("1".to_owned(), false);
                    let (number, since) = (1, Duration::ZERO);
                    let other = OtherJournal { lease, start, is_unreadable, number, since };
                    others.insert(journal.clone(), other);
                }
            });
            streams.delete(&stream.name).await.unwrap();
            streams.create(&stream).await.unwrap();
            sleep(kept.timeout()).await;
            assert!(leases.read(&kept, streams).await.is_err());
            kept.record_renewal(now());
            let found = leases.read(&kept, streams).await.unwrap();
            let restored = Record { is_incomplete: true, is_restored: true, ..lease_of(&lost) };
            assert_eq!(found[&lost].1, restored);
            assert_eq!(found[&installed].1, of_installed);
        })
    });
}

/// Otherwise a client of that node would get a new session, and its kept one would end.
#[test]
fn a_living_node_stays_known_while_a_replica_lags_behind() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, server, .. } = &program;
            streams.create(&names.leases()).await.unwrap();
            let others = [2, 3].map(|id| JournalName { node: "c".into(), id });
            let (kept, mut leases) = (program.kept("2"), Leases::default());
            for journal in &others {
                program.put_lease(journal, &lease_of(journal)).await;
            }
            assert_eq!(leases.read(&kept, streams).await.unwrap().len(), 2);
            server.set_lagging(true);
            program.put_lease(&others[0], &lease_of(&others[0])).await;
            let found = leases.read(&kept, streams).await.unwrap();
            assert!(found.keys().eq(&others), "{found:?}");
        })
    });
}

#[test]
fn a_journal_that_was_given_back_stays_so_if_a_step_of_the_look_fails() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (stream, own) = (names.leases(), lease_of(&journal()));
            let given_up = JournalName { node: "c".into(), id: 2 };
            let adopted = Record { is_adopted: true, ..own.clone() };
            let kept = program.kept("2");
            let mut leases = Leases::default();
            streams.create(&stream).await.unwrap();
            for journal in [&journal(), &given_up] {
                program.put_lease(journal, &adopted).await;
            }
            // This node's lease has expired.
            sleep(kept.timeout()).await;
            leases.read(&kept, streams).await.unwrap();
            streams.delete(&stream.name).await.unwrap();
            streams.create(&stream).await.unwrap();
            // An operator has given the first journal back. The second was taken by its lost node, which has returned.
            program.put_lease(&journal(), &own).await;
            let taken = Record { is_incomplete: true, ..lease_of(&given_up) };
            program.put_lease(&given_up, &taken).await;
            sleep(kept.timeout() / 4).await;
            assert!(leases.read(&kept, streams).await.is_err());
            sleep(kept.timeout()).await;
            kept.record_renewal(now());
            assert!(leases.read(&kept, streams).await.unwrap().contains_key(&journal()));
            assert_eq!(program.lease().await.unwrap().1, own);
        })
    });
}

/// The node that adopts the journal may have some of the sessions.
#[test]
fn the_lease_of_an_adoption_outlives_the_loss_of_all_leases() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (stream, kept, mut leases) = (names.leases(), program.kept("2"), Leases::default());
            program.put_stream(b"x").await;
            let adopter = lease_of(&JournalName { node: "c".into(), id: 2 });
            program.put_lease(&journal(), &adopter).await;
            let found = leases.read(&kept, streams).await.unwrap();
            let (number, lease) = found[&journal()].clone();
            let (start, is_unreadable, since) = ("1".to_owned(), false, Duration::ZERO);
            let other = OtherJournal { lease, start, is_unreadable, number, since };
            kept.with_others(|others| others.insert(journal(), other));
            streams.delete(&stream.name).await.unwrap();
            streams.create(&stream).await.unwrap();
            kept.record_renewal(now());
            let found = leases.read(&kept, streams).await.unwrap();
            assert_eq!(found[&journal()].1, adopter);
        })
    });
}
