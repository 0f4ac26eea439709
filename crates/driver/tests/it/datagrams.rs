//! Datagrams: they keep their boundaries, and each request has one completion.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use bytes::Bytes;
use phalanx_driver::{Datagram, DatagramBatch, Done, MAX_BATCH, Request, Socket, Token, sim};
use rustix::event::{PollFd, PollFlags, poll};

use crate::harness::{DriverKind, Harness, pattern};

crate::on_all!(
    a_datagram_arrives,
    bytes_are_divided,
    datagrams_are_received_together,
    datagrams_arrive_after_an_error,
    nobody_receives,
    empty_and_large_datagrams,
    a_long_datagram_is_truncated,
    a_connected_socket_has_one_peer,
    many_sends_at_once,
    only_one_receive_at_a_time,
    a_cancelled_receive_loses_nothing,
    a_receive_behind_a_cancelled_one,
    close_ends_requests_on_datagrams,
    a_datagram_socket_of_another_driver_is_bad,
    drops_are_counted,
    impossible_datagrams,
);

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn socket(io: &mut Harness) -> (Socket, SocketAddr) {
    let socket = io.driver.bind_udp(any()).unwrap();
    (socket, io.driver.local_addr(socket).unwrap())
}

fn send(io: &mut Harness, socket: Socket, bytes: impl Into<Bytes>, to: SocketAddr) -> Token {
    io.start(Request::SendTo { socket, datagram: bytes.into(), to: Some(to), segment: None })
}

fn sent(io: &mut Harness, token: Token) {
    assert!(matches!(io.finish(token).unwrap(), Done::SentDatagram));
}

fn receive(io: &mut Harness, socket: Socket, max: usize) -> Token {
    io.start(Request::ReceiveFrom { socket, buffer: b"stale".to_vec(), max })
}

fn received(io: &mut Harness, socket: Socket, max: usize) -> Datagram {
    let token = receive(io, socket, max);
    datagram(io, token)
}

fn datagram(io: &mut Harness, token: Token) -> Datagram {
    match io.finish(token).unwrap() {
        Done::Datagram(datagram) => *datagram,
        other => panic!("{other:?}"),
    }
}

fn a_datagram_arrives(io: &mut Harness) {
    let ((one, address_of_one), (two, address_of_two)) = (socket(io), socket(io));
    assert_ne!(address_of_one, address_of_two);
    let receive = receive(io, two, 100);
    let send = send(io, one, "hello", address_of_two);
    sent(io, send);
    let Datagram { bytes, from, truncated } = datagram(io, receive);
    assert_eq!((&bytes[..], from, truncated), (&b"hello"[..], address_of_one, false));
}

fn bytes_are_divided(io: &mut Harness) {
    let ((one, _), (two, address)) = (socket(io), socket(io));
    if !io.driver.has_segments(one) {
        return;
    }
    for length in [1, 100, 350] {
        let (datagram, to) = (pattern(length), Some(address));
        let bytes = datagram.clone().into();
        let send =
            io.start(Request::SendTo { socket: one, datagram: bytes, to, segment: Some(100) });
        sent(io, send);
        for segment in datagram.chunks(100) {
            assert_eq!(received(io, two, 1000).bytes, segment);
        }
    }
}

fn datagrams_are_received_together(io: &mut Harness) {
    let ((one, from), (two, address)) = (socket(io), socket(io));
    let mut batch = DatagramBatch::new(100);
    io.driver.receive_datagrams_now(two, &mut batch).unwrap();
    assert!(batch.is_empty());
    let lengths: Vec<_> = (90..90 + 2 * MAX_BATCH).collect();
    let sends: Vec<_> =
        lengths.iter().map(|length| send(io, one, pattern(*length), address)).collect();
    sends.into_iter().for_each(|token| sent(io, token));
    let first = received(io, two, 1000);
    let mut sizes = vec![first.bytes.len().min(101)];
    let calls = io.driver.system_calls();
    // The simulated network delivers later.
    while sizes.len() < lengths.len() {
        io.driver.receive_datagrams_now(two, &mut batch).unwrap();
        for (bytes, sender) in batch.iter() {
            assert_eq!(sender, from);
            match bytes {
                Some(bytes) => {
                    assert!(bytes == pattern(bytes.len()));
                    sizes.push(bytes.len());
                }
                None => sizes.push(101),
            }
        }
        if batch.is_empty() {
            sizes.push(received(io, two, 1000).bytes.len().min(101));
        }
    }
    if io.kind != DriverKind::Sim {
        assert!(io.driver.system_calls() - calls <= 4, "{}", io.driver.system_calls() - calls);
    }
    sizes.sort_unstable();
    assert!(sizes.into_iter().eq(lengths.into_iter().map(|length| length.min(101))));
}

