//! Nodes that resume, and answers that are lost, while a lease passes from one node to another.

use std::cell::Cell;
use std::time::Duration;

use phalanx::sleep;
use phalanx::time::now;
use phalanx_nats::Passage;

use crate::cluster::adoption::adopt::{Progress, take};
use crate::cluster::tests::{Program, journal, lease_of, renew_and_wait, run};
use crate::cluster_names::JournalName;
use crate::kept::lease::{Lease, Record};

/// The node's process was stopped for a time.
#[test]
fn a_node_that_runs_again_while_its_journal_is_read_keeps_it() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, server, .. } = &program;
            let stream = names.stream(&journal()).name;
            let (kept, _mirror) = program.stored_mirror("1", 1).await;
            // Reading continues until no message is missing.
            let last = program.put_missing(&stream).await;
            let watching = program.start_watching();
            server.interrupt_publisher(&names.lease(&journal()));
            while program.lease().await.unwrap().1.reader.is_none() {
                renew_and_wait(&watching).await;
            }
            server.end_interruption();
            let since = now();
            while program.lease().await.unwrap().1.reader.is_some() {
                assert!(now() - since < kept.timeout());
                renew_and_wait(&watching).await;
            }
            streams.purge(&stream, last).await.unwrap();
            for _ in 0..100 {
                renew_and_wait(&watching).await;
            }
            let (_, lease) = program.lease().await.unwrap();
            assert!(lease == lease_of(&journal()) && kept.is_open(), "{lease:?}");
            assert!(
                watching
                    .last_line_about(&journal())
                    .unwrap()
                    .ends_with("a.0000000000000007 runs again")
            );
        })
    });
}

/// All nodes need some time to renew their leases.
#[test]
fn a_living_node_is_not_adopted_after_an_outage_of_nats() {
    run(|program| {
        Box::pin(async move {
            program.put_stream(b"x").await;
            let kept = program.start_watching();
            for _ in 0..20 {
                renew_and_wait(&kept).await;
            }
            program.server.set(Passage::Closed);
            sleep(4 * kept.timeout()).await;
            program.server.set(Passage::Open);
            let since = now();
            while now() - since < kept.timeout() * 4 / 5 {
                renew_and_wait(&kept).await;
            }
            assert_eq!(program.lease().await.unwrap().1, lease_of(&journal()));
            program.put_lease(&journal(), &lease_of(&journal())).await;
            // The node is lost if it does not renew its lease again.
            while program.lease().await.unwrap().1.reader.is_none() {
                renew_and_wait(&kept).await;
            }
        })
    });
}

#[test]
fn a_lease_whose_renewal_was_not_answered_is_passed_on() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let created = streams.create(&names.leases()).await.unwrap().created;
            let reading = Record { reader: Some("b.1".into()), ..lease_of(&journal()) };
            let other = lease_of(&JournalName { node: "b".into(), id: 1 });
            let lease = Lease::new(streams, names, &journal(), reading.clone(), (0, &created));
            lease.renew().await.unwrap();
            program.put_lease(&journal(), &reading).await;
            lease.with_record(other.clone()).renew().await.unwrap();
            assert_eq!(program.lease().await.unwrap().1, other);
        })
    });
}

/// If the attempt were not repeated, the node might hold the lease without knowing it.
#[test]
fn the_lease_of_a_journal_that_was_read_is_taken_until_the_outcome_is_known() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, server, stage, .. } = &program;
            let created = streams.create(&names.leases()).await.unwrap().created;
            let own = lease_of(&JournalName { node: "b".into(), id: 1 });
            let lease = Lease::new(streams, names, &journal(), own.clone(), (0, &created));
            server.set(Passage::Closed);
            let opening = server.clone();
            let later = async move {
                sleep(Duration::from_secs(3)).await;
                opening.set(Passage::Open);
            };
            stage.dispatch(move |_| later).unwrap();
            let (kept, progress) = (program.kept("2"), Cell::new(Progress::Read));
            take(&kept, &lease, &journal(), &progress).await.unwrap();
            assert_eq!(program.lease().await.unwrap().1, own);
        })
    });
}
