//! Tests of the server process on both runtimes. They are skipped where PostgreSQL is not installed.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;

use phalanx_testkit::postgres::is_installed;
use phalanx_testkit::process::{Process, clean};
use phalanx_testkit::{eventually, tcp};
use serde_json::{Value, json};

fn start(on: &str, options: &[&str]) -> Option<Process> {
    if !is_installed() {
        eprintln!("skipped: PostgreSQL is not installed");
        return None;
    }
    let mut command = clean(env!("CARGO_BIN_EXE_orders"));
    command.args(["--on", on, "127.0.0.1:0"]).args(options);
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
    let Some(mut process) = start(on, &[]) else { return };
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

#[test]
fn the_live_page_shows_the_cohorts() {
    let Some(mut process) = start("phalanx", &["--admin", "127.0.0.1:0"]) else { return };
    let address = process.address();
    assert_eq!(place(address, 1250).0, 201);
    let admin = eventually("the address of the live page", || {
        let stderr = process.stderr();
        let (page, _) = stderr.split_once("live page at http://")?.1.split_once("/\n")?;
        Some(page.parse().expect("an address"))
    });
    let (status, page) = request(admin, "GET /", "");
    assert!(status == 200 && page.contains("<html"), "{page}");
    let (_, snapshot) = request(admin, "GET /snapshot.json", "");
    let snapshot: Value = serde_json::from_str(&snapshot).unwrap();
    let stages = snapshot["processors"].as_array().unwrap().iter().flat_map(|processor| {
        processor["stages"].as_array().unwrap().iter().filter(|stage| stage["stage"] == "postgres")
    });
    let cohorts = stages.filter(|stage| stage["cohorts"] != 0);
    let figures = cohorts.map(|stage| {
        let runs = &stage["completed"];
        assert_eq!(runs["mean_ns"].as_f64(), runs["total_ns"].as_f64());
        (&stage["cohorts"], &stage["cohort_mean"], &stage["cohort_max"])
    });
    // One cohort, of one query, although its answer came later.
    assert_eq!(figures.collect::<Vec<_>>(), [(&json!(1), &json!(1.0), &json!(1))]);
    process.shut_down();
}

#[test]
fn the_admin_pages_are_not_those_of_tokio() {
    let Some(mut process) = start("tokio", &["--admin", "127.0.0.1:0"]) else { return };
    assert!(!process.exit().success());
    eventually("the reason", || process.stderr().contains("--on phalanx").then_some(()));
}

/// The folder of the PostgreSQL server that a process has begun to start.
fn folder_of_database(process: u32) -> Option<PathBuf> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    let supervisor = children.split_whitespace().next()?;
    let folder = fs::read_link(format!("/proc/{supervisor}/cwd")).ok()?;
    folder.join("data").exists().then_some(folder)
}

#[test]
fn a_program_that_ends_while_the_database_starts_leaves_none() {
    let Some(mut process) = start("phalanx", &[]) else { return };
    let folder = eventually("the folder", || folder_of_database(process.pid()));
    process.kill();
    eventually("the end of the database", || (!folder.exists()).then_some(()));
}
