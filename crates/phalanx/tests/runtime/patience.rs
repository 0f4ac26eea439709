//! Limits on waiting: no more than so long, and nothing lost by it.

use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::net::{Listener, Stream, bind};
use phalanx::{Bytes, Choice, Patience, Payload, first, is_draining, sleep};
use socket2::{Domain, Socket, Type};

use crate::harness::{LONG, elsewhere, listener, one, pattern, rest_of};
use crate::on_each_driver;

on_each_driver!(reads, nothing_is_lost, writes, connects, drained, most_limits_are_not_reached);

const SHORT: Duration = Duration::from_millis(150);

/// That it took at least the limit; and not for ever, which would be another kind of failure.
#[track_caller]
fn about(limit: Duration, begun: Instant) {
    let took = begun.elapsed();
    // The clock of a cohort stands still while it runs, so a limit may begin a little early.
    assert!(took >= limit - Duration::from_millis(20), "after {took:?} already");
    assert!(took < limit + LONG / 3, "after {took:?} only");
}

fn reads(driver: Choice) {
    let (listener, address) = listener();
    one(driver, move |stage| async move {
        let stream = Stream::connect(address, Patience::ENDLESS).await.unwrap();
        let mut buffer = Vec::new();
        let begun = Instant::now();
        let error = stream.read(&mut buffer, Patience::limit(SHORT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        about(SHORT, begun);
        // Several limits at once, each its own; the longest first, so that it is not the one looked at.
        let (peer, _) = listener.accept().unwrap();
        let calls: Vec<_> = [900, 500, 200]
            .map(|limit| {
                stage.call(move |_| async move {
                    let stream = Stream::connect(address, Patience::ENDLESS).await.unwrap();
                    let (begun, limit) = (Instant::now(), Duration::from_millis(limit));
                    let read = stream.read(&mut Vec::new(), Patience::limit(limit)).await;
                    assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
                    about(limit, begun);
                    begun.elapsed()
                })
            })
            .into();
        let took: Vec<_> =
            phalanx::join(calls).await.into_iter().map(|took| took.unwrap()).collect();
        assert!(took[2] < took[1] && took[1] < took[0], "{took:?}");
        // The connection is as good as before.
        (&peer).write_all(b"late").unwrap();
        assert_eq!(stream.read(&mut buffer, Patience::limit(LONG)).await.unwrap(), 4);
        assert_eq!(buffer, b"late");
        // No time at all is a limit too, but what is there already may come.
        let error = stream.read(&mut buffer, Patience::limit(Duration::ZERO)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

/// Bytes that arrive while a read is being cancelled belong to the next one, or to this one after all.
fn nothing_is_lost(driver: Choice) {
    let (listener, address) = listener();
    let sender = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        // Around the moments at which limits are looked at.
        for (number, piece) in pattern(400).chunks(4).enumerate() {
            thread::sleep(Duration::from_micros(9_700 + number as u64 * 7 % 600));
            peer.write_all(piece).unwrap();
        }
    });
    let received = one(driver, move |_| async move {
        let stream = Stream::connect(address, Patience::ENDLESS).await.unwrap();
        let mut received = Vec::new();
        let mut limit = 0;
        loop {
            limit = (limit + 1) % 12;
            match stream.read(&mut received, Patience::limit(Duration::from_millis(limit))).await {
                Ok(0) => return received,
                Ok(_) => (),
                Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
            }
        }
    });
    sender.join().unwrap();
    assert_eq!(received, pattern(400));
}

fn writes(driver: Choice) {
    let (listener, address) = listener();
    // More than sockets hold, to a peer that does not read. Made before, for it takes a while: limits
    // count from the beginning of the cohort.
    let body = Bytes::from(pattern(32 << 20));
    one(driver, move |_| async move {
        let stream = Stream::connect(address, Patience::ENDLESS).await.unwrap();
        let (peer, _) = listener.accept().unwrap();
        let begun = Instant::now();
        let payload = Payload { head: b"head".to_vec(), body: body.clone() };
        let error = stream.write(payload, Patience::limit(SHORT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        about(SHORT, begun);
        assert!(body.is_unique(), "the runtime has given the buffer back");
        drop(stream);
        // What was sent is the beginning of the payload, however much it was.
        let received = elsewhere(move || rest_of(peer)).await;
        assert!(received.len() < 32 << 20 && received.starts_with(b"head"));
        assert!(body.starts_with(&received[4..]));
    });
}

fn connects(driver: Choice) {
    // A listener that accepts nobody and whose queue is full: the kernel leaves callers waiting.
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
        let begun = Instant::now();
        let error = Stream::connect(address, Patience::limit(SHORT)).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        about(SHORT, begun);
    });
    drop(fill);
}

/// Idle I/O ends when the program drains; other I/O does not.
fn drained(driver: Choice) {
    let (listener, address) = listener();
    let ours = bind((Ipv4Addr::LOCALHOST, 0).into(), 1).unwrap().remove(0);
    let mut graph = phalanx::Graph::new();
    let stage = graph.shared("test", ());
    let ours = std::sync::Mutex::new(Some(ours));
    let peer = thread::spawn(move || {
        let accepted: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
        // Long after the drain has begun.
        thread::sleep(Duration::from_millis(600));
        accepted.iter().for_each(|mut peer| peer.write_all(b"late").unwrap());
    });
    let begun = Instant::now();
    let ran = crate::harness::program(driver, 1).run(graph, |start| {
        let ours = Listener::new(ours.lock().unwrap().take().unwrap())?;
        stage.dispatch(move |_| async move {
            let error = ours.accept().await.err().expect("interrupted");
            assert_eq!(error.kind(), ErrorKind::Interrupted);
            assert!(is_draining());
            let error = ours.accept().await.err().expect("interrupted at once");
            assert_eq!(error.kind(), ErrorKind::Interrupted);
        })?;
        for idle in [true, false] {
            stage.dispatch(move |_| async move {
                let stream = Stream::connect(address, Patience::ENDLESS).await.unwrap();
                let patience = Patience::limit(LONG);
                let patience = if idle { patience.or_drain() } else { patience };
                let read = stream.read(&mut Vec::new(), patience).await;
                match idle {
                    true => assert_eq!(read.unwrap_err().kind(), ErrorKind::Interrupted),
                    false => assert_eq!(read.unwrap(), 4),
                }
            })?;
        }
        let control = start.control();
        stage.dispatch(move |_| async move {
            sleep(Duration::from_millis(200)).await;
            control.drain();
        })?;
        // Its panics would be the runtime's to report; so count them at the end.
        let control = start.control();
        stage.dispatch(move |_| async move {
            phalanx::draining().await;
            let _ = first(sleep(LONG), async { sleep(Duration::from_millis(100)).await }).await;
            let profile = control.profile();
            assert_eq!(profile.processors[0].stages[0].panicked, 0);
        })?;
        Ok(())
    });
    ran.unwrap();
    peer.join().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(500), "it waits for what is not idle");
}

/// Limits of seconds on thousands of reads, none of which takes long.
fn most_limits_are_not_reached(driver: Choice) {
    let (listener, address) = listener();
    let peer = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut byte = [0];
        while peer.read(&mut byte).unwrap() > 0 {
            peer.write_all(&byte).unwrap();
        }
    });
    one(driver, move |_| async move {
        let stream = Stream::connect(address, Patience::ENDLESS).await.unwrap();
        for number in 0..2000 {
            let payload = crate::net::payload(&[number as u8]);
            stream.write(payload, Patience::limit(LONG)).await.unwrap();
            let mut buffer = Vec::new();
            stream.read(&mut buffer, Patience::limit(LONG)).await.unwrap();
            assert_eq!(buffer, [number as u8]);
        }
    });
    peer.join().unwrap();
}
