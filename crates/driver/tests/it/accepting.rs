//! Accepting and connecting.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use phalanx_driver::{Done, Request};
use socket2::{Domain, Socket, Type};

use crate::harness::Harness;

crate::on_all!(
    echo_within_one_driver,
    many_connections,
    connections_before_an_accept,
    a_refused_connect_fails,
    a_cancelled_accept_loses_no_connection,
    accept_of_a_connection_fails,
    a_cancelled_connect_ends,
    a_detached_connection_completes_an_accept_of_another_driver,
    a_connection_with_a_request_is_not_detached,
    a_detached_connection_needs_an_open_listener,
    a_connection_is_detached_between_two_requests,
    bytes_that_arrive_before_a_detachment_are_received,
);
crate::on_both!(
    a_driver_without_an_accept_takes_no_connections,
    an_accept_of_a_shared_socket_takes_one_connection,
    connections_that_arrive_together_need_one_request,
);

/// Connections that one driver accepts and another takes over: before, during and after an accept.
fn a_detached_connection_completes_an_accept_of_another_driver(io: &mut Harness) {
    let (first, address) = io.listener();
    let mut other = io.second();
    let (listener, _) = other.listener();
    let mut peers = Vec::new();
    for waits in [true, false] {
        let accept = waits.then(|| other.start(Request::Accept { listener }));
        let mut peer = io.outside.connect(address).unwrap();
        peer.write_all(b"before").unwrap();
        let own_accept = io.start(Request::Accept { listener: first });
        let connection = io.accepted(own_accept);
        let detached = io.driver.detach(connection).unwrap();
        assert!(io.driver.detach(connection).is_none(), "it is not here any more");
        let attached = other.driver.attach(listener, detached).unwrap();
        let accept = accept.unwrap_or_else(|| other.start(Request::Accept { listener }));
        assert_eq!(other.accepted(accept), attached);
        assert_eq!(other.received_exactly(attached, 6), b"before");
        let reply = other.send(attached, b"after", "");
        other.sent(reply).unwrap();
        peers.push(peer);
    }
    for mut peer in peers {
        let mut reply = [0; 5];
        peer.read_exact(&mut reply).unwrap();
        assert_eq!(reply, *b"after");
    }
    // The listeners still accept their own connections.
    let mine = io.start(Request::Accept { listener: first });
    let _peer = io.outside.connect(address).unwrap();
    io.accepted(mine);
}

fn a_connection_with_a_request_is_not_detached(io: &mut Harness) {
    let (listener, address) = io.listener();
    let mut peer = io.outside.connect(address).unwrap();
    let accept = io.start(Request::Accept { listener });
    let connection = io.accepted(accept);
    let receive = io.receive(connection);
    io.driver.submit().unwrap();
    assert!(io.driver.detach(connection).is_none());
    peer.write_all(b"here").unwrap();
    assert_eq!(io.chunk(receive).unwrap()[..], *b"here");
}

/// A connection that two drivers serve in turn.
fn a_connection_is_detached_between_two_requests(io: &mut Harness) {
    let (first, address) = io.listener();
    let mut other = io.second();
    let (second, _) = other.listener();
    let mut peer = io.outside.connect(address).unwrap();
    let accept = io.start(Request::Accept { listener: first });
    let mut connection = io.accepted(accept);
    let (mut here, mut target) = (io, &mut other);
    let (mut listener_here, mut listener_there) = (first, second);
    for round in 0..6_u32 {
        peer.write_all(&round.to_be_bytes()).unwrap();
        let request = here.received_exactly(connection, 4);
        here.driver.stop_ahead(connection);
        let reply = here.send(connection, &request, "");
        here.sent(reply).unwrap();
        let mut answer = [0; 4];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(answer, round.to_be_bytes());
        here.idle(Duration::from_millis(5));
        let detached = here.driver.detach(connection).expect("no request is in flight");
        let accept = target.start(Request::Accept { listener: listener_there });
        connection = target.driver.attach(listener_there, detached).unwrap();
        assert_eq!(target.accepted(accept), connection);
        std::mem::swap(&mut here, &mut target);
        std::mem::swap(&mut listener_here, &mut listener_there);
    }
}

/// A driver may have received bytes that were not requested yet. Then the connection stays, and nothing is lost.
fn bytes_that_arrive_before_a_detachment_are_received(io: &mut Harness) {
    let (listener, address) = io.listener();
    let mut peer = io.outside.connect(address).unwrap();
    let accept = io.start(Request::Accept { listener });
    let connection = io.accepted(accept);
    peer.write_all(b"first").unwrap();
    assert_eq!(io.received_exactly(connection, 5), b"first");
    peer.write_all(b"second").unwrap();
    io.idle(Duration::from_millis(20));
    io.driver.stop_ahead(connection);
    io.idle(Duration::from_millis(5));
    let mut other = None;
    if let Some(detached) = io.driver.detach(connection) {
        let mut target = io.second();
        let (listener, _) = target.listener();
        let accept = target.start(Request::Accept { listener });
        let connection = target.driver.attach(listener, detached).unwrap();
        assert_eq!(target.accepted(accept), connection);
        other = Some((target, connection));
    }
    peer.write_all(b"third").unwrap();
    let bytes = match &mut other {
        Some((target, connection)) => target.received_exactly(*connection, 11),
        None => io.received_exactly(connection, 11),
    };
    assert_eq!(bytes, b"secondthird");
}

