//! The cost of cleaning for writers, and the journal's length: proportional to the bytes written, and to the
//! live data.

use std::path::Path;
use std::time::Duration;

use phalanx::{Graph, sleep};
use phalanx_store::{
    DeliveryId, Entry, Journal, MessageId, Options, Phase, Record, SessionId, Store, check,
};

const SEGMENT: u64 = 4096;
const OPTIONS: Options = Options {
    segment_bytes: SEGMENT,
    max_bytes: 1 << 20,
    max_pending_bytes: 1 << 20,
    reserve_bytes: 0,
    accept_loss: false,
    salt: None,
};

/// Messages that are never changed.
const OLD: u64 = 600;

/// Runs `work` with a new store in `path`.
fn with<F: Future<Output = ()> + 'static>(
    path: &Path,
    options: Options,
    work: impl Fn(Journal) -> F + Send + Sync + 'static,
) {
    let (store, _) = Store::open(path, options).unwrap();
    let mut graph = Graph::new();
    let journal = store.declare(&mut graph);
    crate::common::run(graph, 1, move || work(journal.clone()));
}

/// Adds a retained message.
fn retain(entry: &mut Entry, number: u64, topic: u64) {
    retain_bytes(entry, number, topic, 60);
}

/// Adds a retained message with a payload of `bytes` bytes.
fn retain_bytes(entry: &mut Entry, number: u64, topic: u64, bytes: usize) {
    let (message, topic) = (MessageId(number), format!("t/{topic}"));
    let (payload, properties) = (&vec![7; bytes][..], &b"p"[..]);
    entry.push(&Record::Message {
        message,
        topic: &topic,
        payload,
        properties,
        flags: 1,
        expires: 0,
    });
    entry.push(&Record::Retain { topic: &topic, message });
}

/// All live data is old, except for one message that is replaced repeatedly. A writer waits for a few
/// additional records only, and the journal is cleaned while it is too long.
#[test]
fn few_writes_clean_little() {
    let home = tempfile::tempdir().unwrap();
    with(home.path(), OPTIONS, |journal| async move {
        for some in 0..OLD / 20 {
            let mut entry = Entry::new();
            (some * 20..some * 20 + 20).for_each(|n| retain(&mut entry, n + 1, n));
            journal.append(entry).await.unwrap();
        }
        let (mut longest, mut shortest) = (0.0_f64, f64::MAX);
        let mut before = journal.status();
        for number in 0..2500 {
            let mut entry = Entry::new();
            retain(&mut entry, OLD + 1 + number, OLD);
            let length = entry.len() as u64;
            journal.append(entry).await.unwrap();
            let now = journal.status();
            let rewritten = now.rewritten - before.rewritten;
            // This includes the frame; the end of a segment may split a cleaning step and defer the rest.
            assert!(
                rewritten <= 8 * (length + 16) + 150,
                "{rewritten} bytes rewritten for {length}: {now:?}"
            );
            // In addition to the segment headers.
            let more = 3 * SEGMENT + 84 * now.segments + 5 * length;
            let excess = now.bytes as f64 - more as f64;
            longest = longest.max(excess / now.live as f64);
            if now.rewritten > 2 * now.live {
                shortest = shortest.min(excess / now.live as f64);
            }
            before = now;
        }
        assert!(longest <= 2.25 && longest > 1.8, "{longest} times the live data");
        assert!(shortest < 1.5, "{shortest} times the live data");
        assert!(before.rewritten < 2 * 2500 * 90, "{before:?}");
    });
    assert_eq!(check(home.path()).unwrap().0.counts.retained, OLD + 1);
}

/// A short entry after a long one waits for one cleaning step, not for all that the long one requires; the
/// journal is still cleaned as fast as it is written.
#[test]
fn a_short_entry_does_not_pay_for_a_long_one() {
    const SEGMENT: u64 = 256 << 10;
    const LONG_ENTRY_BYTES: usize = 50 << 10;
    let home = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: SEGMENT, ..OPTIONS };
    with(home.path(), options, |journal| async move {
        for some in 0..30 {
            let mut entry = Entry::new();
            (some * 100..some * 100 + 100).for_each(|n| retain(&mut entry, n + 1, n));
            journal.append(entry).await.unwrap();
        }
        for number in (3000..3300).step_by(3) {
            let mut entry = Entry::new();
            retain_bytes(&mut entry, number + 1, 3000, LONG_ENTRY_BYTES);
            journal.append(entry).await.unwrap();
            for number in [number + 2, number + 3] {
                let before = journal.status();
                let mut entry = Entry::new();
                retain(&mut entry, number, 3001);
                let length = entry.len() as u64;
                journal.append(entry).await.unwrap();
                let now = journal.status();
                let rewritten = now.rewritten - before.rewritten;
                // This includes the frame and the rest of a record.
                let max = (64 << 10) + 8 * (length + 16) + 150;
                assert!(rewritten <= max, "{rewritten} bytes rewritten for {length}: {now:?}");
                let max = now.live * 9 / 4 + 4 * SEGMENT + LONG_ENTRY_BYTES as u64;
                assert!(now.bytes <= max, "{now:?}");
            }
        }
        let now = journal.status();
        assert!(now.rewritten > now.live, "some live data was never rewritten: {now:?}");
    });
    assert_eq!(check(home.path()).unwrap().0.counts.retained, 3002);
}

/// Bytes of the files in a directory.
fn bytes_in(path: &Path) -> u64 {
    // A file removed in the meantime counts as empty.
    let length = |file: std::fs::DirEntry| file.metadata().map_or(0, |it| it.len());
    std::fs::read_dir(path).unwrap().map(|file| length(file.unwrap())).sum()
}

/// A session with many queued messages ends, which takes one short record. Nothing else is written, and the
/// files are still removed.
#[test]
fn data_released_at_once_is_cleaned_at_once() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().to_owned();
    with(home.path(), OPTIONS, move |journal| {
        let path = path.clone();
        async move {
            let session = SessionId(1);
            let mut entry = Entry::new();
            entry.push(&Record::Session { session, client: "one", expiry: 60, left: 0, will: &[] });
            journal.append(entry).await.unwrap();
            for some in 0..OLD / 20 {
                let mut entry = Entry::new();
                for number in some * 20 + 1..some * 20 + 21 {
                    retain(&mut entry, number, number % 30);
                    let (delivery, message) = (DeliveryId(number), MessageId(number));
                    let (options, properties, phase) = (1, &[][..], Phase::Queued);
                    entry.push(&Record::Queue {
                        session,
                        delivery,
                        message,
                        options,
                        properties,
                        phase,
                    });
                }
                journal.append(entry).await.unwrap();
            }
            let before = journal.status();
            let mut entry = Entry::new();
            entry.push(&Record::SessionEnd { session });
            journal.append(entry).await.unwrap();
            for _ in 0..3000 {
                let (now, on_disk) = (journal.status(), bytes_in(&path));
                if on_disk <= now.live * 9 / 4 + 5 * SEGMENT {
                    assert!(on_disk < before.bytes / 2, "{before:?}, then {now:?}");
                    return;
                }
                sleep(Duration::from_millis(10)).await;
            }
            panic!("{} bytes on the disk: {:?}", bytes_in(&path), journal.status());
        }
    });
    assert_eq!(check(home.path()).unwrap().0.counts.retained, 30);
}
