//! A store on a real disk, as a broker uses it: acknowledged entries are recovered, even after cleaning, and errors are
//! reported.

use std::future::Future;
use std::path::Path;

use phalanx::Graph;
use phalanx_store::{
    AppendError, DeliveryId, Entry, Journal, MessageId, OpenError, Options, Phase, Record,
    Recovered, SessionId, Store, check,
};

/// Small, so that there are many segments.
const SMALL: Options = Options {
    segment_bytes: 4096,
    max_bytes: 1 << 20,
    max_pending_bytes: 1 << 20,
    reserve_bytes: 0,
    accept_loss: false,
    salt: None,
};

/// Runs `work` with the store in `path`, and panics if it panics; `work` gets the recovered content too.
fn with<F>(
    path: &Path,
    options: Options,
    work: impl Fn(Journal) -> F + Send + Sync + 'static,
) -> Recovered
where
    F: Future<Output = ()> + 'static,
{
    let (store, recovered) = Store::open(path, options).unwrap();
    let mut graph = Graph::new();
    let journal = store.declare(&mut graph);
    crate::common::run(graph, 2, move || work(journal.clone()));
    recovered
}

fn entry(records: &[Record<'_>]) -> Entry {
    let mut entry = Entry::new();
    records.iter().for_each(|record| entry.push(record));
    entry
}

fn session(number: u64, client: &str) -> Record<'_> {
    Record::Session { session: SessionId(number), client, expiry: 60, left: 7, will: b"gone" }
}

fn message(number: u64, payload: &[u8]) -> Record<'_> {
    let message = MessageId(number);
    Record::Message { message, topic: "t", payload, properties: b"p", flags: 1, expires: 9 }
}

fn queue(number: u64, delivery: u64, message: u64) -> Record<'static> {
    let (session, delivery) = (SessionId(number), DeliveryId(delivery));
    let (message, phase) = (MessageId(message), Phase::Queued);
    Record::Queue { session, delivery, message, options: 2, properties: b"id", phase }
}

/// Waits for concurrent appends.
async fn all(
    calls: impl IntoIterator<Item = impl Future<Output = Result<(), AppendError>>>,
) -> Vec<Result<(), AppendError>> {
    let calls: Vec<_> = calls.into_iter().collect();
    let mut kept = Vec::new();
    for call in calls {
        kept.push(call.await);
    }
    kept
}

/// A session with records of every kind.
async fn everything(journal: Journal) {
    let (id, delivery) = (SessionId(1), DeliveryId(5));
    let subscribe = |filter| {
        let session = id;
        Record::Subscribe { session, filter, options: 3, identifier: 300 }
    };
    let entries = [
        entry(&[session(1, "one"), subscribe("a/+"), subscribe("b/#")]),
        entry(&[message(1, b"first"), queue(1, 4, 1), queue(1, 5, 1)]),
        entry(&[message(2, b"second"), queue(1, 6, 2)]),
        entry(&[message(3, b"kept"), Record::Retain { topic: "t", message: MessageId(3) }]),
        entry(&[Record::Sent { session: id, delivery: DeliveryId(4), packet: 40 }]),
        entry(&[Record::Sent { session: id, delivery, packet: 50 }]),
        entry(&[Record::Received { session: id, delivery }]),
        entry(&[Record::Incoming { session: id, packet: 9 }]),
        entry(&[Record::Incoming { session: id, packet: 3 }]),
        entry(&[Record::IncomingDone { session: id, packet: 9 }]),
        entry(&[Record::Unsubscribe { session: id, filter: "a/+" }]),
        entry(&[message(4, b"of nobody")]),
        entry(&[]),
    ];
    let kept = all(entries.map(|entry| journal.append(entry))).await;
    assert!(kept.iter().all(Result::is_ok), "{kept:?}");
}

