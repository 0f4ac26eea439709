//! The loss of a lease, and renewals, which must not replace the record of another node.

use phalanx::net::Bytes;
use phalanx_store::Mirror;

use crate::cluster::tests::{JOURNAL, Program, journal, lease_of, run};
use crate::cluster_names::JournalName;
use crate::kept::lease::{Lease, Record, StepError};

#[test]
fn a_lease_that_is_still_there_is_not_lost() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let created = streams.create(&names.leases()).await.unwrap().created;
            for (known, is_lost) in
                [(&*created, false), ("another one", false), ("a third one", true)]
            {
                let own = lease_of(&journal());
                let lease = Lease::new(streams, names, &journal(), own.clone(), (0, known));
                program.put_lease(&journal(), &own).await;
                if is_lost {
                    program.put_lease(&journal(), &Record { start: "0".into(), ..own }).await;
                }
                assert!(matches!(lease.is_lost().await, Ok(lost) if lost == is_lost), "{known}");
            }
        })
    });
}

/// After the loss of all leases, numbers begin again, so that another node's record may have the known number.
#[test]
fn a_renewal_does_not_replace_the_record_of_another_node() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let stream = names.leases();
            let created = streams.create(&stream).await.unwrap().created;
            let own = lease_of(&journal());
            let lease = Lease::new(streams, names, &journal(), own, (0, &created));
            lease.take(false).await.unwrap();
            let (number, _) = program.lease().await.unwrap();
            streams.delete(&stream.name).await.unwrap();
            assert!(lease.renew().await.is_err());
            streams.create(&stream).await.unwrap();
            let other = lease_of(&JournalName { node: "b".into(), id: 1 });
            let adopted = Record { is_adopted: true, ..other };
            program.put_lease(&journal(), &adopted).await;
            assert!(lease.renew().await.is_err());
            assert_eq!(program.lease().await, Some((number, adopted)));
        })
    });
}

#[test]
fn a_lease_tells_why_it_is_lost() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let created = streams.create(&names.leases()).await.unwrap().created;
            let own = lease_of(&journal());
            let reader = Record { reader: Some("b.1".into()), ..own.clone() };
            let other = lease_of(&JournalName { node: "b".into(), id: 1 });
            for (taken, reason) in [
                (own.clone(), "a.0000000000000007 runs again"),
                (Record { start: "2".into(), ..own }, "a.0000000000000007 runs again, in another"),
                (Record { reader: Some("c.1".into()), ..reader.clone() }, "another node reads"),
                (other, "b.0000000000000001 has adopted them"),
            ] {
                let number = program.lease().await.map_or(0, |(number, _)| number);
                let of = (number, &*created);
                let lease = Lease::new(streams, names, &journal(), reader.clone(), of);
                program.put_lease(&journal(), &taken).await;
                let Err(StepError::Lost(lost)) = lease.renew().await else { panic!("{reason}") };
                assert!(lost.starts_with(reason), "{lost}");
            }
        })
    });
}

#[test]
fn a_lease_shows_whether_the_stream_has_the_whole_journal() {
    run(|program| {
        Box::pin(async move {
            let is_incomplete =
                async || program.lease().await.map(|(_, lease)| lease.is_incomplete);
            let (kept, mirror) = program.mirror("1");
            assert_eq!(mirror.open(JOURNAL, 1, 3).await.unwrap(), 1);
            assert_eq!(is_incomplete().await, Some(true));
            for number in [1, 2] {
                mirror.append(number, Bytes::from(vec![7])).await.unwrap();
            }
            assert!(!kept.is_open());
            mirror.complete().await.unwrap();
            assert!(kept.is_open());
            assert_eq!(is_incomplete().await, Some(false));
            // The node crashed before NATS had batch 3, which it did not acknowledge.
            let (_, mirror) = program.mirror("2");
            assert_eq!(mirror.open(JOURNAL, 1, 4).await.unwrap(), 3);
            assert_eq!(is_incomplete().await, Some(false));
            // NATS has lost the stream.
            let Program { streams, names, .. } = &program;
            streams.delete(&names.stream(&journal()).name).await.unwrap();
            let (_, mirror) = program.mirror("3");
            assert_eq!(mirror.open(JOURNAL, 1, 4).await.unwrap(), 1);
            assert_eq!(is_incomplete().await, Some(true));
        })
    });
}
