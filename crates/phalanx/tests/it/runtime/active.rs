//! Changes of the number of active processors, and of the limits of spinning and of coalescing, while connections
//! arrive, wait and pipeline.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::{IoTimeout, Listeners};
use phalanx::runtime::{ActiveProcessors, DriverChoice, Setting, StartContext};

use phalanx_testkit::tcp::with_timeouts;

use crate::runtime::harness::runtime;
use crate::runtime::on_each_driver;

on_each_driver!(every_answer_arrives_once_and_in_order);

const PROCESSORS: usize = 8;
const STEPS: usize = 60;

/// A server that answers each byte with the byte and the number of its processor.
fn every_answer_arrives_once_and_in_order(driver: DriverChoice) {
    let listeners = Listeners::bind((Ipv4Addr::LOCALHOST, 0).into(), PROCESSORS).unwrap();
    let address = listeners.local_addr();
    let mut graph = Graph::new();
    let stage = graph.shared("answer", ());
    let start = |start: &StartContext| {
        let (listener, number) = (listeners.listener(start)?, start.processor() as u8);
        stage.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let answer = stage.dispatch(move |_| async move {
                    let mut bytes = Vec::new();
                    while stream.read(&mut bytes, IoTimeout::NONE).await.unwrap() > 0 {
                        let pairs: Vec<u8> =
                            bytes.iter().flat_map(|byte| [*byte, number]).collect();
                        stream.write(pairs, IoTimeout::NONE).await.unwrap();
                        bytes.clear();
                    }
                });
                answer.unwrap();
            })
        })?;
        Ok(())
    };
    let ready = |up: &phalanx::runtime::Started| {
        let (control, active) = (up.control.clone(), up.active.clone());
        thread::spawn(move || {
            let driver = thread::spawn(move || drive(&active, address));
            let outcome = driver.join();
            control.drain();
            outcome.expect("every client got its answers");
        })
    };
    let mut clients = None;
    let ran =
        runtime(driver, PROCESSORS).run_with_ready(graph, start, |up| clients = Some(ready(up)));
    clients.expect("it has started").join().unwrap();
    ran.unwrap();
}

fn drive(active: &ActiveProcessors, address: SocketAddr) {
    let connect = || with_timeouts(TcpStream::connect(address).unwrap());
    let mut idle: Vec<_> = (0..40).map(|_| connect()).collect();
    let (mut long, ended) = (connect(), AtomicBool::new(false));
    thread::scope(|scope| {
        // Connections that arrive, send a request and leave, and one that stays.
        for _ in 0..3 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let mut stream = connect();
                    (0..3).for_each(|_| _ = request(&mut stream, 20));
                }
            });
        }
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                request(&mut long, 200);
            }
        });
        for step in 0..STEPS {
            let setting = Setting {
                active: 1 + step * 5 % PROCESSORS,
                spin_ns: [0, 20_000, 200_000][step % 3],
                coalesce_ns: [0, 1_000_000][step % 2],
            };
            active.apply(setting);
            assert_eq!(active.setting(), setting);
            thread::sleep(Duration::from_millis(10));
        }
        ended.store(true, Ordering::Relaxed);
    });
    idle.iter_mut().for_each(|stream| _ = request(stream, 1));
    active.set(1);
    (0..20).for_each(|_| assert_eq!(request(&mut connect(), 5), 0, "only processor 0 is active"));
}

/// Pipelines `count` requests and checks the answers. Returns the processor that answers.
fn request(stream: &mut TcpStream, count: u8) -> u8 {
    let requests: Vec<u8> = (0..count).collect();
    stream.write_all(&requests).unwrap();
    let mut answers = vec![0; 2 * requests.len()];
    stream.read_exact(&mut answers).unwrap();
    let number = answers[1];
    let expected: Vec<u8> = requests.iter().flat_map(|request| [*request, number]).collect();
    assert_eq!(answers, expected);
    number
}
