//! Payloads whose destructors panic. The driver drops them wherever a request ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use phalanx_driver::{Config, Done, Request};

use crate::harness::{Harness, write_all};

crate::on_all!(
    a_batch_of_sends_completes,
    a_refused_send_completes,
    requests_of_a_closed_socket_complete,
    a_cancelled_send_completes,
    a_reset_connection_completes_requests,
    a_driver_is_dropped_with_sends_in_flight,
    writes_to_a_file_complete,
    vectored_sends_complete,
    datagrams_complete,
);

/// More than the buffers of a connection hold.
const MORE_THAN_BUFFERED: usize = 64 << 20;

/// Bytes that count their drops; each drop panics.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

struct Owner(Vec<u8>, Drops);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.1.0.fetch_add(1, Ordering::SeqCst);
        // The panic's own payload panics as well.
        std::panic::panic_any(PanicsInDrop);
    }
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("hostile panic");
    }
}

impl Drops {
    fn bytes(&self, length: usize) -> Bytes {
        Bytes::from_owner(Owner(vec![b'x'; length], self.clone()))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// The driver still serves a connection.
fn check_connection(io: &mut Harness) {
    let (socket, peer) = io.pair();
    let writer = write_all(&peer, *b"request");
    assert_eq!(io.received_exactly(socket, 7), b"request");
    writer.join().unwrap();
    io.driver.close(socket);
}

fn a_batch_of_sends_completes(io: &mut Harness) {
    let drops = Drops::default();
    let pairs: Vec<_> = (0..5).map(|_| io.pair()).collect();
    let sends: Vec<_> = (0..5)
        .map(|n| io.send(pairs[n].0, if n % 2 == 0 { b"head" } else { b"" }, drops.bytes(n)))
        .collect();
    sends.into_iter().for_each(|send| io.sent(send).unwrap());
    assert_eq!(drops.count(), 5);
    check_connection(io);
}

fn a_refused_send_completes(io: &mut Harness) {
    let drops = Drops::default();
    let (socket, _peer) = io.pair();
    let first = io.send(socket, b"", drops.bytes(MORE_THAN_BUFFERED));
    let second = io.send(socket, b"", drops.bytes(5));
    assert_eq!(io.error(second), libc::EBUSY);
    io.driver.close(socket);
    assert_eq!(io.error(first), libc::ECANCELED);
    let stale = io.send(socket, b"", drops.bytes(5));
    assert_eq!(io.error(stale), libc::EBADF);
    assert_eq!(drops.count(), 3);
    check_connection(io);
}

fn requests_of_a_closed_socket_complete(io: &mut Harness) {
    let drops = Drops::default();
    for is_started in [false, true] {
        let (socket, _peer) = io.pair();
        let (receive, send) =
            (io.receive(socket), io.send(socket, b"", drops.bytes(MORE_THAN_BUFFERED)));
        if is_started {
            io.idle(Duration::from_millis(10));
        }
        io.driver.close(socket);
        assert_eq!(io.error(send), libc::ECANCELED);
        assert_eq!(io.error(receive), libc::ECANCELED);
    }
    assert_eq!(drops.count(), 2);
    check_connection(io);
}

fn a_cancelled_send_completes(io: &mut Harness) {
    let drops = Drops::default();
    let (socket, _peer) = io.pair();
    let send = io.send(socket, b"head", drops.bytes(MORE_THAN_BUFFERED));
    io.idle(Duration::from_millis(10));
    io.driver.cancel(send);
    assert_eq!(io.error(send), libc::ECANCELED);
    assert_eq!(drops.count(), 1);
    check_connection(io);
}

fn a_reset_connection_completes_requests(io: &mut Harness) {
    let drops = Drops::default();
    let (socket, peer) = io.pair();
    let send = io.send(socket, b"head", drops.bytes(MORE_THAN_BUFFERED));
    io.idle(Duration::from_millis(10));
    peer.reset();
    assert!([libc::ECONNRESET, libc::EPIPE].contains(&io.error(send)));
    assert_eq!(drops.count(), 1);
    check_connection(io);
}

fn a_driver_is_dropped_with_sends_in_flight(io: &mut Harness) {
    let drops = Drops::default();
    let mut inner = Harness::new(io.kind, &Config::default());
    let pairs: Vec<_> = (0..4).map(|_| inner.pair()).collect();
    for (n, (socket, _)) in pairs.iter().enumerate() {
        inner.send(*socket, b"", drops.bytes(MORE_THAN_BUFFERED));
        if n < 2 {
            inner.idle(Duration::from_millis(10));
        }
    }
    drop(inner);
    assert_eq!(drops.count(), 4);
}

fn writes_to_a_file_complete(io: &mut Harness) {
    let drops = Drops::default();
    let disk = io.disk();
    disk.write("file", b"");
    let root = disk.open(".");
    let file = crate::writing::open(io, &root, "file", phalanx_driver::Access::Write).unwrap();
    // More requests than helper threads.
    for round in 0..6 {
        let (file, bytes) = (file.clone(), drops.bytes(5));
        let write = io.start(Request::WriteAt { file, bytes, offset: 5 * round });
        assert!(matches!(io.finish(write), Ok(Done::Written)));
    }
    let (file, bytes) = (file.clone(), drops.bytes(5));
    let impossible = io.start(Request::WriteAt { file, bytes, offset: u64::MAX });
    assert_eq!(io.error(impossible), libc::EINVAL);
    assert_eq!(drops.count(), 7);
    check_connection(io);
}

fn vectored_sends_complete(io: &mut Harness) {
    let drops = Drops::default();
    let (socket, _peer) = io.pair();
    let parts = |lengths: [usize; 3]| lengths.map(|length| drops.bytes(length)).to_vec();
    let short = io.start(Request::SendVectored { socket, parts: parts([1, 0, 3]) });
    io.sent(short).unwrap();
    let long = io.start(Request::SendVectored { socket, parts: parts([1, MORE_THAN_BUFFERED, 3]) });
    io.idle(Duration::from_millis(5));
    let send = io.start(Request::SendVectored { socket, parts: parts([1, 2, 3]) });
    assert_eq!(io.error(send), libc::EBUSY);
    io.driver.close(socket);
    assert_eq!(io.error(long), libc::ECANCELED);
    assert_eq!(drops.count(), 9);
    check_connection(io);
}

fn datagrams_complete(io: &mut Harness) {
    let drops = Drops::default();
    let socket = io.driver.bind_udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = Some(io.driver.local_addr(socket).unwrap());
    let send =
        |length| Request::SendTo { socket, datagram: drops.bytes(length), to, segment: None };
    let batch = [0, 5, 1000].map(|length| io.start(send(length)));
    for token in batch {
        assert!(matches!(io.finish(token).unwrap(), Done::SentDatagram));
    }
    let too_long = io.start(send(70_000));
    assert_eq!(io.error(too_long), libc::EMSGSIZE);
    // The request was cancelled, or sent before that.
    let (cancelled, closed) = (io.start(send(7)), io.start(send(8)));
    io.driver.cancel(cancelled);
    io.driver.close(socket);
    let _ = (io.finish(cancelled), io.finish(closed));
    let stale = io.start(send(9));
    assert_eq!(io.error(stale), libc::EBADF);
    assert_eq!(drops.count(), 7);
    check_connection(io);
}
