//! Operations that are dropped while the kernel works for them: the kernel returns its buffers, and the
//! processor continues.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx::runtime::DriverChoice;
use phalanx::{CallError, Session, select, sleep, timeout, yield_now};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::tcp::{listener, read_to_end, with_timeouts};

use crate::runtime::harness::{on_other_thread, one};
use crate::runtime::on_each_driver;

on_each_driver!(
    a_read_that_is_dropped,
    a_session_that_receives,
    a_session_that_sends,
    a_session_ended_by_its_own,
    a_panic_with_io_in_flight,
    a_connect_that_is_dropped,
);

async fn pair(listener: &TcpListener, address: SocketAddr) -> (Stream, TcpStream) {
    let stream = Stream::connect(address, IoTimeout::NONE).await.unwrap();
    (stream, with_timeouts(listener.accept().unwrap().0))
}

/// Asserts that I/O still works on this processor.
async fn still_works(listener: &TcpListener, address: SocketAddr) {
    let (stream, mut peer) = pair(listener, address).await;
    peer.write_all(b"ping").unwrap();
    let mut buffer = Vec::new();
    stream.read(&mut buffer, IoTimeout::after(TIMEOUT)).await.unwrap();
    stream.write(crate::runtime::net::payload(&buffer), IoTimeout::after(TIMEOUT)).await.unwrap();
    let mut echoed = [0; 4];
    peer.read_exact(&mut echoed).unwrap();
    assert_eq!(&echoed, b"ping");
}

fn a_read_that_is_dropped(driver: DriverChoice) {
    let (listener, address) = listener();
    one(driver, move |_| async move {
        for _ in 0..200 {
            let (stream, _peer) = pair(&listener, address).await;
            let mut buffer = Vec::new();
            let read = stream.read(&mut buffer, IoTimeout::NONE);
            assert!(timeout(Duration::from_millis(1), read).await.is_err());
        }
        // Dropping a read may lose bytes of this connection, but nothing else.
        for number in 0..200 {
            let (stream, mut peer) = pair(&listener, address).await;
            let mut buffer = Vec::new();
            let read = stream.read(&mut buffer, IoTimeout::NONE);
            let other = async {
                if number % 2 == 0 {
                    yield_now().await;
                }
                peer.write_all(b"bytes").unwrap();
            };
            select(read, other).await;
        }
        still_works(&listener, address).await;
    });
}

fn a_session_that_receives(driver: DriverChoice) {
    let (listener, address) = listener();
    one(driver, move |stage| async move {
        let session = Session::new();
        let (alive, mut peers) = (Arc::new(()), Vec::new());
        for _ in 0..50 {
            let (stream, peer) = pair(&listener, address).await;
            peers.push(peer);
            let held = alive.clone();
            let operation = move |_| async move {
                let _held = held;
                stream.read(&mut Vec::new(), IoTimeout::NONE).await.unwrap();
                unreachable!("the peer says nothing");
            };
            session.scope(|| stage.dispatch(operation)).unwrap();
        }
        sleep(Duration::from_millis(20)).await;
        assert_eq!(session.operations(), 50);
        session.end().await;
        assert_eq!((session.operations(), Arc::strong_count(&alive)), (0, 1));
        for peer in peers {
            assert_eq!(
                on_other_thread(move || read_to_end(&peer)).await,
                b"",
                "its connection was closed"
            );
        }
        still_works(&listener, address).await;
    });
}

/// Memory whose instances are counted.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // If the kernel still reads it, this pattern is received below.
        self.0.fill(0xdd);
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