fn a_detached_connection_needs_an_open_listener(io: &mut Harness) {
    let (listener, address) = io.listener();
    let mut other = io.second();
    let (closed, _) = other.listener();
    other.driver.close(closed);
    let mut peer = io.outside.connect(address).unwrap();
    let accept = io.start(Request::Accept { listener });
    let connection = io.accepted(accept);
    let detached = io.driver.detach(connection).unwrap();
    let error = other.driver.attach(closed, detached).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    // The connection is taken over before its listener closes, and is not accepted.
    let (listener_there, _) = other.listener();
    let mut second = io.outside.connect(address).unwrap();
    let accept = io.start(Request::Accept { listener });
    let connection = io.accepted(accept);
    let detached = io.driver.detach(connection).unwrap();
    other.driver.attach(listener_there, detached).unwrap();
    other.driver.close(listener_there);
    for peer in [&mut peer, &mut second] {
        assert_eq!(peer.read(&mut [0; 1]).unwrap_or(0), 0, "closed");
    }
}

fn echo_within_one_driver(io: &mut Harness) {
    let (listener, address) = io.listener();
    let accept = io.start(Request::Accept { listener });
    let connect = io.start(Request::Connect { address: address.into() });
    let server = io.accepted(accept);
    let Done::Connected(client) = io.finish(connect).unwrap() else { panic!() };
    for round in 0..50_u32 {
        let receive = io.receive(server);
        let send = io.send(client, &round.to_be_bytes(), "body");
        let request = io.chunk(receive).unwrap();
        assert_eq!(request[..4], round.to_be_bytes());
        io.sent(send).unwrap();
        let reply = io.send(server, &[], request.to_vec());
        assert_eq!(io.received_exactly(client, 8), *request);
        io.sent(reply).unwrap();
    }
    io.driver.shutdown(client, Shutdown::Write).unwrap();
    assert!(io.received(server).unwrap().is_empty());
}

fn many_connections(io: &mut Harness) {
    const COUNT: usize = 300;
    let (listener, address) = io.listener();
    let accepts: Vec<_> = (0..COUNT).map(|_| io.start(Request::Accept { listener })).collect();
    io.driver.submit().unwrap();
    let mut peers: Vec<_> = Vec::new();
    for _ in 0..COUNT {
        peers.push(io.outside.connect(address).unwrap());
        io.turn(Duration::ZERO);
    }
    let servers: Vec<_> = accepts.into_iter().map(|accept| io.accepted(accept)).collect();
    let receives: Vec<_> = servers.iter().map(|server| io.receive(*server)).collect();
    for (number, peer) in peers.iter_mut().enumerate() {
        peer.write_all(&(number as u32).to_be_bytes()).unwrap();
    }
    let mut sends = Vec::new();
    for (server, receive) in servers.iter().zip(receives) {
        let chunk = io.chunk(receive).unwrap();
        sends.push(io.send(*server, &chunk, "!"));
    }
    for send in sends {
        io.sent(send).unwrap();
    }
    for (number, peer) in peers.iter_mut().enumerate() {
        let mut reply = [0; 5];
        peer.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], (number as u32).to_be_bytes());
    }
}

fn connections_before_an_accept(io: &mut Harness) {
    let (listener, address) = io.listener();
    // The first accept lets the driver run ahead. More connections follow than it may store.
    let accept = io.start(Request::Accept { listener });
    io.driver.submit().unwrap();
    let mut peers: Vec<_> = (0..60).map(|_| io.outside.connect(address).unwrap()).collect();
    for (number, peer) in peers.iter_mut().enumerate() {
        peer.write_all(&[number as u8]).unwrap();
    }
    io.idle(Duration::from_millis(50));
    let mut numbers = Vec::new();
    let mut next = Some(accept);
    for _ in 0..60 {
        let accept = next.take().unwrap_or_else(|| io.start(Request::Accept { listener }));
        let server = io.accepted(accept);
        numbers.push(io.received(server).unwrap()[0]);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..60).collect::<Vec<u8>>());
}

fn a_refused_connect_fails(io: &mut Harness) {
    // Bound, but not listening: no other socket gets the port, and connections are refused.
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    taken.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = taken.local_addr().unwrap().as_socket().unwrap();
    let connect = io.start(Request::Connect { address: address.into() });
    assert_eq!(io.error(connect), libc::ECONNREFUSED);
}

