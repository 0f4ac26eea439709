//! Closing sockets and dropping drivers while requests are in flight.

use std::io::Read;
use std::time::Duration;

use phalanx_driver::{Config, Request};

use crate::harness::{Harness, write_all};
use crate::peer::Peer;

crate::on_all!(
    close_ends_all_requests,
    close_before_submit,
    close_reaches_the_peer,
    close_resets_the_connection,
    a_stale_socket_is_bad,
    a_socket_of_another_driver_is_bad,
    descriptors_do_not_leak,
    drop_with_requests_in_flight,
    a_chunk_outlives_its_driver,
);

fn close_ends_all_requests(io: &mut Harness) {
    let (socket, _peer) = io.pair();
    let receive = io.receive(socket);
    let send = io.send(socket, b"head", vec![1; 64 << 20]);
    let (listener, _) = io.listener();
    let accepts = [(); 3].map(|()| io.start(Request::Accept { listener }));
    io.idle(Duration::from_millis(10));
    io.driver.close(socket);
    io.driver.close(listener);
    io.driver.close(socket);
    for token in [receive, send].into_iter().chain(accepts) {
        assert_eq!(io.error(token), libc::ECANCELED);
    }
}

fn close_before_submit(io: &mut Harness) {
    let (socket, _peer) = io.pair();
    let receive = io.receive(socket);
    let send = io.send(socket, b"head", vec![1; 64 << 20]);
    io.driver.close(socket);
    assert_eq!(io.error(receive), libc::ECANCELED);
    assert_eq!(io.error(send), libc::ECANCELED);
}

fn close_reaches_the_peer(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    let receive = io.receive(socket);
    io.driver.submit().unwrap();
    io.driver.close(socket);
    assert_eq!(io.error(receive), libc::ECANCELED);
    io.idle(Duration::from_millis(10));
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

fn close_resets_the_connection(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    let send = io.send(socket, b"head", vec![1; 64 << 20]);
    io.idle(Duration::from_millis(10));
    io.driver.reset_on_close(socket).unwrap();
    io.driver.shutdown(socket, std::net::Shutdown::Both).unwrap();
    io.driver.close(socket);
    io.error(send);
    io.idle(Duration::from_millis(10));
    let error = peer.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

fn a_stale_socket_is_bad(io: &mut Harness) {
    let (socket, _peer) = io.pair();
    io.driver.close(socket);
    // The slot is reused, but the old handle is stale.
    let (other, _other_peer) = io.pair();
    assert_ne!(socket, other);
    let receive = io.receive(socket);
    let send = io.send(socket, b"x", "y");
    let accept = io.start(Request::Accept { listener: socket });
    for token in [receive, send, accept] {
        assert_eq!(io.error(token), libc::EBADF);
    }
    assert!(io.driver.shutdown(socket, std::net::Shutdown::Both).is_err());
    io.driver.close(socket);
    assert!(io.driver.shutdown(other, std::net::Shutdown::Write).is_ok());
}

fn a_socket_of_another_driver_is_bad(io: &mut Harness) {
    let mut other = Harness::new(io.kind, &Config::default());
    let ((own, mut my_peer), (foreign, _peer)) = (io.pair(), other.pair());
    let tokens = [io.receive(foreign), io.send(foreign, b"x", "y")];
    let accept = io.start(Request::Accept { listener: foreign });
    for token in tokens.into_iter().chain([accept]) {
        assert_eq!(io.error(token), libc::EBADF);
    }
    assert!(io.driver.shutdown(foreign, std::net::Shutdown::Both).is_err());
    io.driver.close(foreign);
    let send = io.send(own, b"mine", "");
    io.sent(send).unwrap();
    let mut received = [0; 4];
    my_peer.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"mine");
}

/// The number of this process's open sockets that are connected to `port`. Other tests run at the same time.
fn open_towards(io: &mut Harness, peers: &mut [Peer]) -> usize {
    io.idle(Duration::from_millis(20));
    let mut open = 0;
    for peer in peers {
        peer.set_nonblocking(true).unwrap();
        open += usize::from(peer.read(&mut [0]).is_err());
    }
    open
}

fn descriptors_do_not_leak(io: &mut Harness) {
    let mut peers = Vec::new();
    for round in 0..100 {
        let (socket, peer) = io.pair();
        let receive = io.receive(socket);
        if round % 3 == 0 {
            io.driver.submit().unwrap();
        }
        if round % 2 == 0 {
            io.driver.cancel(receive);
        }
        io.driver.close(socket);
        assert_eq!(io.error(receive), libc::ECANCELED);
        peers.push(peer);
    }
    assert_eq!(open_towards(io, &mut peers), 0);
}

fn drop_with_requests_in_flight(io: &mut Harness) {
    let kind = io.kind;
    let mut inner = Harness::new(kind, &Config::default());
    let (socket, mut peer) = inner.pair();
    let (listener, address) = inner.listener();
    let (busy, busy_peer) = inner.pair();
    inner.receive(socket);
    inner.start(Request::Accept { listener });
    inner.send(socket, b"head", vec![1; 64 << 20]);
    inner.receive(busy);
    inner.driver.submit().unwrap();
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap().into();
    inner.start(Request::ReadAt { file, buffer: Vec::new(), offset: 0, length: 1 << 20 });
    let writer = write_all(&busy_peer, vec![3; 100_000]);
    inner.idle(Duration::from_millis(20));
    inner.receive(busy);
    let outside = inner.outside.clone();
    drop(inner);
    // Everything is closed: the peer reads the bytes that were sent, then the end. Nothing listens any more.
    let mut bytes = Vec::new();
    let end = peer.read_to_end(&mut bytes);
    assert!(end.is_ok() || end.unwrap_err().raw_os_error() == Some(libc::ECONNRESET));
    assert!(outside.connect(address).is_err());
    let _ = writer.join();
}

fn a_chunk_outlives_its_driver(io: &mut Harness) {
    let mut inner = Harness::new(io.kind, &Config::default());
    let (socket, mut peer) = inner.pair();
    std::io::Write::write_all(&mut peer, b"still here").unwrap();
    let chunk = inner.received(socket).unwrap();
    drop(inner);
    assert_eq!(*chunk, *b"still here");
}