fn a_session_that_sends(driver: DriverChoice) {
    let (listener, address) = listener();
    one(driver, move |stage| async move {
        let returned = Arc::new(AtomicUsize::new(0));
        for round in 1..=5 {
            let session = Session::new();
            let (stream, peer) = pair(&listener, address).await;
            let body = Bytes::from_owner(Counted(vec![1; 16 << 20], returned.clone()));
            let operation = move |_| async move {
                let payload = Payload { head: vec![1; 100], body };
                stream.write(payload, IoTimeout::NONE).await.unwrap();
                unreachable!("the peer does not read");
            };
            session.scope(|| stage.dispatch(operation)).unwrap();
            // In the first round the write is dropped before it starts; later while the socket's buffer
            // fills, or is full.
            if round > 1 {
                sleep(Duration::from_millis(round)).await;
            }
            assert_eq!(returned.load(Ordering::Relaxed), round as usize - 1);
            session.end().await;
            let now = returned.load(Ordering::Relaxed);
            assert_eq!(now, round as usize, "the end came before the kernel was done");
            let received = on_other_thread(move || read_to_end(&peer)).await;
            assert!(received.iter().all(|byte| *byte == 1), "freed memory was sent");
            assert!(received.len() < 16 << 20);
        }
        still_works(&listener, address).await;
    });
}

/// An operation ends its own session: the other operations are ended, and it is ended when it awaits the end.
fn a_session_ended_by_its_own(driver: DriverChoice) {
    let (listener, address) = listener();
    one(driver, move |stage| async move {
        let session = Session::new();
        let (stream, peer) = pair(&listener, address).await;
        let operation = move |_| async move {
            stream.read(&mut Vec::new(), IoTimeout::NONE).await.unwrap();
        };
        session.scope(|| stage.dispatch(operation)).unwrap();
        let ending = session.clone();
        session
            .scope(|| {
                stage.dispatch(move |_| async move {
                    sleep(Duration::from_millis(10)).await;
                    ending.end().await;
                    unreachable!("it is of the session itself");
                })
            })
            .unwrap();
        assert_eq!(on_other_thread(move || read_to_end(&peer)).await, b"");
        session.end().await;
        assert_eq!(session.scope(|| stage.dispatch(|_| async {})), Err(CallError::Cancelled));
        still_works(&listener, address).await;
    });
}

fn a_panic_with_io_in_flight(driver: DriverChoice) {
    let (listener, address) = listener();
    one(driver, move |stage| async move {
        for send in [false, true] {
            let (stream, peer) = pair(&listener, address).await;
            let call = stage.call(move |_| async move {
                let mut buffer = Vec::new();
                let cancelled = async {
                    sleep(Duration::from_millis(5)).await;
                    panic!("as the test wants it");
                };
                if send {
                    let body = Bytes::from(vec![1; 16 << 20]);
                    let payload = Payload { head: Vec::new(), body };
                    select(stream.write(payload, IoTimeout::NONE), cancelled).await;
                } else {
                    select(stream.read(&mut buffer, IoTimeout::NONE), cancelled).await;
                }
            });
            match call.await {
                Err(CallError::Panicked { message, .. }) => {
                    assert_eq!(&*message, "as the test wants it");
                }
                other => panic!("{other:?}"),
            }
            let received = on_other_thread(move || read_to_end(&peer)).await;
            assert!(received.iter().all(|byte| *byte == 1));
            still_works(&listener, address).await;
        }
    });
}

/// A connection that is established after its future was dropped is closed.
fn a_connect_that_is_dropped(driver: DriverChoice) {
    let (listener, address) = listener();
    one(driver, move |_| async move {
        for _ in 0..100 {
            let connect = Stream::connect(address, IoTimeout::NONE);
            select(connect, yield_now()).await;
        }
        sleep(Duration::from_millis(50)).await;
        listener.set_nonblocking(true).unwrap();
        while let Ok((peer, _)) = listener.accept() {
            peer.set_nonblocking(false).unwrap();
            assert_eq!(
                on_other_thread(move || read_to_end(&peer)).await,
                b"",
                "closed, not leaked"
            );
        }
        listener.set_nonblocking(false).unwrap();
        still_works(&listener, address).await;
    });
}