fn a_cancelled_accept_loses_no_connection(io: &mut Harness) {
    let (listener, address) = io.listener();
    let first = io.start(Request::Accept { listener });
    let second = io.start(Request::Accept { listener });
    io.driver.submit().unwrap();
    io.driver.cancel(first);
    assert_eq!(io.error(first), libc::ECANCELED);
    let _peer = io.outside.connect(address).unwrap();
    io.accepted(second);
    let _other = io.outside.connect(address).unwrap();
    let third = io.start(Request::Accept { listener });
    io.accepted(third);
}

fn accept_of_a_connection_fails(io: &mut Harness) {
    let (socket, mut peer) = io.pair();
    peer.write_all(b"x").unwrap();
    let accept = io.start(Request::Accept { listener: socket });
    assert_eq!(io.error(accept), libc::EINVAL);
}

fn a_cancelled_connect_ends(io: &mut Harness) {
    // No host answers in this network, if there is a route to it at all.
    let address = "192.0.2.1:9".parse::<std::net::SocketAddr>().unwrap();
    let connect = io.start(Request::Connect { address: address.into() });
    io.driver.submit().unwrap();
    io.driver.cancel(connect);
    assert!(io.finish(connect).is_err());
}

/// A processor without an accept in flight, such as one at its limit of connections, must leave the connections of a
/// shared socket to the others.
fn a_driver_without_an_accept_takes_no_connections(io: &mut Harness) {
    let shared = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut other = io.second();
    let mine = io.driver.adopt(shared.try_clone().unwrap().into()).unwrap();
    let other_listener = other.driver.adopt(shared.try_clone().unwrap().into()).unwrap();
    let address = shared.local_addr().unwrap();
    for end in ["accepted", "cancelled", "attached"] {
        // Its accept ends, so that it is behind the one of this driver in the listener's queue.
        other.idle(Duration::from_millis(5));
        let accept = io.start(Request::Accept { listener: mine });
        io.idle(Duration::from_millis(5));
        let mut clients = Vec::new();
        match end {
            "accepted" => {
                clients.push(io.outside.connect(address).unwrap());
                io.accepted(accept);
            }
            "cancelled" => {
                io.driver.cancel(accept);
                assert_eq!(io.error(accept), libc::ECANCELED);
            }
            _ => {
                let (connection, _peer) = io.ends();
                io.driver.attach(mine, connection).unwrap();
                io.accepted(accept);
            }
        }
        io.idle(Duration::from_millis(5));
        for _ in 0..8 {
            let accept = other.start(Request::Accept { listener: other_listener });
            other.idle(Duration::from_millis(1));
            clients.push(io.outside.connect(address).unwrap());
            io.idle(Duration::from_millis(1));
            other.accepted(accept);
        }
    }
}

/// Connections of a shared socket that arrive together.
fn an_accept_of_a_shared_socket_takes_one_connection(io: &mut Harness) {
    let shared = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut other = io.second();
    let mine = io.driver.adopt(shared.try_clone().unwrap().into()).unwrap();
    let other_listener = other.driver.adopt(shared.try_clone().unwrap().into()).unwrap();
    io.driver.share(mine);
    other.driver.share(other_listener);
    let address = shared.local_addr().unwrap();
    for round in 0..4 {
        let accept = io.start(Request::Accept { listener: mine });
        // The accept begins before the connections, or after them.
        if round % 2 == 0 {
            io.idle(Duration::from_millis(1));
        }
        let _clients: Vec<_> = (0..4).map(|_| io.outside.connect(address).unwrap()).collect();
        io.accepted(accept);
        io.idle(Duration::from_millis(1));
        assert_eq!(io.driver.accept_now(mine).unwrap(), None);
        for _ in 1..4 {
            let accept = other.start(Request::Accept { listener: other_listener });
            other.accepted(accept);
        }
    }
}

/// The others are taken without a request, unless another request waits for the next one.
fn connections_that_arrive_together_need_one_request(io: &mut Harness) {
    let (listener, address) = io.listener();
    let accept = io.start(Request::Accept { listener });
    io.idle(Duration::from_millis(1));
    let _clients: Vec<_> = (0..4).map(|_| io.outside.connect(address).unwrap()).collect();
    let mut connections = vec![io.accepted(accept)];
    while connections.len() < 4 {
        connections.extend(std::iter::from_fn(|| io.driver.accept_now(listener).unwrap()));
        io.idle(Duration::from_millis(1));
    }
    let accept = io.start(Request::Accept { listener });
    let _client = io.outside.connect(address).unwrap();
    assert_eq!(io.driver.accept_now(listener).unwrap(), None);
    connections.push(io.accepted(accept));
    assert!((0..5).all(|n| !connections[..n].contains(&connections[n])), "each is taken once");
}
