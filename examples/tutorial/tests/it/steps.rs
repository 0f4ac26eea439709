//! Starts each step of the tutorial and sends it requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(path: &str, ports: usize) -> Self {
        let mut child = Command::new(path)
            .args(vec!["127.0.0.1:0"; ports])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, output }
    }

    /// Connects to the address at the end of the next printed line.
    fn connect(&mut self) -> TcpStream {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        let address = line.split_whitespace().last().expect("an address");
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends all of `input` at once and expects these answers.
#[track_caller]
fn talk(stream: &mut TcpStream, input: &str, expected: &str) {
    stream.write_all(input.as_bytes()).expect("sent");
    let mut answers = vec![0; expected.len()];
    stream.read_exact(&mut answers).expect("as many bytes as expected");
    assert_eq!(String::from_utf8_lossy(&answers), expected);
}

#[test]
fn one_echoes() {
    let mut program = Program::start(env!("CARGO_BIN_EXE_one_echo"), 1);
    let mut client = program.connect();
    talk(&mut client, "hello", "hello");
    talk(&mut client, " again", " again");
}

#[test]
fn two_answers_lines() {
    let mut program = Program::start(env!("CARGO_BIN_EXE_two_network"), 1);
    let mut client = program.connect();
    talk(&mut client, "PING\nECHO a b\nFLY\nPI", "PONG\na b\nwhat?\n");
    talk(&mut client, "NG\n", "PONG\n");
}

const STATE: (&str, &str) = ("GET a\nSET a 1\nGET a\nSET b 2\nGET b\n", "none\nOK\n1\nOK\n2\n");

#[test]
fn three_keeps_state() {
    let mut program = Program::start(env!("CARGO_BIN_EXE_three_state"), 1);
    talk(&mut program.connect(), STATE.0, STATE.1);
}

#[test]
fn four_forks_and_joins() {
    let mut program = Program::start(env!("CARGO_BIN_EXE_four_join"), 1);
    let mut client = program.connect();
    talk(&mut client, STATE.0, STATE.1);
    talk(&mut client, "MGET b none a b\nCOUNT\nMGET\n", "2 none 1 2\n2\n\n");
}

#[test]
fn five_is_bounded_shuts_down_and_has_metrics() {
    let mut program = Program::start(env!("CARGO_BIN_EXE_five_bounds"), 2);
    let mut client = program.connect();
    talk(&mut client, STATE.0, STATE.1);
    talk(&mut client, &format!("MGET{}\n", " k".repeat(1001)), "what?\n");
    let mut admin = program.connect();
    admin.write_all(b"GET /snapshot.json HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut page = String::new();
    while !page.contains("\"store\"") {
        let mut bytes = [0; 1024];
        let count = admin.read(&mut bytes).expect("more of the page");
        assert!(count > 0, "{page}");
        page += &String::from_utf8_lossy(&bytes[..count]);
    }
    let kill = format!("kill -TERM {}", program.child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    assert_eq!(client.read(&mut [0]).expect("an end"), 0);
    assert!(program.child.wait().expect("a child").success());
}
