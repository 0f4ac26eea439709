//! Nodes and streams that are lost or return, and credentials.

use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{Graph, select, sim, sleep};
use phalanx_mqtt::{Reason, Version};
use phalanx_nats::{Expected, ModelServer};
use phalanx_store::Mirror;

use crate::Broker;
use crate::cluster::guard::guard;
use crate::cluster::tests::{
    JOURNAL, Program, config, journal, lease_of, nats, renew_and_wait, run,
};
use crate::cluster_names::{JournalName, OPEN};
use crate::context::Context;
use crate::kept::lease::Record;
use crate::kept::state::{ELECTION_TIME, OtherJournal};
use crate::session::partition::open::Opening;
use crate::session::state::effects::Pulled;

#[test]
fn a_journal_that_cannot_be_read_remains_its_nodes() {
    run(|program| {
        Box::pin(async move {
            let stream = program.put_stream(b"too short").await;
            let before = program.streams.state(&stream).await;
            let kept = program.start_watching();
            for _ in 0..300 {
                renew_and_wait(&kept).await;
            }
            let (_, lease) = program.lease().await.unwrap();
            assert!(lease.reader.is_some() && lease.holder == journal().to_string(), "{lease:?}");
            assert_eq!(program.streams.state(&stream).await, before, "there is no seal");
            // The node's disk has the batches that the stream lacks.
            program.streams.delete(&stream).await.unwrap();
            let (kept, mirror) = program.mirror("3");
            assert_eq!(mirror.open(JOURNAL, 1, 3).await, Ok(1));
            assert_eq!(kept.lost_reason(), None);
        })
    });
}

/// NATS has lost a message of its stream for good.
#[test]
fn a_journal_with_a_gap_remains_its_nodes_and_delays_no_other_one() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let stream = program.put_stream(b"").await;
            program.put_gap(&stream).await;
            // This lease follows the other one in the stream.
            let second = JournalName { node: "c".into(), id: 9 };
            streams.create(&names.stream(&second)).await.unwrap();
            streams.append(&names.subject(&second, OPEN), Expected::Any, b"").await.unwrap();
            program.put_lease(&second, &lease_of(&second)).await;
            let kept = program.start_watching();
            let lease = names.lease(&second);
            let is_adopted = async || {
                let found = streams.last(&names.leases().name, &lease).await.unwrap().unwrap();
                serde_json::from_slice::<Record>(&found.payload).unwrap().is_adopted
            };
            for _ in 0..600 {
                renew_and_wait(&kept).await;
            }
            assert!(is_adopted().await);
            let (_, lease) = program.lease().await.unwrap();
            assert!(lease.holder == journal().to_string() && !lease.is_adopted, "{lease:?}");
            let line = kept.last_line_about(&journal()).unwrap();
            assert!(line.contains("message 2 of its stream is missing; delete the"), "{line}");
        })
    });
}

/// The node checks each journal every second.
#[test]
fn a_line_about_a_journal_is_printed_once() {
    run(|program| {
        Box::pin(async move {
            let kept = program.kept("2");
            let journals = ["a", "b"].map(|node| JournalName { node: node.into(), id: 7 });
            for journal in &journals {
                let (lease, start) = (lease_of(journal), "1".to_owned());
                let (number, since) = (1, Duration::ZERO);
                let own = OtherJournal { lease, start, is_unreadable: false, number, since };
                kept.with_others(|others| others.insert(journal.clone(), own));
            }
            let log =
                |line: &str| journals.each_ref().map(|journal| kept.log_once_about(journal, line));
            assert_eq!([log("x"), log("x")], [[true; 2], [false; 2]]);
            assert_eq!([log("y"), log("x")], [[true; 2], [true; 2]]);
        })
    });
}

#[test]
fn a_node_that_returns_while_its_journal_is_read_keeps_it() {
    run(|program| {
        Box::pin(async move {
            let streams = &program.streams;
            let stream = program.put_stream(b"").await;
            // Reading continues until no message is missing.
            let last = program.put_missing(&stream).await;
            let watching = program.start_watching();
            while program.lease().await.unwrap().1.reader.is_none() {
                renew_and_wait(&watching).await;
            }
            let (kept, mirror) = program.mirror("1");
            mirror.open(JOURNAL, 1, 1).await.unwrap();
            streams.purge(&stream, last).await.unwrap();
            for _ in 0..100 {
                renew_and_wait(&watching).await;
            }
            let (_, lease) = program.lease().await.unwrap();
            assert!(
                lease.holder == journal().to_string() && kept.lost_reason().is_none(),
                "{lease:?}"
            );
        })
    });
}

#[test]
fn a_stream_that_nats_has_lost_is_opened_again() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (kept, mirror) = program.stored_mirror("1", 1).await;
            streams.delete(&names.stream(&journal()).name).await.unwrap();
            assert!(mirror.append(2, Bytes::from(vec![7])).await.is_err() && mirror.is_behind());
            assert_eq!(mirror.open(JOURNAL, 1, 2).await, Ok(1));
            assert!(kept.last_line().contains("sent to it again"), "{}", kept.last_line());
            assert!(program.lease().await.unwrap().1.is_incomplete && !mirror.is_behind());
            for number in [1, 2] {
                mirror.append(number, Bytes::from(vec![7])).await.unwrap();
            }
            mirror.complete().await.unwrap();
            assert!(!program.lease().await.unwrap().1.is_incomplete);
            // An idle node notices the loss, too.
            for stream in [names.leases(), names.stream(&journal())] {
                streams.delete(&stream.name).await.unwrap();
                while !mirror.is_behind() {
                    sleep(Duration::from_millis(100)).await;
                }
                mirror.open(JOURNAL, 1, 3).await.unwrap();
                mirror.complete().await.unwrap();
            }
            sleep(Duration::from_secs(10)).await;
            assert!(kept.is_open() && kept.lost_reason().is_none());
        })
    });
}

