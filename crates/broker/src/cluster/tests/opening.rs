//! Opening the stream of a journal, and sending its batches.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::sim::Faults;
use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_nats::{Expected, JetStreamError, ModelServer};
use phalanx_store::Mirror;

use crate::cluster::tests::{JOURNAL, Program, journal, run, run_with};
use crate::cluster_names::{BATCH, OPEN};
use crate::kept::lease::{Lease, Record};
use crate::kept::mirror::{StreamMirror, watch_streams};
use crate::kept::part::{BatchAssembler, MAX_PART_BYTES, PartHeader};
use crate::kept::state::RENEWALS_PER_TIMEOUT;

impl Program {
    /// The size of all batches in the stream of the journal, in bytes.
    async fn stored(&self) -> usize {
        let Self { streams, names, .. } = self;
        let stream = names.stream(&journal()).name;
        let [batch, open] = [BATCH, OPEN].map(|kind| names.subject(&journal(), kind));
        let (mut all, state) =
            (BatchAssembler::new(JOURNAL), streams.state(&stream).await.unwrap());
        let mut range = streams.range(&stream, state.first, state.last);
        while let Some(message) = range.next().await.unwrap() {
            if message.subject == batch {
                all.push(&message.payload).unwrap();
            } else if message.subject == open {
                all.open(&message.payload);
            }
        }
        all.batches.bytes()
    }
}

#[test]
fn a_restored_journal_does_not_replace_the_later_one_in_nats() {
    run(|program| {
        Box::pin(async move {
            let stream = program.names.stream(&journal()).name;
            program.stored_mirror("1", 9).await;
            let last = program.streams.state(&stream).await.unwrap().last;
            let (kept, mirror) = program.mirror("2");
            let mut opened = mirror.open(JOURNAL, 1, 6);
            let waited = select(opened.as_mut(), sleep(Duration::from_secs(30))).await;
            assert!(matches!(waited, Either::Right(())));
            assert!(kept.last_line().contains("up to batch 9, and the disk only up to 5"));
            assert_eq!(program.streams.state(&stream).await.unwrap().last, last);
            assert!(kept.last_line().contains("--accept-loss"));
            // Another node may adopt it.
            assert_eq!(program.lease().await.unwrap().1.start, "1");
            program.streams.delete(&stream).await.unwrap();
            assert_eq!(opened.await, Ok(1));
        })
    });
}

#[test]
fn a_restored_journal_replaces_the_later_one_in_nats_if_the_loss_is_accepted() {
    run(|program| {
        Box::pin(async move {
            program.stored_mirror("1", 9).await;
            let kept = program.kept("2");
            let mirror = StreamMirror::start(kept.clone(), program.stage, program.files, true);
            assert_eq!(mirror.open(JOURNAL, 1, 6).await, Ok(6));
            mirror.append(6, Bytes::from(vec![6; 2])).await.unwrap();
            mirror.complete().await.unwrap();
            assert_eq!((program.stored().await, kept.is_open()), (5 + 2, true));
        })
    });
}

/// The mirror was connected to a server with another max_payload before, which stored a part of the batch late.
#[test]
fn a_late_part_of_another_size_is_not_a_part_of_the_batch() {
    run(|program| {
        Box::pin(async move {
            let (_, mirror) = program.mirror("1");
            mirror.open(JOURNAL, 1, 1).await.unwrap();
            let late = PartHeader { start: 1, batch: 1, place: 0, count: 2 }.encode(&[7]);
            let subject = program.names.subject(&journal(), BATCH);
            program.streams.append(&subject, Expected::Any, &late).await.unwrap();
            mirror.append(1, Bytes::from(vec![7, 8])).await.unwrap();
            assert_eq!(program.stored().await, 2);
        })
    });
}

#[test]
fn one_look_at_a_shorter_stream_does_not_open_it_again() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            let stream = program.put_stream(&[7]).await;
            let kept = program.kept("1");
            let last = Rc::new(Cell::new(9));
            let (number, lease) = program.lease().await.unwrap();
            let created = streams.state(&names.leases().name).await.unwrap().created;
            let lease = Lease::new(streams, names, &journal(), lease, (number, &created));
            let known = (stream, last.clone());
            let looking = watch_streams(kept.clone(), streams.clone(), known, Rc::new(lease));
            program.stage.dispatch(move |_| looking).unwrap();
            sleep(kept.timeout() / RENEWALS_PER_TIMEOUT / 2).await;
            last.set(1);
            sleep(kept.timeout()).await;
            assert!(!kept.is_behind());
            last.set(9);
            sleep(kept.timeout()).await;
            assert!(kept.is_behind());
        })
    });
}

