//! Connections that move between two requests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::Graph;
use phalanx::net::{IoTimeout, Listeners, Stream};
use phalanx::runtime::{ActiveProcessors, DriverChoice, StartContext};

use phalanx_testkit::tcp::with_timeouts;

use crate::runtime::harness::runtime;
use crate::runtime::on_each_driver;

on_each_driver!(connections_leave_an_inactive_processor);

const PROCESSORS: usize = 2;
const CLIENTS: usize = 24;

/// Answers each byte with the number of the processor and the number of answers so far. Offers the connection only after
/// a processor has become inactive, because the program would move connections to one processor earlier.
async fn answer(mut stream: Stream, number: u8, active: ActiveProcessors) {
    let mut count: u64 = stream.take_state().unwrap_or(0);
    assert_eq!(stream.take_state::<u64>(), None, "once");
    let mut bytes = Vec::new();
    while let Ok(1..) = stream.read(&mut bytes, IoTimeout::NONE.until_shutdown()).await {
        assert_eq!(bytes.len(), 1, "a client waits for its answer");
        count += 1;
        bytes[0] = number;
        bytes.extend(count.to_be_bytes());
        bytes = stream.write(bytes, IoTimeout::NONE).await.unwrap();
        if active.count() < PROCESSORS && stream.offer_with(|| count) {
            return;
        }
    }
}

/// Every client gets one answer for each byte, and in the end from processor 0. No connection is closed.
fn connections_leave_an_inactive_processor(driver: DriverChoice) {
    let listeners = Listeners::bind((Ipv4Addr::LOCALHOST, 0).into(), PROCESSORS).unwrap();
    let address = listeners.local_addr();
    let mut graph = Graph::new();
    let stage = graph.shared("answer", ());
    let accepted = Arc::new(AtomicUsize::new(0));
    let start = |start: &StartContext| {
        let (listener, number) = (listeners.listener(start)?, start.processor() as u8);
        let (accepted, active) = (accepted.clone(), start.active());
        stage.dispatch(move |_| {
            listener.accept_each(move |stream| {
                accepted.fetch_add(1, Ordering::Relaxed);
                let active = active.clone();
                stage.dispatch(move |_| answer(stream, number, active)).unwrap();
            })
        })?;
        Ok(())
    };
    let mut clients = None;
    let ready = |up: &phalanx::runtime::Started| {
        let (control, active) = (up.control.clone(), up.active.clone());
        clients = Some(thread::spawn(move || {
            let driver = thread::spawn(move || drive(&active, address)).join();
            control.drain();
            driver.expect("every client got its answers")
        }));
    };
    let ran = runtime(driver, PROCESSORS).run_with_ready(graph, start, ready);
    let elsewhere = clients.expect("it has started").join().unwrap();
    ran.unwrap();
    assert!(accepted.load(Ordering::Relaxed) >= CLIENTS + elsewhere, "a move is an accept");
}

/// Returns the number of clients that another processor served at first.
fn drive(active: &ActiveProcessors, address: SocketAddr) -> usize {
    let connect = || (with_timeouts(TcpStream::connect(address).unwrap()), 0);
    // Many connections are balanced, but on a busy machine the other processor may look full.
    let (mut clients, mut elsewhere) = (Vec::new(), 0);
    while elsewhere == 0 {
        assert!(clients.len() < 40 * CLIENTS, "many connections are balanced");
        clients.extend((0..CLIENTS).map(|_| connect()));
        elsewhere = clients.iter_mut().map(request).filter(|number| *number > 0).count();
        thread::sleep(Duration::from_millis(20));
    }
    active.set(1);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !clients.iter_mut().map(request).all(|number| number == 0) {
        assert!(Instant::now() < deadline, "connections stay on the inactive processor");
        thread::sleep(Duration::from_millis(1));
    }
    elsewhere
}

/// Sends a byte; returns the processor's number. The answer has the number of answers on the connection.
fn request((stream, count): &mut (TcpStream, u64)) -> u8 {
    let mut answer = [0; 9];
    stream.write_all(b"?").unwrap();
    stream.read_exact(&mut answer).expect("the connection is not closed");
    *count += 1;
    assert_eq!(answer[1..], count.to_be_bytes(), "its state has moved with it");
    answer[0]
}