/// A NATS server was cut off, and became the leader of the stream without its last messages.
#[test]
fn a_stream_that_lacks_messages_and_stores_no_others_is_replaced() {
    run(|program| {
        Box::pin(async move {
            let stream = program.names.stream(&journal()).name;
            let (kept, mirror) = program.stored_mirror("1", 3).await;
            program.server.make_unwritable(&stream, 2);
            assert!(mirror.append(4, Bytes::from(vec![7])).await.is_err() && mirror.is_behind());
            let started = now();
            assert_eq!(mirror.open(JOURNAL, 1, 4).await, Ok(1));
            let (elapsed, min_time) = (now() - started, kept.timeout().max(ELECTION_TIME));
            assert!((min_time..min_time + 2 * kept.timeout()).contains(&elapsed), "{elapsed:?}");
            assert!(program.lease().await.unwrap().1.is_incomplete && kept.is_open());
            for number in 1..=4 {
                mirror.append(number, Bytes::from(vec![7])).await.unwrap();
            }
            mirror.complete().await.unwrap();
            assert!(!program.lease().await.unwrap().1.is_incomplete);
        })
    });
}

/// Another node may adopt the sessions as long as the stream has all batches.
#[test]
fn a_complete_stream_that_stores_no_messages_is_not_deleted() {
    run(|program| {
        Box::pin(async move {
            let stream = program.names.stream(&journal()).name;
            program.stored_mirror("1", 3).await;
            let last = program.streams.state(&stream).await.unwrap().last;
            program.server.make_unwritable(&stream, last);
            let (_, mirror) = program.mirror("2");
            let opened = select(mirror.open(JOURNAL, 1, 4), sleep(Duration::from_secs(120))).await;
            assert!(matches!(opened, Either::Right(())));
            assert_eq!(program.streams.state(&stream).await.unwrap().last, last);
        })
    });
}

#[test]
fn a_stream_that_another_node_has_deleted_is_not_opened() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let (kept, mirror) = program.stored_mirror("1", 0).await;
            let before = kept.last_line();
            streams.delete(&names.stream(&journal()).name).await.unwrap();
            while !mirror.is_behind() {
                sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(kept.last_line(), before, "the lease shows whether it is opened");
            let adopted = lease_of(&JournalName { node: "b".into(), id: 1 });
            program.put_lease(&journal(), &Record { is_adopted: true, ..adopted }).await;
            assert!(mirror.open(JOURNAL, 1, 1).await.is_err());
            assert!(
                kept.last_line().starts_with("this node has lost its sessions"),
                "{}",
                kept.last_line()
            );
        })
    });
}

/// A client that was accepted just before the lease expired may connect after the others were disconnected.
#[test]
fn clients_that_connect_without_a_lease_are_disconnected() {
    run(|program| {
        Box::pin(async move {
            let kept = program.kept("1");
            kept.open();
            kept.record_renewal(now());
            let context = Context { kept: Some(kept.clone()), ..program.context.clone() };
            program.stage.dispatch(move |_| guard(context)).unwrap();
            sleep(kept.timeout() + Duration::from_secs(1)).await;
            assert!(!kept.is_open());
            let stages = program.context.stages;
            let opening = Opening {
                client_id: "late".into(),
                origin: None,
                user: None,
                version: Version::V5,
                clean_start: false,
                expiry: 60,
                receive_maximum: 1,
                most: 1000,
                must_exist: false,
                most_aliases: 0,
                will: None,
            };
            let opened = stages.sessions.open(opening, stages.routing).await.unwrap().unwrap();
            let pulled = stages.sessions.pull((opened.key, opened.connection_id), Vec::new());
            let pulled = pulled.await.unwrap();
            assert!(matches!(pulled, Pulled::Closed(Reason::SERVER_UNAVAILABLE)));
        })
    });
}

#[test]
fn a_node_waits_for_its_credentials() {
    let home = tempfile::tempdir().unwrap();
    let password = home.path().join("password");
    sim::run(0, move |world| {
        world.set_processors(1);
        world.advance_only_when_idle();
        let mut config = config();
        config.cluster.password_file = Some(password.clone());
        let mut graph = Graph::new();
        let broker = Broker::declare(&mut graph, &config);
        let stage = graph.stage("nats").shared(());
        let (listeners, net) = (world.listen(nats()), world.net());
        let peers = broker.context().counters.peers.clone().unwrap();
        world.program(graph, move |start| {
            let listener = listeners.listener(start)?;
            stage.dispatch(move |_| ModelServer::default().accept(listener, stage))?;
            broker.begin(start);
            Ok(())
        });
        world.client(async move {
            net.sleep(Duration::from_secs(2)).await;
            std::fs::write(&password, "token\n").unwrap();
            while peers.status.messages.connections.count() == 0 {
                net.sleep(Duration::from_secs(1)).await;
            }
        });
    });
}
