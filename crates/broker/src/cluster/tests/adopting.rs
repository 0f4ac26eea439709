//! Adoptions during which NATS loses everything, or requests are lost.

use phalanx_nats::{Expected, StreamConfig};

use crate::cluster::tests::{Program, journal, lease_of, renewed, run};
use crate::cluster_names::{BATCH, JournalName, OPEN};
use crate::kept::lease::{Failed, Lease, Record};

#[test]
fn an_adoption_ends_if_nats_has_lost_everything() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            // It does not store a seal, so the adoption cannot continue.
            let subjects = [BATCH, OPEN].map(|kind| names.subject(&journal(), kind));
            let stream = StreamConfig { subjects: subjects.into(), ..names.stream(&journal()) };
            let leases = names.leases();
            for own in [&leases, &stream] {
                streams.create(own).await.unwrap();
            }
            let open = names.subject(&journal(), OPEN);
            streams.append(&open, Expected::Any, b"").await.unwrap();
            program.put_lease(&journal(), &lease_of(&journal())).await;
            let kept = program.watched();
            let holder = async || program.lease().await.map(|(_, lease)| lease.holder);
            while holder().await != kept.own().map(|own| own.to_string()) {
                renewed(&kept).await;
            }
            for own in [&leases, &stream] {
                streams.delete(&own.name).await.unwrap();
            }
            streams.create(&leases).await.unwrap();
            while program.lease().await.is_none() {
                renewed(&kept).await;
            }
            // Only the lost node's disk has its sessions.
            let (_, lease) = program.lease().await.unwrap();
            assert_eq!((&lease.holder, lease.is_adopted), (&journal().to_string(), false));
            assert!(lease.is_incomplete && kept.journals().unwrap().contains(&lease.holder));
            assert!(!kept.has_adopted("1"), "its messages count again");
        })
    });
}

/// The journal of a living node may be lost at this moment.
#[test]
fn a_journal_that_is_lost_while_it_is_read_is_not_adopted() {
    run(|program| {
        Box::pin(async move {
            let stream = program.put_stream(b"").await;
            program.put_gap(&stream).await;
            let kept = program.watched();
            while program.lease().await.unwrap().1.reader.is_none() {
                renewed(&kept).await;
            }
            program.streams.delete(&stream).await.unwrap();
            for _ in 0..200 {
                renewed(&kept).await;
            }
            let (_, lease) = program.lease().await.unwrap();
            assert_eq!((&lease.holder, lease.is_adopted), (&journal().to_string(), false));
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
            assert!(matches!(lease.renew().await, Err(Failed::Again(_))));
            lease.finish().await.unwrap();
            assert_eq!(program.lease().await.unwrap().1, adopted);
        })
    });
}