#[test]
fn acknowledged_entries_are_recovered() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("made");
    assert_eq!(with(&path, SMALL, everything).messages.len(), 0);
    let (store, recovered) = Store::open(&path, SMALL).unwrap();
    drop(store);
    assert_eq!(recovered.torn, None);
    let session = &recovered.sessions[&SessionId(1)];
    assert_eq!((session.client.as_str(), session.expiry, session.left), ("one", 60, 7));
    assert_eq!(session.will, "gone");
    let [(filter, subscription)] = &Vec::from_iter(&session.subscriptions)[..] else { panic!() };
    let actual = (subscription.options, subscription.identifier);
    assert_eq!((filter.as_str(), actual), ("b/#", (3, 300)));
    let queue: Vec<_> = session
        .queue
        .iter()
        .map(|(id, delivery)| (id.0, delivery.message.0, delivery.phase))
        .collect();
    let phases = [Phase::Sent(40), Phase::Received(50), Phase::Queued];
    assert_eq!(queue, [(4, 1, phases[0]), (5, 1, phases[1]), (6, 2, phases[2])]);
    assert_eq!(session.queue[&DeliveryId(4)].properties, "id");
    assert_eq!(session.incoming, [3]);
    let messages: Vec<_> =
        recovered.messages.iter().map(|(id, message)| (id.0, &message.payload[..])).collect();
    assert_eq!(messages, [(1, &b"first"[..]), (2, b"second"), (3, b"kept")]);
    assert_eq!(recovered.retained, [("t".to_owned(), MessageId(3))]);
    assert_eq!((recovered.next_session, recovered.next_message), (SessionId(2), MessageId(5)));
    let (checked, _) = check(&path).unwrap();
    assert_eq!(
        (checked.counts.sessions, checked.counts.queued, checked.counts.messages),
        (1, 3, 3)
    );
    assert!(checked.to_string().contains("1 sessions, 1 subscriptions, 3 messages"), "{checked}");
}

#[test]
fn released_data_is_cleaned() {
    let home = tempfile::tempdir().unwrap();
    with(home.path(), SMALL, |journal| async move {
        everything(journal.clone()).await;
        for number in 10..800 {
            let done = Record::Done { session: SessionId(1), delivery: DeliveryId(number) };
            let put = [message(number, &[0; 100]), queue(1, number, number)];
            let (put, done) = (entry(&put), entry(&[done]));
            journal.append(put).await.unwrap();
            journal.append(done).await.unwrap();
        }
        let status = journal.status();
        assert!(status.bytes < 40_000, "{status:?}");
        assert!(status.entries == 13 + 2 * 790 && status.fault.is_none(), "{status:?}");
    });
    let files = std::fs::read_dir(home.path()).unwrap().count();
    assert!(files < 20, "{files} files");
    // Cleaning moved everything over many segments, and no number is used twice.
    let (_store, recovered) = Store::open(home.path(), SMALL).unwrap();
    let session = &recovered.sessions[&SessionId(1)];
    assert_eq!((session.queue.len(), session.subscriptions.len()), (3, 1));
    assert_eq!(session.queue[&DeliveryId(5)].phase, Phase::Received(50));
    assert_eq!(recovered.message(MessageId(1)).unwrap().payload, b"first");
    assert_eq!(recovered.retained.len(), 1);
    assert_eq!(recovered.next_message, MessageId(800));
}

#[test]
fn a_directory_has_one_user() {
    let home = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(home.path(), SMALL).unwrap();
    let error = Store::open(home.path(), SMALL).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(matches!(check(home.path()), Err(OpenError::InUse { .. })));
    drop(store);
    check(home.path()).unwrap();
    let missing = check(&home.path().join("missing")).unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
}