/// The error of an earlier send is received before a datagram that has arrived, and does not hide it.
fn datagrams_arrive_after_an_error(io: &mut Harness) {
    if io.kind == DriverKind::Sim {
        return;
    }
    let [own, peer] = [(); 2].map(|()| UdpSocket::bind(any()).unwrap());
    own.connect(peer.local_addr().unwrap()).unwrap();
    peer.send_to(b"hello", own.local_addr().unwrap()).unwrap();
    drop(peer);
    own.send(b"lost").unwrap();
    let mut refused = [PollFd::new(&own, PollFlags::empty())];
    poll(&mut refused, None).unwrap();
    assert!(refused[0].revents().contains(PollFlags::ERR));
    let own = io.driver.adopt(own.into()).unwrap();
    let mut batch = DatagramBatch::new(100);
    let error = loop {
        match io.driver.receive_datagrams_now(own, &mut batch) {
            Ok(()) => assert!(batch.is_empty()),
            Err(error) => break error,
        }
        io.turn(Duration::from_secs(1));
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(received(io, own, 100).bytes, b"hello");
}

/// A connected socket gets one error if nobody receives.
fn nobody_receives(io: &mut Harness) {
    let ((one, _), (two, address)) = (socket(io), socket(io));
    io.driver.connect_udp(one, address).unwrap();
    io.driver.close(two);
    let send = send(io, one, "lost", address);
    sent(io, send);
    let receive = receive(io, one, 10);
    assert_eq!(io.error(receive), libc::ECONNREFUSED);
    let receive = self::receive(io, one, 10);
    io.idle(Duration::from_millis(5));
    io.driver.cancel(receive);
    assert_eq!(io.error(receive), libc::ECANCELED);
}

fn empty_and_large_datagrams(io: &mut Harness) {
    let ((one, _), (two, address)) = (socket(io), socket(io));
    for length in [0, 1, 65_507, 0, 9_000] {
        let bytes = pattern(length);
        let send = send(io, one, bytes.clone(), address);
        sent(io, send);
        let datagram = received(io, two, 1 << 16);
        assert!(datagram.bytes == bytes && !datagram.truncated, "{length}");
    }
}

fn a_long_datagram_is_truncated(io: &mut Harness) {
    let ((one, _), (two, address)) = (socket(io), socket(io));
    for bytes in [&b"0123456789"[..], b"abc"] {
        let send = send(io, one, bytes, address);
        sent(io, send);
    }
    let datagram = received(io, two, 4);
    assert_eq!((&datagram.bytes[..], datagram.truncated), (&b"0123"[..], true));
    let datagram = received(io, two, 3);
    assert_eq!((&datagram.bytes[..], datagram.truncated), (&b"abc"[..], false));
}

fn a_connected_socket_has_one_peer(io: &mut Harness) {
    let ((one, address_of_one), (two, address_of_two)) = (socket(io), socket(io));
    let (other, _) = socket(io);
    let unconnected =
        io.start(Request::SendTo { socket: one, datagram: Bytes::new(), to: None, segment: None });
    assert_eq!(io.error(unconnected), libc::EDESTADDRREQ);
    assert_eq!(io.driver.peer_addr(one).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    io.driver.connect_udp(one, address_of_two).unwrap();
    io.driver.connect_udp(two, address_of_one).unwrap();
    assert_eq!(io.driver.peer_addr(one).unwrap(), address_of_two);
    let wrong = send(io, other, "from a stranger", address_of_two);
    sent(io, wrong);
    let right = io.start(Request::SendTo {
        socket: one,
        datagram: "right".into(),
        to: None,
        segment: None,
    });
    sent(io, right);
    assert_eq!(received(io, two, 100).bytes, b"right");
}

fn many_sends_at_once(io: &mut Harness) {
    let ((one, _), (two, address)) = (socket(io), socket(io));
    let tokens: Vec<_> = (0..50_u8).map(|n| send(io, one, vec![n; 100], address)).collect();
    let mut numbers = Vec::new();
    for _ in 0..50 {
        numbers.push(received(io, two, 200).bytes[0]);
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..50));
    tokens.into_iter().for_each(|token| sent(io, token));
}

fn only_one_receive_at_a_time(io: &mut Harness) {
    let ((one, _), (two, address)) = (socket(io), socket(io));
    let first = receive(io, two, 10);
    let second = receive(io, two, 10);
    assert_eq!(io.error(second), libc::EBUSY);
    let send = send(io, one, "x", address);
    sent(io, send);
    assert_eq!(datagram(io, first).bytes, b"x");
}

fn a_cancelled_receive_loses_nothing(io: &mut Harness) {
    let ((one, _), (two, address)) = (socket(io), socket(io));
    for submitted in [false, true] {
        let receive = receive(io, two, 10);
        if submitted {
            io.idle(Duration::from_millis(5));
        }
        io.driver.cancel(receive);
        assert_eq!(io.error(receive), libc::ECANCELED);
    }
    let send = send(io, one, "kept", address);
    sent(io, send);
    assert_eq!(received(io, two, 10).bytes, b"kept");
}

/// It waits for the completion of the cancelled one, and may be cancelled itself.
fn a_receive_behind_a_cancelled_one(io: &mut Harness) {
    let ((one, _), (two, address)) = (socket(io), socket(io));
    for _ in 0..20 {
        let first = receive(io, two, 10);
        io.turn(Duration::ZERO);
        io.driver.cancel(first);
        let second = receive(io, two, 10);
        let third = receive(io, two, 10);
        io.driver.cancel(second);
        let last = receive(io, two, 10);
        assert_eq!(io.error(third), libc::EBUSY);
        assert_eq!([first, second].map(|token| io.error(token)), [libc::ECANCELED; 2]);
        let send = send(io, one, "x", address);
        sent(io, send);
        assert_eq!(datagram(io, last).bytes, b"x");
    }
    let first = receive(io, two, 10);
    io.turn(Duration::ZERO);
    io.driver.cancel(first);
    let second = receive(io, two, 10);
    io.driver.close(two);
    assert_eq!([first, second].map(|token| io.error(token)), [libc::ECANCELED; 2]);
}

fn close_ends_requests_on_datagrams(io: &mut Harness) {
    let (one, address) = socket(io);
    let receive = receive(io, one, 10);
    io.idle(Duration::from_millis(5));
    let send = send(io, one, "x", address);
    io.driver.close(one);
    assert_eq!(io.error(receive), libc::ECANCELED);
    // It may have left already.
    match io.finish(send) {
        Ok(Done::SentDatagram) => (),
        other => assert_eq!(other.unwrap_err().raw_os_error(), Some(libc::ECANCELED)),
    }
    // The address is free again.
    let rebound = io.driver.bind_udp(address).unwrap();
    assert_eq!(io.driver.local_addr(rebound).unwrap(), address);
}

fn a_datagram_socket_of_another_driver_is_bad(io: &mut Harness) {
    let (own, _) = socket(io);
    let mut other = Harness::new(io.kind, &Default::default());
    let tokens = [receive(&mut other, own, 10), send(&mut other, own, "x", any())];
    for token in tokens {
        assert_eq!(other.error(token), libc::EBADF);
    }
    io.driver.close(own);
    let tokens = [receive(io, own, 10), send(io, own, "x", any())];
    for token in tokens {
        assert_eq!(io.error(token), libc::EBADF);
    }
}

/// A full receive buffer drops further datagrams, and counts them.
fn drops_are_counted(io: &mut Harness) {
    if io.kind != DriverKind::Sim && !cfg!(target_os = "linux") {
        let (one, _) = socket(io);
        assert_eq!(io.driver.udp_drops(one).unwrap_err().kind(), std::io::ErrorKind::Unsupported);
        return;
    }
    let ((one, _), (two, address)) = (socket(io), socket(io));
    match (io.driver.fd(two), &io.outside.0) {
        (Some(fd), _) => socket2::SockRef::from(&fd).set_recv_buffer_size(1 << 16).unwrap(),
        (None, Some(world)) => world.set_pipe_capacity(1 << 16),
        _ => unreachable!("a simulation has a world"),
    }
    assert_eq!(io.driver.udp_drops(two).unwrap(), 0);
    for _ in 0..100 {
        let send = send(io, one, vec![1; 8000], address);
        sent(io, send);
    }
    let mut count = 0;
    loop {
        let receive = receive(io, two, 8000);
        io.idle(Duration::from_millis(5));
        io.driver.cancel(receive);
        match io.finish(receive) {
            Ok(Done::Datagram(_)) => count += 1,
            Err(error) => break assert_eq!(error.raw_os_error(), Some(libc::ECANCELED)),
            Ok(other) => panic!("{other:?}"),
        }
    }
    assert!((1..100).contains(&count), "{count}");
    assert_eq!(io.driver.udp_drops(two).unwrap(), 100 - count);
}

fn impossible_datagrams(io: &mut Harness) {
    let (one, address) = socket(io);
    let too_long = send(io, one, vec![0; 65_508], address);
    assert_eq!(io.error(too_long), libc::EMSGSIZE);
    let error = io.driver.bind_udp(address).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

/// With faults, datagrams are lost, duplicated and reordered; without, none of this happens.
#[test]
fn the_simulated_network_loses_duplicates_and_reorders() {
    let arrivals = |faults: sim::Faults| {
        let world = sim::World::new(3);
        world.set_faults(faults);
        world.set_pipe_capacity(1 << 20);
        let (one, two) = (world.bind_udp(any()).unwrap(), world.bind_udp(any()).unwrap());
        for n in 0..200_u8 {
            one.send_to(&[n], two.local_addr()).unwrap();
        }
        let mut numbers = Vec::new();
        while let Some(at) = world.next_arrival() {
            world.advance_to(at);
            let mut byte = [0];
            while two.try_recv_from(&mut byte).is_ok() {
                numbers.push(byte[0]);
            }
        }
        numbers
    };
    let none = sim::Faults::NONE;
    let in_order: Vec<u8> = (0..200).collect();
    assert_eq!(arrivals(none), in_order);
    assert!((50..150).contains(&arrivals(sim::Faults { lost: 500, ..none }).len()));
    let mut twice = arrivals(sim::Faults { duplicated: 500, ..none });
    assert!((250..350).contains(&twice.len()));
    twice.dedup();
    assert_eq!(twice, in_order);
    let mut shuffled = arrivals(sim::Faults { reordered: 500, ..none });
    assert_ne!(shuffled, in_order);
    shuffled.sort_unstable();
    assert_eq!(shuffled, in_order);
}
