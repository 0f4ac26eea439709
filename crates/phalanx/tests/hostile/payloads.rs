//! Payloads whose destructors panic while the driver drops them. Only the write fails.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use phalanx::fs::Dir;
use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx::runtime::DriverChoice;
use phalanx::sleep;

use phalanx_testkit::TIMEOUT;

use crate::harness::{on_each_driver, pair, poll_once, program, read, run};

on_each_driver!(
    written,
    refused,
    reset,
    timed_out,
    dropped,
    written_to_a_file,
    in_flight_at_the_end,
);

/// More than the buffers of a connection hold.
const LARGE: usize = 64 << 20;

/// More than completes immediately, and less than the buffers of a connection hold.
const BATCHED: usize = 20_000;

/// Counts dropped payloads.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

struct Owner(Vec<u8>, Drops);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.1.0.fetch_add(1, Ordering::SeqCst);
        panic!("hostile destructor");
    }
}

impl Drops {
    /// Bytes whose destructor panics.
    pub(crate) fn bytes(&self, length: usize) -> Bytes {
        Bytes::from_owner(Owner(vec![b'x'; length], self.clone()))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

type Writing = Pin<Box<dyn Future<Output = (io::Result<Vec<u8>>, Stream)> + Send>>;

/// A write, with everything that it needs, that has begun.
async fn start_write(stream: Stream, payload: impl Into<Payload>, timeout: IoTimeout) -> Writing {
    let payload = payload.into();
    let mut writing: Writing = Box::pin(async move {
        let written = stream.write(payload, timeout).await;
        (written, stream)
    });
    assert!(poll_once(&mut writing).await.is_pending());
    writing
}

/// The processor serves another connection.
async fn check_connection() {
    let (stream, mut peer) = pair().await;
    peer.write_all(b"request").unwrap();
    let (bytes, stream) = read(stream).await;
    assert_eq!(bytes.unwrap(), b"request");
    stream.write(b"answer".to_vec(), IoTimeout::after(TIMEOUT)).await.unwrap();
    drop(stream);
    reads_all(peer, b"answer").await;
}

/// The peer reads `expected`, and then the end of the stream.
async fn reads_all(mut peer: TcpStream, expected: impl AsRef<[u8]> + Send + 'static) {
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        peer.read_to_end(&mut bytes).unwrap();
        assert!(bytes == expected.as_ref());
    });
    while !reader.is_finished() {
        sleep(Duration::from_millis(1)).await;
    }
    reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn written(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let drops = Drops::default();
        // They are too large to complete immediately, and complete in one batch.
        let mut writes = Vec::new();
        for head in ["head", ""] {
            let (stream, peer) = pair().await;
            let payload = Payload { head: head.into(), body: drops.bytes(BATCHED) };
            writes.push((start_write(stream, payload, IoTimeout::after(TIMEOUT)).await, peer));
        }
        for ((writing, peer), head) in writes.into_iter().zip(["head", ""]) {
            assert!(writing.await.0.unwrap().is_empty());
            reads_all(peer, [head.as_bytes(), &[b'x'; BATCHED]].concat()).await;
        }
        // These complete immediately.
        let (stream, peer) = pair().await;
        for length in [0, 4] {
            stream.write(drops.bytes(length), IoTimeout::after(TIMEOUT)).await.unwrap();
        }
        drop(stream);
        reads_all(peer, b"xxxx").await;
        assert_eq!(drops.count(), 4);
        check_connection().await;
    });
}

fn refused(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let drops = Drops::default();
        let (stream, _peer) = pair().await;
        let stream = Arc::new(stream);
        let other = stream.clone();
        let (first, second) = (drops.bytes(LARGE), drops.bytes(4));
        let mut first = Box::pin(async move { other.write(first, IoTimeout::NONE).await });
        assert!(poll_once(&mut first).await.is_pending());
        // One write at a time.
        assert!(stream.write(second, IoTimeout::after(TIMEOUT)).await.is_err());
        assert_eq!(drops.count(), 1);
        check_connection().await;
    });
}

fn reset(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let drops = Drops::default();
        let (stream, mut peer) = pair().await;
        let writing = start_write(stream, drops.bytes(LARGE), IoTimeout::after(TIMEOUT)).await;
        // It has unread bytes when it is closed, which resets the connection.
        let peer = thread::spawn(move || peer.read_exact(&mut [0]).unwrap());
        assert!(writing.await.0.is_err());
        peer.join().unwrap();
        assert_eq!(drops.count(), 1);
        check_connection().await;
    });
}

fn timed_out(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let drops = Drops::default();
        let (stream, _peer) = pair().await;
        let short = IoTimeout::after(Duration::from_millis(1));
        let error = stream.write(drops.bytes(LARGE), short).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(drops.count(), 1);
        check_connection().await;
    });
}

fn dropped(driver: DriverChoice) {
    program(driver, 1, |_| async {
        let drops = Drops::default();
        let ((one, one_peer), (two, two_peer)) = (pair().await, pair().await);
        // One before the driver has started it, and one after.
        let two = start_write(two, drops.bytes(LARGE), IoTimeout::NONE).await;
        sleep(Duration::from_millis(20)).await;
        drop(start_write(one, drops.bytes(LARGE), IoTimeout::NONE).await);
        drop(two);
        for mut peer in [one_peer, two_peer] {
            let drained = thread::spawn(move || io::copy(&mut peer, &mut io::sink()));
            while !drained.is_finished() {
                sleep(Duration::from_millis(1)).await;
            }
        }
        while drops.count() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        check_connection().await;
    });
}

fn written_to_a_file(driver: DriverChoice) {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::open(home.path()).unwrap();
    program(driver, 1, |_| async move {
        let drops = Drops::default();
        let file = dir.create(b"file", false).await.unwrap();
        // More than the number of helper threads.
        for n in 0..6 {
            file.write_at(4 * n, drops.bytes(4)).await.unwrap();
        }
        assert!(file.write_at(u64::MAX, drops.bytes(4)).await.is_err());
        assert_eq!(drops.count(), 7);
        check_connection().await;
    });
    assert_eq!(std::fs::read(home.path().join("file")).unwrap(), [b'x'; 24]);
}

fn in_flight_at_the_end(driver: DriverChoice) {
    let drops = Drops::default();
    let kept: Arc<Mutex<Vec<(Writing, TcpStream)>>> = Arc::default();
    let (bytes, keep) = (drops.clone(), kept.clone());
    let ((), ended) = run(driver, 1, |_| async move {
        for n in 0..3 {
            let (stream, peer) = pair().await;
            let writing = start_write(stream, bytes.bytes(LARGE), IoTimeout::NONE).await;
            keep.lock().unwrap().push((writing, peer));
            if n == 0 {
                sleep(Duration::from_millis(20)).await;
            }
        }
    });
    assert_eq!(ended.processors.len(), 1, "{ended:?}");
    assert_eq!(drops.count(), 3);
    kept.lock().unwrap().clear();
}
