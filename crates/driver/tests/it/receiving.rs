//! Receiving: order, ends of streams, and how much the driver receives before it is requested.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use phalanx_driver::{Config, Done, Request};

use crate::harness::{Harness, pattern, run_with, write_all};
use crate::peer::Peer;

crate::on_all!(
    pipelined_small_messages,
    bytes_and_the_end_together,
    half_close,
    a_reset_is_an_error,
    only_one_receive_at_a_time,
    a_cancelled_receive_loses_no_bytes,
    many_bytes_without_a_receive,
    data_before_adoption,
    skipped_bytes_are_counted,
    skipping_ends_with_the_stream,
    a_receive_takes_no_more_than_its_limit,
    idle_until_something_arrives,
    the_end_is_seen_behind_unread_bytes,
);
crate::on_both!(bytes_behind_an_urgent_byte);
phalanx_testkit::per_driver!(super::run_with_a_short_queue: idle_beyond_the_completion_queue);

/// io_uring's completion queue then has 8 entries.
fn run_with_a_short_queue(driver: &str, test: fn(&mut Harness)) {
    run_with(driver, Config { entries: 1, ..Config::default() }, test);
}

/// A receive ends before an urgent byte, so a short one may leave bytes in the socket.
fn bytes_behind_an_urgent_byte(io: &mut Harness) {
    for skips in [false, true] {
        let (socket, mut peer) = io.pair();
        peer.write_all(b"abc").unwrap();
        let Peer::Real(stream) = &peer else { panic!("a socket of the machine") };
        assert_eq!(rustix::net::send(stream, b"!", rustix::net::SendFlags::OOB), Ok(1));
        peer.write_all(b"def").unwrap();
        io.idle(Duration::from_millis(20));
        let mut received = 0;
        while received < 6 {
            let receive = Request::Receive { socket, max: usize::MAX };
            let skip = Request::Skip { socket, max: 1000 };
            let token = io.start(if skips { skip } else { receive });
            received += match io.finish(token).unwrap() {
                Done::Received(chunk) => chunk.len() as u64,
                Done::Skipped(bytes) => bytes,
                other => panic!("{other:?}"),
            };
        }
        assert_eq!(received, 6);
    }
}

fn the_end_is_seen_behind_unread_bytes(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    peer.write_all(b"a").unwrap();
    while io.driver.is_idle(socket) {
        io.idle(Duration::from_millis(1));
    }
    assert!(!io.driver.is_closed_by_peer(socket));
    peer.shutdown(Shutdown::Write).unwrap();
    while !io.driver.is_closed_by_peer(socket) {
        io.idle(Duration::from_millis(1));
    }
    assert_eq!(*io.received(socket).unwrap(), *b"a");
    assert!(io.received(socket).unwrap().is_empty() && io.driver.is_closed_by_peer(socket));
}

fn idle_until_something_arrives(io: &mut Harness) {
    let wait = |io: &mut Harness, socket| {
        while io.driver.is_idle(socket) {
            io.idle(Duration::from_millis(1));
        }
    };
    let (socket, mut peer) = io.pair();
    assert!(io.driver.is_idle(socket));
    // Also after a receive, because the driver may then receive before the next request.
    for _ in 0..2 {
        peer.write_all(b"a").unwrap();
        wait(io, socket);
        io.idle(Duration::from_millis(1));
        assert!(!io.driver.is_idle(socket));
        assert_eq!(*io.received(socket).unwrap(), *b"a");
        assert!(io.driver.is_idle(socket));
    }
    peer.shutdown(Shutdown::Write).unwrap();
    wait(io, socket);
    assert!(io.received(socket).unwrap().is_empty());
    assert!(!io.driver.is_idle(socket), "the end stays");
}

/// Bytes that the driver has received in advance, and whose completions did not fit into the queue.
fn idle_beyond_the_completion_queue(io: &mut Harness) {
    let mut pairs: Vec<_> = (0..40).map(|_| io.pair()).collect();
    for (socket, peer) in &mut pairs {
        peer.write_all(b"a").unwrap();
        assert_eq!(*io.received(*socket).unwrap(), *b"a");
    }
    for (_, peer) in &mut pairs {
        peer.write_all(b"b").unwrap();
    }
    io.driver.submit().unwrap();
    for (socket, _) in pairs.iter().rev() {
        assert!(!io.driver.is_idle(*socket));
    }
    for (socket, _) in &pairs {
        assert_eq!(*io.received(*socket).unwrap(), *b"b");
        assert!(io.driver.is_idle(*socket));
    }
}

fn pipelined_small_messages(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    let mut expected = Vec::new();
    let mut received = Vec::new();
    for round in 0..200_u32 {
        for part in 0..5_u32 {
            let message = (round * 5 + part).to_be_bytes();
            expected.extend_from_slice(&message);
            peer.write_all(&message).unwrap();
        }
        while received.len() < expected.len() {
            received.extend_from_slice(&io.received(socket).unwrap());
        }
    }
    assert_eq!(received, expected);
}

fn bytes_and_the_end_together(io: &mut Harness) {
    for is_requested_before in [false, true] {
        let (socket, mut peer) = io.pair();
        let early = is_requested_before.then(|| io.receive(socket));
        io.idle(Duration::from_millis(5));
        peer.write_all(b"last words").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let receive = early.unwrap_or_else(|| io.receive(socket));
        assert_eq!(*io.chunk(receive).unwrap(), *b"last words");
        // Further receives return the end as well.
        assert!(io.received(socket).unwrap().is_empty());
        assert!(io.received(socket).unwrap().is_empty());
    }
}

