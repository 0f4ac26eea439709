//! Workers that become active and inactive while clients of all protocols wait for answers.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use phalanx::runtime::{ActiveProcessors, DriverChoice};
use phalanx_testkit::driver::is_selected;
use phalanx_testkit::{Steps, TIMEOUT, tcp};
use phalanx_web::{Config, Scheme, Serving, Tls, serve};

use crate::simulation::wire::IDENTITY;

const WORKERS: usize = 8;
/// Files `/f00` to `/f15`, each with its name as content.
const FILES: usize = 16;

fn name(file: usize) -> String {
    format!("f{:02}", file % FILES)
}

fn config(home: &std::path::Path) -> Config {
    for file in 0..FILES {
        std::fs::write(home.join(name(file)), name(file)).unwrap();
    }
    let mut config = Config::with_root(home);
    let [certificate, key] = IDENTITY.files();
    config.hosts[0].tls = Some(Tls { certificate, key });
    config.h2c = true;
    config.listen =
        [Scheme::Http, Scheme::Https].map(|scheme| scheme.at((Ipv4Addr::LOCALHOST, 0))).into();
    // The idle connections are idle for all steps.
    config.timeouts.idle = Duration::from_secs(3600);
    // Other tests may occupy the machine.
    config.max_queue_delay = None;
    config.runtime.workers = WORKERS;
    config.runtime.signals = false;
    config
}

#[test]
fn every_answer_arrives_once_and_in_order() {
    let home = tempfile::tempdir().unwrap();
    for driver in [DriverChoice::Uring, DriverChoice::Poll] {
        let mut config = config(home.path());
        config.runtime.driver = driver;
        let (up, is_up) = channel();
        let server = thread::spawn(move || {
            let ready = |serving: &Serving<'_>| {
                let up_now = (serving.up.control.clone(), serving.up.active.clone());
                up.send((up_now, [serving.addresses[0], serving.addresses[1]])).unwrap();
            };
            serve(config, ready).map_err(|error| error.to_string())
        });
        let Ok(((control, active), addresses)) = is_up.recv_timeout(TIMEOUT) else {
            let error = server.join().unwrap().unwrap_err();
            assert!(!is_selected(&driver.to_string(), || Err::<(), _>(error)));
            continue;
        };
        let driven = thread::spawn(move || drive(&active, addresses)).join();
        control.drain();
        server.join().unwrap().unwrap();
        driven.expect("every client got its answers");
    }
}

fn drive(active: &ActiveProcessors, [plain, tls]: [SocketAddr; 2]) {
    let steps = Steps::from_environment();
    let mut idle: Vec<_> = (0..steps.connections).map(|_| tcp::connect(plain)).collect();
    let (ended, answers) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    let until_the_end = |mut round: Box<dyn FnMut(usize) + Send>| {
        move || {
            for first in 0.. {
                round(first);
                answers.fetch_add(1, Ordering::Relaxed);
                if ended.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut stream = tcp::connect(plain);
            scope.spawn(until_the_end(Box::new(move |first| pipeline(&mut stream, first, 16))));
            let mut stream = encrypted(tls);
            scope.spawn(until_the_end(Box::new(move |first| pipeline(&mut stream, first, 4))));
            let mut client = Http2::connect(plain);
            scope.spawn(until_the_end(Box::new(move |first| client.ask(first, 8))));
            // Connections that arrive, ask and leave.
            scope.spawn(until_the_end(Box::new(move |first| {
                pipeline(&mut tcp::connect(plain), first, 2);
            })));
        }
        for step in 0..steps.count {
            active.set(1 + step * 5 % WORKERS);
            thread::sleep(steps.length);
        }
        ended.store(true, Ordering::Relaxed);
    });
    for (first, stream) in idle.iter_mut().enumerate() {
        pipeline(stream, first, 1);
    }
    assert!(answers.load(Ordering::Relaxed) >= 8, "all clients took part");
}

fn encrypted(address: SocketAddr) -> impl Read + Write {
    let name = "sim.test".try_into().unwrap();
    let session = rustls::ClientConnection::new(IDENTITY.client_config(), name).unwrap();
    rustls::StreamOwned::new(session, tcp::connect(address))
}

/// Requests `count` files at once, and checks that their answers come in order.
fn pipeline(stream: &mut (impl Read + Write), first: usize, count: usize) {
    let files = first..first + count;
    let request = |file| format!("GET /{} HTTP/1.1\r\nHost: sim.test\r\n\r\n", name(file));
    let requests: String = files.clone().map(request).collect();
    stream.write_all(requests.as_bytes()).unwrap();
    stream.flush().unwrap();
    for file in files {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
        let mut content = [0; 3];
        stream.read_exact(&mut content).unwrap();
        assert_eq!(content, name(file).as_bytes());
    }
}

/// An HTTP/2 client that sends many requests at once.
struct Http2 {
    stream: std::net::TcpStream,
    next: u32,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

impl Http2 {
    fn connect(address: SocketAddr) -> Self {
        let mut stream = tcp::connect(address);
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let mut client = Self { stream, next: 1 };
        client.send(SETTINGS, 0, 0, &[]);
        client
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.stream.write_all(&[&head, payload].concat()).unwrap();
    }

    fn frame(&mut self) -> (u8, u8, u32, Vec<u8>) {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).unwrap();
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        (head[3], head[4], stream, payload)
    }

    /// Requests `count` files at once, and checks that each is answered once.
    fn ask(&mut self, first: usize, count: usize) {
        let begin = self.next;
        for file in first..first + count {
            // Indexed: method GET and scheme http. Literal: path and authority.
            let path = format!("/{}", name(file));
            let mut block = vec![0x82, 0x86, 0x04, path.len() as u8];
            block.extend(path.as_bytes());
            block.extend([0x01, 8]);
            block.extend(b"sim.test");
            self.send(HEADERS, END_STREAM | END_HEADERS, self.next, &block);
            self.next += 2;
        }
        let mut contents = vec![Vec::new(); count];
        let (mut answers, mut received) = (0, 0);
        while answers < count {
            let (kind, flags, stream, payload) = self.frame();
            match kind {
                SETTINGS if flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]),
                DATA => {
                    assert!((begin..self.next).contains(&stream), "an answer to stream {stream}");
                    received += payload.len() as u32;
                    contents[((stream - begin) / 2) as usize].extend(payload);
                    answers += usize::from(flags & END_STREAM);
                }
                SETTINGS | HEADERS | WINDOW_UPDATE => (),
                other => panic!("a frame of type {other}: {payload:?}"),
            }
        }
        let expected: Vec<_> = (first..first + count).map(|file| name(file).into_bytes()).collect();
        assert_eq!(contents, expected);
        self.send(WINDOW_UPDATE, 0, 0, &received.to_be_bytes());
    }
}
