//! The stream of a journal is opened, and gets its batches.

use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_nats::ModelServer;
use phalanx_store::Mirror;

use crate::cluster::tests::{JOURNAL, journal, run, run_with};
use crate::cluster_names::BATCH;
use crate::kept::part::Joined;

#[test]
fn a_restored_journal_does_not_replace_the_later_one_in_nats() {
    run(|program| {
        Box::pin(async move {
            let stream = program.names.stream(&journal()).name;
            let (_, mirror) = program.mirror("1");
            mirror.open(JOURNAL, 1, 1).await.unwrap();
            for number in 1..=9 {
                mirror.append(number, Bytes::from(vec![7])).await.unwrap();
            }
            mirror.complete().await.unwrap();
            let last = program.streams.state(&stream).await.unwrap().last;
            let (kept, mirror) = program.mirror("2");
            let mut opened = mirror.open(JOURNAL, 1, 6);
            let waited = select(opened.as_mut(), sleep(Duration::from_secs(30))).await;
            assert!(matches!(waited, Either::Right(())));
            assert!(kept.told().contains("up to batch 9, and the disk only up to 5"));
            assert_eq!(program.streams.state(&stream).await.unwrap().last, last);
            // Another node may adopt it.
            assert_eq!(program.lease().await.unwrap().1.start, "1");
            program.streams.delete(&stream).await.unwrap();
            assert_eq!(opened.await, Ok(1));
        })
    });
}

/// The disk has another batch with the number of the one that only NATS had.
#[test]
fn a_batch_that_a_later_process_wrote_is_sent_instead_of_an_earlier_one() {
    run(|program| {
        Box::pin(async move {
            let (_, mirror) = program.mirror("1");
            mirror.open(JOURNAL, 1, 1).await.unwrap();
            for number in [1, 2] {
                mirror.append(number, Bytes::from(vec![7])).await.unwrap();
            }
            mirror.complete().await.unwrap();
            // The power was cut before the disk had batch 2, and again before NATS had the next one.
            let (_, mirror) = program.mirror("2");
            mirror.open(JOURNAL, 1, 2).await.unwrap();
            let (_, mirror) = program.mirror("3");
            assert_eq!(mirror.open(JOURNAL, 1, 3).await, Ok(2));
            assert!(program.lease().await.is_some_and(|(_, own)| !own.is_incomplete));
        })
    });
}

#[test]
fn a_stream_that_nats_has_restored_from_an_earlier_state_is_sent_again() {
    run(|program| {
        Box::pin(async move {
            let stream = program.names.stream(&journal());
            let (_, mirror) = program.mirror("1");
            mirror.open(JOURNAL, 1, 1).await.unwrap();
            mirror.complete().await.unwrap();
            mirror.append(1, Bytes::from(vec![7])).await.unwrap();
            sleep(Duration::from_secs(10)).await;
            assert!(!mirror.is_behind());
            program.streams.delete(&stream.name).await.unwrap();
            program.streams.create(&stream).await.unwrap();
            sleep(Duration::from_secs(10)).await;
            assert!(mirror.is_behind(), "without another batch");
            // This process has acknowledged the batch.
            assert_eq!(mirror.open(JOURNAL, 1, 2).await, Ok(1));
            assert!(program.lease().await.is_some_and(|(_, own)| own.is_incomplete));
        })
    });
}

#[test]
fn parts_are_smaller_than_the_max_payload_of_the_server() {
    run_with(ModelServer::with_max_payload(10_000), |program| {
        Box::pin(async move {
            let stream = program.names.stream(&journal()).name;
            let (_, mirror) = program.mirror("1");
            mirror.open(JOURNAL, 1, 1).await.unwrap();
            mirror.append(1, Bytes::from(vec![7; 50_000])).await.unwrap();
            let last = program.streams.state(&stream).await.unwrap().last;
            let (mut all, batch) = (Joined::new(JOURNAL), program.names.subject(&journal(), BATCH));
            let mut range = program.streams.range(&stream, 1, last);
            while let Some(message) = range.next().await.unwrap() {
                if message.subject == batch {
                    all.push(&message.payload).unwrap();
                }
            }
            assert_eq!((last, all.batches.bytes()), (7, 50_000));
        })
    });
}