#[test]
fn a_full_store_accepts_removals() {
    let home = tempfile::tempdir().unwrap();
    let options = Options { max_bytes: 10_000, max_pending_bytes: 30_000, ..SMALL };
    with(home.path(), options, |journal| async move {
        journal.append(entry(&[session(1, "one")])).await.unwrap();
        let put = |number| entry(&[message(number, &[0; 900]), queue(1, number, number)]);
        let calls = (1..=20).map(|number| journal.append(put(number)));
        let kept = all(calls).await;
        let full = kept.iter().filter(|kept| matches!(kept, Err(AppendError::Full { .. }))).count();
        assert_eq!(full, 10, "{kept:?}");
        let done = Record::Done { session: SessionId(1), delivery: DeliveryId(1) };
        journal.append(entry(&[done])).await.unwrap();
        journal.append(put(30)).await.unwrap();
        assert!(journal.append(put(31)).await.is_err());
        // Entries beyond the queue's limit, and an entry above the maximum size.
        let calls = (0..40).map(|_| journal.append(put(1)));
        let kept = all(calls).await;
        assert!(kept.iter().any(|kept| matches!(kept, Err(AppendError::Busy { .. }))), "{kept:?}");
    });
}

#[test]
fn many_appends_share_a_sync() {
    let home = tempfile::tempdir().unwrap();
    with(home.path(), Options::default(), |journal| async move {
        journal.append(entry(&[session(1, "one")])).await.unwrap();
        for round in 0..10 {
            let put = |n| entry(&[message(n, b"m"), queue(1, n, n)]);
            let calls = (0..100).map(|n| journal.append(put(1 + round * 100 + n)));
            let kept = all(calls).await;
            assert!(kept.iter().all(Result::is_ok));
        }
        let status = journal.status();
        assert!(status.entries == 1001 && status.commits < 200, "{status:?}");
    });
}

#[test]
#[should_panic = "panicked: the test's panic"]
fn a_panic_fails_its_test() {
    let home = tempfile::tempdir().unwrap();
    with(home.path(), SMALL, |_| async { panic!("the test's panic") });
}

/// Files with client data are readable only by their owner, even if an older version created them for everyone.
#[cfg(unix)]
#[test]
fn files_are_private() {
    use std::fs::{Permissions, metadata, read_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("above/data");
    let options = Options { reserve_bytes: 3 * 4096, ..SMALL };
    with(&path, options, everything);
    let mode = |path: &Path| metadata(path).unwrap().permissions().mode() & 0o777;
    let names = || read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(mode(&path), 0o700);
    assert!(names().count() >= 4, "a segment, the lock, the position and the reserve");
    names().for_each(|file| assert_eq!(mode(&file), 0o600, "{}", file.display()));
    // Files with the older permissions, and an unrelated file.
    std::fs::write(path.join("notes"), "mine").unwrap();
    names().for_each(|file| set_permissions(file, Permissions::from_mode(0o644)).unwrap());
    set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let (store, _) = Store::open(&path, options).unwrap();
    let warnings = store.warnings().join("\n");
    assert!(
        warnings.contains("mode 0777") && warnings.contains("other users could read 4 files"),
        "{warnings}"
    );
    for file in names() {
        let expected = if file.ends_with("notes") { 0o644 } else { 0o600 };
        assert_eq!(mode(&file), expected, "{}", file.display());
    }
    drop(store);
    assert_eq!(Store::open(&path, options).unwrap().0.warnings().len(), 1);
}

/// A read-only copy can be checked, even by several processes at the same time.
#[cfg(unix)]
#[test]
fn a_read_only_copy_is_checked() {
    use std::fs::{Permissions, read_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let home = tempfile::tempdir().unwrap();
    with(home.path(), SMALL, everything);
    let whole = check(home.path()).unwrap();
    std::fs::remove_file(home.path().join("lock")).unwrap();
    for entry in read_dir(home.path()).unwrap() {
        set_permissions(entry.unwrap().path(), Permissions::from_mode(0o400)).unwrap();
    }
    set_permissions(home.path(), Permissions::from_mode(0o500)).unwrap();
    assert_eq!(check(home.path()).unwrap(), whole);
    assert!(!home.path().join("lock").exists(), "no file is created");
    set_permissions(home.path(), Permissions::from_mode(0o700)).unwrap();
}
