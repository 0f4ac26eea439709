//! Sending: everything, in order, and also to slow readers.

use std::io::{IoSlice, Read};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use phalanx_driver::{Done, Payload, Request};

use crate::harness::{Harness, pattern, read_slowly};

// In a simulation, the world draws whether it sends.
crate::on_both!(without_a_request, a_full_socket_leaves_the_rest_to_a_request);

crate::on_all!(
    with_and_without_requests_in_order,
    head_and_body_in_every_combination,
    many_parts_in_order,
    many_bytes_to_a_slow_reader,
    the_head_comes_back,
    only_one_send_at_a_time,
    a_cancelled_send_ends,
    a_send_behind_a_cancelled_one,
    both_directions_at_once,
    a_shut_down_socket_sends_no_more,
);

fn head_and_body_in_every_combination(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    for (head, body) in [("", ""), ("head", ""), ("", "body"), ("head", "body")] {
        let send = io.send(socket, head.as_bytes(), body);
        io.sent(send).unwrap();
        let mut received = vec![0; head.len() + body.len()];
        peer.read_exact(&mut received).unwrap();
        assert_eq!(received, format!("{head}{body}").into_bytes());
    }
}

fn without_a_request(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    for (head, body) in [("", ""), ("head", ""), ("", "body"), ("head", "body")] {
        let parts = [head, body].map(|part: &str| IoSlice::new(part.as_bytes()));
        let (calls, length) = (io.driver.system_calls(), head.len() + body.len());
        assert_eq!(io.driver.send_now(socket, &parts).unwrap(), length);
        assert_eq!(io.driver.system_calls(), calls + 1);
        let mut received = vec![0; length];
        peer.read_exact(&mut received).unwrap();
        assert_eq!(received, format!("{head}{body}").into_bytes());
    }
    io.driver.close(socket);
    let error = io.driver.send_now(socket, &[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
}

fn a_full_socket_leaves_the_rest_to_a_request(io: &mut Harness) {
    const PART: usize = 16 << 10;
    let (socket, peer) = io.pair();
    let part = pattern(PART);
    let (mut parts, mut sent) = (0, PART);
    while sent == PART {
        parts += 1;
        sent = io.driver.send_now(socket, &[IoSlice::new(&part)]).unwrap();
    }
    let rest = io.send(socket, &part[sent..], "");
    let busy = io.driver.send_now(socket, &[IoSlice::new(&part)]).unwrap();
    assert_eq!(busy, 0, "one is in flight");
    let reader = read_slowly(peer, parts * PART);
    io.sent(rest).unwrap();
    assert!(reader.join().unwrap() == part.repeat(parts));
}

/// As much as possible of each part is sent immediately, and the rest by a request.
fn with_and_without_requests_in_order(io: &mut Harness) {
    const LENGTH: usize = 1 << 20;
    let (socket, peer) = io.pair();
    let bytes = pattern(LENGTH);
    let reader = read_slowly(peer, LENGTH);
    let (mut at_once, mut by_request) = (0, 0);
    for part in bytes.chunks(4000) {
        let (first, second) = part.split_at(1000.min(part.len()));
        let parts = [IoSlice::new(first), IoSlice::new(second)];
        let sent = io.driver.send_now(socket, &parts).unwrap();
        at_once += sent;
        if sent < part.len() {
            let rest = io.send(socket, &part[sent..], "");
            assert_eq!(io.driver.send_now(socket, &parts).unwrap(), 0, "one is in flight");
            io.sent(rest).unwrap();
            by_request += part.len() - sent;
        }
    }
    assert!(reader.join().unwrap() == bytes);
    assert!(at_once > 0);
    if io.driver.name() == "sim" {
        assert!(by_request > 0, "a world draws both");
    }
}

/// More parts than fit in one system call, some of them empty.
fn many_parts_in_order(io: &mut Harness) {
    const LENGTH: usize = 3 << 20;
    let (socket, peer) = io.pair();
    let bytes = Bytes::from(pattern(LENGTH));
    let mut parts = vec![Bytes::new()];
    let mut at = 0;
    for length in (1..100).chain([200_000, 0, 0, 1, 1 << 20, LENGTH]) {
        let end = (at + length).min(LENGTH);
        parts.push(bytes.slice(at..end));
        at = end;
    }
    let send = io.start(Request::SendVectored { socket, parts });
    let reader = read_slowly(peer, LENGTH);
    io.sent(send).unwrap();
    assert!(reader.join().unwrap() == bytes);
    for parts in [Vec::new(), vec![Bytes::new(); 3]] {
        let send = io.start(Request::SendVectored { socket, parts });
        io.sent(send).unwrap();
    }
}

fn many_bytes_to_a_slow_reader(io: &mut Harness) {
    const LENGTH: usize = 8 << 20;
    let (socket, peer) = io.pair();
    if let Some(fd) = io.driver.fd(socket) {
        socket2::SockRef::from(&fd).set_send_buffer_size(16 << 10).unwrap();
    }
    let bytes = Bytes::from(pattern(LENGTH));
    let send = io.send(socket, &bytes[..100_000], bytes.slice(100_000..));
    let reader = read_slowly(peer, LENGTH);
    io.sent(send).unwrap();
    assert!(reader.join().unwrap() == bytes);
}

fn the_head_comes_back(io: &mut Harness) {
    let (socket, _peer) = io.pair();
    let mut head = Vec::with_capacity(1000);
    head.extend_from_slice(b"reusable");
    let address = head.as_ptr();
    let payload = Payload { head, body: Bytes::new() };
    let send = io.start(Request::Send { socket, payload });
    let Done::Sent(head) = io.finish(send).unwrap() else { panic!() };
    assert!(head.is_empty() && head.as_ptr() == address && head.capacity() == 1000);
}

/// Fills the socket until a send of `body` waits.
fn blocked_send(
    io: &mut Harness,
) -> (phalanx_driver::Socket, crate::peer::Peer, phalanx_driver::Token) {
    let (socket, peer) = io.pair();
    let send = io.send(socket, b"head", vec![7; 64 << 20]);
    io.idle(Duration::from_millis(20));
    assert!(io.take(send).is_none());
    (socket, peer, send)
}

fn only_one_send_at_a_time(io: &mut Harness) {
    let (socket, peer, first) = blocked_send(io);
    let second = io.send(socket, b"x", "");
    assert_eq!(io.error(second), libc::EBUSY);
    drop(peer);
    let error = io.error(first);
    assert!([libc::EPIPE, libc::ECONNRESET].contains(&error), "{error}");
}

fn a_cancelled_send_ends(io: &mut Harness) {
    let (_socket, _peer, send) = blocked_send(io);
    io.driver.cancel(send);
    assert_eq!(io.error(send), libc::ECANCELED);
}

/// It waits for the completion of the cancelled one, and may be cancelled itself.
fn a_send_behind_a_cancelled_one(io: &mut Harness) {
    let (socket, mut peer, first) = blocked_send(io);
    io.driver.cancel(first);
    let second = io.send(socket, b"second", "");
    let third = io.send(socket, b"third", "");
    assert_eq!(io.driver.send_now(socket, &[IoSlice::new(b"now")]).unwrap(), 0);
    io.driver.cancel(second);
    let last = io.send(socket, b"last", "");
    assert_eq!(io.error(third), libc::EBUSY);
    assert_eq!([first, second].map(|token| io.error(token)), [libc::ECANCELED; 2]);
    let reader = thread::spawn(move || {
        let (mut received, mut part) = (Vec::new(), vec![0; 64 << 10]);
        while !received.ends_with(b"last") {
            let read = peer.read(&mut part).unwrap();
            assert!(read > 0);
            received.extend_from_slice(&part[..read]);
        }
        received
    });
    io.sent(last).unwrap();
    let received = reader.join().unwrap();
    let body = &received[4..received.len() - 4];
    assert!(received.starts_with(b"head") && body.iter().all(|byte| *byte == 7));
}

fn both_directions_at_once(io: &mut Harness) {
    const LENGTH: usize = 2 << 20;
    let (socket, peer) = io.pair();
    let writer = crate::harness::write_all(&peer, pattern(LENGTH));
    let mut other = peer.try_clone().unwrap();
    let reader = thread::spawn(move || {
        let mut received = vec![0; LENGTH];
        other.read_exact(&mut received).unwrap();
        received
    });
    let send = io.send(socket, &[], pattern(LENGTH));
    assert!(io.received_exactly(socket, LENGTH) == pattern(LENGTH));
    io.sent(send).unwrap();
    assert!(reader.join().unwrap() == pattern(LENGTH));
    writer.join().unwrap();
}

fn a_shut_down_socket_sends_no_more(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    io.driver.shutdown(socket, Shutdown::Write).unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    let send = io.send(socket, b"x", "");
    assert_eq!(io.error(send), libc::EPIPE);
}
