//! Connections that move to another worker between two requests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use phalanx_testkit::eventually;
use phalanx_web::{Config, Scheme, Tls};

use crate::common::{Server, connect, metric, on_each_driver, read_to_end, small_and_large};
use crate::simulation::wire::IDENTITY;

const CLIENTS: usize = 24;
const REQUEST: &[u8] = b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n";

/// Exactly as many connections as there are clients are permitted, in total and from their address.
pub(crate) fn two_workers(home: &Path) -> Config {
    let mut config = small_and_large(home);
    config.max_connections = CLIENTS;
    config.per_address.connections = Some(CLIENTS as u32);
    config.runtime.workers = 2;
    config.runtime.admin = Some((Ipv4Addr::LOCALHOST, 0).into());
    config
}

/// Sends `count` requests and the first `more` bytes of another one, and reads the answers.
pub(crate) fn ask(stream: &mut (impl Read + Write), count: usize, more: usize) {
    stream.write_all(&[&REQUEST.repeat(count), &REQUEST[..more]].concat()).unwrap();
    answers(stream, count);
}

fn answers(stream: &mut impl Read, count: usize) {
    (0..count).for_each(|_| drop(answer(stream)));
}

fn answer(stream: &mut impl Read) -> String {
    // Reads byte by byte, so that it does not consume a part of the next answer.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nsmall") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the connection is not closed");
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer
}

/// The number of connections that were handed to another worker for this reason.
pub(crate) fn moved(server: &Server, reason: &str) -> Option<usize> {
    metric(server, &format!("phalanx_connections_moved_total{{reason=\"{reason}\"}}"))
}

/// Connects [`CLIENTS`], some to each worker. They have not sent a request, after which a worker would take all
/// connections that it accepts, since they may move.
pub(crate) fn clients_of_both_workers(server: &Server) -> Vec<TcpStream> {
    let operations = || metric(server, "phalanx_processor_operations{processor=\"1\"}");
    // On a busy machine, a worker that waits for a core looks busy, and may get no connection.
    for round in 0..50 {
        let without = operations();
        let clients: Vec<_> = (0..CLIENTS).map(|_| connect(server)).collect();
        wait_for_connections(server, CLIENTS);
        // In the first round the operations may also be those of the HTTP/3 endpoints, which begin then.
        if round > 0 && operations() > without {
            return clients;
        }
        drop(clients);
        wait_for_connections(server, 0);
    }
    panic!("one worker gets all connections");
}

fn wait_for_connections(server: &Server, count: usize) {
    eventually("this number of connections", || {
        metric(server, "http_connections").filter(|open| *open == count)
    });
}

#[test]
fn connections_leave_an_inactive_worker_and_lose_nothing() {
    on_each_driver(two_workers, |server, _| {
        let mut clients = clients_of_both_workers(server);
        clients.iter_mut().for_each(|client| ask(client, 1, 0));
        server.active.set(1);
        eventually("connections have moved", || {
            for (number, client) in clients.iter_mut().enumerate() {
                // Pipelined requests, one that arrives in two parts, and single ones.
                let more = if number % 3 == 0 { 9 } else { 0 };
                ask(client, 1 + number % 4, more);
                if more > 0 {
                    client.write_all(&REQUEST[more..]).unwrap();
                    answers(client, 1);
                }
            }
            moved(server, "gathered").filter(|moved| *moved > 0)
        });
        // The limits still count each connection once.
        clients.iter_mut().for_each(|client| ask(client, 2, 0));
        eventually("a refusal, once none is on its way to another worker", || {
            let mut refused = connect(server);
            refused.write_all(b"GET /small HTTP/1.0\r\n\r\n").unwrap();
            read_to_end(&mut refused).starts_with("HTTP/1.1 503 ").then_some(())
        });
        assert!(moved(server, "placed").is_some() && moved(server, "spread").is_some());
    });
}

/// The same, over TLS and at two addresses with HTTP/3.
fn two_encrypted_workers(home: &Path) -> Config {
    let mut config = two_workers(home);
    let [certificate, key] = IDENTITY.files();
    config.hosts[0].tls = Some(Tls { certificate, key });
    config.listen = vec![Scheme::Https.at((Ipv4Addr::LOCALHOST, 0)); 2];
    config.http3 = true;
    config
}

/// The announcement of HTTP/3.
fn announced(stream: &mut (impl Read + Write)) -> String {
    stream.write_all(REQUEST).unwrap();
    let answer = answer(stream);
    answer.lines().find(|line| line.starts_with("Alt-Svc: ")).expect("it is announced").to_owned()
}

#[test]
fn connections_over_tls_move_with_their_keys() {
    on_each_driver(two_encrypted_workers, |server, _| {
        // Uses another address than the one that announces the first port.
        let last = server.addresses.iter().max_by_key(|address| address.port()).unwrap();
        let server = &Server { address: *last, ..server.clone() };
        let encrypted = |stream: TcpStream| {
            let name = "sim.test".try_into().unwrap();
            let session = rustls::ClientConnection::new(IDENTITY.client_config(), name).unwrap();
            rustls::StreamOwned::new(session, stream)
        };
        let clients = clients_of_both_workers(server);
        let mut clients: Vec<_> = clients.into_iter().map(encrypted).collect();
        let own = announced(&mut clients[0]);
        clients.iter_mut().for_each(|client| ask(client, 1, 0));
        server.active.set(1);
        eventually("connections have moved", || {
            for (number, client) in clients.iter_mut().enumerate() {
                ask(client, 1 + number % 4, 0);
            }
            moved(server, "gathered").filter(|moved| *moved > 0)
        });
        clients.iter_mut().for_each(|client| assert_eq!(announced(client), own));
    });
}

#[test]
fn the_kernel_gives_an_inactive_worker_no_new_connections() {
    on_each_driver(two_workers, |server, _| {
        server.active.set(1);
        // The first connections may arrive before the change.
        eventually("connections that worker 0 accepts itself", || {
            let before = moved(server, "placed");
            let clients: Vec<_> = (0..CLIENTS).map(|_| connect(server)).collect();
            wait_for_connections(server, CLIENTS);
            let after = moved(server, "placed");
            drop(clients);
            wait_for_connections(server, 0);
            (before == after).then_some(())
        });
    });
}
