//! Time limits on I/O: they end waits, and lose no bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::net::{Bytes, IoTimeout, Listener, Payload, Stream, bind};
use phalanx::runtime::DriverChoice;
use phalanx::shutdown::{Drained, is_draining};
use phalanx::sleep;
use socket2::{Domain, Socket, Type};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::bytes::pattern;
use phalanx_testkit::tcp::{listener, read_to_end};

use crate::runtime::harness::{on_other_thread, one};
use crate::runtime::on_each_driver;

on_each_driver!(
    reads,
    bytes_within_the_limit,
    nothing_is_lost,
    writes,
    connects,
    drained,
    most_limits_are_not_reached,
);

const SHORT: Duration = Duration::from_millis(150);

/// Asserts that the wait took at least the limit, and not much longer.
#[track_caller]
fn assert_elapsed(limit: Duration, start: Instant) {
    let elapsed = start.elapsed();
    assert!(elapsed >= limit, "after {elapsed:?} already");
    assert!(elapsed < limit + TIMEOUT / 3, "after {elapsed:?} only");
}

/// The time before a new turn. The clock of a cohort does not advance while the cohort runs, so a limit
/// counts from before the call.
async fn before_a_turn() -> Instant {
    let start = Instant::now();
    sleep(Duration::from_millis(1)).await;
    start
}