/// The disk has a batch with the same number as another batch that only NATS had.
#[test]
fn a_batch_that_a_later_process_wrote_is_sent_instead_of_an_earlier_one() {
    run(|program| {
        Box::pin(async move {
            program.stored_mirror("1", 2).await;
            // The power was cut before the disk had batch 2, and again before NATS had the next one.
            let (_, mirror) = program.mirror("2");
            mirror.open(JOURNAL, 1, 2).await.unwrap();
            let (_, mirror) = program.mirror("3");
            assert_eq!(mirror.open(JOURNAL, 1, 3).await, Ok(2));
            assert!(program.lease().await.is_some_and(|(_, lease)| !lease.is_incomplete));
        })
    });
}

#[test]
fn a_stream_that_nats_has_restored_from_an_earlier_state_is_sent_again() {
    run(|program| {
        Box::pin(async move {
            let stream = program.names.stream(&journal());
            let (_, mirror) = program.stored_mirror("1", 0).await;
            mirror.append(1, Bytes::from(vec![7])).await.unwrap();
            sleep(Duration::from_secs(10)).await;
            assert!(!mirror.is_behind());
            program.streams.delete(&stream.name).await.unwrap();
            program.streams.create(&stream).await.unwrap();
            sleep(Duration::from_secs(10)).await;
            assert!(mirror.is_behind(), "without another batch");
            // This process has acknowledged the batch.
            assert_eq!(mirror.open(JOURNAL, 1, 2).await, Ok(1));
            assert!(program.lease().await.is_some_and(|(_, lease)| lease.is_incomplete));
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
            assert_eq!((last, program.stored().await), (7, 50_000));
            let (_, mirror) = program.mirror("2");
            assert_eq!(mirror.open(JOURNAL, 1, 2).await, Ok(2));
        })
    });
}

/// The process ended before it had sent the rest of the batch.
#[test]
fn a_stream_whose_last_message_is_a_full_part_is_opened() {
    run(|program| {
        Box::pin(async move {
            program.stored_mirror("1", 1).await;
            // The answer with the part consists of hundreds of segments, because a receive takes at most 4 KiB. If some
            // took seconds, the first process would usually renew its lease before the answer is complete.
            program.net.set_faults(Faults { slow: 0, ..Faults::MILD });
            let head = PartHeader { start: 1, batch: 2, place: 0, count: 2 };
            let subject = program.names.subject(&journal(), BATCH);
            let part = head.encode(&vec![7; MAX_PART_BYTES]);
            program.streams.append(&subject, Expected::Any, &part).await.unwrap();
            let (kept, mirror) = program.mirror("2");
            let opened = select(mirror.open(JOURNAL, 1, 3), sleep(Duration::from_secs(30))).await;
            assert!(matches!(opened, Either::Left(Ok(2))), "{}", kept.last_line());
        })
    });
}

#[test]
fn a_node_whose_journal_was_adopted_creates_no_stream() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            streams.create(&names.leases()).await.unwrap();
            let (holder, start) = ("b.0000000000000001".to_owned(), "1".to_owned());
            let record = Record { holder, start, is_adopted: true, ..Record::default() };
            program.put_lease(&journal(), &record).await;
            let (kept, mirror) = program.mirror("2");
            assert!(mirror.open(JOURNAL, 1, 3).await.is_err() && kept.lost_reason().is_some());
            let stream = streams.state(&names.stream(&journal()).name).await;
            assert_eq!(stream, Err(JetStreamError::NoStream));
        })
    });
}

#[test]
fn a_journal_that_was_written_without_its_stream_is_sent_again() {
    run(|program| {
        Box::pin(async move {
            let Program { streams, names, .. } = &program;
            program.stored_mirror("1", 2).await;
            // For some time the node ran without kept sessions.
            let (_, mirror) = program.mirror("2");
            assert!(mirror.open(JOURNAL, 50, 52).await.unwrap() <= 50);
            assert!(program.lease().await.is_some_and(|(_, lease)| lease.is_incomplete));
            let state = streams.state(&names.stream(&journal()).name).await.unwrap();
            assert_eq!(state.first, state.last, "earlier batches were removed");
        })
    });
}
