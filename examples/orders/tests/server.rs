//! Tests of the server process on both runtimes. They are skipped where PostgreSQL is not installed.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;

use phalanx_testkit::postgres::is_installed;
use phalanx_testkit::process::{Process, clean};
use phalanx_testkit::tcp;

fn start(on: &str) -> Option<Process> {
    if !is_installed() {
        eprintln!("skipped: PostgreSQL is not installed");
        return None;
    }
    let mut command = clean(env!("CARGO_BIN_EXE_orders"));
    command.args(["--on", on, "127.0.0.1:0"]);
    Some(Process::start(command))
}

/// The status and the content of the response to a request.
fn request(address: SocketAddr, line: &str, content: &str) -> (u16, String) {
    let mut stream = tcp::connect(address);
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{content}",
        content.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, content) = response.split_once("\r\n\r\n").expect("a response");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), content.to_owned())
}

fn place(address: SocketAddr, cents: i64) -> (u16, String) {
    request(address, "POST /orders", &format!(r#"{{"customer":"anna","cents":{cents}}}"#))
}

fn serves_orders(on: &str) {
    let Some(mut process) = start(on) else { return };
    let address = process.address();
    let (status, content) = place(address, 1250);
    assert_eq!((status, &*content), (201, r#"{"id":1}"#));
    let found = request(address, "GET /orders/1", "");
    assert_eq!(found, (200, r#"{"customer":"anna","cents":1250}"#.to_owned()));
    assert_eq!(request(address, "GET /orders/999", "").0, 404);
    assert_eq!(request(address, "POST /orders", "{}").0, 422);
    // A text that PostgreSQL cannot store.
    let zero = r#"{"customer":"an\u0000na","cents":1}"#;
    assert_eq!(request(address, "POST /orders", zero).0, 422);
    // The response contains no name of the table.
    assert_eq!(place(address, 0), (422, "the order is not valid\n".to_owned()));
    // More clients than connections leave before the answer.
    for _ in 0..64 {
        let mut stream = tcp::connect(address);
        stream.write_all(b"GET /orders/1 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
    let clients: Vec<_> = (0..8)
        .map(|client| {
            thread::spawn(move || {
                let orders = (0..20).map(|order| {
                    // One in five violates the constraint of the table.
                    let cents = (client * 20 + order) % 5;
                    (cents, place(address, cents))
                });
                orders.collect::<Vec<_>>()
            })
        })
        .collect();
    let mut ids = HashSet::new();
    for (cents, (status, content)) in clients.into_iter().flat_map(|client| client.join().unwrap())
    {
        assert_eq!(status, if cents > 0 { 201 } else { 422 }, "{content}");
        if cents > 0 {
            let id: i64 = content.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
            assert!(ids.insert(id), "{id} was given twice");
            let expected = format!(r#"{{"customer":"anna","cents":{cents}}}"#);
            assert_eq!(request(address, &format!("GET /orders/{id}"), ""), (200, expected));
        }
    }
    assert_eq!(ids.len(), 8 * 16);
    process.shut_down();
}

#[test]
fn orders_on_phalanx_are_durable() {
    serves_orders("phalanx");
}

#[test]
fn orders_on_tokio_are_durable() {
    serves_orders("tokio");
}