fn reads(driver: DriverChoice) {
    let (listener, address) = listener();
    one(driver, move |stage| async move {
        let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
        let mut buffer = Vec::new();
        let start = before_a_turn().await;
        let error = stream.read(&mut buffer, IoTimeout::after(SHORT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_elapsed(SHORT, start);
        // Several limits at the same time. The longest one comes first, so that it is not the earliest. It is
        // not awaited.
        let (peer, _) = listener.accept().unwrap();
        let waits = |limit| {
            stage.call(move |_| async move {
                let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
                let start = before_a_turn().await;
                let read = stream.read(&mut Vec::new(), IoTimeout::after(limit)).await;
                assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
                assert_elapsed(limit, start);
            })
        };
        let [longest, longer, short] =
            [20 * TIMEOUT, Duration::from_millis(500), 2 * SHORT].map(waits);
        for ended in phalanx::join(vec![longer, short]).await {
            ended.unwrap();
        }
        drop(longest);
        // The connection is still usable.
        (&peer).write_all(b"late").unwrap();
        assert_eq!(stream.read(&mut buffer, IoTimeout::after(TIMEOUT)).await.unwrap(), 4);
        assert_eq!(buffer, b"late");
        // A limit of zero is also a limit, but bytes that have already arrived may be read.
        let error = stream.read(&mut buffer, IoTimeout::after(Duration::ZERO)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

/// Bytes that arrive within the limit are read, even if the processor was busy until long after it.
fn bytes_within_the_limit(driver: DriverChoice) {
    const LIMIT: Duration = Duration::from_millis(400);
    let (listener, address) = listener();
    one(driver, move |stage| async move {
        loop {
            let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            let start = before_a_turn().await;
            let read = stage.call(move |_| async move {
                let mut buffer = Vec::new();
                stream.read(&mut buffer, IoTimeout::after(LIMIT)).await.map(|_| buffer)
            });
            sleep(Duration::from_millis(10)).await;
            peer.write_all(b"in time").unwrap();
            let in_time = start.elapsed() < LIMIT;
            thread::sleep(2 * LIMIT);
            let read = read.await.unwrap();
            // This holds unless the machine was stalled before.
            if in_time {
                return assert_eq!(read.unwrap(), b"in time");
            }
        }
    });
}

/// Bytes that arrive while a read is being cancelled are returned by this read or by the next one.
fn nothing_is_lost(driver: DriverChoice) {
    let (listener, address) = listener();
    let sender = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        // Around the times at which limits are checked.
        for (number, piece) in pattern(400).chunks(4).enumerate() {
            thread::sleep(Duration::from_micros(9_700 + number as u64 * 7 % 600));
            peer.write_all(piece).unwrap();
        }
    });
    let received = one(driver, move |_| async move {
        let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
        let mut received = Vec::new();
        let mut limit = 0;
        loop {
            limit = (limit + 1) % 12;
            match stream.read(&mut received, IoTimeout::after(Duration::from_millis(limit))).await {
                Ok(0) => return received,
                Ok(_) => (),
                Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
            }
        }
    });
    sender.join().unwrap();
    assert_eq!(received, pattern(400));
}

fn writes(driver: DriverChoice) {
    let (listener, address) = listener();
    // More than the buffers of a connection hold, for a peer that does not read. Made before the call,
    // because it takes time and limits count from the beginning of the cohort.
    let body = Bytes::from(pattern(32 << 20));
    one(driver, move |_| async move {
        let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
        let (peer, _) = listener.accept().unwrap();
        let start = before_a_turn().await;
        let payload = Payload { head: b"head".to_vec(), body: body.clone() };
        let error = stream.write(payload, IoTimeout::after(SHORT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_elapsed(SHORT, start);
        assert!(body.is_unique(), "the runtime has released the buffer");
        drop(stream);
        // The bytes that were sent are a prefix of the payload.
        let received = on_other_thread(move || read_to_end(&peer)).await;
        assert!(received.len() < 32 << 20 && received.starts_with(b"head"));
        assert!(body.starts_with(&received[4..]));
    });
}

fn connects(driver: DriverChoice) {
    // A listener that does not accept, and whose backlog is full: connections wait in the kernel.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let fill: Vec<_> = (0..8)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address.into());
            socket
        })
        .collect();
    thread::sleep(Duration::from_millis(50));
    one(driver, move |_| async move {
        let start = before_a_turn().await;
        let error = Stream::connect(address, IoTimeout::after(SHORT)).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_elapsed(SHORT, start);
    });
    drop(fill);
}

/// Asserts that the error is that of idle I/O at a drain, and that `std::io` returns it instead of reading
/// again.
#[track_caller]
fn assert_drained(error: io::Error) {
    struct Failing(Option<io::Error>);
    impl Read for Failing {
        fn read(&mut self, _bytes: &mut [u8]) -> io::Result<usize> {
            Err(self.0.take().expect("it is read once"))
        }
    }
    assert!(Drained::is_cause_of(&error), "{error}");
    let error = Failing(Some(error)).read_exact(&mut [0]).unwrap_err();
    let error = io::copy(&mut Failing(Some(error)), &mut io::sink()).unwrap_err();
    assert!(Drained::is_cause_of(&error), "{error}");
}

/// Idle I/O ends when the program drains; other I/O does not.
fn drained(driver: DriverChoice) {
    let (listener, address) = listener();
    let idle_listener = bind((Ipv4Addr::LOCALHOST, 0).into(), 1).unwrap().remove(0);
    let mut graph = phalanx::Graph::new();
    let stage = graph.shared("test", ());
    let idle_listener = Mutex::new(Some(idle_listener));
    let (sender, receiver) = channel();
    let sender = Mutex::new(Some(sender));
    let peer = thread::spawn(move || {
        let accepted: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
        // Long after the drain has begun, and has ended the idle read.
        if receiver.recv().is_ok() {
            thread::sleep(Duration::from_millis(300));
            accepted.iter().for_each(|mut peer| peer.write_all(b"late").unwrap());
        }
    });
    let done = Arc::new(AtomicUsize::new(0));
    let ran = crate::runtime::harness::runtime(driver, 1).run(graph, |start| {
        let sender = sender.lock().unwrap().take().unwrap();
        let idle_listener = Listener::new(idle_listener.lock().unwrap().take().unwrap())?;
        let count = done.clone();
        stage.dispatch(move |_| async move {
            assert_drained(idle_listener.accept().await.expect_err("drained"));
            assert!(is_draining());
            assert_drained(idle_listener.accept().await.expect_err("drained immediately"));
            count.fetch_add(1, Ordering::SeqCst);
        })?;
        let count = done.clone();
        stage.dispatch(move |_| async move {
            let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
            let read =
                stream.read(&mut Vec::new(), IoTimeout::after(TIMEOUT).until_shutdown()).await;
            assert_drained(read.unwrap_err());
            count.fetch_add(1, Ordering::SeqCst);
            sender.send(()).unwrap();
        })?;
        let count = done.clone();
        stage.dispatch(move |_| async move {
            let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
            let read = stream.read(&mut Vec::new(), IoTimeout::after(TIMEOUT)).await;
            assert_eq!(read.unwrap(), 4, "it is not idle, so the drain waits for it");
            count.fetch_add(1, Ordering::SeqCst);
        })?;
        let control = start.control();
        stage.dispatch(move |_| async move {
            sleep(Duration::from_millis(200)).await;
            control.drain();
        })?;
        Ok(())
    });
    ran.unwrap();
    peer.join().unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 3, "panics are above");
}

/// Limits of seconds on thousands of short reads.
fn most_limits_are_not_reached(driver: DriverChoice) {
    let (listener, address) = listener();
    let peer = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut byte = [0];
        while peer.read(&mut byte).unwrap() > 0 {
            peer.write_all(&byte).unwrap();
        }
    });
    one(driver, move |_| async move {
        let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
        for number in 0..2000 {
            let payload = crate::runtime::net::payload(&[number as u8]);
            stream.write(payload, IoTimeout::after(TIMEOUT)).await.unwrap();
            let mut buffer = Vec::new();
            stream.read(&mut buffer, IoTimeout::after(TIMEOUT)).await.unwrap();
            assert_eq!(buffer, [number as u8]);
        }
    });
    peer.join().unwrap();
}
