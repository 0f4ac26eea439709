//! MQTT over WebSocket, byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use phalanx_mqtt::{Frame, Packet, QoS, Reason, Version};
use phalanx_testkit::authority::Authority;
use phalanx_testkit::mqtt::Client;
use phalanx_testkit::{TIMEOUT, eventually};

use crate::broker::process::Broker;

crate::on_each_driver!(
    packets_in_any_fragments,
    pings_and_the_close,
    invalid_frames_close_the_connection,
    other_origins,
    invalid_upgrade_requests,
    over_tls,
);

fn start(driver: &str, more: &[&str]) -> (Broker, SocketAddr) {
    let broker = Broker::start_with(driver, &[&["--listen", "ws://127.0.0.1:0"], more].concat());
    let address = broker.next_address();
    (broker, address)
}

fn request(more: &str) -> String {
    format!(
        "GET /mqtt HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: mqtt\r\n{more}\r\n"
    )
}

/// The client side of a WebSocket.
struct Socket {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Socket {
    fn open(address: SocketAddr) -> Self {
        let (socket, answer) = Self::ask(address, &request(""));
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(answer.contains("sec-websocket-protocol: mqtt\r\n"), "{answer}");
        socket
    }

    /// Sends an upgrade request and returns the head of the response.
    fn ask(address: SocketAddr, request: &str) -> (Self, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut socket = Self { stream, input: Vec::new() };
        let end = loop {
            if let Some(at) = socket.input.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(socket.more(), "an answer");
        };
        let head = String::from_utf8(socket.input.drain(..end).collect()).unwrap();
        (socket, head)
    }

    fn more(&mut self) -> bool {
        let mut bytes = [0; 65536];
        let count = self.stream.read(&mut bytes).unwrap_or(0);
        self.input.extend_from_slice(&bytes[..count]);
        count > 0
    }

    fn send(&mut self, first: u8, payload: &[u8]) {
        self.stream.write_all(&frame(first, payload)).unwrap();
    }

    /// The next frame: its first byte and its payload; `None` at the end.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let (header, length) = match *self.input {
                [_, short @ 0..126, ..] => (2, usize::from(short)),
                [_, 126, a, b, ..] => (4, usize::from(u16::from_be_bytes([a, b]))),
                [_, 127, 0, 0, 0, 0, a, b, c, d, ..] => {
                    (10, u32::from_be_bytes([a, b, c, d]) as usize)
                }
                _ => (0, usize::MAX),
            };
            if header > 0 && self.input.len() - header >= length {
                let frame: Vec<u8> = self.input.drain(..header + length).collect();
                return Some((frame[0], frame[header..].to_vec()));
            }
            if !self.more() {
                return None;
            }
        }
    }
}

/// A masked frame of a client.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let (mut bytes, mask) = (Vec::new(), [0x5a, 0xa5, 0x0f, 0xf0]);
    phalanx_websocket::binary(payload.len(), &mut bytes);
    bytes[0] = first;
    bytes[1] |= 0x80;
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

const CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00";
const CONNACK: u8 = 0x20;
/// To `t`, QoS 0.
const SUBSCRIBE: &[u8] = b"\x82\x07\x00\x01\x00\x00\x01t\x00";

fn publish(payload: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let topic = "t";
    let publish = phalanx_mqtt::Publish {
        topic,
        payload: payload.as_bytes(),
        delivery: phalanx_mqtt::Delivery::AtMostOnce,
        retain: false,
        duplicate: false,
        properties: phalanx_mqtt::Properties::NONE,
    };
    Packet::Publish(publish).encode(Version::V5, &mut bytes).unwrap();
    bytes
}

fn packets_in_any_fragments(driver: &str) {
    let (broker, address) = start(driver, &[]);
    let mut mqtt_client = Client::new(&broker, "plain");
    mqtt_client.subscribe("t", QoS::AtMostOnce);
    let large = "x".repeat(200_000);
    let all = [CONNECT, SUBSCRIBE, &publish("one"), &publish(&large), &publish("two")].concat();
    for cut in [1, 7, 100_000, usize::MAX] {
        let mut socket = Socket::open(address);
        // Fragments of a message, several messages, and frames that arrive in several segments.
        let pieces: Vec<_> = all.chunks(cut.min(all.len())).collect();
        let pieces =
            if cut == 1 { &pieces[..CONNECT.len() + SUBSCRIBE.len() + 9] } else { &pieces };
        let mut bytes = Vec::new();
        for (n, piece) in pieces.iter().enumerate() {
            let opcode = if n % 3 == 0 { 2 } else { 0 };
            let last = if n % 3 == 2 || n + 1 == pieces.len() { 0x80 } else { 0 };
            bytes.extend(frame(opcode | last, piece));
        }
        bytes.chunks(9001).for_each(|piece| socket.stream.write_all(piece).unwrap());
        let mut received = Vec::new();
        let expected: &[&str] = if cut == 1 { &["one"] } else { &["one", &large, "two"] };
        let total = expected.len() + 2;
        let mut packets = Vec::new();
        while packets.len() < total {
            let (first, payload) = socket.next().expect("a message");
            assert_eq!(first, 0x82, "whole binary messages");
            received.extend_from_slice(&payload);
            while let Some(frame) = Frame::split(&received, Frame::MAX_PACKET).unwrap() {
                let length = frame.length();
                packets.push(received.drain(..length).collect::<Vec<u8>>());
            }
        }
        assert_eq!(packets[0][0], CONNACK);
        let messages: Vec<_> = packets[2..].to_vec();
        for (message, expected) in messages.iter().zip(expected) {
            assert!(message.ends_with(expected.as_bytes()));
            mqtt_client.expect_message("t", expected);
        }
    }
}