fn half_close(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    peer.write_all(b"request").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(*io.received(socket).unwrap(), *b"request");
    assert!(io.received(socket).unwrap().is_empty());
    let send = io.send(socket, b"late ", "reply");
    io.sent(send).unwrap();
    io.driver.close(socket);
    io.idle(Duration::from_millis(5));
    let mut reply = String::new();
    std::io::Read::read_to_string(&mut peer, &mut reply).unwrap();
    assert_eq!(reply, "late reply");
}

fn a_reset_is_an_error(io: &mut Harness) {
    let (socket, peer) = io.pair();
    let receive = io.receive(socket);
    io.driver.submit().unwrap();
    peer.reset();
    assert_eq!(io.error(receive), libc::ECONNRESET);
    let send = io.send(socket, b"into the void", "");
    assert_eq!(io.error(send), libc::EPIPE);
}

fn only_one_receive_at_a_time(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    let first = io.receive(socket);
    let second = io.receive(socket);
    assert_eq!(io.error(second), libc::EBUSY);
    peer.write_all(b"x").unwrap();
    assert_eq!(*io.chunk(first).unwrap(), *b"x");
}

fn a_cancelled_receive_loses_no_bytes(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    for round in 0..20_u8 {
        let receive = io.receive(socket);
        io.driver.submit().unwrap();
        io.driver.cancel(receive);
        peer.write_all(&[round]).unwrap();
        assert_eq!(io.error(receive), libc::ECANCELED);
        assert_eq!(*io.received(socket).unwrap(), [round]);
    }
}

fn many_bytes_without_a_receive(io: &mut Harness) {
    const LENGTH: usize = 1 << 20;
    let (socket, mut peer) = io.pair();
    // After the first receive, the driver may run ahead.
    peer.write_all(b"first").unwrap();
    assert_eq!(*io.received(socket).unwrap(), *b"first");
    let writer = write_all(&peer, pattern(LENGTH));
    io.idle(Duration::from_millis(100));
    // Other sockets still get buffers, and do not wait long.
    let (other, mut other_peer) = io.pair();
    other_peer.write_all(b"other").unwrap();
    assert_eq!(*io.received(other).unwrap(), *b"other");
    assert_eq!(io.received_exactly(socket, LENGTH), pattern(LENGTH));
    writer.join().unwrap();
}

fn data_before_adoption(io: &mut Harness) {
    let (local, mut peer) = io.ends();
    peer.write_all(b"early").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let socket = io.driver.adopt(local).unwrap();
    let receive = io.start(Request::Receive { socket, max: usize::MAX });
    assert_eq!(*io.chunk(receive).unwrap(), *b"early");
    assert!(io.received(socket).unwrap().is_empty());
}

fn skipped_bytes_are_counted(io: &mut Harness) {
    const LENGTH: usize = 700_000;
    let (socket, peer) = io.pair();
    let sent = pattern(LENGTH);
    let writer = write_all(&peer, sent.clone());
    let mut at = 0;
    for max in [1, 1000, 5, 300_000, 100, 200_000].into_iter().cycle() {
        if at >= LENGTH / 2 {
            break;
        }
        let token = io.start(Request::Skip { socket, max });
        let length = match io.finish(token).unwrap() {
            Done::Skipped(bytes) => {
                assert!((1..=max).contains(&bytes), "{bytes} of {max}");
                bytes as usize
            }
            Done::Received(chunk) => {
                assert_eq!(*chunk, sent[at..at + chunk.len()]);
                chunk.len()
            }
            other => panic!("{other:?}"),
        };
        assert!(length > 0, "the end at {at}");
        at += length;
        let chunk = io.received(socket).unwrap();
        assert_eq!(*chunk, sent[at..at + chunk.len()], "at {at}");
        at += chunk.len();
    }
    assert_eq!(io.received_exactly(socket, LENGTH - at), sent[at..]);
    writer.join().unwrap();
}

/// A receive takes no more than its limit; the following bytes stay for the next one, in order.
fn a_receive_takes_no_more_than_its_limit(io: &mut Harness) {
    const LENGTH: usize = 100_000;
    let (socket, peer) = io.pair();
    let sent = pattern(LENGTH);
    let writer = write_all(&peer, sent.clone());
    let mut received = Vec::new();
    for max in [1, 2, 1000, 3, usize::MAX, 8191, 8193].into_iter().cycle() {
        if received.len() == LENGTH {
            break;
        }
        let token = io.start(Request::Receive { socket, max });
        let chunk = io.chunk(token).unwrap();
        assert!((1..=max).contains(&chunk.len()), "{} of {max} bytes", chunk.len());
        received.extend_from_slice(&chunk);
    }
    assert_eq!(received, sent);
    writer.join().unwrap();
}

fn skipping_ends_with_the_stream(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    peer.write_all(b"0123456789").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let mut length = 0;
    for _ in 0..=10 {
        let token = io.start(Request::Skip { socket, max: 1 << 30 });
        match io.finish(token).unwrap() {
            Done::Skipped(bytes) => length += bytes,
            Done::Received(chunk) if chunk.is_empty() => return assert_eq!(length, 10),
            Done::Received(chunk) => length += chunk.len() as u64,
            other => panic!("{other:?}"),
        }
    }
    panic!("it does not end");
}
