//! Starts each step of the tutorial and sends it requests.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use phalanx_testkit::http;
use phalanx_testkit::process::{Process, clean};
use phalanx_testkit::tcp::{connect, talk};

fn start(path: &str, ports: usize) -> Process {
    let mut command = clean(path);
    command.args(vec!["127.0.0.1:0"; ports]);
    Process::start(command)
}

#[test]
fn one_echoes() {
    let program = start(env!("CARGO_BIN_EXE_one_echo"), 1);
    let address = program.address();
    let mut client = connect(address);
    talk(&mut client, "hello", "hello");
    talk(&mut client, " again", " again");
    // Concurrently, with more than any buffer holds.
    std::thread::scope(|scope| {
        for n in 0..20u8 {
            scope.spawn(move || {
                let mut client = connect(address);
                let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8 ^ n).collect();
                let mut writer = client.try_clone().unwrap();
                let sent = bytes.clone();
                let sender = std::thread::spawn(move || {
                    writer.write_all(&sent).unwrap();
                    writer.shutdown(Shutdown::Write).unwrap();
                });
                let mut back = Vec::new();
                client.read_to_end(&mut back).unwrap();
                assert!(back == bytes, "client {n}");
                sender.join().unwrap();
            });
        }
    });
}

#[test]
fn two_answers_lines() {
    let program = start(env!("CARGO_BIN_EXE_two_network"), 1);
    let mut client = connect(program.address());
    talk(&mut client, "PING\nECHO a b\nFLY\nPI", "PONG\na b\nwhat?\n");
    talk(&mut client, "NG\n", "PONG\n");
    lines_follow_a_long_one(&mut client);
}

/// The longest line that is allowed, with others behind it in the same reads.
fn lines_follow_a_long_one(client: &mut TcpStream) {
    let long = format!("FLY {}\n", "x".repeat(64 * 1024 - 5));
    talk(client, format!("{long}{}", "FLY\n".repeat(5000)), &"what?\n".repeat(5001));
}

const STATE: (&str, &str) = ("GET a\nSET a 1\nGET a\nSET b 2\nGET b\n", "none\nOK\n1\nOK\n2\n");

#[test]
fn three_keeps_state() {
    let program = start(env!("CARGO_BIN_EXE_three_state"), 1);
    let mut client = connect(program.address());
    talk(&mut client, STATE.0, STATE.1);
    lines_follow_a_long_one(&mut client);
}

#[test]
fn four_forks_and_joins() {
    let program = start(env!("CARGO_BIN_EXE_four_join"), 1);
    let mut client = connect(program.address());
    talk(&mut client, STATE.0, STATE.1);
    talk(&mut client, "MGET b none a b\nCOUNT\nMGET\n", "2 none 1 2\n2\n\n");
    lines_follow_a_long_one(&mut client);
}

#[test]
fn six_runs_blocking_code() {
    let mut program = start(env!("CARGO_BIN_EXE_six_fibres"), 1);
    let address = program.address();
    let mut client = connect(address);
    talk(&mut client, "hello\nfib", "HELLO\n");
    talk(&mut client, "re\n", "FIBRE\n");
    let mut other = connect(address);
    let _ = other.write_all(&vec![b'x'; 1 << 20]);
    // Closed with unread bytes, so it may be a reset.
    let end = other.read(&mut [0]).or_else(|error| match error.kind() {
        ErrorKind::ConnectionReset => Ok(0),
        _ => Err(error),
    });
    assert_eq!(end.expect("an end"), 0, "a line without an end");
    program.shut_down();
    assert_eq!(client.read(&mut [0]).expect("an end"), 0);
}

#[test]
fn five_is_bounded_shuts_down_and_has_metrics() {
    let mut program = start(env!("CARGO_BIN_EXE_five_bounds"), 2);
    let mut client = connect(program.address());
    talk(&mut client, STATE.0, STATE.1);
    talk(&mut client, format!("MGET{}\n", " k".repeat(101)), "what?\n");
    lines_follow_a_long_one(&mut client);
    // The answers are many times as long as the lines.
    let value = "x".repeat(60_000);
    talk(&mut client, format!("SET long {value}\n"), "OK\n");
    let (line, answer) = ("MGET long long\n", format!("{value} {value}\n"));
    talk(&mut client, line.repeat(100), &answer.repeat(100));
    let sets: String = (0..25_000).map(|n| format!("SET key:{n} x\n")).collect();
    client.write_all(sets.as_bytes()).expect("sent");
    let mut client = BufReader::new(client);
    let mut answers = (0..25_000).map(|_| {
        let mut line = String::new();
        client.read_line(&mut line).expect("an answer");
        line
    });
    let full = answers.by_ref().filter(|line| line == "full\n").count();
    // There are four partitions for each of two processors.
    assert!((9_000..25_000).contains(&full), "{full}");
    let mut client = client.into_inner();
    talk(&mut client, "SET a 1\n", "OK\n");
    let page = http::get(program.address(), "/snapshot.json").body;
    assert!(String::from_utf8_lossy(&page).contains("\"store\""));
    program.shut_down();
    assert_eq!(client.read(&mut [0]).expect("an end"), 0);
}