fn pings_and_the_close(driver: &str) {
    let (broker, address) = start(driver, &[]);
    let mut socket = Socket::open(address);
    // Before the CONNECT, within a message, and after it.
    socket.send(0x89, b"early");
    assert_eq!(socket.next(), Some((0x8a, b"early".to_vec())));
    socket.send(0x02, &CONNECT[..5]);
    socket.send(0x89, b"amid");
    assert_eq!(socket.next(), Some((0x8a, b"amid".to_vec())));
    socket.send(0x80, &CONNECT[5..]);
    assert_eq!(socket.next().unwrap().1[0], CONNACK);
    socket.send(0x89, b"late");
    assert_eq!(socket.next(), Some((0x8a, b"late".to_vec())));
    // A close frame is answered.
    socket.send(0x88, &1001u16.to_be_bytes());
    assert_eq!(socket.next(), Some((0x88, 1001u16.to_be_bytes().to_vec())));
    assert_eq!(socket.next(), None);
    // After DISCONNECT the broker sends a close frame.
    let mut socket = Socket::open(address);
    socket.send(0x82, &[CONNECT, b"\xe0\x00"].concat());
    assert_eq!(socket.next().unwrap().1[0], CONNACK);
    assert_eq!(socket.next(), Some((0x88, 1000u16.to_be_bytes().to_vec())));
    assert_eq!(socket.next(), None);
    drop(Client::new(&broker, "well"));
}

fn invalid_frames_close_the_connection(driver: &str) {
    let (_broker, address) = start(driver, &[]);
    // (bytes, close code)
    let table: [(Vec<u8>, u16); 4] = [
        (frame(0x81, b"text"), 1003),
        (b"\x82\x02\x10\x00".to_vec(), 1002),
        (frame(0x80, b"nothing before"), 1002),
        (frame(0x89, &[0; 126]), 1002),
    ];
    for with_connect in [false, true] {
        for (bytes, code) in &table {
            let mut socket = Socket::open(address);
            if with_connect {
                socket.send(0x82, CONNECT);
                assert_eq!(socket.next().unwrap().1[0], CONNACK);
            }
            socket.stream.write_all(bytes).unwrap();
            assert_eq!(socket.next(), Some((0x88, code.to_be_bytes().to_vec())), "{bytes:x?}");
            assert_eq!(socket.next(), None);
        }
    }
    // MQTT errors are reported by MQTT.
    let mut socket = Socket::open(address);
    socket.send(0x82, &[CONNECT, b"\xf0\x00"].concat());
    let (_, mut bytes) = socket.next().unwrap();
    if bytes.len() == usize::from(bytes[1]) + 2 {
        bytes = socket.next().unwrap().1;
    }
    let at = bytes.len() - usize::from(bytes[bytes.len() - 1] == 0);
    assert!(bytes[..at].contains(&Reason::PROTOCOL_ERROR.0), "{bytes:x?}");
}

fn other_origins(driver: &str) {
    let allowed =
        ["--allowed-origins", "https://a.test", "--allowed-origins", "http://b.test:8080"];
    for (more, origin, status) in [
        (&allowed[..], "https://a.test", 101),
        (&allowed, "http://b.test:8080", 101),
        (&allowed, "http://a.test", 403),
        (&allowed, "null", 403),
        (&[], "http://localhost", 403),
        (&["--allowed-origins", "*"], "http://c.test", 101),
    ] {
        let more = [more, &["--log-events", "refusals"]].concat();
        let (broker, address) = start(driver, &more);
        let (_, answer) = Socket::ask(address, &request(&format!("Origin: {origin}\r\n")));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{origin}: {answer}");
        if status == 403 {
            let reason = format!("failed: the origin {origin} is not in allowed-origins\"");
            eventually("the reason", || broker.stderr().contains(&reason).then_some(()));
        }
    }
}

fn invalid_upgrade_requests(driver: &str) {
    let (_broker, address) = start(driver, &[]);
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 426),
        (request("").replace("Protocol: mqtt", "Protocol: chat"), 400),
        (format!("{}\r\n\r\n", "x".repeat(9000)), 431),
    ] {
        let (mut socket, answer) = Socket::ask(address, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        while socket.more() {}
    }
}

fn over_tls(driver: &str) {
    let authority = Authority::new();
    let pair = authority.sign("a", &["localhost"]);
    let wss = ["--listen", "wss://127.0.0.1:0"];
    let broker = Broker::start_with(driver, &[&wss[..], &pair.arguments()].concat());
    let address = broker.next_address();
    // openssl is the transport; the WebSocket is as above.
    let mut child = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &address.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("these tests need openssl: install it");
    let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let input = [request("").as_bytes(), &frame(0x82, CONNECT), &frame(0x89, b"ping")].concat();
    to.write_all(&input).unwrap();
    let mut received = Vec::new();
    let contains = |received: &[u8], expected: &[u8]| {
        received.windows(expected.len()).any(|window| window == expected)
    };
    while !contains(&received, b"\x8a\x04ping") {
        let mut bytes = [0; 4096];
        let count = from.read(&mut bytes).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&bytes[..count]);
    }
    assert!(received.starts_with(b"HTTP/1.1 101 "));
    let _ = child.kill();
    let _ = child.wait();
}
